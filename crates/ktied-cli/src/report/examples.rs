//! The most and the least certain examples, as pictures or words, with what a run says of them.

use serde_json::{Value, json};

use super::html::{Html, short};
use super::{Example, Examples, Looks, RunView, Said, SaidValue};
use crate::csv::Csv;
use crate::picture::data_uri;
use crate::table::grouped;

/// Classes that are shown of an example.
const MOST_CLASSES: usize = 5;
/// Columns of a table's row that are shown.
const MOST_COLUMNS: usize = 12;

pub(super) fn write(html: &mut Html, runs: &[RunView]) {
    let with_examples = runs.iter().filter_map(|run| Some((run, run.examples.as_ref()?)));
    for (place, (run, examples)) in with_examples.enumerate() {
        super::page::folded(html, run, place == 0, |html| {
            let Examples { samples, split, count, .. } = examples;
            let draws = if *samples == 1 { "one draw".into() } else { format!("{} draws", grouped(*samples as usize)) };
            let of = format!("Of {} {split} examples, by {draws}.", grouped(*count));
            html.words("p", &[("class", "quiet")], &of);
            group(html, "The most certain", &examples.most, split);
            group(html, "The least certain", &examples.least, split);
        });
    }
}

fn group(html: &mut Html, heading: &str, examples: &[Example], split: &str) {
    html.words("h3", &[], heading);
    html.around("div", &[("class", "examples")], |html| {
        examples.iter().for_each(|example| write_example(html, example, split));
    });
}

fn write_example(html: &mut Html, example: &Example, split: &str) {
    html.around("figure", &[("class", "example")], |html| {
        html.words("figcaption", &[], &format!("{split} example {}", example.row));
        looks(html, example, split);
        match &example.said {
            Said::Classes { label, is_right, probabilities, entropy, mutual_information } => {
                html.around("p", &[("class", if *is_right { "right" } else { "wrong" })], |html| {
                    html.text(if *is_right { "✓ right: " } else { "✗ wrong: it is " });
                    html.name(label);
                });
                distribution(html, probabilities, label);
                let words = format!("entropy {entropy:.3}, of it about the weights {mutual_information:.3} nats");
                html.words("p", &[("class", "quiet")], &words);
            }
            Said::Values(values) => values.iter().for_each(|value| interval(html, value)),
        }
    });
}

fn looks(html: &mut Html, example: &Example, split: &str) {
    match &example.looks {
        Looks::Photo { png, height, width } => {
            let alt = format!("{split} example {}, an image of {width}×{height} pixels", example.row);
            let source = data_uri(png);
            html.open(
                "img",
                &[("class", "photo"), ("width", "112"), ("height", "112"), ("alt", &alt), ("src", &source)],
            );
        }
        Looks::Text(text) => html.words("blockquote", &[("dir", "auto"), ("tabindex", "0")], text),
        Looks::Columns(columns) => html.around("table", &[("class", "columns")], |html| {
            html.words("caption", &[("class", "unseen")], "The example's columns");
            for (name, value) in columns.iter().take(MOST_COLUMNS) {
                html.around("tr", &[], |html| {
                    html.around("th", &[("scope", "row")], |html| html.name(name));
                    html.words("td", &[], &plain(*value));
                });
            }
            if columns.len() > MOST_COLUMNS {
                let more = format!("of {} columns", grouped(columns.len()));
                html.around("tr", &[], |html| html.words("td", &[("colspan", "2")], &more));
            }
        }),
    }
}

/// The probabilities of the first classes as a table with bars.
fn distribution(html: &mut Html, probabilities: &[(String, f64)], label: &str) {
    html.around("table", &[("class", "bars")], |html| {
        html.words("caption", &[("class", "unseen")], "Predicted distribution");
        for (name, share) in probabilities.iter().take(MOST_CLASSES) {
            html.around("tr", if name == label { &[("class", "truth")] } else { &[] }, |html| {
                html.around("th", &[("scope", "row")], |html| html.name(name));
                html.around("td", &[], |html| bar(html, *share));
                html.words("td", &[], &format!("{:.1} %", 100.0 * share));
            });
        }
        let others: f64 = probabilities.iter().skip(MOST_CLASSES).map(|(_, share)| share).sum();
        if probabilities.len() > MOST_CLASSES {
            html.around("tr", &[], |html| {
                html.words("th", &[("scope", "row")], "others");
                html.around("td", &[], |html| bar(html, others));
                html.words("td", &[], &format!("{:.1} %", 100.0 * others));
            });
        }
    });
}

fn bar(html: &mut Html, share: f64) {
    let width = if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 };
    html.trusted(&format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{width:.1}\" \
         height=\"10\"/></svg>"
    ));
}

/// A number with its interval, in words and as a line on which the truth is marked.
fn interval(html: &mut Html, value: &SaidValue) {
    let SaidValue { truth, mean, sd, lower, upper } = *value;
    let words = format!(
        "says {} ± {}, between {} and {} with 95 %; it is {}",
        plain(mean),
        plain(sd),
        plain(lower),
        plain(upper),
        plain(truth)
    );
    html.words("p", &[], &words);
    let (low, high) = (lower.min(truth) - sd, upper.max(truth) + sd);
    if (high - low).is_finite() && high > low {
        let at = |x: f64| 200.0 * (x - low) / (high - low);
        html.trusted(&format!(
            "<svg class=\"interval\" viewBox=\"0 0 200 24\" aria-hidden=\"true\"><path class=\"axis\" d=\"M0 12H200\"/><path \
             class=\"reach\" d=\"M{:.1} 12H{:.1}\"/><circle cx=\"{:.1}\" cy=\"12\" r=\"4\"/><path class=\"truth\" d=\"M{:.1} \
             2V22\"/></svg>",
            at(lower),
            at(upper),
            at(mean),
            at(truth)
        ));
    }
}

/// A number in four digits.
fn plain(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "not a number".into(),
        size if size == 0.0 || (1e-3..1e5).contains(&size) => {
            let digits = (3 - size.max(1.0).log10().floor() as i32).max(0) as usize;
            format!("{value:.digits$}").replace('-', "−")
        }
        _ => format!("{value:.3e}").replace('-', "−"),
    }
}

/// The examples of a run for a file.
pub(super) fn csv(examples: &Examples) -> String {
    let mut csv = Csv::new(&["group", "example", "label", "says", "probability", "mean", "sd", "lower", "upper"]);
    let groups = [("most certain", &examples.most), ("least certain", &examples.least)];
    for (group, example) in groups.into_iter().flat_map(|(group, all)| all.iter().map(move |example| (group, example)))
    {
        let first = |label: Value| vec![json!(group), json!(example.row), label];
        match &example.said {
            Said::Classes { label, probabilities, .. } => {
                for (name, share) in probabilities {
                    let cells = [json!(short(name)), json!(share), Value::Null, Value::Null, Value::Null, Value::Null];
                    csv.row(&first(json!(short(label))).into_iter().chain(cells).collect::<Vec<_>>());
                }
            }
            Said::Values(values) => {
                for SaidValue { truth, mean, sd, lower, upper } in values {
                    let cells = [Value::Null, Value::Null, json!(mean), json!(sd), json!(lower), json!(upper)];
                    csv.row(&first(json!(truth)).into_iter().chain(cells).collect::<Vec<_>>());
                }
            }
        }
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let cases = [(0.0, "0.000"), (12.345, "12.35"), (-0.5, "−0.500"), (12_345.0, "12345"), (1.5e-9, "1.500e−9")];
        for (value, text) in cases {
            assert_eq!(plain(value), text);
        }
        assert_eq!(plain(f64::NAN), "not a number");
    }
}
