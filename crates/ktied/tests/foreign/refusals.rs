//! A sentence for everything that a file may hold and no posterior has.

use ktied::checkpoint::{Dtype, NamedTensor};
use ktied::foreign::{Container, Convention, Factors, Foreign, ForeignError, Mismatch, OutputDim};

use super::support::{convention, f32s, f64s, file, pair, read, scratch};

fn torch_refusal(tensors: &[(&str, NamedTensor)]) -> String {
    file(tensors).pairs(&Convention::bayesian_torch()).unwrap_err().to_string()
}

fn ones(shape: &[usize]) -> NamedTensor {
    f32s(shape, &vec![1.0; shape.iter().product()])
}

#[test]
fn all_tensors_without_a_partner_are_named_at_once() {
    let refusal = torch_refusal(&[
        ("a.mu_weight", ones(&[2, 3])),
        ("b.rho_kernel", ones(&[2])),
        ("c.mu_weight", ones(&[2, 3])),
        ("c.rho_weight", ones(&[3, 2])),
        ("d.mu_weight", ones(&[2])),
        ("d.rho_weight", ones(&[2])),
        ("e.mu_bias", ones(&[2])),
        ("other", ones(&[1])),
    ]);
    assert_eq!(
        refusal,
        "expected every mean to have a scale of its shape, found `c.mu_weight` of shape [2, 3] with `c.rho_weight` of \
         shape [3, 2]; a mean `a.mu_weight` without `a.rho_weight`; a scale `b.rho_kernel` without `b.mu_kernel`; a mean \
         `e.mu_bias` without `e.rho_bias`"
    );
    let own = convention("{}_loc,{}_scale?:log", OutputDim::Last);
    let points = file(&[("a_loc", ones(&[2])), ("b_loc", ones(&[2])), ("b_scale", ones(&[2]))]);
    assert_eq!(points.pairs(&own).unwrap().len(), 1);
    let scale = "b_scale".to_string();
    let error = file(&[("b_scale", ones(&[2]))]).pairs(&own).unwrap_err();
    assert_eq!(error, ForeignError::Unpaired { mismatches: vec![Mismatch::NoLoc { scale, loc: "b_loc".into() }] });
}

#[test]
fn a_file_without_pairs_says_what_it_has() {
    let names: Vec<_> = (0..23).map(|i| format!("t{i}")).collect();
    let tensors: Vec<_> = names.iter().map(|name| (&**name, ones(&[1]))).collect();
    let first: Vec<_> = names[..20].to_vec();
    assert_eq!(
        torch_refusal(&tensors),
        format!(
            "no pair of tensors matches bayesian-torch; the file has these tensors: {} and 3 more",
            first.join(", ")
        )
    );
    assert_eq!(torch_refusal(&[]), "no pair of tensors matches bayesian-torch; the file has no tensors");
    assert!(matches!(read("tfp.npz").pairs(&Convention::bayesian_torch()), Err(ForeignError::NoPair { .. })));
}

#[test]
fn a_tensor_belongs_to_the_first_pattern_whose_partner_is_there() {
    let patterns = ["{}.mu,{}.sigma", "{}.mu,{}.log_sigma:log"].map(|text| text.parse().unwrap());
    let both = Convention::new(patterns.into(), OutputDim::First).unwrap();
    let file = file(&[("a.mu", ones(&[1])), ("a.log_sigma", f32s(&[1], &[-1.0])), ("b.mu", ones(&[1]))]);
    let error = file.pairs(&both).unwrap_err().to_string();
    assert_eq!(error, "expected every mean to have a scale of its shape, found a mean `b.mu` without `b.sigma`");
}

#[test]
fn numbers_that_no_posterior_has_are_named_with_their_place() {
    let refusal = |loc: NamedTensor, scale: NamedTensor, form: &str| {
        let own = convention(&format!("{{}}.m,{{}}.s:{form}"), OutputDim::First);
        file(&[("a.m", loc), ("a.s", scale)]).pairs(&own).unwrap_err().to_string()
    };
    let nan = f32s(&[2, 3], &[0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN]);
    assert_eq!(
        refusal(nan.clone(), ones(&[2, 3]), "log"),
        "the tensor `a.m` has NaN at [1, 2]: expected finite numbers"
    );
    assert_eq!(refusal(ones(&[2, 3]), nan, "log"), "the tensor `a.s` has NaN at [1, 2]: expected finite numbers");
    assert_eq!(
        refusal(ones(&[2]), f32s(&[2], &[1.0, f32::NEG_INFINITY]), "log"),
        "the tensor `a.s` has -inf at [1]: expected finite numbers"
    );
    for (form, stored, scale) in
        [("sigma", 0.0, "0"), ("sigma", -0.5, "-0.5"), ("log", 800.0, "inf"), ("log", -800.0, "0")]
    {
        assert_eq!(
            refusal(f64s(&[1, 2], &[0.0; 2]), f64s(&[1, 2], &[1.0, stored]), form),
            format!("the tensor `a.s` has σ = {scale} at [0, 1]: expected positive finite σ")
        );
    }
    let half = NamedTensor::new(Dtype::F16, vec![1], vec![0, 60]).unwrap();
    assert_eq!(
        refusal(ones(&[1]), half.clone(), "log"),
        "the tensor `a.s` of a posterior holds F16: expected F32 or F64"
    );
    assert_eq!(refusal(half, ones(&[1]), "log"), "the tensor `a.m` of a posterior holds F16: expected F32 or F64");
}

#[test]
fn a_transposed_convolution_with_groups_is_refused_by_name() {
    let kernel = || ones(&[4, 3, 2]);
    let bias = || ones(&[6]);
    let refusal = torch_refusal(&[
        ("up.mu_kernel", kernel()),
        ("up.rho_kernel", kernel()),
        ("up.mu_bias", bias()),
        ("up.rho_bias", bias()),
    ]);
    assert!(refusal.starts_with("the weight `up.mu_kernel` is [4, 3, 2] and its bias has 6 elements"), "{refusal}");
    assert!(refusal.ends_with("transposed convolutions with groups are not supported"), "{refusal}");
}

#[test]
fn new_scales_must_fit_and_be_positive() {
    let own = convention("{}.m,{}.s", OutputDim::Last);
    let mut file = file(&[("a.m", ones(&[2, 3])), ("a.s", ones(&[2, 3]))]);
    let (before, pair) = (file.clone(), pair(&file, &own, "a.m"));
    let mut refusal = |scale: &[f64]| file.set_scale(&pair, scale).unwrap_err().to_string();
    assert_eq!(refusal(&[1.0; 5]), "the weight `a` is 2×3: expected 6 scales, got 5");
    for (bad, shown) in [(0.0, "0"), (-1.0, "-1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let rule = "at row 1, column 1: `a.s` holds F32 as sigma";
        let scale = [1.0, 1.0, 1.0, 1.0, bad, 1.0];
        assert_eq!(refusal(&scale), format!("the weight `a` cannot have σ = {shown} {rule}"));
    }
    // Single precision has neither.
    assert!(refusal(&[1e-60; 6]).starts_with("the weight `a` cannot have σ = 0.000"));
    assert!(refusal(&[1e60; 6]).starts_with("the weight `a` cannot have σ = 1000"));
    assert_eq!(file, before);
}

#[test]
fn no_form_takes_what_is_no_scale() {
    for form in ["sigma", "log", "softplus", "softplus-eps"] {
        let own = convention(&format!("{{}}.m,{{}}.s:{form}"), OutputDim::Last);
        let mut file = file(&[("a.m", ones(&[1])), ("a.s", ones(&[1]))]);
        let pair = pair(&file, &own, "a.m");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(file.set_scale(&pair, &[bad]), Err(ForeignError::NewScale { .. })), "{form} {bad}");
        }
    }
}

#[test]
fn factors_must_fit_and_be_finite() {
    let own = convention("{}.m,{}.s", OutputDim::Last);
    let mut file = file(&[
        ("a.m", ones(&[2, 3])),
        ("a.s", ones(&[2, 3])),
        ("b.m", ones(&[3])),
        ("b.s", ones(&[3])),
        ("c.m", ones(&[1, 1])),
        ("c.s", ones(&[1, 1])),
        ("c.s.v", ones(&[1])),
    ]);
    let before = file.clone();
    let [a, b, c] = ["a.m", "b.m", "c.m"].map(|loc| pair(&file, &own, loc));
    let signed = |rank: usize, u: usize, v: usize| Factors::Signed { rank, u: vec![1.0; u], v: vec![1.0; v] };
    let mut refusal = |pair, factors| file.set_factors(pair, &factors).unwrap_err().to_string();
    let rule =
        |rank| format!("the weight `a` is 2×3: expected factors 2×{rank} and 3×{rank} of a rank from 1 to 2, got");
    assert_eq!(refusal(&a, signed(1, 2, 2)), format!("{} 2 and 2 numbers", rule(1)));
    assert_eq!(refusal(&a, signed(0, 0, 0)), format!("{} 0 and 0 numbers", rule(0)));
    assert_eq!(refusal(&a, signed(3, 6, 9)), format!("{} 6 and 9 numbers", rule(3)));
    assert_eq!(refusal(&b, signed(1, 1, 3)), "the weight `b` is a vector: its σ has no factors");
    assert_eq!(refusal(&c, signed(1, 1, 1)), "there is a tensor `c.s.v` already");
    let zero = Factors::Positive { rank: 1, log_u: vec![0.0, f64::NEG_INFINITY], log_v: vec![0.0; 3] };
    assert_eq!(refusal(&a, zero), "the factor `a.s.log_u` has -inf at place 1: expected finite numbers of F32");
    let large = Factors::Signed { rank: 1, u: vec![1.0; 2], v: vec![1e40; 3] };
    assert!(refusal(&a, large).starts_with("the factor `a.s.v` has 1000"));
    assert_eq!(file, before);
    file.set_factors(&a, &signed(2, 4, 6)).unwrap();
    assert_eq!(file.set_scale(&a, &[1.0; 6]).unwrap_err().to_string(), "there is no tensor `a.s` to replace");
}

#[test]
fn what_a_container_cannot_hold_is_not_written() {
    let path = scratch("posterior.pt");
    let sentence = format!("{}: expected a name that ends in .safetensors or .npz", path.display());
    let refused = Foreign::read(&path).unwrap_err();
    assert!(refused.is_of_request() && refused.to_string() == sentence);
    assert_eq!(Foreign::default().write(&path).unwrap_err().to_string(), sentence);
    let brain = NamedTensor::new(Dtype::BF16, vec![1], vec![0; 2]).unwrap();
    let error = file(&[("w", brain)]).to_bytes(Container::Npz).unwrap_err();
    assert_eq!(error.to_string(), "the tensor `w` cannot be written to .npz: numpy has no BF16");
    let error = file(&[("__metadata__", ones(&[1]))]).to_bytes(Container::Safetensors).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tensor `__metadata__` cannot be written to .safetensors: the format keeps its remarks under that name"
    );
    let error =
        Foreign::default().insert("a", ones(&[1])).and_then(|()| file(&[("a", ones(&[1]))]).insert("a", ones(&[1])));
    assert_eq!(error.unwrap_err().to_string(), "there is a tensor `a` already");
}

#[test]
fn the_file_systems_refusals_are_its_own() {
    let missing = Foreign::read(&scratch("missing.npz")).unwrap_err();
    assert!(missing.is_io() && missing.to_string().starts_with("cannot open "), "{missing}");
    let nowhere = Foreign::default().write(&scratch("no folder").join("a.npz")).unwrap_err();
    assert!(nowhere.is_io() && nowhere.to_string().starts_with("cannot create `"), "{nowhere}");
    let error = ktied::Error::from(missing.clone());
    assert_eq!(error.to_string(), missing.to_string());
}
