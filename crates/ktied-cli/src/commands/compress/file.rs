//! `ktied compress FILE`: the posterior of another library, made smaller where it lies.

use std::path::Path;

use ktied::compress::{LayerFit, Method, PositiveFit, SvdFit};
use ktied::foreign::{Container, Convention, Factors, Foreign, NewScale, Pair};
use ktied::linalg::Matrix;
use ktied::posterior::LowRank;
use serde::Serialize;

use super::bar;
use crate::args::{Args, Compress, RankChoice, WriteAs};
use crate::exit::Failure;
use crate::table::{Table, grouped, print_json, print_line};

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    out: String,
    convention: String,
    method: Method,
    rank: usize,
    /// KL(compressed ‖ trained), in nats.
    kl_between: f64,
    /// Standard deviations before, and the numbers that stand for them now.
    numbers: [usize; 2],
    bytes: [u64; 2],
    weights: Vec<LayerFit>,
    /// Weights with nothing to tie: vectors, and matrices of one row or column.
    untouched: Vec<String>,
}

/// Whether the path names a file of tensors and not the folder of a run.
pub(super) fn is_file(path: &Path) -> bool {
    !path.is_dir() && Container::of(path).is_ok()
}

pub(super) fn run(arguments: &Compress, args: &Args) -> Result<(), Failure> {
    let rank = checked(arguments)?;
    let convention = convention(arguments)?;
    let file = Foreign::read(&arguments.source).map_err(ktied::Error::from)?;
    let pairs = file.pairs(&convention).map_err(ktied::Error::from)?;
    let (tied, untouched): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| sizes(pair).is_some());
    for (pair, (rows, cols)) in tied.iter().filter_map(|pair| Some((pair, sizes(pair)?))) {
        arguments.method.posterior(rank).check(pair.name(), rows, cols)?;
    }
    let bar = bar(args, tied.len());
    let mut weights = Vec::new();
    let written = file.rewritten(&convention, |pair| {
        let Some((rows, cols)) = sizes(pair) else { return Ok(None) };
        let scale = Matrix::new(rows, cols, pair.scale())?.map(|sigma| sigma.max(LowRank::FLOOR));
        let (scale, fit) = smaller(pair.name(), &scale, rank, arguments.method, arguments.write)?;
        bar.set_message(fit.layer.clone());
        bar.inc(1);
        weights.push(fit);
        Ok::<_, ktied::Error>(Some(scale))
    });
    bar.finish_and_clear();
    written?.write(&arguments.out).map_err(ktied::Error::from)?;
    let per_weight = |fit: &LayerFit| match arguments.write {
        WriteAs::Factors => fit.rank * (fit.rows + fit.cols),
        WriteAs::Same => fit.rows * fit.cols,
    };
    let report = Report {
        file: arguments.source.display().to_string(),
        out: arguments.out.display().to_string(),
        convention: convention.to_string(),
        method: arguments.method,
        rank,
        kl_between: weights.iter().map(|fit| fit.kl).sum(),
        numbers: [weights.iter().map(|fit| fit.rows * fit.cols).sum(), weights.iter().map(per_weight).sum()],
        bytes: [length(&arguments.source), length(&arguments.out)],
        untouched: untouched.iter().map(|pair| pair.name().into()).collect(),
        weights,
    };
    if args.json { print_json(&report) } else { print(&report) }
}

/// The rank, if the arguments are those of a file.
fn checked(arguments: &Compress) -> Result<usize, Failure> {
    let usage = |sentence: &str| Err(Failure::Usage(sentence.into()));
    if arguments.finetune_epochs.is_some() {
        return usage("--finetune-epochs: a file of tensors has no data to train on; give a run");
    }
    if arguments.out.exists() {
        return Err(Failure::Usage(format!("--out {}: there is a file of this name already", arguments.out.display())));
    }
    Container::of(&arguments.out).map_err(ktied::Error::from)?;
    match arguments.rank {
        RankChoice::Rank(rank) => Ok(rank),
        RankChoice::Auto => usage("--rank auto: a file of tensors has no data to judge by; give a number"),
    }
}

/// The names of `--names`: those of a library, or patterns.
fn convention(arguments: &Compress) -> Result<Convention, Failure> {
    let presets = Convention::PRESETS.join(", ");
    let convention = match &arguments.names[..] {
        [] => {
            let sentence = format!(
                "--names: say how the file names its tensors: {presets}, or a pattern such as {{}}.mu,{{}}.rho:softplus"
            );
            return Err(Failure::Usage(sentence));
        }
        [name] if !name.contains("{}") => Convention::preset(name),
        patterns => {
            let patterns = patterns.iter().map(|pattern| pattern.parse()).collect::<Result<_, _>>();
            patterns.and_then(|patterns| Convention::new(patterns, arguments.outputs))
        }
    };
    Ok(convention.map_err(ktied::Error::from)?)
}

/// Rows and columns, if there is something to tie.
fn sizes(pair: &Pair) -> Option<(usize, usize)> {
    pair.matrix().filter(|(rows, cols)| rows.min(cols) > &1)
}

/// What takes the place of a scale, and how far it is from it.
fn smaller(
    name: &str,
    scale: &Matrix,
    rank: usize,
    method: Method,
    write: WriteAs,
) -> ktied::Result<(NewScale, LayerFit)> {
    let svd = SvdFit::new(scale, rank)?;
    let positive = match method {
        Method::Positive => Some(PositiveFit::new(scale, rank)?),
        Method::Svd => None,
    };
    let (u, v) = positive.as_ref().map_or((&svd.u, &svd.v), |fit| (&fit.u, &fit.v));
    let new = match (write, method) {
        (WriteAs::Same, _) => {
            NewScale::Scale(u.times_transposed(v)?.map(|sigma| sigma.max(LowRank::FLOOR)).values().to_vec())
        }
        (WriteAs::Factors, Method::Svd) => {
            NewScale::Factors(Factors::Signed { rank, u: u.values().to_vec(), v: v.values().to_vec() })
        }
        (WriteAs::Factors, Method::Positive) => {
            let [log_u, log_v] = [u, v].map(|side| side.map(f64::ln).values().to_vec());
            NewScale::Factors(Factors::Positive { rank, log_u, log_v })
        }
    };
    let fit = LayerFit {
        layer: name.into(),
        rows: scale.rows(),
        cols: scale.cols(),
        rank,
        kl: positive.as_ref().map_or(svd.kl, |fit| fit.kl),
        kl_of_svd: svd.kl,
        clamped: svd.clamped,
        sweeps: positive.map_or_else(Vec::new, |fit| fit.sweeps),
    };
    Ok((new, fit))
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn print(report: &Report) -> Result<(), Failure> {
    super::table_of(&report.weights, report.method).print()?;
    print_line("")?;
    let mut table = Table::new(&["", "before", "after"]);
    table.row(vec!["numbers for σ".into(), grouped(report.numbers[0]), grouped(report.numbers[1])]);
    table.row(vec!["bytes of the file".into(), grouped(report.bytes[0] as usize), grouped(report.bytes[1] as usize)]);
    table.print()?;
    print_line("")?;
    if !report.untouched.is_empty() {
        print_line(&format!("Left as they were, having nothing to tie: {}.", report.untouched.join(", ")))?;
    }
    print_line(&format!(
        "{} by {} at rank {} ({}): KL between the two posteriors {:.2} nats. Written to {}.",
        report.file, report.method, report.rank, report.convention, report.kl_between, report.out
    ))
}
