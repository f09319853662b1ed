//! Telling other data from the data of training, held against scikit-learn.

use burn::tensor::{Device, Tensor};
use ktied::evaluate::{Detection, Ensemble, Protocol, Ranked, Uncertainties};
use ktied::models::MlpSpec;
use ktied::objective::{Likelihood, LikelihoodKind, Observed};

use super::{config, number};
use crate::golden::read;
use crate::support::random;

/// The scores of `golden/detection.py`.
fn scores(key: u32, count: u32, shift: f64, step: f64) -> Ranked {
    (0..count).map(|i| ((f64::from(number(key, i, 0)) + shift) / step).floor() * step).collect()
}

#[test]
fn detection_is_that_of_scikit_learn_ties_included() {
    let golden = read("detection.json");
    for (name, inside, outside) in [
        ("fine", scores(1, 700, 0.0, 1.0 / 256.0), scores(2, 300, 2.0, 1.0 / 256.0)),
        ("ties", scores(3, 500, 0.0, 1.0), scores(4, 800, 1.0, 1.0)),
        ("worse than guessing", scores(5, 400, 3.0, 0.25), scores(6, 60, 0.0, 0.25)),
    ] {
        let found = inside.detect(&outside).unwrap();
        let expected: Detection = serde_json::from_value(golden[name].clone()).unwrap();
        for (what, f, e) in [
            ("auroc", found.auroc, expected.auroc),
            ("aupr", found.aupr, expected.aupr),
            ("fpr95", found.fpr95, expected.fpr95),
        ] {
            assert!((f - e).abs() < 1e-12, "{name}: {what} is {f}, expected {e}");
        }
    }
}

#[test]
fn uncertainties_need_no_labels_and_are_those_of_the_judgement() {
    let device = Device::flex();
    let networks = ["mean-field", "k-tied:2"].map(|kind| MlpSpec::new([6, 8, 3]).init(&config(kind), &device).unwrap());
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 3, 1.0, &device).unwrap();
    let ensemble = Ensemble::new(networks.iter().map(|network| (network, &likelihood))).unwrap();
    let x = Tensor::<1>::from_floats(&random(20 * 6, 1)[..], &device).reshape([20, 6]);
    let protocol = Protocol { samples: 7, ..Protocol::new(100) };
    let batch = (x.clone(), Observed::Classes(vec![1; 20]));
    let judged = ensemble.judge([Ok(batch)], &protocol, |_| ()).unwrap();
    let mut calls = vec![];
    let alone = ensemble.uncertainties([Ok(x.clone())], &protocol, |done| calls.push(done)).unwrap();
    let known = judged.uncertainties.unwrap();
    assert_eq!(alone, known);
    assert_eq!((calls.len(), calls.last()), (14, Some(&280)));
    // Guessing, since they are the same; and the mean of what is ranked is the metric.
    assert_eq!(known.detect(&alone).unwrap().entropy.auroc, 0.5);
    // Logits a hundred times as large are of a network that is sure of itself.
    let sure = ensemble.uncertainties([Ok(x * 100.0)], &protocol, |_| ()).unwrap();
    let found = sure.detect(&known).unwrap();
    assert!(found.entropy.auroc > 0.9, "{found:?}");
    assert_eq!(known.detect(&Uncertainties::default()), None);
}

#[test]
fn a_network_of_numbers_has_no_entropy() {
    let device = Device::flex();
    let mlp = MlpSpec::new([6, 1]).init(&config("point"), &device).unwrap();
    let likelihood = Likelihood::new(LikelihoodKind::Gaussian, 1, 1.0, &device).unwrap();
    let ensemble = Ensemble::new([(&mlp, &likelihood)]).unwrap();
    let error = ensemble.uncertainties([Ok(Tensor::zeros([1, 6], &device))], &Protocol::new(1), |_| ());
    let sentence = "the likelihood `gaussian` does not fit a data set whose targets are classes";
    assert_eq!(error.unwrap_err().to_string(), sentence);
}
