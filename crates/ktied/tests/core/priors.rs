//! Priors: their rules, and the closed form of empirical Bayes.

use burn::tensor::{Device, Tensor};
use ktied::posterior::Posterior;
use ktied::prior::{Prior, PriorRule};

use crate::support::{family, host};

#[test]
fn rules_give_kernels_and_biases_their_scales() {
    let scales = |rule: PriorRule| (rule.of_kernel(50).unwrap().scale(), rule.of_bias().unwrap().scale());
    assert_eq!(scales(PriorRule::Normal { scale: 0.3 }), (0.3, 0.3));
    assert_eq!(scales(PriorRule::He), (0.2, 1.0));
    assert_eq!(scales(PriorRule::Empirical { scale: 0.5, every: 10 }), (0.5, 0.5));
    for scale in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        assert!(PriorRule::Normal { scale }.of_kernel(5).is_err(), "{scale}");
    }
}

#[test]
fn empirical_priors_are_due_every_so_many_steps() {
    let rule = PriorRule::Empirical { scale: 0.5, every: 10 };
    let due: Vec<u64> = (0..35).filter(|&step| rule.is_due(step)).collect();
    assert_eq!(due, [10, 20, 30]);
    assert!(!PriorRule::He.is_due(10) && !PriorRule::Empirical { scale: 1.0, every: 0 }.is_due(0));
}

#[test]
fn the_empirical_prior_is_the_one_with_the_smallest_kl() {
    let loc = Tensor::<2>::ones([9, 6], &Device::flex().autodiff()) * 0.05;
    for kind in ["mean-field", "k-tied:2", "matrix-normal"] {
        for start in [Prior::normal(1.0).unwrap(), Prior::centred(loc.clone(), 1.0).unwrap()] {
            let posterior = family(kind, [9, 6]);
            let best = start.empirical(&posterior).unwrap();
            let kl = |scale: f64| {
                let prior = match best.loc() {
                    Some(loc) => Prior::centred(loc, scale).unwrap(),
                    None => Prior::normal(scale).unwrap(),
                };
                host(posterior.kl(&prior).unwrap())[0]
            };
            let least = kl(best.scale());
            assert!(least < kl(0.97 * best.scale()) && least < kl(1.03 * best.scale()), "{kind}");
        }
    }
}

#[test]
fn a_prior_centred_on_the_means_leaves_only_the_scales_to_pay() {
    let posterior = family("k-tied:2", [9, 6]);
    let centred = Prior::centred(posterior.loc(), 0.3).unwrap();
    let scales = host(posterior.scale().unwrap());
    let expected: f64 = scales.iter().map(|s| (0.3 / s).ln() + s * s / 0.18 - 0.5).sum();
    let found = host(posterior.kl(&centred).unwrap())[0];
    assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{found}, expected {expected}");
}

#[test]
fn a_point_pays_nothing() {
    assert_eq!(host(family("point", [3, 2]).kl(&Prior::normal(0.1).unwrap()).unwrap()), [0.0]);
}
