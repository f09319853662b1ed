//! What cannot be converted is refused by its path, before anything is changed.

use burn::module::{Lora, Module, Param, ParamId};
use burn::nn::{LinearConfig, LstmConfig};
use burn::tensor::{Device, Int, Tensor};
use ktied::convert::{BayesianConfig, Conversion, InitialScale, bayesian};
use ktied::nn::{Estimator, Pass};

use crate::support::{config, converted};

#[derive(Debug, Module)]
struct Mixed {
    weight: Param<Tensor<2>>,
    table: Param<Tensor<2, Int>>,
    zeros: Param<Tensor<2>>,
}

fn mixed() -> Mixed {
    let device = Device::flex();
    let table = Param::initialized(ParamId::new(), Tensor::<2, Int>::zeros([2, 2], &device));
    let zeros = Param::from_tensor(Tensor::zeros([3, 2], &device));
    Mixed { weight: Param::from_tensor(Tensor::ones([5, 2], &device)), table, zeros }
}

fn refusal<M: Module>(model: M, config: &BayesianConfig) -> String {
    bayesian(model, config).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_converted_is_named() {
    let tied = Conversion::new("k-tied:3".parse().unwrap());
    let linear = || LinearConfig::new(4, 3).init(&Device::flex());
    for (config, sentence) in [
        (config("k-tied:3"), "layer `weight` is 5×2: rank must be 1 to 2, got 3"),
        (config("k-tied:0"), "layer `weight` is 5×2: rank must be 1 to 2, got 0"),
        (
            config("mean-field").rule(|p| p.path == "table", tied),
            "`table` holds integers: only parameters of floating-point numbers can have a posterior",
        ),
        (
            config("mean-field").only(|p| p.path == "kernel"),
            "no parameter was chosen to become Bayesian; the model has `weight`, `zeros`",
        ),
        (config("point"), "no parameter was chosen to become Bayesian; the model has `weight`, `zeros`"),
        (
            config("matrix-normal"),
            "`weight`: a converted parameter can be point, mean-field or k-tied:K, not matrix-normal",
        ),
        (
            config("mean-field").with_scale(InitialScale::Relative(0.1)),
            "`zeros`: all its weights are zero, so standard deviations cannot begin in proportion to them",
        ),
        (
            config("mean-field").with_scale(InitialScale::Absolute(-1.0)),
            "posterior.init_scale must be a positive finite number, got -1",
        ),
        (
            config("mean-field")
                .rule(|_| true, Conversion { outputs: Some(2), ..Conversion::new("mean-field".parse().unwrap()) })
                .leave(|p| p.path == "table"),
            "`weight` has 2 dimensions: the outputs cannot be dimension 2, counted from 0",
        ),
    ] {
        assert_eq!(refusal(mixed(), &config), sentence);
    }
    // Integers that nobody asked for stay what they are.
    assert_eq!(bayesian(mixed(), &config("mean-field")).unwrap().layers().count(), 2);
    let twice = bayesian(linear(), &config("mean-field")).unwrap();
    let sentence =
        "`model.weight` already has a reparameterization `posterior`: convert the model once, and before adapters";
    assert_eq!(refusal(twice, &config("mean-field")), sentence);
    let adapted = linear().apply_lora(Lora::new(1, 1.0));
    assert!(refusal(adapted, &config("mean-field")).starts_with("`weight` already has a reparameterization `lora`"));
    // Long lists are cut.
    let lstm = refusal(LstmConfig::new(2, 2, true).init(&Device::flex()), &config("mean-field").leave(|_| true));
    assert!(lstm.ends_with("and 4 more"), "{lstm}");
}

#[test]
fn passes_that_a_converted_model_cannot_run_are_refused() {
    let model = converted(LinearConfig::new(4, 3).init(&Device::flex()), "mean-field");
    for (estimator, name) in [(Estimator::Flipout, "flipout"), (Estimator::Local, "local")] {
        let error = model.run(&Pass::sampled(1, 2, estimator), |_| ()).unwrap_err().to_string();
        assert_eq!(error, format!("a converted model draws its weights: use Estimator::Reparam, not {name}"));
    }
    let nested = model.run(&Pass::Means, |_| model.run(&Pass::Means, |_| ())).unwrap().unwrap_err().to_string();
    assert!(nested.starts_with("a pass of this model is already under way"), "{nested}");
    let nested = model.run(&Pass::Means, |_| model.clone().freeze_at(&Pass::Means).is_err()).unwrap();
    assert!(nested);
    let lost = model.materialize().kl().unwrap_err().to_string();
    assert_eq!(lost, "`weight` has lost its posterior: was the model materialized?");
}
