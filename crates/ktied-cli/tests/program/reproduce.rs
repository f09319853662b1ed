//! `ktied reproduce`, as far as it goes without data sets.

use serde_json::Value;

use crate::support::{Folder, code, json};

#[test]
fn every_total_of_the_paper_comes_out_and_is_written_down() {
    let folder = Folder::new("reproduce-parameters");
    let [out, results, pages] = ["runs", "results", "docs"].map(|name| folder.join(name));
    let places = ["--out", &out, "--results", &results, "--pages", &pages];
    let report = json(&[&["reproduce", "parameters", "--scale", "full"], &places[..]].concat());
    let rows = report["documents"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() >= 20 && rows.iter().all(|row| row["verdict"] == "agrees"), "{rows:?}");
    let of = |model: &str, method: &str| {
        let is_it = |row: &&Value| row["model"] == model && row["method"] == method && row["metric"] == "parameters";
        rows.iter().find(is_it).map(|row| (row["paper"].clone(), row["ours"].clone()))
    };
    assert_eq!(of("resnet18", "k-tied:2"), Some((4_946_964.0.into(), 4_946_964.0.into())));
    let written = std::fs::read_to_string(format!("{results}/parameters.json")).expect("a document");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!((&written["target"], &written["scale"]), (&"parameters".into(), &"full".into()));
    assert_eq!(written["rows"], report["documents"][0]["rows"]);
    let text = std::fs::read_to_string(format!("{pages}/REPRODUCTION.md")).expect("a page");
    assert!(text.contains("| mean-field | 956,820 (956,820) ✓ |"), "{text}");
    // The quick scale has a file of its own, and the page shows both.
    json(&[&["reproduce", "parameters"], &places[..]].concat());
    assert!(std::fs::exists(format!("{results}/quick/parameters.json")).expect("a folder"));
    let text = std::fs::read_to_string(format!("{pages}/REPRODUCTION.md")).expect("a page");
    assert!(text.contains("### parameters, full") && text.contains("### parameters, quick"), "{text}");
}

#[test]
fn results_that_are_none_and_data_that_are_missing_are_refused() {
    let folder = Folder::new("reproduce-refusals");
    let [out, results, pages, data] = ["runs", "results", "pages", "data"].map(|name| folder.join(name));
    let places = ["--out", &out, "--results", &results, "--pages", &pages, "--data", &data];
    std::fs::create_dir_all(&data).expect("a folder");
    let run = |target: &str| code(&[&["reproduce", target], &places[..]].concat());
    // A scale of LeNet and ResNet-18, asked for something else.
    for other in [&["snr"][..], &["annealing", "--only", "lstm"]] {
        let (exit, error) = code(&[&["reproduce", "--scale", "reduced"], other, &places].concat());
        let name = other[other.len() - 1];
        assert!(exit == Some(2) && error.contains(&format!("{name} has no runs of this scale")), "{exit:?} {error}");
        assert!(!std::fs::exists(&out).expect("a folder"), "refused before any work");
    }
    if std::env::var_os("KTIED_DATA").is_none() {
        let (exit, error) = run("snr");
        assert!(exit == Some(3) && error.contains("mnist"), "{exit:?} {error}");
        assert!(!std::fs::exists(&results).expect("a folder"), "nothing is written before it is known");
    }
    std::fs::create_dir_all(format!("{results}/quick")).expect("a folder");
    std::fs::write(format!("{results}/quick/parameters.json"), "{\"target\": 3}").expect("a file");
    let (exit, error) = run("parameters");
    assert!(exit == Some(2) && error.contains("quick/parameters.json: no results of this program"), "{exit:?} {error}");
    assert_eq!(std::fs::read_to_string(format!("{results}/quick/parameters.json")).expect("kept"), "{\"target\": 3}");
}
