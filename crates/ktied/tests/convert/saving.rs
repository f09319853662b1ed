//! Saved by burn's own stores, and folded into plain models.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::store::{ModuleSnapshot, SafetensorsStore};
use burn::tensor::Device;
use ktied::convert::{Bayesian, ConvertedPrior, bayesian};
use ktied::nn::{Estimator, Pass};

use crate::support::{autodiff, config, host, normals, scalar};

/// Everything that a converted layer says.
fn says(model: &Bayesian<Linear>) -> (Vec<f64>, Vec<f64>, f64) {
    let x = normals([2, 5], 1, &Device::flex());
    let drawn = model.valid().run(&Pass::prediction(3, 4), |m| host(m.forward(x))).unwrap();
    let [_, sd] = model.moments("weight").unwrap().unwrap();
    (drawn, host(sd), scalar(model.kl().unwrap()))
}

#[test]
fn safetensors_and_records_bring_everything_back() {
    for posterior in ["mean-field", "k-tied:2"] {
        for prior in [ConvertedPrior::Normal { scale: 0.2 }, ConvertedPrior::Centred { scale: 0.1 }] {
            let model = |seed| {
                autodiff().seed(seed);
                let linear = LinearConfig::new(5, 4).init(&autodiff());
                bayesian(linear, &config(posterior).with_prior(prior).with_biases().with_seed(seed)).unwrap()
            };
            let (saved, mut loaded) = (model(1), model(2));
            assert_ne!(says(&saved), says(&loaded), "{posterior}");
            let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
            let file = folder.join(format!("converted-{}-{prior:?}.safetensors", posterior.len()));
            saved.save_into(&mut SafetensorsStore::from_file(&file).overwrite(true)).unwrap();
            let result = loaded.load_from(&mut SafetensorsStore::from_file(&file)).unwrap();
            assert!(result.is_success() && result.missing.is_empty() && result.unused.is_empty(), "{result:?}");
            assert_eq!(says(&saved), says(&loaded), "{posterior}");
            std::fs::remove_file(&file).unwrap();
            let from_record = model(3).load_record(saved.clone().into_record());
            assert_eq!(says(&saved), says(&from_record), "{posterior}");
        }
    }
}

#[test]
fn a_draw_or_the_means_fold_into_a_plain_model() {
    let model = bayesian(LinearConfig::new(5, 4).init(&autodiff()), &config("k-tied:1").with_biases()).unwrap();
    let x = || normals([2, 5], 1, &autodiff());
    for pass in [Pass::Means, Pass::prediction(1, 7), Pass::sampled(1, 7, Estimator::Reparam)] {
        let expected = host(model.run(&pass, |m| m.forward(x())).unwrap());
        let plain = model.freeze_at(&pass).unwrap();
        assert_eq!(host(plain.forward(x())), expected);
        assert_eq!(plain.num_params(), 5 * 4 + 4);
    }
    let expected = host(model.run(&Pass::Means, |m| m.forward(x())).unwrap());
    assert_eq!(host(model.into_point().unwrap().forward(x())), expected);
}
