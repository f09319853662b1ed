//! `evaluate` of the real program: one run, an ensemble, a comparison, examples of another kind, numbers.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Folder, code, json, ok};

fn train(folder: &Folder, name: &str, settings: &[&str]) -> String {
    let out = folder.join(name);
    let base = ["train", "--preset", "mlp-digits", "--quiet", "--set", "train.steps=60", "--out", &out];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    ok(&base.into_iter().chain(settings).collect::<Vec<_>>());
    out
}

fn value(report: &Value, metric: &str) -> f64 {
    report[metric]["value"].as_f64().unwrap_or_else(|| panic!("{metric} of {report}"))
}

#[test]
fn a_run_is_judged_by_every_metric_and_drawn() {
    let folder = Folder::new("judge");
    let run = train(&folder, "run", &["posterior.kind=mean-field"]);
    let report = json(&["evaluate", &run, "--samples", "20"]);
    for metric in ["neg_elbo", "nll", "nll_of_draws", "accuracy", "brier", "brier_usual", "ece", "adaptive_ece", "aurc"]
    {
        let estimate = &report[metric];
        assert!(estimate["sem_examples"].is_f64() && estimate["sem_draws"].is_f64(), "{metric}: {estimate}");
        // As many draws as make the error over draws a thousandth.
        let draws = report["draws_needed"]["metrics"][metric].as_f64().unwrap();
        let expected = 20.0 * (estimate["sem_draws"].as_f64().unwrap() / 0.001).powi(2);
        assert!((draws - expected.ceil().max(1.0)).abs() <= 1.0, "{metric}: {draws} {expected}");
    }
    let [entropy, labels, weights] =
        ["entropy", "expected_entropy", "mutual_information"].map(|metric| value(&report, metric));
    assert!((entropy - labels - weights).abs() < 1e-9 && weights > 0.0);
    assert!(value(&report, "nll") < value(&report, "nll_of_draws"));
    assert_eq!(report["curves"]["reliability"].as_array().unwrap().len(), 15);
    let evaluation = Path::new(&run).join("evaluation");
    let stored: Value = serde_json::from_str(&fs::read_to_string(evaluation.join("test.json")).unwrap()).unwrap();
    assert_eq!(stored, report);
    assert!(evaluation.join("test.svg").exists() && evaluation.join("test.png").exists());
    let text = ok(&["evaluate", &run, "--samples", "3"]);
    assert!(text.contains("epistemic") && text.contains("draws for ± 0.001"), "{text}");
}

#[test]
fn several_runs_are_an_ensemble_and_two_are_compared_example_by_example() {
    let folder = Folder::new("ensemble");
    let runs =
        ["1", "2", "3"].map(|seed| train(&folder, seed, &["posterior.kind=point", &format!("train.seed={seed}")]));
    let [first, second, third] = runs.each_ref().map(|run| json(&["evaluate", run]));
    assert_eq!(first["samples"], 1);
    let mean = [&first, &second, &third].map(|report| value(report, "nll")).iter().sum::<f64>() / 3.0;
    let ensemble = json(&["evaluate", &runs[0], &runs[1], &runs[2]]);
    assert_eq!(ensemble["members"], 3);
    // The logarithm of an average is above the average of logarithms.
    assert!(value(&ensemble, "nll") < mean);
    assert!((value(&ensemble, "nll_of_draws") - mean).abs() < 1e-6);
    assert_eq!(ensemble["parameters"], 3 * 8_970);

    let compared = json(&["evaluate", &runs[0], "--compare", &runs[1]]);
    let difference = compared["comparison"]["nll"]["mean"].as_f64().unwrap();
    assert!((difference - (value(&first, "nll") - value(&second, "nll"))).abs() < 1e-9);
    assert!(compared["comparison"]["nll"]["p_value"].as_f64().is_some_and(|p| (0.0..=1.0).contains(&p)));
    let own = json(&["evaluate", &runs[0], "--compare", &runs[0]]);
    assert_eq!(own["comparison"]["nll"]["mean"], 0.0);
}

#[test]
fn dropout_makes_a_point_uncertain() {
    let folder = Folder::new("dropout");
    let run = train(&folder, "run", &["posterior.kind=point", "model.dropout=0.2"]);
    let report = json(&["evaluate", &run, "--samples", "10"]);
    assert_eq!(report["samples"], 10);
    assert!(value(&report, "mutual_information") > 1e-3);
    let both = json(&["evaluate", &run, &run, "--samples", "10"]);
    // Members draw masks of their own, so the mixture is not the run alone.
    assert_ne!(value(&both, "nll"), value(&report, "nll"));
}

#[test]
fn examples_of_another_kind_are_told_apart_and_numbers_come_in_their_own_units() {
    let folder = Folder::new("kinds");
    let run = train(&folder, "run", &["posterior.kind=mean-field"]);
    // The same examples cannot be told from themselves.
    let report = json(&["evaluate", &run, "--samples", "5", "--ood", "digits"]);
    assert_eq!(report["ood"]["entropy"]["auroc"], 0.5);

    // y = 3000 + 500 x, a table of one's own.
    let rows: String =
        (0..200).map(|i| format!("{},{}\n", f64::from(i) / 100.0, 3000.0 + 5.0 * f64::from(i))).collect();
    let table = folder.join("line.csv");
    fs::write(&table, format!("x,label\n{rows}")).unwrap();
    let set = format!("data.set={table}");
    let line = [
        "model.sizes=1,16,1",
        "posterior.kind=mean-field",
        &set,
        "data.task=values",
        "data.test=0.2",
        "train.batch=140",
    ];
    let run = train(&folder, "line", &line);
    let report = json(&["evaluate", &run, "--samples", "10"]);
    // The targets spread by 289, so an error in standardised units would be below 3.
    assert!(value(&report, "rmse") > 10.0 && value(&report, "sharpness") > 10.0, "{report}");
    assert!((0.0..=1.0).contains(&value(&report, "coverage_90")));
    let (status, message) = code(&["evaluate", &run, "--ood", "digits"]);
    assert!(status == Some(2) && message.contains("--ood"), "{message}");
}

#[test]
fn digits_that_are_turned_are_harder_and_what_is_no_image_is_refused() {
    let folder = Folder::new("turned");
    let run = train(&folder, "run", &["posterior.kind=k-tied:2"]);
    let judged = |more: &[&str]| json(&[&["evaluate", &run, "--samples", "5"], more].concat());
    let [plain, still, turned] = [&[][..], &["--rotate", "0"], &["--rotate", "-90"]].map(judged);
    assert_eq!(value(&plain, "nll"), value(&still, "nll"));
    assert!(value(&turned, "accuracy") < 0.7 * value(&plain, "accuracy"), "{turned}");
    let kept = fs::read_to_string(Path::new(&run).join("evaluation/test-rotated--90.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), turned);
    let table = folder.join("table.csv");
    let rows: String = (0..40).map(|i| format!("{},{},{}\n", i, i % 7, i % 2)).collect();
    fs::write(&table, format!("a,b,label\n{rows}")).unwrap();
    let set = format!("data.set={table}");
    let of_table = train(&folder, "table", &[&set, "model.sizes=2,2", "train.batch=8"]);
    let (found, message) = code(&["evaluate", &of_table, "--rotate", "10"]);
    assert!(found == Some(2) && message.contains("are no images of a known shape"), "{message}");
}

#[test]
fn runs_that_do_not_belong_together_are_refused() {
    let folder = Folder::new("strangers");
    let run = train(&folder, "run", &["posterior.kind=point"]);
    let table = folder.join("t.csv");
    fs::write(&table, (0..40).fold("x,label\n".to_owned(), |text, i| format!("{text}{i},{}\n", i % 2))).unwrap();
    let set = format!("data.set={table}");
    let other = train(&folder, "other", &["model.sizes=1,4,2", "posterior.kind=point", &set, "train.batch=32"]);
    for args in [vec!["evaluate", &run, &other], vec!["evaluate", &run, "--compare", &other]] {
        let (status, message) = code(&args);
        assert!(status == Some(2) && message.contains("was trained on"), "{message}");
    }
    let (status, message) = code(&["evaluate", &run, "--ood", &table]);
    assert!(status == Some(2) && message.contains("takes 64 numbers an example"), "{message}");
    assert_eq!(code(&["evaluate"]).0, Some(2));
}

/// Rows of 64 pixels from 0 to 16.
fn pixels(rows: usize) -> String {
    let row = |i: usize| (0..64).map(|j| ((i * 7 + j * j) % 17).to_string()).collect::<Vec<_>>().join(",");
    (0..rows).map(|i| row(i) + "\n").collect()
}

#[test]
fn predictions_come_in_order_with_their_uncertainty_as_csv_and_as_json_lines() {
    let folder = Folder::new("predict");
    let run = train(&folder, "run", &["posterior.kind=k-tied:2"]);
    // More rows than a batch holds.
    let (input, rows) = (folder.join("new.csv"), 1203);
    fs::write(&input, pixels(rows)).unwrap();
    let [csv, jsonl] = ["out.csv", "out.jsonl"].map(|name| folder.join(name));
    let report = json(&["predict", &run, "--input", &input, "--samples", "3", "--out", &csv]);
    assert_eq!((&report["examples"], &report["skipped"]), (&rows.into(), &0.into()));
    json(&["predict", &run, "--input", &input, "--samples", "3", "--out", &jsonl]);
    let text = fs::read_to_string(&csv).unwrap();
    let heading: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    assert_eq!(&heading[..6], ["name", "class", "confidence", "entropy", "mutual_information", "p_0"]);
    let objects = fs::read_to_string(&jsonl).unwrap();
    assert_eq!((text.lines().count(), objects.lines().count()), (rows + 1, rows));
    for (number, (line, object)) in (1..).zip(text.lines().skip(1).zip(objects.lines())) {
        let cells: Vec<&str> = line.split(',').collect();
        let object: Value = serde_json::from_str(object).unwrap();
        assert_eq!((cells[0], object["name"].as_str()), (number.to_string().as_str(), Some(cells[0])));
        let sum: f64 = cells[5..].iter().map(|p| p.parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        let class: usize = cells[1].parse().unwrap();
        assert_eq!(object[format!("p_{class}")], object["confidence"]);
    }
}

#[test]
fn a_bad_row_is_named_or_left_out_and_nothing_half_is_written() {
    let folder = Folder::new("bad-rows");
    let run = train(&folder, "run", &["posterior.kind=point"]);
    let (input, out) = (folder.join("new.csv"), folder.join("out.csv"));
    fs::write(&input, format!("{}1,2,3\n{}", pixels(2), pixels(1))).unwrap();
    let (status, message) = code(&["predict", &run, "--input", &input, "--out", &out]);
    assert!(status == Some(3) && message.contains('3') && message.contains("64"), "{message}");
    assert!(!Path::new(&out).exists() && fs::read_dir(&folder.0).unwrap().count() == 2);
    let report = json(&["predict", &run, "--input", &input, "--skip-bad", "--out", &out]);
    assert_eq!((&report["examples"], &report["skipped"]), (&3.into(), &1.into()));
    for (args, part) in [
        (["--input", &input, "--out", &folder.join("out.txt")], ".csv or .jsonl"),
        (["--input", &input, "--out", &out], "there is a file of this name already"),
        (["--input", "no-such.csv", "--out", &folder.join("b.csv")], "no-such.csv"),
    ] {
        let (status, message) = code(&[&["predict", &run][..], &args].concat());
        assert!(status != Some(0) && message.contains(part), "{message}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3);
}

#[test]
fn numbers_are_predicted_in_their_own_units_with_an_interval() {
    let folder = Folder::new("numbers");
    let table = folder.join("line.csv");
    let rows: String =
        (0..200).map(|i| format!("{},{}\n", f64::from(i) / 100.0, 3000.0 + 5.0 * f64::from(i))).collect();
    fs::write(&table, format!("x,label\n{rows}")).unwrap();
    let set = format!("data.set={table}");
    let line = [
        "model.sizes=1,16,1",
        "posterior.kind=mean-field",
        &set,
        "data.task=values",
        "train.steps=400",
        "train.batch=160",
    ];
    let run = train(&folder, "line", &line);
    let (input, out) = (folder.join("new.csv"), folder.join("out.jsonl"));
    fs::write(&input, "0.5\n1.5\n").unwrap();
    ok(&["predict", &run, "--input", &input, "--level", "0.9", "--out", &out]);
    let text = fs::read_to_string(&out).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    for (row, truth) in rows.iter().zip([3250.0, 3750.0]) {
        assert!((number(row, "mean") - truth).abs() < 250.0, "{row}");
        assert!(number(row, "lower") < number(row, "mean") && number(row, "mean") < number(row, "upper"));
        // A Gaussian's interval of 90 % is 3.29 standard deviations wide; a mixture's is near that.
        let widths = (number(row, "upper") - number(row, "lower")) / number(row, "sd");
        assert!((2.5..4.0).contains(&widths), "{row}");
    }
    assert!(number(&rows[0], "mean") < number(&rows[1], "mean"));
}
