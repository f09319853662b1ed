//! Every family against the plain definition, and against the others where they must agree.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Tensor};
use ktied::ScaleForm;
use ktied::ops::{BiasScale, LocalInput};
use ktied::posterior::{Family, KTied, Posterior, PosteriorKind, ScaleInit, WeightInit};
use ktied::prior::Prior;
use ktied::{NoiseKey, Purpose};
use ktied_kernels::activation::Activation;

use crate::support::{Plain, assert_close, family, family_with, host, key};

const SHAPE: [usize; 2] = [13, 7];
const KINDS: [&str; 6] = ["point", "mean-field", "k-tied:1", "k-tied:2", "k-tied:7", "matrix-normal"];

#[test]
fn every_family_draws_perturbs_and_diverges_like_its_definition() {
    for kind in KINDS {
        let fast = family(kind, SHAPE);
        let plain = Plain { inner: fast.clone() };
        let prior = Prior::normal(0.2).unwrap();
        assert_close(kind, &host(fast.draw(key(1)).unwrap()), &host(plain.draw(key(1)).unwrap()), 1e-6);
        assert_close(kind, &host(fast.kl(&prior).unwrap()), &host(plain.kl(&prior).unwrap()), 2e-6);
        let [a, b] = [fast.perturbation(key(2)), plain.perturbation(key(2))].map(|p| p.unwrap().map_or(vec![], host));
        assert_close(kind, &a, &b, 1e-6);
    }
}

/// Gradients of a module's parameters, in the order of a visit.
struct Collect<'a> {
    grads: &'a GradientsParams,
    found: Vec<Option<Vec<f64>>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push(self.grads.get::<D>(param.id).map(host));
    }
}

fn collected(family: &Family, grads: &GradientsParams) -> Vec<Option<Vec<f64>>> {
    let mut collect = Collect { grads, found: vec![] };
    family.visit(&mut collect);
    collect.found
}

#[test]
fn gradients_of_the_divergence_are_added_as_a_backward_pass_would_add_them() {
    let centre = Tensor::<2>::random(SHAPE, Distribution::Normal(0.0, 0.1), &Device::flex());
    for prior in [Prior::normal(0.2).unwrap(), Prior::centred(centre, 0.3).unwrap()] {
        for kind in KINDS {
            let fast = family(kind, SHAPE);
            let plain = Plain { inner: fast.clone() };
            let of_draw = || GradientsParams::from_grads(fast.draw(key(1)).unwrap().exp().sum().backward(), &fast);
            for nothing_so_far in [false, true] {
                let so_far = || if nothing_so_far { GradientsParams::new() } else { of_draw() };
                let (mut found, mut expected) = (so_far(), so_far());
                let value = fast.add_kl_gradients(&prior, 0.3, &mut found).unwrap();
                let same = plain.add_kl_gradients(&prior, 0.3, &mut expected).unwrap();
                assert_close(kind, &[value], &[same], 2e-6);
                let [found, expected] = [found, expected].map(|grads| collected(&fast, &grads));
                assert_eq!(
                    found.iter().filter(|g| g.is_some()).count(),
                    expected.iter().filter(|g| g.is_some()).count()
                );
                for (found, expected) in found.iter().zip(&expected) {
                    let [found, expected] = [found, expected].map(|g| g.clone().unwrap_or_default());
                    assert_close(kind, &found, &expected, 5e-6);
                }
            }
        }
    }
}

#[test]
fn what_is_not_trained_gets_no_gradient_of_the_divergence() {
    let prior = Prior::normal(0.2).unwrap();
    for kind in KINDS {
        let (trained, frozen) = (family(kind, SHAPE), family(kind, SHAPE).no_grad());
        let [mut of_trained, mut of_frozen] = [GradientsParams::new(), GradientsParams::new()];
        let value = trained.add_kl_gradients(&prior, 1.0, &mut of_trained).unwrap();
        assert_close(kind, &[frozen.add_kl_gradients(&prior, 1.0, &mut of_frozen).unwrap()], &[value], 1e-6);
        assert_eq!((of_trained.is_empty(), of_frozen.len()), (kind == "point", 0), "{kind}");
    }
}

#[test]
fn every_family_has_the_local_noise_of_its_definition() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::random([5, 13], Distribution::Normal(0.0, 1.0), &device);
    let loc = Tensor::<1>::random([7], Distribution::Normal(0.0, 1.0), &device);
    let raw = Tensor::<1>::random([7], Distribution::Normal(-2.0, 0.3), &device);
    for kind in KINDS {
        let fast = family(kind, SHAPE);
        let plain = Plain { inner: fast.clone() };
        for bias in [None, Some(BiasScale { raw: raw.clone(), form: ScaleForm::Log })] {
            let noisy = |p: Result<Tensor<2>, ktied::Error>| host(p.unwrap());
            let (x, activation) = (x.clone(), Activation::Relu);
            let input = LocalInput { x, bias: Some(loc.clone()), bias_scale: bias, activation, key: key(3), first: 0 };
            let found = noisy(fast.local(input.clone()));
            let expected = noisy(plain.local(input));
            assert_close(kind, &found, &expected, 2e-6);
        }
    }
}

#[test]
fn the_number_of_parameters_is_that_of_table_1() {
    for kind in KINDS {
        let expected = kind.parse::<PosteriorKind>().unwrap().num_params(SHAPE[0], SHAPE[1]);
        assert_eq!(family(kind, SHAPE).num_params(), expected, "{kind}");
    }
}

#[test]
fn the_matrix_normal_with_diagonal_covariances_is_the_1_tied_normal() {
    // Same key, same first values: u = √q and v = √p (appendix A of the paper).
    let (matrix_normal, one_tied) = (family("matrix-normal", SHAPE), family("k-tied:1", SHAPE));
    assert_close("loc", &host(matrix_normal.loc()), &host(one_tied.loc()), 0.0);
    let [a, b] = [&matrix_normal, &one_tied].map(|f| host(f.scale().unwrap()));
    assert_close("scale", &a, &b, 1e-6);
    let prior = Prior::normal(0.3).unwrap();
    assert_close("kl", &host(matrix_normal.kl(&prior).unwrap()), &host(one_tied.kl(&prior).unwrap()), 1e-6);
    assert_close("draw", &host(matrix_normal.draw(key(1)).unwrap()), &host(one_tied.draw(key(1)).unwrap()), 1e-6);
}

/// Largest 2×2 minor of the matrix of variances, relative to its entries: zero exactly for qᵢpⱼ.
fn largest_minor(variance: &[f64], [m, n]: [usize; 2]) -> f64 {
    let mut largest: f64 = 0.0;
    for (i, k) in (0..m).flat_map(|i| (0..i).map(move |k| (i, k))) {
        for (j, l) in (0..n).flat_map(|j| (0..j).map(move |l| (j, l))) {
            let (a, b) = (variance[i * n + j] * variance[k * n + l], variance[i * n + l] * variance[k * n + j]);
            largest = largest.max((a - b).abs() / a.max(b));
        }
    }
    largest
}

#[test]
fn no_pair_of_row_and_column_variances_reproduces_a_rank_2_scale() {
    // diag(p) ⊗ diag(q) has variances qᵢpⱼ, whose 2×2 minors all vanish; those of a 2-tied Normal do not, so no q and p
    // exist (the lemma of appendix A, by its criterion).
    let variance = |kind| host(family(kind, SHAPE).scale().unwrap().square());
    assert!(largest_minor(&variance("matrix-normal"), SHAPE) < 1e-5);
    assert!(largest_minor(&variance("k-tied:1"), SHAPE) < 1e-5);
    assert!(largest_minor(&variance("k-tied:2"), SHAPE) > 1e-2);
}

#[test]
fn scales_begin_where_they_were_asked_to() {
    let init = ScaleInit::default();
    for kind in KINDS.into_iter().skip(1) {
        let scale = host(family_with(kind, [40, 30], init).scale().unwrap());
        let mean = scale.iter().sum::<f64>() / scale.len() as f64;
        assert!((mean / 0.01 - 1.0).abs() < 0.05, "{kind}: {mean}");
        assert!(scale.iter().all(|&s| s > 0.0));
    }
    let means = host(family("mean-field", [200, 50]).loc());
    let variance = means.iter().map(|m| m * m).sum::<f64>() / means.len() as f64;
    // 10,000 numbers: the standard error of their variance is 1.4 %.
    assert!((variance * 200.0 / 2.0 - 1.0).abs() < 0.07, "He: {variance}");
}

#[test]
fn clipping_brings_scales_under_the_cap_and_leaves_gradients_on() {
    for kind in KINDS.into_iter().skip(1) {
        for form in [ScaleForm::Log, ScaleForm::Softplus] {
            let init = ScaleInit { form, scale: 0.3, cap: Some(0.1) };
            let clipped = family_with(kind, SHAPE, init).clipped();
            let scale = clipped.scale().unwrap();
            let largest = host(scale.clone()).into_iter().fold(0.0, f64::max);
            assert!((largest - 0.1).abs() < 1e-5 || kind != "mean-field", "{kind}: {largest}");
            assert!(largest < 0.1 + 1e-5, "{kind}: {largest}");
            let grads = scale.sum().backward();
            let tracked = match &clipped {
                Family::MeanField(f) => f.raw_scale.val().grad(&grads).is_some(),
                Family::KTied(f) => f.log_u.val().grad(&grads).is_some() && f.log_v.val().grad(&grads).is_some(),
                Family::MatrixNormal(f) => f.log_row_variance.val().grad(&grads).is_some(),
                Family::Point(_) | Family::LowRank(_) => false,
            };
            assert!(tracked, "{kind}");
        }
    }
    let free = family("k-tied:2", SHAPE);
    assert_eq!(host(free.clone().clipped().scale().unwrap()), host(free.scale().unwrap()));
}

#[test]
fn bad_ranks_scales_and_shapes_are_refused_with_a_sentence() {
    let device = Device::flex();
    let init = |scale| WeightInit::he(4, scale, NoiseKey::new(1).child(Purpose::Init), &device);
    let error = KTied::new("dense_1", [4, 3], 4, init(ScaleInit::default())).unwrap_err();
    assert_eq!(error.to_string(), "layer `dense_1` is 4×3: rank must be 1 to 3, got 4");
    let nan = ScaleInit { scale: f64::NAN, ..ScaleInit::default() };
    assert!(Family::new(PosteriorKind::MeanField, "x", [4, 3], init(nan)).is_err());
    let prior = Prior::centred(Tensor::zeros([7, 13], &device), 0.1).unwrap();
    for kind in KINDS.into_iter().skip(1) {
        let sentence = family(kind, SHAPE).kl(&prior).unwrap_err().to_string();
        assert!(sentence.contains("`prior_loc` must have shape [13, 7], got [7, 13]"), "{kind}: {sentence}");
        let again = family(kind, SHAPE).add_kl_gradients(&prior, 1.0, &mut GradientsParams::new()).unwrap_err();
        assert!(again.to_string().contains("`prior_loc` must have shape [13, 7], got [7, 13]"), "{kind}: {again}");
    }
}
