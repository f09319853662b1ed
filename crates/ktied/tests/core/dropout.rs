//! Dropout in networks: where it is, what it does to a prediction on average, and where it is off.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use ktied::Error;
use ktied::models::{
    AnyNetwork, Features, LeNetSpec, LstmSpec, MlpSpec, ModelSpec, Network, NetworkConfig, Norm, PosteriorSpec,
    ResNet18Spec,
};
use ktied::nn::{DropoutConfig, Estimator, Pass};

use crate::support::{assert_close, host, random};

const SIDE: usize = 8;
/// P(|Z| > 4.9) < 1e-6 for a standard normal Z.
const SIGMAS: f64 = 4.9;

/// Every model, small, with a dropout.
fn specs(dropout: f64) -> [ModelSpec; 4] {
    let (side, channels, classes) = (SIDE, 2, 5);
    [
        ModelSpec::Mlp(MlpSpec { dropout, ..MlpSpec::new([12, 40, 5]) }),
        ModelSpec::LeNet(LeNetSpec { side, channels, kernel: 3, filters: [3, 4], dense: 30, classes, dropout }),
        ModelSpec::Lstm(LstmSpec { vocabulary: 9, embedding: 4, hidden: 20, dropout }),
        ModelSpec::ResNet18(ResNet18Spec {
            side,
            channels,
            widths: [3, 4, 5, 30],
            classes,
            norm: Norm::Frozen, // a batch of equal images has no variance
            dropout,
        }),
    ]
}

fn network(spec: &ModelSpec, posterior: &str) -> AnyNetwork {
    spec.init(&NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap())), &Device::flex()).unwrap()
}

/// The same example `batch` times.
fn inputs(spec: &ModelSpec, batch: usize) -> Features {
    let width = match spec {
        ModelSpec::Lstm(_) => {
            let words = Tensor::<2, Int>::from_data([[1, 4, 8, 2, 3, 7]], &Device::flex());
            return Features::Words(words.repeat_dim(0, batch));
        }
        ModelSpec::Mlp(_) => 12,
        _ => SIDE * SIDE * 2,
    };
    let row = Tensor::<1>::from_floats(&random(width, 1)[..], &Device::flex()).reshape([1, width]);
    Features::Rows(row.repeat_dim(0, batch))
}

fn output(spec: &ModelSpec, posterior: &str, batch: usize, pass: &Pass) -> Vec<f64> {
    host(network(spec, posterior).forward(inputs(spec, batch), pass).unwrap())
}

#[test]
fn dropout_is_off_where_weights_are_at_their_means() {
    for (with, without) in specs(0.5).iter().zip(&specs(0.0)) {
        let means = |spec| output(spec, "k-tied:2", 3, &Pass::Means);
        assert_eq!(means(with), means(without), "{}", with.name());
    }
}

#[test]
fn every_draw_has_a_mask_of_its_own_for_every_example_and_adds_no_parameter() {
    for (with, without) in specs(0.5).iter().zip(&specs(0.0)) {
        let name = with.name();
        for pass in [Pass::prediction(1, 0), Pass::sampled(1, 0, Estimator::Reparam)] {
            // Equal examples stay equal under a point without dropout.
            let equal = output(without, "point", 2, &pass);
            let half = equal.len() / 2;
            assert_eq!(equal[..half], equal[half..], "{name}");
            let masked = output(with, "point", 2, &pass);
            assert_ne!(masked[..half], masked[half..], "{name}: both examples have one mask");
            assert_ne!(masked, equal, "{name}");
            assert_eq!(masked, output(with, "point", 2, &pass), "{name}: a function of seed and step");
        }
        let draws: Vec<_> = (0..3).map(|draw| output(with, "point", 2, &Pass::prediction(1, draw))).collect();
        assert!(draws[0] != draws[1] && draws[1] != draws[2] && draws[0] != draws[2], "{name}");
        assert_eq!(network(with, "k-tied:2").num_params(), network(without, "k-tied:2").num_params());
    }
}

#[test]
fn a_mask_before_the_last_layer_keeps_the_mean_of_the_output() {
    // Where the masked units go straight into a linear layer, the mean over masks is the output without one.
    const BATCH: usize = 4000;
    for spec in specs(0.4).iter().filter(|spec| spec.name() != "lenet") {
        let expected = output(spec, "point", 1, &Pass::Means);
        let outputs = expected.len();
        let drawn = output(spec, "point", BATCH, &Pass::prediction(3, 0));
        for (unit, expected) in expected.iter().enumerate() {
            let values: Vec<f64> = drawn.iter().skip(unit).step_by(outputs).copied().collect();
            let mean = values.iter().sum::<f64>() / BATCH as f64;
            let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / BATCH as f64).sqrt();
            let bound = SIGMAS * sd / (BATCH as f64).sqrt();
            assert!(
                sd > 0.0 && (mean - expected).abs() < bound,
                "{}: {mean}, expected {expected} ± {bound}",
                spec.name()
            );
        }
    }
}

#[test]
fn masked_outputs_scatter_as_bernoulli_masks_make_them() {
    // y = Σⱼ hⱼ mⱼ wⱼ + b with Var mⱼ = p/(1 − p): Var y = p/(1 − p) · Σⱼ (hⱼ wⱼ)².
    const BATCH: usize = 20_000;
    let p = 0.25;
    let spec = MlpSpec { dropout: p, ..MlpSpec::new([12, 40, 1]) };
    let mlp = spec.init(&NetworkConfig::new(PosteriorSpec::new("point".parse().unwrap())), &Device::flex()).unwrap();
    let Features::Rows(x) = inputs(&ModelSpec::Mlp(spec), 1) else { unreachable!() };
    let hidden = host(mlp.layers()[0].forward(x.clone(), &Pass::Means).unwrap());
    let kernel = host(ktied::posterior::Posterior::loc(&mlp.layers()[1].weights.kernel));
    let expected = p / (1.0 - p) * hidden.iter().zip(&kernel).map(|(h, w)| (h * w).powi(2)).sum::<f64>();
    let drawn = host(mlp.forward(x.repeat_dim(0, BATCH), &Pass::prediction(3, 0)).unwrap());
    let mean = drawn.iter().sum::<f64>() / BATCH as f64;
    let squares: Vec<f64> = drawn.iter().map(|y| (y - mean).powi(2)).collect();
    let variance = squares.iter().sum::<f64>() / BATCH as f64;
    // The standard error of a mean of squares.
    let spread = squares.iter().map(|s| (s - variance).powi(2)).sum::<f64>() / BATCH as f64;
    let bound = SIGMAS * (spread / BATCH as f64).sqrt();
    assert!((variance - expected).abs() < bound, "{variance}, expected {expected} ± {bound}");
}

#[test]
fn hidden_layers_have_masks_of_their_own() {
    // With equal kernels in the second and third layer the same mask twice would leave the same units out twice.
    let [one, two] = [1, 2].map(|id| DropoutConfig { rate: 0.5, id }.init().unwrap());
    let x = Tensor::<2>::ones([4, 64], &Device::flex());
    let pass = Pass::prediction(0, 0);
    let masks = [one, two].map(|dropout| host(dropout.forward(x.clone(), &pass).unwrap()));
    let both = masks[0].iter().zip(&masks[1]).filter(|(a, b)| a == b).count() as f64;
    // Binomial: 256 trials at ½ have the standard deviation 8.
    assert!((both - 128.0).abs() < SIGMAS * 8.0, "{both}");
}

#[test]
fn gradients_go_through_the_mask_that_was_drawn() {
    let dropout = DropoutConfig { rate: 0.4, id: 3 }.init().unwrap();
    let pass = Pass::sampled(1, 5, Estimator::Local);
    let device = Device::flex().autodiff();
    let x = Tensor::<1>::from_floats(&random(6 * 50, 1)[..], &device).reshape([6, 50]).require_grad();
    let y = dropout.forward(x.clone(), &pass).unwrap();
    let ones = Tensor::<2>::ones([6, 50], &Device::flex());
    let mask = host(dropout.forward(ones, &pass).unwrap());
    assert_close("gradient", &host(x.grad(&y.sum().backward()).unwrap()), &mask, 0.0);
}

#[test]
fn a_dropout_that_leaves_nothing_is_refused() {
    let posterior = PosteriorSpec::default();
    for bad in [1.0, -0.5, f64::NAN, f64::INFINITY] {
        for spec in specs(bad) {
            let error = spec.layers(&posterior).unwrap_err();
            assert!(matches!(error, Error::NotADropout { .. }), "{error}");
            assert!(spec.init(&NetworkConfig::new(posterior.clone()), &Device::flex()).is_err());
        }
    }
    let error = DropoutConfig { rate: 1.0, id: 0 }.init().unwrap_err().to_string();
    assert_eq!(error, "a dropout (model.dropout) must be at least 0 and below 1, got 1");
}
