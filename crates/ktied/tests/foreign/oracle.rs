//! μ and σ against torch and numpy, which computed them in double precision from the same numbers.

use ktied::foreign::{Convention, Foreign, Pair};
use serde_json::Value;

use super::support::{fixture, pair, read};

/// Both sides compute a few elementary functions in double precision.
const TOLERANCE: f64 = 1e-13;

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= TOLERANCE * expected.abs().max(1.0), "{what}: {found}, not {expected}");
}

fn expected(of: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(fixture("expected.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    all[of].as_object().unwrap().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
}

fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|len| len.as_u64().unwrap() as usize).collect()
}

/// The place in the matrix of the element at `at`, by definition: the outputs are the column, all others the row.
fn place(at: &[usize], shape: &[usize], axis: usize) -> usize {
    if shape.len() == 1 {
        return at[0];
    }
    let others = (0..shape.len()).filter(|dim| *dim != axis);
    others.fold(0, |row, dim| row * shape[dim] + at[dim]) * shape[axis] + at[axis]
}

/// Holds every pair of a file against what is expected of its scale's name.
fn assert_agrees(file: &Foreign, convention: &Convention, of: &str, axis: impl Fn(&Pair) -> usize) {
    let (pairs, expected) = (file.pairs(convention).unwrap(), expected(of));
    assert_eq!(pairs.len(), expected.len());
    for (name, expected) in expected {
        let pair = pairs.iter().find(|pair| pair.scale_name() == name).expect(&name);
        let (loc, scale, shape) = (pair.loc(), pair.scale(), sizes(&expected["shape"]));
        assert_eq!(pair.shape(), shape);
        assert_close(loc.iter().sum(), expected["loc_sum"].as_f64().unwrap(), &name);
        assert_close(scale.iter().sum(), expected["scale_sum"].as_f64().unwrap(), &name);
        for entry in expected["entries"].as_array().unwrap() {
            let place = place(&sizes(&entry["at"]), &shape, axis(pair));
            // Nearly, because serde_json rounds the last digit of long fractions.
            assert_close(loc[place], entry["loc"].as_f64().unwrap(), &name);
            let wanted = entry["scale"].as_f64().unwrap();
            assert!((scale[place] / wanted - 1.0).abs() < TOLERANCE, "{name}: {} {wanted}", scale[place]);
        }
    }
}

#[test]
fn bayesian_torchs_means_and_scales_are_torchs_own() {
    let transposed = |pair: &Pair| usize::from(pair.name() == "up");
    for name in ["bayesian_torch.safetensors", "bayesian_torch.npz"] {
        assert_agrees(&read(name), &Convention::bayesian_torch(), "bayesian_torch", transposed);
    }
}

#[test]
fn tensorflow_probabilitys_means_and_scales_are_those_of_its_formula() {
    assert_agrees(&read("tfp.npz"), &Convention::tfp(), "tfp", |pair| pair.shape().len() - 1);
}

/// Convolutions, their transpose, dense layers and the two matrices of an LSTM: N outputs, M everything else.
#[test]
fn every_layer_of_bayesian_torch_is_a_matrix_and_a_vector() {
    let file = read("bayesian_torch.npz");
    let pairs = file.pairs(&Convention::bayesian_torch()).unwrap();
    let matrices: Vec<_> = pairs.iter().filter_map(|pair| Some((pair.name(), pair.matrix()?))).collect();
    let layers = [
        ("conv", (9, 4)),
        ("up", (16, 3)),
        ("fc1", (147, 16)),
        ("lstm.ih", (8, 24)),
        ("lstm.hh", (6, 24)),
        ("fc2", (22, 3)),
    ];
    assert_eq!(matrices, layers);
    let vectors: Vec<_> = pairs.iter().filter(|pair| pair.matrix().is_none()).map(Pair::name).collect();
    assert_eq!(vectors, layers.map(|(name, _)| name));
}

#[test]
fn tensorflow_probabilitys_biases_may_be_points() {
    let (file, tfp) = (read("tfp.npz"), Convention::tfp());
    let pairs = file.pairs(&tfp).unwrap();
    let found: Vec<_> = pairs.iter().map(|pair| (pair.name(), pair.matrix())).collect();
    let dense = "net/dense_reparameterization";
    assert_eq!(
        found,
        [("net/conv2d_flipout", Some((18, 4))), (dense, Some((12, 5))), (dense, None), ("net/double", Some((4, 3))),]
    );
    assert!(file.get("net/conv2d_flipout/bias_posterior_loc:0").is_some());
    assert_eq!(pair(&file, &tfp, "net/dense_reparameterization/bias_posterior_loc").scale().len(), 5);
}
