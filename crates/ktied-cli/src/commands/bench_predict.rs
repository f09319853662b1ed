//! `ktied bench predict`: milliseconds of a prediction by many draws, from inputs in memory to classes and uncertainties.

use std::time::Instant;

use burn::tensor::Device;
use ktied::evaluate::{BATCHES_AT_ONCE, Draws, Ensemble, Predictions};
use ktied::models::{Features, MlpSpec, ModelSpec, NetworkConfig, PosteriorSpec};
use ktied::objective::{Likelihood, LikelihoodKind};
use ktied::train::EVALUATION_BATCH;
use serde::Serialize;

use super::bench_step::{peak_rss_mb, rounded};
use super::made_up;
use crate::args::{Args, BenchPredict};
use crate::exit::Failure;
use crate::table::{print_json, print_line};

#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    model: &'static str,
    posterior: String,
    samples: u64,
    examples: usize,
    threads: usize,
    median_ms: f64,
    min_ms: f64,
    /// Mean entropy and mutual information of the predictions, in nats.
    entropy: f64,
    mutual_information: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_rss_mb: Option<u64>,
}

pub(crate) fn run(bench: &BenchPredict, args: &Args) -> Result<(), Failure> {
    let (device, model) = (Device::flex(), ModelSpec::Mlp(MlpSpec::default()));
    let network = model.init(&NetworkConfig::new(PosteriorSpec::new(bench.posterior)), &device)?;
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, model.outputs(), 1.0, &device)?;
    let ensemble = Ensemble::new([(&network, &likelihood)])?;
    let examples = bench.examples as usize;
    let (Features::Rows(rows), _) = made_up::batch(&model, examples)? else {
        return Err(Failure::Usage("the MLP takes numbers".into()));
    };
    let (mut times, mut sums) = (vec![], [0.0; 2]);
    for _ in 0..bench.repeats {
        let begin = Instant::now();
        sums = [0.0; 2];
        for first in (0..examples).step_by(EVALUATION_BATCH * BATCHES_AT_ONCE) {
            let draws = Draws { samples: bench.samples, first: first as u64, ..Draws::default() };
            let begins = (first..examples).step_by(EVALUATION_BATCH).take(BATCHES_AT_ONCE);
            let batches = begins
                .map(|begin| Features::Rows(rows.clone().narrow(0, begin, EVALUATION_BATCH.min(examples - begin))));
            for found in ensemble.predict_batches(batches.collect(), &draws, 0.95)? {
                let Predictions::Classes(found) = found else { continue };
                found.iter().for_each(|p| sums = [sums[0] + p.entropy, sums[1] + p.mutual_information]);
            }
        }
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let [entropy, mutual_information] = sums.map(|sum| sum / examples as f64);
    let report = Report {
        engine: concat!("ktied ", env!("CARGO_PKG_VERSION")),
        model: model.name(),
        posterior: bench.posterior.to_string(),
        samples: bench.samples,
        examples,
        threads: rayon::current_num_threads(),
        median_ms: rounded(times.get(times.len() / 2).copied().unwrap_or(f64::NAN)),
        min_ms: rounded(times.first().copied().unwrap_or(f64::NAN)),
        entropy,
        mutual_information,
        peak_rss_mb: peak_rss_mb(),
    };
    if args.json {
        return print_json(&report);
    }
    print_line(&format!(
        "{} {}, {} draws of {} examples, {} threads: median {} ms, least {} ms over {} repeats (entropy {:.4})",
        report.model,
        report.posterior,
        report.samples,
        report.examples,
        report.threads,
        report.median_ms,
        report.min_ms,
        bench.repeats,
        report.entropy
    ))
}
