//! docs/REPRODUCTION.md and docs/BEYOND.md, made of the documents and findings in results/ and of nothing else.

use std::fmt::Write as _;
use std::path::Path;

use ktied::files;

use super::document::{Document, Row};
use super::pictures;
use super::verdict::Verdict;
use super::{Scale, Target};
use crate::exit::Failure;
use crate::table::grouped;

/// Longest text about a target that is read.
const MAX_FINDINGS: u64 = 1 << 20;

const HEAD: &str = "# The paper, table by table

Every figure that *The k-tied Normal Distribution* (Swiatkowski et al., ICML 2020) prints, beside ours on the same data. This
page is made by `ktied reproduce` of the documents in [results/](../results); nothing in it was typed but the findings.

The paper's figure is in brackets, and a mark says how ours stands to it:

- ✓ **agrees**: within three combined standard errors (counts: equal);
- ≈ **same conclusion**: another number, but every method stands to every other as in the paper;
- ✗ **differs**: it does not, and below the table it says in what.

± is the standard error over test examples; over seeds where there are three. `full` is the paper's setting, `quick` the
reduction that each section describes, `reduced` what two cores can do until it converges: ResNet-18 with fewer filters, and
LeNet as it is for a tenth of the epochs. Give `ktied reproduce TARGET --scale full --data DIR` to repeat one: it goes on where
it was interrupted, and repeats nothing that is done.
";

const BEYOND: &str = "# Beyond the paper

What the paper does not try, from the same runs and by the same rules as [REPRODUCTION.md](REPRODUCTION.md). This page is made by
`ktied reproduce beyond-…` of the documents in [results/](../results); nothing in it was typed but the findings.
";

/// A page of results, and links that begin with a text.
type Make = fn(&Path, &str) -> Result<String, Failure>;

/// Every page and its name.
pub(crate) const PAGES: [(&str, Make); 2] = [
    ("REPRODUCTION.md", |results, link| page(HEAD, &Target::PAPER, results, link)),
    ("BEYOND.md", |results, link| page(BEYOND, &Target::BEYOND, results, link)),
];

/// The way from the folder of pages to that of results.
pub(crate) fn link(pages: &Path, results: &Path) -> String {
    let [pages, results] = [pages, results].map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let shared = pages.components().zip(results.components()).take_while(|(page, result)| page == result).count();
    let up = pages.components().skip(shared).map(|_| "..".into());
    let down = results.components().skip(shared).map(|part| part.as_os_str().to_string_lossy());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// A whole page, with links that begin with `link`.
///
/// # Errors
/// If a document cannot be read.
fn page(head: &str, targets: &[Target], results: &Path, link: &str) -> Result<String, Failure> {
    let mut text = String::from(head);
    let mut counts =
        String::from("\n| target | scale | agrees | same conclusion | differs | beside |\n|---|---|---|---|---|---|\n");
    let mut sections = String::new();
    for &target in targets {
        let mut is_first = true;
        for scale in Scale::ALL {
            let Some(document) = Document::read(results, target, scale)? else { continue };
            if is_first {
                let _ = write!(sections, "\n## {}\n\n{}\n", target.name(), about(target));
            }
            let of = |verdict| document.rows.iter().filter(|row| row.verdict == verdict).count();
            let [agrees, same, differs] =
                [Verdict::Agrees, Verdict::SameConclusion, Verdict::Differs].map(Some).map(of);
            let (name, scale_name, beside) = (target.name(), scale.name(), of(None));
            let _ = writeln!(counts, "| [{name}](#{name}) | {scale_name} | {agrees} | {same} | {differs} | {beside} |");
            section(&mut sections, &document, results, link);
            is_first = false;
        }
        if !is_first {
            findings(&mut sections, target, results)?;
        }
    }
    if sections.is_empty() {
        text.push_str("\nNothing of it has been run yet.\n");
    } else {
        text.push_str(&counts);
        text.push_str(&sections);
    }
    Ok(text)
}

/// What a target is, and what the quick scale makes of it.
fn about(target: Target) -> &'static str {
    match target {
        Target::Parameters => "Table 1 and every total of the paper's models, from `ktied params`.",
        Target::LowRank => {
            "Table 2, figures 3 and 4: mean-field posteriors trained without annealing, then their standard deviations \
             replaced by rank 1, 2 and 3 of the singular value decomposition. One weight clamped at 1e-8 costs 18 nats, so \
             −ELBO is also given with a floor of 1e-4, and how many weights were clamped. `full`: 300 epochs, less where \
             validation −ELBO has not improved for 30 epochs (LeNet) or 20 (LSTM), of which the best checkpoint is judged. `quick`: MLP by local reparameterisation, 40 epochs; LeNet with 3×3 \
             kernels, 16 and 32 filters and 128 units, batch 256, 8 epochs; LSTM on the last 40 words, 8 epochs; rates of \
             3e-3, and 0.01 (MLP) or 6e-3 on the scales; 50, 20 and 10 draws."
        }
        Target::Resnet => {
            "Figure 5, table 3 (Brier score less one, ECE of 15 bins), figures 6 and 7, and appendix B with the He-scaled \
             prior. `full` is 700 epochs of 50,000 images and needs a larger machine than two cores; `reduced` is the same \
             architecture with 8 to 64 filters, 40 epochs of which 2 are annealed, and a rate of 0.01 on means and scales, a \
             tenth of it in the last quarter, so that σ comes to rest (see annealing); `quick` is 8 epochs of that, with rates of 1e-3, and 0.05 \
             on the scales: those of the last two blocks converge, the first ones nearly."
        }
        Target::KTied => {
            "The left table of the results figure: posteriors trained k-tied from the start, with annealing. `full`: 300 \
             epochs or until validation −ELBO no longer falls, as under low-rank, c = 5e-5 a batch. `reduced`: the paper's LeNet, 30 epochs of batches of 256, \
             annealing over half of the steps. `quick`: sizes as under low-rank, annealing over two thirds of the steps."
        }
        Target::Snr => {
            "Mean of E[g²]/Var[g] over ten batches, of log σ (or log u and log v) of the MLP's second dense layer, at steps \
             1000, 5000 and 9000, without annealing, three seeds; `snr_median` has the medians instead, of which few parameters \
             without any noise decide nothing, held against the same figures. The paper does not say the rate; its −ELBO falls by 3.9e-3 \
             a step while σ grows, which is KL/N falling by 957,000 / 2 / 50,000 times a rate of 4e-4, so the nearest rate \
             of its grid, 3e-4, is used. `quick`: five times that rate, at a fifth of the steps."
        }
        Target::Convergence => {
            "−ELBO on the validation examples of the same runs (20 draws), and curves of LeNet and the LSTM without annealing: \
             `neg_elbo@end` is their last validation, `steps@10%` the first step within 10 % of it. The paper's 42 to 43 at step \
             1000 cannot follow from its stated priors (with σ = 0.01 under σₚ = 0.3, KL/N is 28): shapes are compared."
        }
        Target::StepTime => {
            "The paper's network of two dense layers (784-128-10, batch 32) on another machine, so orders are compared, not \
             milliseconds; beside it the MLP at batch 1024. Each case in turn, 15 rounds; median of their medians, and its standard \
             error with 3 % for what differs from hour to hour: what is within about 13 % counts as equal."
        }
        Target::Annealing => {
            "Appendix C: mean σ of each layer at the end of training as a share of the prior's (the paper: above half), and for \
             ResNet-18 the growth of σ after annealing (the paper: it goes on) and its change over the last tenth of the \
             run, under both priors. Scales as under resnet."
        }
        Target::BeyondConv => {
            "LeNet and ResNet-18 with every kernel 2-tied, which nobody trained, beside those of the paper. Settings as under \
             k-tied and resnet."
        }
        Target::BeyondEstimators => {
            "The MLP, one thread to each run, as many side by side as there are threads, no annealing: −ELBO of the last \
             validation (5 draws) before a time was over. `full`: after 1, 5 and 20 minutes, of mean \
             field by drawn weights only; `quick`: after 20, 60 and 120 seconds."
        }
        Target::BeyondCompress => {
            "`ktied compress --method positive` (least divergence from the trained posterior, a k-tied Normal again) against the \
             clamped singular value decomposition, on the mean-field runs of low-rank."
        }
        Target::BeyondRank => "The MLP of k-tied at ranks 1 to 8.",
        Target::BeyondShift => {
            "MLPs trained without annealing on MNIST, judged on test digits turned by 0 to 90 degrees; and how well uncertainty \
             (entropy, mutual information) tells Fashion-MNIST from MNIST."
        }
    }
}

fn section(text: &mut String, document: &Document, results: &Path, link: &str) {
    let _ = write!(text, "\n### {}, {}\n", document.target.name(), document.scale.name());
    let mut models: Vec<&str> = vec![];
    document.rows.iter().for_each(|row| {
        if !models.contains(&row.model.as_str()) {
            models.push(&row.model)
        }
    });
    for model in models {
        let rows: Vec<&Row> = document.rows.iter().filter(|row| row.model == model).collect();
        table(text, model, &rows);
    }
    let odd: Vec<&Row> = document.rows.iter().filter(|row| row.verdict == Some(Verdict::Differs)).collect();
    if !odd.is_empty() {
        text.push_str("\nWhat differs:\n\n");
        for row in odd {
            let why = row.why.as_deref().unwrap_or("it is another number");
            let _ = writeln!(text, "- {} {}, {}: {why}.", row.model, row.method, row.metric);
        }
    }
    show_pictures(text, document, results, link);
    let mut commands: Vec<&str> = vec![];
    document.rows.iter().for_each(|row| {
        if !commands.contains(&row.command.as_str()) {
            commands.push(&row.command)
        }
    });
    text.push_str("\n<details><summary>Commands</summary>\n\n```text\n");
    commands.into_iter().for_each(|command| {
        let _ = writeln!(text, "{command}");
    });
    text.push_str("```\n\n</details>\n");
}

/// The figures that several methods have as columns, and a list of those that only one has.
fn table(text: &mut String, model: &str, rows: &[&Row]) {
    let mut metrics: Vec<&str> = vec![];
    rows.iter().for_each(|row| {
        if !metrics.contains(&row.metric.as_str()) {
            metrics.push(&row.metric)
        }
    });
    let methods_of = |metric: &str| rows.iter().filter(|row| row.metric == metric).count();
    let (wide, narrow): (Vec<&str>, Vec<&str>) = metrics.into_iter().partition(|metric| methods_of(metric) > 1);
    if !wide.is_empty() {
        let _ = writeln!(text, "\n| {model} | {} |\n|---|{}", wide.join(" | "), "---|".repeat(wide.len()));
        let mut methods: Vec<&str> = vec![];
        rows.iter().for_each(|row| {
            if !methods.contains(&row.method.as_str()) {
                methods.push(&row.method)
            }
        });
        for method in methods {
            let find = |metric: &&str| rows.iter().find(|row| row.method == method && row.metric == **metric);
            let cells: Vec<String> =
                wide.iter().map(|metric| find(metric).map_or("–".into(), |row| cell(row))).collect();
            let _ = writeln!(text, "| {method} | {} |", cells.join(" | "));
        }
    }
    if !narrow.is_empty() {
        by_place(
            text,
            model,
            &rows.iter().copied().filter(|row| narrow.contains(&row.metric.as_str())).collect::<Vec<_>>(),
        );
    }
}

/// Figures of one method at several places, such as `of_prior@dense_1`: a line for each place.
fn by_place(text: &mut String, model: &str, rows: &[&Row]) {
    let parts = |row: &'_ Row| {
        let (name, place) = row.metric.split_once('@').unwrap_or((&row.metric, ""));
        (name.to_owned(), format!("{} {place}", row.method))
    };
    let (mut names, mut places) = (vec![], vec![]);
    for (name, place) in rows.iter().map(|row| parts(row)) {
        if !names.contains(&name) {
            names.push(name);
        }
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let _ = writeln!(text, "\n| {model} | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for place in &places {
        let find = |name: &String| rows.iter().find(|row| parts(row) == (name.clone(), place.clone()));
        let cells: Vec<String> = names.iter().map(|name| find(name).map_or("–".into(), |row| cell(row))).collect();
        let _ = writeln!(text, "| {} | {} |", place.trim(), cells.join(" | "));
    }
}

/// `0.433 ± 0.006 (0.431 ± 0.0057) ✓`
fn cell(row: &Row) -> String {
    let is_count = row.sem.is_none() && row.ours.fract() == 0.0 && row.ours >= 0.0;
    let number = |value: f64| if is_count { grouped(value as usize) } else { digits(value) };
    let with = |value: f64, sem: Option<f64>| match sem {
        Some(sem) => format!("{} ± {}", number(value), short(sem)),
        None => number(value),
    };
    let mut text = with(row.ours, row.sem);
    if let Some(paper) = row.paper {
        let _ = write!(text, " ({})", if is_count { number(paper) } else { paper.to_string() });
    }
    match row.verdict {
        Some(Verdict::Agrees) => text.push_str(" ✓"),
        Some(Verdict::SameConclusion) => text.push_str(" ≈"),
        Some(Verdict::Differs) => text.push_str(" ✗"),
        None => {}
    }
    text
}

/// Four significant digits or so.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => grouped(value.round().abs() as usize),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// Two significant digits.
fn short(error: f64) -> String {
    if error <= 0.0 || !error.is_finite() {
        return error.to_string();
    }
    let places = (1 - error.log10().floor() as i32).clamp(0, 8) as usize;
    format!("{error:.places$}")
}

/// Links to the target's pictures, as seen from the page.
fn show_pictures(text: &mut String, document: &Document, results: &Path, link: &str) {
    let folder = pictures::folder(results, document.scale);
    let prefix = format!("{}-", document.target.name());
    let mut names: Vec<String> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        Err(_) => vec![],
    };
    names.retain(|name| name.starts_with(&prefix));
    names.sort();
    let below = folder.strip_prefix(results).unwrap_or(&folder).display();
    for name in names {
        let _ = writeln!(text, "\n![{name}]({link}/{below}/{name})");
    }
}

/// What was found out about a target, in words.
fn findings(text: &mut String, target: Target, results: &Path) -> Result<(), Failure> {
    let path = results.join("findings").join(format!("{}.md", target.name()));
    if path.exists() {
        let found = files::read_text(&path, MAX_FINDINGS).map_err(|error| ktied::Error::read(&path, &error))?;
        let _ = write!(text, "\n### Findings on {}\n\n{}\n", target.name(), found.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_they_deserve() {
        assert_eq!(
            [0.43127, 122.614, 42.16, 5840.3, 0.0012].map(digits),
            ["0.4313", "122.6", "42.16", "5,840", "1.20e-3"]
        );
        assert_eq!([0.0057, 0.27, 190.0].map(short), ["0.0057", "0.27", "190"]);
    }

    #[test]
    fn links_lead_from_the_page_to_the_results() {
        assert_eq!(link(Path::new("docs"), Path::new("results")), "../results");
        assert_eq!(link(Path::new("a/b"), Path::new("c")), "../../c");
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(link(&here.join("docs"), &here.join("results")), "../results");
        assert_eq!(link(Path::new("docs"), &here.join("results")), "../results");
    }

    /// The pages in the repository are those that the results in it make.
    #[test]
    fn the_pages_are_made_of_the_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, make) in PAGES {
            let made = make(&root.join("results"), "../results").expect("results");
            let kept = std::fs::read_to_string(root.join("docs").join(name)).expect("a page");
            assert!(made == kept, "docs/{name} is not the page of results/: run `ktied reproduce parameters`");
        }
    }
}
