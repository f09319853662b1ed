//! What a person sees: one bar for everything, one for each run that is being trained, or plain lines.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use ktied::evaluate::Evaluation;
use ktied::train::{StepReport, Trainer, Watch};

use crate::args::Args;
use crate::commands::train::duration;
use crate::table::say_line;

/// Without a terminal, a line of a run at most this often.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// The whole of it.
pub(super) struct View {
    bars: MultiProgress,
    runs: ProgressBar,
    is_shown: bool,
    has_lines: bool,
}

impl View {
    pub(super) fn new(num_runs: usize, args: &Args) -> Self {
        let (is_shown, bars) = (args.shows_progress(), MultiProgress::new());
        let runs = if is_shown { bars.add(ProgressBar::new(num_runs as u64)) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30.cyan/dim} {pos}/{len} runs trained  {elapsed} so far");
        runs.set_style(style.unwrap_or(ProgressStyle::default_bar()).progress_chars("━╸─"));
        runs.enable_steady_tick(Duration::from_secs(1));
        Self { bars, runs, is_shown, has_lines: !args.quiet && !is_shown }
    }

    /// A line that stays.
    pub(super) fn say(&self, line: &str) {
        if self.is_shown {
            // A terminal that cannot be written to is no reason to stop.
            let _ = self.bars.println(line);
        } else if self.has_lines {
            say_line(line);
        }
    }

    /// A run's bar.
    pub(super) fn bar(&self, name: &str, len: u64) -> ProgressBar {
        let bar = if self.is_shown { self.bars.add(ProgressBar::new(len)) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30.green/dim} {percent:>3} %  {prefix}  {msg}");
        bar.set_style(style.unwrap_or(ProgressStyle::default_bar()).progress_chars("━╸─"));
        bar.set_prefix(name.to_owned());
        bar
    }

    /// A run is trained.
    pub(super) fn trained(&self, bar: &ProgressBar) {
        bar.finish_and_clear();
        self.runs.inc(1);
    }

    /// Whoever watches a run.
    pub(super) fn training(&self, name: &str, trainer: &Trainer) -> Training<'_> {
        let bar = self.bar(name, trainer.num_steps());
        let (begin, first) = (Instant::now(), trainer.state().step);
        self.say(&match first {
            0 => format!("{name}: {} steps", trainer.num_steps()),
            first => format!("{name}: going on after step {first} of {}", trainer.num_steps()),
        });
        Training { view: self, bar, name: name.into(), begin, first, last_line: begin }
    }

    pub(super) fn finish(&self) {
        self.runs.finish_and_clear();
    }
}

/// Moves a run's bar.
pub(super) struct Training<'a> {
    view: &'a View,
    bar: ProgressBar,
    name: String,
    begin: Instant,
    first: u64,
    last_line: Instant,
}

impl Training<'_> {
    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.view.trained(&self.bar);
    }
}

impl Watch for Training<'_> {
    fn step(&mut self, trainer: &Trainer, report: &StepReport) {
        if !report.step.is_multiple_of(10) && report.step != trainer.num_steps() {
            return;
        }
        let per_second = (report.step - self.first) as f64 / self.begin.elapsed().as_secs_f64().max(1e-9);
        let left = trainer.num_steps().saturating_sub(report.step) as f64 / per_second.max(1e-9);
        let neg_elbo = report.terms.nll + report.terms.kl_per_example;
        let message = format!("−ELBO {neg_elbo:.3}  {per_second:.1} steps/s  {} left", duration(left));
        if self.view.has_lines && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            say_line(&format!("{}: step {} of {}, {message}", self.name, report.step, trainer.num_steps()));
        }
        self.bar.set_position(report.step);
        self.bar.set_message(message);
    }

    fn validation(&mut self, _: &Trainer, _: &Evaluation, _: bool) {}
    fn checkpoint(&mut self, _: u64) {}
}
