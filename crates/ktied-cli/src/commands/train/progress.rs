//! What a person sees of a run: a bar for each epoch on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ktied::evaluate::Evaluation;
use ktied::train::{StepReport, Trainer, Watch};

use crate::args::Args;
use crate::table::say_line;

/// Without a terminal, a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How much of the running mean a step replaces.
const SMOOTHING: f64 = 0.05;

/// Shows a run.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
    quiet: bool,
    begin: Instant,
    first_step: u64,
    last_line: Instant,
    nll: Option<f64>,
    accuracy: Option<f64>,
    validation: Option<f64>,
}

impl Progress {
    pub(crate) fn new(args: &Args, trainer: &Trainer) -> Self {
        let bar =
            if args.shows_progress() { ProgressBar::new(trainer.steps_per_epoch()) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {bar:24.cyan/dim} {pos}/{len}  {wide_msg}");
        bar.set_style(style.unwrap_or(ProgressStyle::default_bar()).progress_chars("━╸─"));
        Self {
            bar,
            lines: !args.quiet && !args.shows_progress(),
            quiet: args.quiet,
            begin: Instant::now(),
            first_step: trainer.state().step,
            last_line: Instant::now(),
            nll: None,
            accuracy: None,
            validation: None,
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self, trainer: &Trainer, report: &StepReport) -> String {
        let per_second = (report.step - self.first_step) as f64 / self.begin.elapsed().as_secs_f64().max(1e-9);
        let left = trainer.num_steps().saturating_sub(report.step) as f64 / per_second.max(1e-9);
        let (nll, kl) = (self.nll.unwrap_or(f64::NAN), report.terms.kl_per_example);
        let accuracy = self.accuracy.map_or(String::new(), |share| format!("  accuracy {:.1} %", 100.0 * share));
        let validation = self.validation.map_or(String::new(), |value| format!("  validation {value:.4}"));
        format!(
            "NLL {nll:.4}  KL/N {kl:.4}  −ELBO {:.4}{accuracy}{validation}  {per_second:.1} steps/s  {} left",
            nll + kl,
            duration(left)
        )
    }
}

impl Watch for Progress {
    fn step(&mut self, trainer: &Trainer, report: &StepReport) {
        if self.quiet || report.left_out.is_some() {
            return;
        }
        let smooth = |mean: Option<f64>, now: f64| Some(mean.map_or(now, |mean| mean + SMOOTHING * (now - mean)));
        self.nll = smooth(self.nll, report.terms.nll);
        if let Some(correct) = report.correct {
            self.accuracy = smooth(self.accuracy, correct as f64 / report.examples.max(1) as f64);
        }
        let per_epoch = trainer.steps_per_epoch().max(1);
        let epoch = report.step.div_ceil(per_epoch);
        let num_epochs = trainer.num_steps().div_ceil(per_epoch);
        if self.lines {
            if self.last_line.elapsed() >= LINE_EVERY || report.step == trainer.num_steps() {
                self.last_line = Instant::now();
                let message = self.message(trainer, report);
                say_line(&format!("step {}  epoch {epoch}/{num_epochs}  {message}", report.step));
            }
            return;
        }
        self.bar.set_prefix(format!("epoch {epoch}/{num_epochs}"));
        self.bar.set_position((report.step - 1) % per_epoch + 1);
        self.bar.set_message(self.message(trainer, report));
    }

    fn validation(&mut self, trainer: &Trainer, metrics: &Evaluation, best: bool) {
        let neg_elbo = metrics.neg_elbo.value;
        self.validation = Some(neg_elbo);
        if self.lines && self.last_line.elapsed() >= LINE_EVERY {
            let best = if best { ", the best so far" } else { "" };
            say_line(&format!("step {}  validation −ELBO {neg_elbo:.4}{best}", trainer.state().step));
        }
    }

    fn checkpoint(&mut self, _: u64) {}
}

/// 75 → `1:15`, 4000 → `1:06:40`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds > 1e8 {
        return "–".into();
    }
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_a_clock() {
        assert_eq!([0.4, 75.0, 4000.0].map(duration), ["0:00", "1:15", "1:06:40"]);
        assert_eq!(duration(f64::INFINITY), "–");
    }
}
