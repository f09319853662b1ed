//! What an evaluation found, as a table and as JSON.

use std::collections::BTreeMap;

use ktied::evaluate::{Comparison, Curves, Detection, Difference, Estimate, Evaluation, OutOfDistribution};
use serde::Serialize;

use super::Members;
use crate::args::Evaluate;
use crate::commands::train::parameters;
use crate::exit::Failure;
use crate::table::{Table, grouped, print_line};

/// What is printed, and kept in the run's folder.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The run, or the first of several.
    pub(crate) run: String,
    runs: Vec<String>,
    split: &'static str,
    /// Degrees by which the images were turned first.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotate: Option<f64>,
    step: u64,
    parameters: usize,
    #[serde(flatten)]
    metrics: Evaluation,
    /// Draws that would bring the Monte Carlo error of a metric down to the tolerance.
    draws_needed: DrawsNeeded,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) curves: Option<Curves>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ood: Option<Ood>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Compared>,
}

#[derive(Debug, Serialize)]
struct DrawsNeeded {
    tolerance: f64,
    metrics: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Ood {
    set: String,
    #[serde(flatten)]
    found: OutOfDistribution,
}

#[derive(Debug, Serialize)]
struct Compared {
    with: String,
    #[serde(flatten)]
    differences: Comparison,
}

/// Each metric: its name for machines, its name for people.
fn rows(metrics: &Evaluation) -> Vec<(&'static str, &'static str, Estimate)> {
    let Evaluation { neg_elbo, nll, nll_of_draws, .. } = *metrics;
    let all = [
        ("neg_elbo", "−ELBO", Some(neg_elbo)),
        ("nll", "NLL", Some(nll)),
        ("nll_of_draws", "NLL, mean of draws", Some(nll_of_draws)),
        ("accuracy", "accuracy", metrics.accuracy),
        ("brier", "Brier score − 1", metrics.brier),
        ("brier_usual", "Brier score", metrics.brier_usual),
        ("ece", "ECE", metrics.ece),
        ("adaptive_ece", "adaptive ECE", metrics.adaptive_ece),
        ("entropy", "entropy", metrics.entropy),
        ("expected_entropy", "· of the labels (aleatoric)", metrics.expected_entropy),
        ("mutual_information", "· of the weights (epistemic)", metrics.mutual_information),
        ("aurc", "AURC", metrics.aurc),
        ("rmse", "RMSE", metrics.rmse),
        ("coverage_50", "in the 50 % interval", metrics.coverage_50),
        ("coverage_90", "in the 90 % interval", metrics.coverage_90),
        ("coverage_95", "in the 95 % interval", metrics.coverage_95),
        ("sharpness", "mean predictive sd", metrics.sharpness),
    ];
    all.into_iter().filter_map(|(key, name, estimate)| Some((key, name, estimate?))).collect()
}

impl Report {
    pub(crate) fn new(
        arguments: &Evaluate,
        members: &Members,
        metrics: Evaluation,
        curves: Option<Curves>,
        ood: Option<(String, OutOfDistribution)>,
        comparison: Option<Comparison>,
    ) -> Result<Self, Failure> {
        let runs: Vec<String> = arguments.runs.iter().map(|run| run.display().to_string()).collect();
        let tolerance = arguments.tolerance;
        let needed =
            |(key, _, estimate): (_, _, Estimate)| Some((key, estimate.draws_for(tolerance, metrics.samples)?));
        let draws_needed = DrawsNeeded { tolerance, metrics: rows(&metrics).into_iter().filter_map(needed).collect() };
        let parameters: Result<Vec<usize>, Failure> = members.trainers.iter().map(|t| parameters(t.config())).collect();
        Ok(Self {
            run: runs.first().cloned().unwrap_or_default(),
            runs,
            split: arguments.split.name(),
            rotate: arguments.rotate,
            step: members.trainers.first().map_or(0, |trainer| trainer.state().step),
            parameters: parameters?.into_iter().sum(),
            metrics,
            draws_needed,
            curves,
            ood: ood.map(|(set, found)| Ood { set, found }),
            comparison: comparison
                .zip(arguments.compare.as_ref())
                .map(|(differences, run)| Compared { with: run.display().to_string(), differences }),
        })
    }

    pub(crate) fn print(&self) -> Result<(), Failure> {
        let draws = format!("draws for ± {}", self.draws_needed.tolerance);
        let mut table = Table::new(&["metric", "value", "± over examples", "± over draws", &draws]);
        let error = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.4}"));
        for (key, name, Estimate { value, sem_examples, sem_draws }) in rows(&self.metrics) {
            let needed = self.draws_needed.metrics.get(key);
            let needed = needed.map_or("–".into(), |draws| grouped(*draws as usize));
            table.row(vec![name.into(), format!("{value:.4}"), error(sem_examples), error(sem_draws), needed]);
        }
        table.print()?;
        if let Some(ood) = &self.ood {
            ood.print()?;
        }
        if let Some(comparison) = &self.comparison {
            comparison.print()?;
        }
        print_line("")?;
        let of = match self.runs.len() {
            1 => format!("{} at step {}", self.run, self.step),
            members => format!("The ensemble of {members} runs"),
        };
        print_line(&format!(
            "{of}: {} {} examples{}, {} draws, KL/N {:.4}, {} parameters.",
            grouped(self.metrics.examples as usize),
            self.split,
            self.rotate.map_or(String::new(), |degrees| format!(", turned by {degrees}°")),
            self.metrics.samples,
            self.metrics.kl_per_example,
            grouped(self.parameters),
        ))
    }
}

impl Ood {
    fn print(&self) -> Result<(), Failure> {
        print_line("")?;
        let mut table = Table::new(&["told apart by", "AUROC", "AUPR", "FPR at 95 %"]);
        let OutOfDistribution { entropy, mutual_information, inside, outside } = &self.found;
        for (name, Detection { auroc, aupr, fpr95 }) in
            [("entropy", entropy), ("mutual information", mutual_information)]
        {
            table.row([name.into()].into_iter().chain([auroc, aupr, fpr95].map(|x| format!("{x:.4}"))).collect());
        }
        table.print()?;
        let (set, inside, outside) = (&self.set, grouped(*inside as usize), grouped(*outside as usize));
        print_line(&format!("{outside} examples of {set} against these {inside}."))
    }
}

impl Compared {
    fn print(&self) -> Result<(), Failure> {
        print_line("")?;
        let mut table = Table::new(&["difference", "mean", "±", "z", "p"]);
        let Comparison { neg_elbo, nll, accuracy, brier, squared_error, .. } = self.differences;
        let rows = [
            ("−ELBO", Some(neg_elbo)),
            ("NLL", Some(nll)),
            ("accuracy", accuracy),
            ("Brier score", brier),
            ("squared error", squared_error),
        ];
        let number =
            |value: Option<f64>, digits: usize| value.map_or("–".into(), |value| format!("{value:.digits$}"));
        for (name, Difference { mean, sem, z, p_value }) in rows.into_iter().filter_map(|(name, d)| Some((name, d?))) {
            let cells = [format!("{mean:+.4}"), number(sem, 4), number(z, 2), number(p_value, 4)];
            table.row([name.into()].into_iter().chain(cells).collect());
        }
        table.print()?;
        print_line(&format!("This run less {}, paired over examples; negative is better, but for accuracy.", self.with))
    }
}
