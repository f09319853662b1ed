//! The page: its head with the policy that forbids every request, its sections in order, and the data of its plots.

use serde_json::{Value, json};

use super::html::{Html, json_in_html, short};
use super::plot::Plot;
use super::style::{SCRIPT, policy, style};
use super::{RunView, calibration, curves, examples, inside, notes, settings, table};
use crate::picture::series_colour;

/// A page, and the plots on it.
pub(crate) struct Page {
    pub(crate) html: String,
    pub(crate) plots: Vec<Plot>,
}

/// Bytes that the lines of all plots may take, about, and the fewest columns that a line is thinned to for it.
const LINES: usize = 550_000;
const LEAST_COLUMNS: usize = 24;

/// The groups of plots, in the order of the page.
struct Plots {
    convergence: Vec<Plot>,
    snr: Vec<Plot>,
    scales: Vec<Plot>,
    spectra: Vec<Plot>,
    reliability: Vec<Plot>,
    risk: Vec<Plot>,
}

impl Plots {
    fn of(runs: &[RunView]) -> Self {
        Self {
            convergence: curves::convergence(runs),
            snr: curves::gradient_snr(runs),
            scales: curves::scales(runs),
            spectra: inside::spectra(runs),
            reliability: calibration::reliability(runs),
            risk: calibration::risk_coverage(runs).into_iter().collect(),
        }
    }

    fn groups(&mut self) -> [&mut Vec<Plot>; 6] {
        let Self { convergence, snr, scales, spectra, reliability, risk } = self;
        [convergence, snr, scales, spectra, reliability, risk]
    }

    /// The same with lines so much coarser that all plots together fit on the page.
    fn fitted(mut self) -> Self {
        let bytes: usize = self.groups().into_iter().flatten().map(|plot| plot.bytes()).sum();
        let share = LINES as f64 / bytes.max(1) as f64;
        if share < 1.0 {
            for plot in self.groups().into_iter().flatten() {
                plot.columns = ((plot.columns as f64 * share) as usize).max(LEAST_COLUMNS);
            }
        }
        self
    }

    fn all(self) -> Vec<Plot> {
        let Self { convergence, snr, scales, spectra, reliability, risk } = self;
        [convergence, snr, scales, spectra, reliability, risk].into_iter().flatten().collect()
    }
}

/// The sections: where they are, what they are called.
const SECTIONS: [(&str, &str); 9] = [
    ("comparison-of-runs", "Comparison"),
    ("convergence", "Convergence"),
    ("gradients", "Signal in the gradients"),
    ("sigma", "Standard deviations over training"),
    ("spectra", "Spectra by layer"),
    ("maps", "Standard deviations and their low ranks"),
    ("calibration", "Calibration"),
    ("certainty", "Most and least certain"),
    ("settings", "How to repeat it"),
];

/// Makes the page of some runs.
pub(crate) fn page(runs: &[RunView]) -> Page {
    let (plots, style) = (Plots::of(runs).fitted(), style());
    let names: Vec<String> = runs.iter().map(|run| short(&run.name)).collect();
    let mut html = Html::default();
    html.trusted("<!DOCTYPE html>\n");
    html.open("html", &[("lang", "en")]);
    html.around("head", &[], |html| head(html, &names, &style));
    html.around("body", &[], |html| {
        html.words("a", &[("class", "skip"), ("href", "#comparison-of-runs")], "Skip to the comparison");
        html.around("header", &[], |html| header(html, runs, &names));
        html.around("main", &[], |html| sections(html, runs, &plots));
        html.around("footer", &[], |html| {
            let by = format!("Made by ktied {}. This page asks nothing of the network.", env!("CARGO_PKG_VERSION"));
            html.words("p", &[], &by);
        });
    });
    let plots = plots.all();
    let data = plots.iter().map(|plot| (plot.id.clone(), plot.data())).collect::<serde_json::Map<String, Value>>();
    let data = json!({ "runs": names, "plots": data });
    html.trusted("<script type=\"application/json\" id=\"data\">");
    html.trusted(&json_in_html(&data));
    html.trusted("</script>\n<script>");
    html.trusted(SCRIPT);
    html.trusted("</script>\n");
    Page { html: html.finish(), plots }
}

fn head(html: &mut Html, names: &[String], style: &str) {
    html.trusted("<meta charset=\"utf-8\">\n");
    html.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy(style))]);
    html.open("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    html.open("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    html.open("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    html.words("title", &[], &format!("ktied: {}", names.join(", ")));
    html.trusted("<style>");
    html.trusted(style);
    html.trusted("</style>\n");
}

/// The title, the way to each section, and a box for each run.
fn header(html: &mut Html, runs: &[RunView], names: &[String]) {
    let title = match names {
        [_] => "A posterior, explained".into(),
        several => format!("{} posteriors, compared", several.len()),
    };
    html.words("h1", &[], &title);
    html.around("nav", &[("aria-label", "Sections")], |html| {
        html.around("ul", &[], |html| {
            for (id, name) in SECTIONS {
                html.around("li", &[], |html| html.words("a", &[("href", &format!("#{id}"))], name));
            }
        });
    });
    html.around("fieldset", &[("class", "runs")], |html| {
        html.words("legend", &[], "Runs shown");
        for run in runs {
            let id = format!("show-run-{}", run.index);
            html.around("label", &[("for", id.as_str())], |html| {
                let tag = format!("run-{}", run.index);
                let box_of = [("type", "checkbox"), ("id", id.as_str()), ("checked", ""), ("data-shows", tag.as_str())];
                html.open("input", &box_of);
                swatch(html, run.index);
                html.name(&run.name);
            });
        }
    });
}

/// The colour of a run.
pub(super) fn swatch(html: &mut Html, run: usize) {
    let colour = series_colour(run);
    html.trusted(&format!(
        "<svg class=\"swatch\" viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" rx=\"2\" \
         fill=\"{colour}\"/></svg> "
    ));
}

/// What belongs to one run, and can be folded away.
pub(super) fn folded(html: &mut Html, run: &RunView, is_open: bool, inside: impl FnOnce(&mut Html)) {
    let tag = format!("run-{}", run.index);
    let attributes = [("data-tag", tag.as_str()), ("open", "")];
    html.around("details", if is_open { &attributes } else { &attributes[..1] }, |html| {
        html.around("summary", &[], |html| {
            swatch(html, run.index);
            html.name(&run.name);
        });
        inside(html);
    });
}

fn sections(html: &mut Html, runs: &[RunView], plots: &Plots) {
    let mut numbers = SECTIONS.iter();
    let mut section = |html: &mut Html, inside: &dyn Fn(&mut Html)| {
        let Some((id, name)) = numbers.next() else { return };
        html.around("section", &[("id", id), ("aria-label", name)], |html| {
            html.words("h2", &[], name);
            inside(html);
        });
    };
    section(html, &|html| {
        notes::write(html, runs);
        table::write(html, runs);
    });
    section(html, &|html| {
        let points = if runs.iter().any(RunView::is_point) { " A point has no ELBO and no divergence." } else { "" };
        let words = format!(
            "Training values are means over the steps between two lines of the log, under single draws; validation NLL is of \
             the average prediction. Reported −ELBO always has weight 1 on the divergence, whatever annealing puts \
             there.{points}"
        );
        grid(html, &plots.convergence, &words, "No run has a log with losses.");
    });
    section(html, &|html| {
        let words = "E[g²]/Var[g] of the gradients of the parameters of σ over ten batches, the mean over a layer. At 1 there is \
                     noise only; the larger, the faster σ can be learned. Parameters whose gradient hardly changes pull the mean up.";
        grid(html, &plots.snr, words, "No run has measured it: train with --set train.snr=true.");
    });
    section(html, &|html| {
        let shaded = runs.iter().any(|run| curves::annealing(run).is_some());
        let words = match shaded {
            true => {
                "The mean standard deviation of each layer's kernel. Shaded: the weight on the divergence still grows."
            }
            false => "The mean standard deviation of each layer's kernel. No run anneals the weight on the divergence.",
        };
        grid(html, &plots.scales, words, "No run has noted it: train with --set train.validate_every=1.");
    });
    section(html, &|html| {
        let words = "The share of variance that each singular value explains. Where the line of the standard deviations falls \
                     steeply, a few factors are enough: that is what a k-tied posterior rests on.";
        grid(html, &plots.spectra, words, "No run has a checkpoint to look into.");
    });
    section(html, &|html| {
        let words = "A, the matrix of standard deviations of a layer, and its best approximations of rank 1 and 2, on one scale. \
                     Large matrices are averaged to fewer cells.";
        html.words("p", &[], words);
        if runs.iter().all(|run| run.layers.iter().all(|layer| layer.maps.is_empty())) {
            html.words("p", &[("class", "none")], "No run has standard deviations to show.");
        }
        inside::write_maps(html, runs);
    });
    section(html, &|html| {
        let words = "Bars above the diagonal: a run is less sure than it could be; below: too sure. Risk and coverage: the share \
                     of wrong answers when only the most confident examples are answered.";
        let both: Vec<&Plot> = plots.risk.iter().chain(&plots.reliability).collect();
        write_grid(html, &both, words, "No run was judged on classes.");
    });
    section(html, &|html| {
        if runs.iter().all(|run| run.examples.is_none()) {
            html.words("p", &[("class", "none")], "No example was predicted.");
        }
        examples::write(html, runs);
    });
    section(html, &|html| settings::write(html, runs));
}

fn grid(html: &mut Html, plots: &[Plot], words: &str, otherwise: &str) {
    write_grid(html, &plots.iter().collect::<Vec<_>>(), words, otherwise);
}

/// What the plots show, then the plots that have lines; a sentence if none has.
fn write_grid(html: &mut Html, plots: &[&Plot], words: &str, otherwise: &str) {
    let with_lines: Vec<&&Plot> = plots.iter().filter(|plot| !plot.lines.is_empty()).collect();
    if with_lines.is_empty() {
        html.words("p", &[("class", "none")], otherwise);
        return;
    }
    html.words("p", &[], words);
    html.around("div", &[("class", "plots")], |html| with_lines.iter().for_each(|plot| plot.write(html)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Axis, Mark};
    use crate::report::plot::Line;

    fn plot(id: usize, points: usize) -> Plot {
        let points: Vec<(f64, f64)> = (0..points).map(|i| (i as f64, 1.0 + (i % 97) as f64)).collect();
        let line = |run| Line {
            run,
            run_name: "run".into(),
            what: String::new(),
            mark: Mark::Line,
            dash: 0,
            points: points.clone(),
        };
        let plot =
            Plot::new(format!("p-{id}"), "A plot", Axis::linear("step"), Axis::linear("y"), (0..5).map(line).collect());
        Plot { can_be_log: true, ..plot }
    }

    fn plots(count: usize, points: usize) -> Plots {
        let snr = (0..count).map(|id| plot(id, points)).collect();
        let none = Vec::new;
        Plots { convergence: none(), snr, scales: none(), spectra: none(), reliability: none(), risk: none() }
    }

    #[test]
    fn many_long_lines_become_coarser_until_they_fit() {
        let fitted = plots(40, 5000).fitted();
        let bytes: usize = fitted.snr.iter().map(Plot::bytes).sum();
        assert!(bytes <= LINES, "{bytes}");
        let mut html = Html::default();
        fitted.snr.iter().for_each(|plot| plot.write(&mut html));
        let data: usize = fitted.snr.iter().map(|plot| plot.data().to_string().len()).sum();
        let written = html.finish().len() + data;
        assert!(written < 1_300_000, "{written} bytes, axes and words included");
        assert_eq!(plots(2, 5000).fitted().snr[0].columns, plot(0, 1).columns, "few are left as they are");
    }
}
