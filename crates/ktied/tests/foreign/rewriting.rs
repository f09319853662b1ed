//! New scales: in the form of the old ones, or as factors.

use ktied::checkpoint::Dtype;
use ktied::foreign::{Convention, Factors, Foreign, ForeignError, NewScale, OutputDim, Pair, SIGNED_FLOOR};

use super::support::{convention, f32s, f64s, file, pair, read, scratch};

/// σᵢⱼ ≈ rᵢ cⱼ / s, of the sums over rows, columns and all: what `check_roundtrip.py` computes too.
fn rank_one(pair: &Pair) -> (Vec<f64>, Vec<f64>) {
    let (rows, cols) = pair.matrix().unwrap();
    let scale = pair.scale();
    let total: f64 = scale.iter().sum();
    let row = |i: usize| scale[i * cols..(i + 1) * cols].iter().sum::<f64>() / total;
    let col = |j: usize| (0..rows).map(|i| scale[i * cols + j]).sum();
    ((0..rows).map(row).collect(), (0..cols).map(col).collect())
}

fn product(u: &[f64], v: &[f64]) -> Vec<f64> {
    u.iter().flat_map(|u| v.iter().map(move |v| u * v)).collect()
}

fn compress(file: &Foreign, convention: &Convention) -> Foreign {
    file.rewritten(convention, |pair| {
        let (u, v) = rank_one(pair);
        Ok::<_, ForeignError>(Some(NewScale::Scale(product(&u, &v))))
    })
    .unwrap()
}

/// Rounding r to single precision moves ln σ by at most |r| 2⁻²⁴, and no r of the fixture is beyond 16.
fn assert_scales(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{what}: {found} {expected}");
    }
}

fn fixtures() -> [(&'static str, Convention); 3] {
    let torch = Convention::bayesian_torch();
    [("bayesian_torch.safetensors", torch.clone()), ("bayesian_torch.npz", torch), ("tfp.npz", Convention::tfp())]
}

/// The tensors that have changed.
fn changes<'a>(before: &'a Foreign, after: &Foreign) -> Vec<&'a str> {
    assert_eq!(before.tensors().count(), after.tensors().count());
    let both = before.tensors().zip(after.tensors());
    let changed = both.filter(|((name, tensor), (new_name, new))| {
        assert_eq!((name, tensor.dtype(), tensor.shape()), (new_name, new.dtype(), new.shape()));
        tensor.bytes() != new.bytes()
    });
    changed.map(|((name, _), _)| name).collect()
}

/// The way there and back is in double precision, so single precision comes back as it was.
#[test]
fn the_scales_that_were_read_are_written_bit_for_bit() {
    for (name, convention) in fixtures() {
        let before = read(name);
        let mut after = before.clone();
        for pair in before.pairs(&convention).unwrap().iter().filter(|pair| pair.dtype() == Dtype::F32) {
            after.set_scale(pair, &pair.scale()).unwrap();
        }
        assert_eq!(changes(&before, &after), [""; 0], "{name}");
    }
}

/// The files stay in the target folder: run `check_roundtrip.py` on them to see bayesian-torch load and use them.
#[test]
fn compressed_scales_change_the_scales_of_matrices_and_nothing_else() {
    for (name, convention) in fixtures() {
        let before = read(name);
        let path = scratch(&format!("compressed_{name}"));
        compress(&before, &convention).write(&path).unwrap();
        let after = Foreign::read(&path).unwrap();
        let pairs = before.pairs(&convention).unwrap();
        let mut matrices: Vec<_> = pairs.iter().filter(|pair| pair.matrix().is_some()).collect();
        let mut changed = changes(&before, &after);
        matrices.sort_by_key(|pair| pair.scale_name());
        changed.sort_unstable();
        assert_eq!(changed, matrices.iter().map(|pair| pair.scale_name()).collect::<Vec<_>>());
        for old in matrices {
            let new = pair(&after, &convention, old.loc_name());
            let (u, v) = rank_one(old);
            assert_eq!((new.loc(), new.dtype()), (old.loc(), old.dtype()));
            assert_scales(&new.scale(), &product(&u, &v), old.name());
        }
    }
}

#[test]
fn every_form_and_both_types_are_written_as_they_were_read() {
    let stored = [0.1, 0.7, 0.03, 1.5, 2.5, 0.9];
    let new = [0.2, 0.4, 0.01, 0.8, 3.0, 1e-5];
    for form in ["sigma", "log", "softplus", "softplus-eps"] {
        for output_dim in [OutputDim::First, OutputDim::Last] {
            let own = convention(&format!("{{}}.m,{{}}.s:{form}"), output_dim);
            for scale in [f32s(&[3, 2], &stored.map(|x| x as f32)), f64s(&[3, 2], &stored)] {
                let mut file = file(&[("a.m", scale.clone()), ("a.s", scale)]);
                let old = pair(&file, &own, "a.m");
                file.set_scale(&old, &new).unwrap();
                assert_scales(&pair(&file, &own, "a.m").scale(), &new, form);
            }
        }
    }
    // By hand: outputs first, so that the matrix is the transpose of the tensor, and σ = eʳ.
    let own = convention("{}.m,{}.s:log", OutputDim::First);
    let mut file = file(&[("a.m", f64s(&[2, 1], &[0.0, 0.0])), ("a.s", f64s(&[2, 1], &[0.0, 0.0]))]);
    file.set_scale(&pair(&file, &own, "a.m"), &[1.0, std::f64::consts::E]).unwrap();
    assert_eq!(*file.get("a.s").unwrap(), f64s(&[2, 1], &[0.0, 1.0]));
}

#[test]
fn positive_factors_take_the_scales_place_and_say_so_in_the_remarks() {
    let (before, torch) = (read("bayesian_torch.safetensors"), Convention::bayesian_torch());
    let after = before.rewritten(&torch, |pair| {
        let (u, v) = rank_one(pair);
        let logs = |factor: Vec<f64>| factor.iter().map(|x| x.ln()).collect();
        let factors = Factors::Positive { rank: 1, log_u: logs(u), log_v: logs(v) };
        Ok::<_, ktied::Error>((pair.name() == "fc1").then_some(NewScale::Factors(factors)))
    });
    let path = scratch("factors.safetensors");
    after.unwrap().write(&path).unwrap();
    let after = Foreign::read(&path).unwrap();
    assert_eq!(after.tensors().count(), before.tensors().count() + 1);
    assert!(after.get("fc1.rho_weight").is_none() && after.get("fc1.mu_weight") == before.get("fc1.mu_weight"));
    let factor = |name: &str, len: usize| {
        let factor = after.get(name).unwrap();
        assert_eq!((factor.shape(), factor.dtype().name()), (&[len, 1][..], "F32"));
        let values = factor.bytes().as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes)).exp());
        values.collect::<Vec<_>>()
    };
    let (u, v) = (factor("fc1.rho_weight.log_u", 147), factor("fc1.rho_weight.log_v", 16));
    let (wanted_u, wanted_v) = rank_one(&pair(&before, &torch, "fc1.mu_weight"));
    assert_scales(&product(&u, &v), &product(&wanted_u, &wanted_v), "fc1");
    let remarks: Vec<_> = after.metadata().iter().map(|(key, text)| (&**key, &**text)).collect();
    assert_eq!(remarks, [("format", "pt"), ("ktied.convention", "bayesian-torch"), ("ktied.rank", "1")]);
}

#[test]
fn signed_factors_stand_where_the_scale_stood_and_the_greatest_rank_is_noted() {
    let (mut file, tfp) = (read("tfp.npz"), Convention::tfp());
    let pairs =
        ["double", "conv2d_flipout"].map(|layer| pair(&file, &tfp, &format!("net/{layer}/kernel_posterior_loc:0")));
    for (pair, rank) in pairs.iter().zip([2, 1]) {
        let (rows, cols) = pair.matrix().unwrap();
        let (u, v) = (vec![-0.5; rows * rank], vec![0.25; cols * rank]);
        file.set_factors(pair, &Factors::Signed { rank, u, v }).unwrap();
    }
    assert_eq!((&*file.metadata()["ktied.rank"], &*file.metadata()["ktied.convention"]), ("2", "tfp"));
    let path = scratch("factors.npz");
    file.write(&path).unwrap();
    let names: Vec<_> = file.tensors().map(|(name, _)| name).collect();
    let scale = "net/double/kernel_posterior_untransformed_scale:0";
    let at = names.iter().position(|name| *name == format!("{scale}.u")).unwrap();
    assert_eq!((names[at - 1], names[at + 1]), ("net/double/kernel_posterior_loc:0", &*format!("{scale}.v")));
    let back = Foreign::read(&path).unwrap();
    assert_eq!(*back.get(names[at]).unwrap(), f64s(&[4, 2], &[-0.5; 8]));
    assert_eq!(*back.get(names[at + 1]).unwrap(), f64s(&[3, 2], &[0.25; 6]));
    assert!(back.metadata().is_empty() && SIGNED_FLOOR == 1e-8);
}

#[test]
fn what_the_closure_refuses_leaves_the_file_as_it_is_and_nothing_means_no_change() {
    let (file, torch) = (read("bayesian_torch.npz"), Convention::bayesian_torch());
    let mut seen = Vec::new();
    let same = file.rewritten(&torch, |pair| {
        seen.push(pair.name().to_string());
        Ok::<_, ForeignError>(None)
    });
    assert_eq!(same.unwrap(), file);
    assert_eq!(seen, ["conv", "up", "fc1", "lstm.ih", "lstm.hh", "fc2"]);
    let refused = file.rewritten(&torch, |_| Err(ktied::Error::NoExamples));
    assert_eq!(refused, Err(ktied::Error::NoExamples));
}
