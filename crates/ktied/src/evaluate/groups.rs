//! Sums of predictions over groups of draws, for the examples of some batches.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::average::{Average, LogLikelihoods};
use super::plan::Plan;
use super::predictive::{Predictive, Truth, all_finite, check_shape, read_into};
use crate::error::Result;

/// Examples that are worth a thread's while.
const MIN_ROWS: usize = 32;

/// What the draws of one group say of each example of a batch.
#[derive(Debug, Default)]
pub struct Group {
    num_draws: u64,
    /// Numbers of a prediction.
    width: usize,
    /// `[B]`
    rows: Vec<Row>,
    /// Sums of predictions, `[B, width]`.
    predictions: Vec<f64>,
    /// Means only: Σ (mean − their mean)² and Σ Φ of what was observed, both `[B, width]`.
    squares: Vec<f64>,
    cdfs: Vec<f64>,
    /// Means only: Σ s², `[width]`.
    noise: Vec<f64>,
}

/// Sums over draws of what is one number an example.
#[derive(Clone, Copy, Debug)]
struct Row {
    log_likelihoods: LogLikelihoods,
    /// Of the last draw.
    log_likelihood: f64,
    /// Classes only: Σ H.
    entropy: f64,
}

/// Which output is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose,
    pub member: usize,
    /// under which draw,
    pub draw: u64,
    /// for which batch,
    pub batch: usize,
    /// whose first example has this number.
    pub first: u64,
}

/// The sums of every group of a plan's draws for each of some batches, `[batch][group]`, where `output` gives what is
/// wanted, `[B, N]`: for every draw of every member all batches in turn, so that they may share it.
///
/// # Errors
/// What `output` says, or if it does not fit the truth or is not finite.
pub fn groups(
    members: &[Predictive],
    truths: &[Truth<'_>],
    plan: &Plan,
    mut output: impl FnMut(Wanted) -> Result<Tensor<2>>,
) -> Result<Vec<Vec<Group>>> {
    let (mut width, mut scratch) = (None, Scratch::default());
    let mut sums: Vec<Vec<Group>> = truths.iter().map(|_| vec![]).collect();
    for draws in plan.groups() {
        sums.iter_mut().zip(truths).for_each(|(groups, truth)| groups.push(Group::new(truth.len())));
        for (member, draw) in draws {
            let predictive = &members[member];
            for ((batch, truth), groups) in truths.iter().enumerate().zip(&mut sums) {
                let Some(group) = groups.last_mut() else { continue };
                let output = output(Wanted { member, draw, batch, first: truth.first })?;
                let found = predictive.width(truth, output.dims())?;
                // Members of other numbers of classes have no average.
                group.width = *width.get_or_insert(found);
                check_shape("prediction", [truth.len(), found], [truth.len(), group.width])?;
                let name = Name { member: (members.len() > 1).then_some(member), draw, first: truth.first };
                group.add(predictive, truth, output, &name, &mut scratch)?;
            }
        }
    }
    Ok(sums)
}

/// Names an example of a draw in messages.
struct Name {
    member: Option<usize>,
    draw: u64,
    first: u64,
}

impl Name {
    fn of(&self, row: usize) -> String {
        let member = self.member.map_or(String::new(), |member| format!(" of member {member}"));
        format!("of example {} in draw {}{member}", self.first + row as u64, self.draw)
    }
}

/// What is needed of one draw only, kept for the next.
#[derive(Default)]
struct Scratch {
    /// `[B, N]`
    output: Vec<f64>,
    /// Classes only, `[B, width]`.
    predictions: Vec<f64>,
}

impl Group {
    fn new(rows: usize) -> Self {
        let row = Row { log_likelihoods: LogLikelihoods::NONE, log_likelihood: 0.0, entropy: 0.0 };
        Self { rows: vec![row; rows], ..Self::default() }
    }

    fn add(
        &mut self,
        predictive: &Predictive,
        truth: &Truth<'_>,
        output: Tensor<2>,
        name: &Name,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let [rows, outputs] = output.dims();
        read_into(output, &mut scratch.output);
        all_finite(scratch.output.iter().copied(), |i| format!("output {} {}", i % outputs, name.of(i / outputs)))?;
        self.num_draws += 1;
        self.predictions.resize(rows * self.width, 0.0);
        match predictive {
            Predictive::Classes(_) => self.add_classes(predictive, truth, outputs, scratch),
            Predictive::Gaussian(..) => self.add_means(predictive, truth, &scratch.output),
        }
        let log_likelihoods = self.rows.iter().map(|row| row.log_likelihood);
        all_finite(log_likelihoods, |row| format!("the log-likelihood {}", name.of(row)))
    }

    fn add_classes(&mut self, predictive: &Predictive, truth: &Truth<'_>, outputs: usize, scratch: &mut Scratch) {
        let width = self.width.max(1);
        scratch.predictions.resize(self.predictions.len(), 0.0);
        let rows = self.rows.par_iter_mut().zip(self.predictions.par_chunks_mut(width));
        let rows = rows.zip(scratch.output.par_chunks(outputs.max(1))).zip(scratch.predictions.par_chunks_mut(width));
        rows.enumerate().with_min_len(MIN_ROWS).for_each(|(number, (((row, sums), output), prediction))| {
            let (log_likelihood, entropy) = predictive.probabilities(output, truth.target(number), prediction);
            row.take_in(log_likelihood);
            row.entropy += entropy;
            sums.iter_mut().zip(prediction.iter()).for_each(|(sum, p)| *sum += p);
        });
    }

    fn add_means(&mut self, predictive: &Predictive, truth: &Truth<'_>, output: &[f64]) {
        let (width, count) = (self.width, self.num_draws as f64);
        [&mut self.squares, &mut self.cdfs].into_iter().for_each(|sums| sums.resize(output.len(), 0.0));
        self.noise.resize(width, 0.0);
        self.noise.iter_mut().zip(predictive.log_noise()).for_each(|(sum, log_noise)| *sum += (2.0 * log_noise).exp());
        let chunks = |sums| <[f64]>::par_chunks_mut(sums, width.max(1));
        let sums = chunks(&mut self.predictions).zip(chunks(&mut self.squares)).zip(chunks(&mut self.cdfs));
        let rows = self.rows.par_iter_mut().zip(sums).zip(output.par_chunks(width.max(1)));
        rows.enumerate().with_min_len(MIN_ROWS).for_each(|(number, ((row, ((sums, squares), cdfs)), output))| {
            row.take_in(predictive.density(output, truth.target(number), cdfs));
            for ((sum, square), mean) in sums.iter_mut().zip(squares).zip(output) {
                *sum += mean;
                if count > 1.0 {
                    *square += (count * mean - *sum).powi(2) / (count * (count - 1.0));
                }
            }
        });
    }

    /// Adds this group's sums for one example to an average that is being made.
    fn add_to(&self, average: &mut Average, row: usize) {
        let of = |sums| <[f64]>::get(sums, row * self.width..(row + 1) * self.width).unwrap_or_default();
        let Row { log_likelihoods, entropy, .. } = self.rows[row];
        average.add_spread(of(&self.predictions), of(&self.squares), &self.noise, self.num_draws);
        average.add(of(&self.predictions), of(&self.cdfs), entropy, log_likelihoods, self.num_draws);
    }
}

impl Row {
    fn take_in(&mut self, log_likelihood: f64) {
        self.log_likelihood = log_likelihood;
        self.log_likelihoods = self.log_likelihoods.and(LogLikelihoods::of(log_likelihood));
    }
}

/// The average over all groups, or all but one, of what they say of one example.
///
/// The rest is added up rather than subtracted from the sum of all, which would leave nothing but rounding where the
/// group left out held nearly all of it.
pub fn average(groups: &[Group], row: usize, without: Option<usize>) -> Average {
    let mut average = Average::default();
    let rest = groups.iter().enumerate().filter(|(number, _)| Some(*number) != without);
    rest.for_each(|(_, group)| group.add_to(&mut average, row));
    average.divided()
}
