//! The comparison of runs: parameters, metrics with their errors, time, and which is best.

use serde_json::{Value, json};

use super::html::Html;
use super::{Measured, RunView};
use crate::csv::Csv;
use crate::table::grouped;

/// A metric: its key in an evaluation, its heading, what it is, and whether more is better.
struct Metric {
    key: &'static str,
    heading: &'static str,
    meaning: &'static str,
    more_is_better: bool,
}

const METRICS: [Metric; 6] = [
    metric(
        "neg_elbo",
        "−ELBO",
        "the bound that training minimises: mean NLL of draws + KL/N, in nats an example",
        false,
    ),
    metric("nll", "NLL", "−ln p(label) of the average prediction, in nats an example", false),
    metric("accuracy", "accuracy", "share of examples classified rightly", true),
    metric("brier_usual", "Brier", "Σ (p − truth)² over classes; 0 is perfect", false),
    metric("ece", "ECE", "expected calibration error: how far confidence is from accuracy", false),
    metric("rmse", "RMSE", "root of the mean squared error, in the units of the data", false),
];

const fn metric(key: &'static str, heading: &'static str, meaning: &'static str, more_is_better: bool) -> Metric {
    Metric { key, heading, meaning, more_is_better }
}

/// A metric of a run; a point's −ELBO would be its NLL, so it has none.
fn measured(run: &RunView, metric: &Metric) -> Option<Measured> {
    let judged = run.judged.as_ref().filter(|_| metric.key != "neg_elbo" || !run.is_point())?;
    judged.metric(metric.key)
}

/// Only runs that were judged on the same examples can be better than another.
fn judged_on(run: &RunView) -> Option<(&str, Option<&str>, &'static str)> {
    let digest = run.checkpoint.as_ref().map(|checkpoint| checkpoint.data_digest.as_str());
    Some((&run.config.data.set, digest, run.judged.as_ref()?.split))
}

/// Whether no other run that can be compared has a better value, and there is one with a worse.
fn is_best(run: &RunView, runs: &[RunView], metric: &Metric) -> bool {
    let Some(own) = measured(run, metric).map(|own| own.value).filter(|own| own.is_finite()) else { return false };
    let others = runs.iter().filter(|other| other.index != run.index && judged_on(other) == judged_on(run));
    let values: Vec<f64> = others.filter_map(|other| measured(other, metric)).map(|other| other.value).collect();
    let beats = |other: &f64| if metric.more_is_better { own > *other } else { own < *other };
    let finite = values.iter().filter(|value| value.is_finite());
    values.iter().any(beats) && finite.clone().all(|value| beats(value) || *value == own)
}

/// The section with the table.
pub(super) fn write(html: &mut Html, runs: &[RunView]) {
    let metrics: Vec<&Metric> =
        METRICS.iter().filter(|metric| runs.iter().any(|run| measured(run, metric).is_some())).collect();
    html.words(
        "p",
        &[],
        "Each metric with its standard error over examples, and smaller the one over draws of the weights. The best of the \
         runs that were judged on the same examples is marked ★; a lead that is smaller than the errors says little.",
    );
    let same_data = runs.windows(2).all(|pair| pair[0].config.data.set == pair[1].config.data.set);
    if same_data && let Some(run) = runs.first() {
        html.around("p", &[], |html| {
            html.text("Data: ");
            html.name(&run.config.data.set);
        });
    }
    let region = [("class", "wide"), ("role", "region"), ("tabindex", "0"), ("aria-label", "Comparison of the runs")];
    html.around("div", &region, |html| {
        html.around("table", &[("id", "comparison")], |html| {
            html.words("caption", &[("class", "unseen")], "The runs with their parameters, metrics and times");
            html.around("thead", &[], |html| html.around("tr", &[], |html| headings(html, &metrics, same_data)));
            html.around("tbody", &[], |html| {
                runs.iter().for_each(|run| html.around("tr", &[], |html| row(html, run, runs, &metrics, same_data)));
            });
        });
    });
    judgements(html, runs);
    html.around("dl", &[("class", "meanings")], |html| {
        for metric in &metrics {
            let better = if metric.more_is_better { "more is better" } else { "less is better" };
            html.words("dt", &[], metric.heading);
            html.words("dd", &[], &format!("{}; {better}", metric.meaning));
        }
    });
}

fn headings(html: &mut Html, metrics: &[&Metric], same_data: bool) {
    let mut heading = |name: &str, class: &str| html.words("th", &[("scope", "col"), ("class", class)], name);
    let words = if same_data { &["run", "posterior"][..] } else { &["run", "data", "posterior"] };
    words.iter().for_each(|name| heading(name, "words"));
    ["parameters", "steps", "time"].into_iter().for_each(|name| heading(name, "number"));
    metrics.iter().for_each(|metric| heading(metric.heading, "number"));
    heading("KL/N", "number");
}

fn row(html: &mut Html, run: &RunView, runs: &[RunView], metrics: &[&Metric], same_data: bool) {
    html.around("th", &[("scope", "row")], |html| {
        super::page::swatch(html, run.index);
        html.name(&run.name);
    });
    if !same_data {
        html.around("td", &[("class", "words")], |html| html.name(&run.config.data.set));
    }
    html.words("td", &[("class", "words")], &run.config.posterior.kind.to_string());
    html.words("td", &[], &grouped(run.parameters));
    html.words("td", &[], &steps(run).map_or("–".into(), |steps| grouped(steps as usize)));
    html.words("td", &[], &run.log.seconds().map_or("–".into(), duration));
    for metric in metrics {
        match measured(run, metric) {
            Some(measured) => value(html, measured, metric, is_best(run, runs, metric)),
            None => html.words("td", &[], "–"),
        }
    }
    let kl = run.judged.as_ref().filter(|_| !run.is_point()).and_then(|judged| judged.number("kl_per_example"));
    html.words("td", &[], &kl.map_or("–".into(), |kl| decimals(kl, 4)));
}

fn steps(run: &RunView) -> Option<u64> {
    run.checkpoint.as_ref().map(|checkpoint| checkpoint.step).or(run.log.last_step())
}

/// What the metrics are of, once for all runs of which it is the same.
fn judgements(html: &mut Html, runs: &[RunView]) {
    let mut all: Vec<String> = Vec::new();
    for words in runs.iter().map(judged_words) {
        if !all.contains(&words) {
            all.push(words);
        }
    }
    html.around("ul", &[("class", "quiet judged")], |html| {
        for words in &all {
            html.around("li", &[], |html| {
                let of: Vec<&RunView> = runs.iter().filter(|run| judged_words(run) == *words).collect();
                html.text(words);
                if of.len() < runs.len() {
                    for (place, run) in of.iter().enumerate() {
                        html.text(if place == 0 { ": " } else { ", " });
                        html.name(&run.name);
                    }
                }
            });
        }
    });
}

fn judged_words(run: &RunView) -> String {
    match &run.judged {
        Some(judged) => {
            let count = |key| judged.count(key).map_or("?".into(), |count| grouped(count as usize));
            let by = if judged.is_fresh { ", by this report" } else { "" };
            let draws = if judged.count("samples") == Some(1) { "draw" } else { "draws" };
            format!("Judged on {} {} examples by {} {draws}{by}", count("examples"), judged.split, count("samples"))
        }
        None => "Not judged".into(),
    }
}

fn value(html: &mut Html, measured: Measured, metric: &Metric, is_best: bool) {
    let percent = metric.key == "accuracy";
    let say = |x: f64| if percent { format!("{} %", decimals(100.0 * x, 2)) } else { decimals(x, 4) };
    html.around("td", if is_best { &[("class", "best")] } else { &[] }, |html| {
        if is_best {
            html.trusted("<span class=\"star\" aria-hidden=\"true\">★</span><span class=\"unseen\">best: </span>");
        }
        html.text(&say(measured.value));
        if let Some(error) = measured.sem_examples.filter(|error| error.is_finite()) {
            html.words("span", &[("class", "error")], &format!(" ± {}", say(error)));
        }
        if let Some(error) = measured.sem_draws.filter(|error| error.is_finite()) {
            html.words("span", &[("class", "error draws")], &format!(" draws ± {}", say(error)));
        }
    });
}

/// A number in so many decimals; what is none is said to be none.
fn decimals(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "not a number".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "−∞".into() };
    }
    format!("{value:.digits$}").replace('-', "−")
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{:.0} min {:02.0} s", (s / 60.0).floor(), s % 60.0),
        s => format!("{:.0} h {:02.0} min", (s / 3600.0).floor(), (s % 3600.0) / 60.0),
    }
}

/// The table for a file.
pub(super) fn csv(runs: &[RunView]) -> String {
    let errors =
        METRICS.iter().flat_map(|m| [m.key.into(), format!("{}_sem_examples", m.key), format!("{}_sem_draws", m.key)]);
    let first = ["run", "folder", "data", "posterior", "parameters", "steps", "split", "seconds"].map(str::to_owned);
    let heading: Vec<String> = first.into_iter().chain(errors).collect();
    let mut csv = Csv::new(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    for run in runs {
        let mut cells: Vec<Value> = vec![
            run.name.as_str().into(),
            run.folder.as_str().into(),
            run.config.data.set.as_str().into(),
            run.config.posterior.kind.to_string().into(),
            run.parameters.into(),
            json!(steps(run)),
            json!(run.judged.as_ref().map(|judged| judged.split)),
            json!(run.log.seconds()),
        ];
        for metric in &METRICS {
            let found = measured(run, metric);
            cells.push(json!(found.map(|found| found.value)));
            cells.push(json!(found.and_then(|found| found.sem_examples)));
            cells.push(json!(found.and_then(|found| found.sem_draws)));
        }
        csv.row(&cells);
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_as_people_write_them() {
        assert_eq!(
            [decimals(-0.25, 2), decimals(f64::NAN, 2), decimals(f64::INFINITY, 1)],
            ["−0.25", "not a number", "∞"]
        );
        assert_eq!([duration(3.25), duration(75.0), duration(7260.0)], ["3.2 s", "1 min 15 s", "2 h 01 min"]);
    }
}
