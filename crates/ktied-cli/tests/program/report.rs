//! `report` of real runs: everything that was asked for is on the page and in the files, and the numbers are those of the
//! other commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, code, json, ok};

/// A small run on the digits that logs everything.
pub(super) fn train(folder: &Folder, name: &str, settings: &[&str]) -> String {
    let out = folder.join(name);
    let base = ["train", "--preset", "mlp-digits", "--quiet", "--out", &out, "--set", "train.steps=60"];
    let more = ["train.log_every=10", "train.snr=true", "train.validate_every=1", "anneal.per_batch=0.02"];
    let settings = more.iter().chain(settings).flat_map(|setting| ["--set", setting]);
    ok(&base.into_iter().chain(settings).collect::<Vec<_>>());
    out
}

/// The page, and what the program says about it.
pub(super) fn report(folder: &Folder, runs: &[&str], more: &[&str]) -> (String, Value) {
    let out = folder.join("report.html");
    let summary = json(&[&["report"], runs, &["--out", &out, "--samples", "5"], more].concat());
    let page = fs::read_to_string(&out).expect("the page");
    assert_eq!(summary["bytes"], page.len());
    (page, summary)
}

/// The data of the page's plots.
pub(super) fn data(page: &str) -> Value {
    let begin = "<script type=\"application/json\" id=\"data\">";
    let after = page.split_once(begin).expect("the data").1;
    serde_json::from_str(after.split_once("</script>").expect("its end").0).expect("JSON")
}

/// Text as it was before it became part of the page.
pub(super) fn unescaped(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    pairs.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The command that the page gives for its only run.
fn command_of(page: &str) -> String {
    let after = page.split_once("<pre class=\"command\" dir=\"ltr\"><code>").expect("a command").1;
    unescaped(after.split_once("</code>").expect("its end").0)
}

#[test]
fn five_runs_are_one_page_with_everything_on_it() {
    let folder = Folder::new("report");
    let kinds = ["point", "mean-field", "k-tied:1", "k-tied:2", "k-tied:3"];
    let runs = kinds.map(|kind| train(&folder, &kind.replace(':', "-"), &[&format!("posterior.kind={kind}")]));
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    let judged = json(&["evaluate", runs[1], "--samples", "7"]);
    let assets = folder.join("assets");
    let (page, summary) = report(&folder, &runs, &["--assets", &assets]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());

    // One file that asks nobody for anything.
    assert!(page.contains("default-src &#39;none&#39;; style-src &#39;sha256-"), "a policy");
    for outside in ["http://", "https://", "//cdn", "<link", "<iframe", "url(", "@import", " style=", " onclick"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script").count(), 2, "data and code");

    // The stored evaluation is shown as it is, to its last digit; the others were judged for the page.
    let shown = |value: f64| format!("{value:.4}");
    for metric in ["nll", "neg_elbo", "brier_usual", "ece"] {
        let (value, error) =
            (judged[metric]["value"].as_f64().unwrap(), judged[metric]["sem_examples"].as_f64().unwrap());
        assert!(page.contains(&shown(value)) && page.contains(&format!(" ± {}", shown(error))), "{metric}");
    }
    assert!(
        page.contains("397 test examples by 7 draws: <bdi>mean-field</bdi>")
            && page.contains("397 test examples by 5 draws, by this report: ")
    );
    // The best is marked, in words too: the least of each column, as the table among the files has it.
    let table = fs::read_to_string(Path::new(&assets).join("comparison.csv")).expect("a table");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    for metric in ["neg_elbo", "nll", "brier_usual", "ece"] {
        let column = rows[0].iter().position(|name| *name == metric).expect("a column");
        let least = rows[1..].iter().filter_map(|row| row[column].parse::<f64>().ok()).fold(f64::INFINITY, f64::min);
        assert!(page.contains(&format!("best: </span>{}<", shown(least))), "{metric}: {least}");
    }
    assert!(!Path::new(runs[0]).join("evaluation").exists(), "nothing is written into a run");

    // Each plot has lines of every run that can have them, and is a picture and a table.
    let data = data(&page);
    let lines = |id: &str| data["plots"][id]["lines"].as_array().unwrap_or_else(|| panic!("{id}")).len();
    assert_eq!([lines("neg-elbo"), lines("nll"), lines("kl-per-example")], [4, 5, 4], "a point has no ELBO");
    // Mean field has one tensor a layer, each k-tied posterior two.
    assert_eq!(["snr-1", "snr-2", "snr-3"].map(lines), [7; 3]);
    assert_eq!(["scales-1", "scales-2", "scales-3"].map(lines), [4; 3]);
    assert_eq!(["spectrum-1", "spectrum-2", "spectrum-3"].map(lines), [9; 3], "means of 5, standard deviations of 4");
    assert_eq!((lines("risk-coverage"), lines("reliability-5")), (5, 2));
    let plots = data["plots"].as_object().expect("plots");
    assert_eq!(summary["plots"].as_u64(), Some(plots.len() as u64));
    for id in plots.keys() {
        for extension in ["svg", "png", "csv"] {
            let file = Path::new(&assets).join(format!("{id}.{extension}"));
            assert!(file.metadata().is_ok_and(|file| file.len() > 50), "{}", file.display());
        }
    }
    let names: Vec<String> =
        fs::read_dir(&assets).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(summary["asset_files"].as_u64(), Some(names.len() as u64));
    let count = |part: &str| names.iter().filter(|name| name.contains(part)).count();
    assert_eq!(count("-maps-"), 4 * 3 * 3, "four posteriors, three layers, three files");
    assert_eq!(names.iter().filter(|name| name.starts_with("run-") && name.contains("-example-")).count(), 5 * 12);
    assert!(count("comparison.csv") == 1 && count("-log.svg") >= 3);

    // Annealing at 0.02 a step, in stairs of 100, has not begun at step 60: all of it is shaded.
    assert_eq!(page.matches("fill-opacity=\"0.14\"").count(), 6, "three layers, two axes");
    assert_eq!(page.matches("class=\"example\"").count(), 5 * 12);
    assert_eq!(page.matches("rank 2 (").count(), 2 * 4 * 3, "caption and words of each map");
}

#[test]
fn the_command_on_the_page_makes_the_same_run_again() {
    let folder = Folder::new("repeat it's");
    let run = train(&folder, "a run", &["posterior.kind=k-tied:2", "optim.lr=0.0015", "train.seed=9", "optim.clip=5"]);
    let (page, _) = report(&folder, &[&run], &["--no-data"]);
    let command = command_of(&page);
    let arguments = command.strip_prefix("ktied ").expect("our program");
    let program = env!("CARGO_BIN_EXE_ktied");
    let status =
        Command::new("sh").args(["-c", &format!("'{program}' {arguments} --quiet")]).output().expect("a shell");
    assert!(status.status.success(), "{command}: {}", String::from_utf8_lossy(&status.stderr));
    let digest = |run: &str| json(&["inspect", run])["digest"].clone();
    assert_eq!(digest(&run), digest(&format!("{run}-again")), "{command}");
}

#[test]
fn runs_made_from_others_say_how() {
    let folder = Folder::new("made");
    let run = train(&folder, "run", &["posterior.kind=mean-field"]);
    let (small, sparse, tuned) = (folder.join("small"), folder.join("sparse"), folder.join("tuned"));
    ok(&["compress", &run, "--rank", "2", "--method", "svd", "--samples", "2", "--out", &small]);
    ok(&["prune", &run, "--keep-frac", "0.5", "--samples", "2", "--out", &sparse]);
    ok(&["train", "--preset", "mlp-digits", "--set", "train.steps=3", "--quiet", "--init-from", &run, "--out", &tuned]);
    for (made, expected) in [
        (&small, format!("ktied compress {run} --rank 2 --method svd --out {small}-again")),
        (&sparse, format!("ktied prune {run} --keep-frac 0.5 --out {sparse}-again")),
        (&tuned, format!("ktied train --preset mlp-digits --set train.steps=3 --init-from {run} --out {tuned}-again")),
    ] {
        assert_eq!(command_of(&report(&folder, &[made], &["--no-data"]).0), expected);
    }
}

#[test]
fn numbers_are_shown_with_their_interval_and_in_their_units() {
    let folder = Folder::new("values");
    let rows: String = (0..200).map(|i| format!("{},{}\n", f64::from(i) / 10.0, 1000.0 + f64::from(i % 50))).collect();
    let table = folder.join("table.csv");
    fs::write(&table, format!("speed & feed,label\n{rows}")).unwrap();
    let settings = [
        &format!("data.set={table}") as &str,
        "data.task=values",
        "model.sizes=1,8,1",
        "posterior.kind=mean-field",
        "train.batch=160",
    ];
    let run = train(&folder, "run", &settings);
    let (page, _) = report(&folder, &[&run], &[]);
    assert!(
        page.contains("speed &amp; feed") && page.contains("RMSE") && page.contains("with 95 %; it is 10"),
        "{page}"
    );
    assert!(page.contains("No run was judged on classes."));
    assert!(!page.contains(">accuracy<"));
}

#[test]
fn wrong_usage_is_refused() {
    let folder = Folder::new("usage");
    let out = folder.join("r.html");
    assert_eq!(code(&["report", "--out", &out]).0, Some(2));
    let (code_of, message) = code(&["report", &folder.join("nothing"), "--out", &out]);
    assert!(code_of == Some(2) && message.contains("nothing"), "{message}");
    assert!(!Path::new(&out).exists());
    let run = train(&folder, "run", &[]);
    let (code_of, message) = code(&["report", &run, "--best", "--out", &out]);
    assert!(code_of == Some(2) && message.contains("no validation"), "digits have no validation examples: {message}");
}
