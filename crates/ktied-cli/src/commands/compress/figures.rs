//! The figures of a run before and after it was made smaller.

use ktied::data::{DataSet, Split};
use ktied::evaluate::{Estimate, Evaluation};
use ktied::train::Trainer;
use serde::Serialize;

use super::super::evaluate::progress;
use super::super::train::parameters;
use crate::args::Args;
use crate::exit::Failure;
use crate::table::{Table, grouped};

/// What a run costs and what it is worth.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) posterior: String,
    pub(crate) parameters: usize,
    /// Of the weights on disk.
    pub(crate) bytes: u64,
    #[serde(skip)]
    pub(crate) num_train: usize,
    #[serde(flatten)]
    pub(crate) metrics: Evaluation,
}

/// The examples to judge by: the test set, or what there is in its stead.
pub(crate) fn split_of(data: &DataSet) -> &Split {
    [&data.test, &data.validation].into_iter().find(|split| !split.is_empty()).unwrap_or(&data.train)
}

impl Figures {
    /// Judges a run on the test set.
    pub(crate) fn of(
        trainer: &Trainer,
        data: &DataSet,
        samples: u64,
        bytes: u64,
        args: &Args,
    ) -> Result<Self, Failure> {
        let split = split_of(data);
        let bar = progress(args, split, samples);
        let metrics = trainer.evaluate(split, samples, |done| bar.set_position(done));
        bar.finish_and_clear();
        Ok(Self {
            posterior: trainer.config().posterior.kind.to_string(),
            parameters: parameters(trainer.config())?,
            bytes,
            num_train: data.train.len(),
            metrics: metrics?,
        })
    }
}

/// The figures side by side.
pub(crate) fn print(before: &Figures, after: &Figures, finetuned: Option<&Figures>) -> Result<(), Failure> {
    let all: Vec<&Figures> = [before, after].into_iter().chain(finetuned).collect();
    let headings = ["", "trained", "made smaller", "trained on"];
    let mut table = Table::new(&headings[..=all.len()]);
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(all.iter().map(|figures| cell(figures))).collect());
    };
    row("posterior", &|figures| figures.posterior.clone());
    row("parameters", &|figures| grouped(figures.parameters));
    row("bytes of weights", &|figures| grouped(figures.bytes as usize));
    row("−ELBO", &|figures| estimate(Some(figures.metrics.neg_elbo)));
    row("NLL", &|figures| estimate(Some(figures.metrics.nll)));
    /// A metric that not every likelihood has.
    type Optional = fn(&Evaluation) -> Option<Estimate>;
    let optional: [(&str, Optional); 3] = [("accuracy", |m| m.accuracy), ("ECE", |m| m.ece), ("RMSE", |m| m.rmse)];
    for (name, of) in optional {
        if of(&before.metrics).is_some() {
            row(name, &|figures| estimate(of(&figures.metrics)));
        }
    }
    table.print()
}

fn estimate(estimate: Option<Estimate>) -> String {
    match estimate {
        Some(Estimate { value, sem_examples: Some(error), .. }) => format!("{value:.4} ± {error:.4}"),
        Some(Estimate { value, .. }) => format!("{value:.4}"),
        None => "–".into(),
    }
}
