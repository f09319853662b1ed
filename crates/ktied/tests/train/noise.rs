//! Noise of each process's own: the same gradient in the mean, with a part of its variance.

use std::sync::Arc;

use ktied::checkpoint::Checkpoint;
use ktied::cluster::{Alone, Cluster};
use ktied::config::{Config, Tree};
use ktied::data::{Batches, DataSet, Inputs, Targets};
use ktied::train::Trainer;

use crate::support::problems;
use crate::threads::processes;

/// Draws of the noise: the standard error of a variance is about √(2/60) = 18 % of it where gradients are nearly normal.
const SEEDS: u64 = 60;
const PROCESSES: usize = 4;
/// 1 − β₁ of Adam: the share of a first gradient in the first moment.
const SHARE: f64 = 0.1;

/// A network whose noise is large, and the same example again and again: the draw is all that parts of a batch differ by.
fn problem(noise: &str, seed: u64) -> (Config, DataSet) {
    let (config, mut data) = problems().swap_remove(0);
    let mut tree = Tree::of(&config);
    let seed = seed.to_string();
    for (key, value) in [
        ("estimator.kind", "reparam"),
        ("posterior.kind", "mean-field"),
        ("posterior.init_scale", "0.3"),
        // Shortening large gradients would move their mean.
        ("optim.clip", "none"),
        ("cluster.noise", noise),
        ("train.seed", &seed),
    ] {
        tree.set(key, value).unwrap();
    }
    let Inputs::Floats { data: numbers, width, .. } = &mut data.train.inputs else { panic!("numbers") };
    let row = numbers[..*width].to_vec();
    numbers.chunks_mut(*width).for_each(|other| other.copy_from_slice(&row));
    let Targets::Classes { labels, .. } = &mut data.train.targets else { panic!("classes") };
    labels.fill(1);
    (tree.config().unwrap(), data)
}

/// All gradients of the first step from one set of parameters, under the noise of a seed.
fn gradient(begin: &Checkpoint, noise: &str, seed: u64, cluster: Arc<dyn Cluster>) -> Vec<f64> {
    let (config, data) = problem(noise, seed);
    let place = cluster.place();
    let trainer = Trainer::resume(config.clone(), &data, begin).unwrap().with_cluster(cluster).unwrap();
    let batch = Batches::new(&data.train, config.train.batch, 0).of(place).from(0).next().unwrap().unwrap();
    let checkpoint = trainer.step(batch).unwrap().0.checkpoint().unwrap();
    let moments = checkpoint.train_state().iter().filter(|(path, _)| path.ends_with(".moment_1"));
    let numbers = moments.flat_map(|(_, moment)| moment.bytes().chunks_exact(4));
    numbers.map(|bytes| f64::from(f32::from_le_bytes(bytes.try_into().unwrap())) / SHARE).collect()
}

/// Mean and variance of each number over the seeds.
fn moments(gradient: impl Fn(u64) -> Vec<f64>) -> Vec<[f64; 2]> {
    let all: Vec<Vec<f64>> = (1..=SEEDS).map(gradient).collect();
    let count = SEEDS as f64;
    let of_number = |number: usize| {
        let mean = all.iter().map(|gradient| gradient[number]).sum::<f64>() / count;
        [mean, all.iter().map(|gradient| (gradient[number] - mean).powi(2)).sum::<f64>() / (count - 1.0)]
    };
    (0..all[0].len()).map(of_number).collect()
}

fn variance(moments: &[[f64; 2]]) -> f64 {
    moments.iter().map(|[_, variance]| variance).sum()
}

#[test]
fn noise_of_their_own_leaves_the_mean_gradient_and_a_quarter_of_its_variance_to_four_processes() {
    let (config, data) = problem("shared", 0);
    let begin = Trainer::new(config, &data).unwrap().checkpoint().unwrap();
    let one = |seed| gradient(&begin, "shared", seed, Arc::new(Alone));
    let by_processes =
        |noise: &str, seed| processes(PROCESSES, |cluster| gradient(&begin, noise, seed, cluster)).swap_remove(0);
    for (shared, one) in by_processes("shared", 1).into_iter().zip(one(1)) {
        assert!((shared - one).abs() <= 1e-5 * one.abs().max(1.0), "the same draw everywhere: {shared} against {one}");
    }
    let (alone, per_rank) = (moments(one), moments(|seed| by_processes("per-rank", seed)));
    // Both variances are off by up to two of their standard errors.
    let ratio = variance(&per_rank) / variance(&alone);
    assert!((0.25 * 0.5..0.25 * 1.8).contains(&ratio), "{ratio} of the variance");
    for (number, ([one, v_one], [ours, v_ours])) in alone.iter().zip(&per_rank).enumerate() {
        let error = ((v_one + v_ours) / SEEDS as f64).sqrt();
        assert!((one - ours).abs() <= 4.5 * error + 1e-6, "number {number}: {ours} against {one}, error {error}");
    }
}
