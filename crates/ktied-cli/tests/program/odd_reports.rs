//! Reports of runs with hostile names and of runs that are not as others are: the page still tells the truth.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::report::{data, report, train, unescaped};
use crate::support::Folder;

const SCRIPT: &str = "</script><script>alert(1)</script>";

/// A copy of a run under another name.
fn copy(folder: &Folder, run: &str, name: &str) -> String {
    fn tree(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => tree(&entry.path(), &to),
                false => drop(fs::copy(entry.path(), to).expect("a copy")),
            }
        }
    }
    let to = folder.join(name);
    tree(Path::new(run), Path::new(&to));
    to
}

fn log(run: &str, text: &str) {
    fs::write(Path::new(run).join("events.jsonl"), text).expect("a log");
}

fn line(step: usize, nll: &str) -> String {
    format!(
        "{{\"event\":\"train\",\"step\":{step},\"epoch\":{},\"nll\":{nll},\"kl\":1.0,\"kl_per_example\":0.5,\
         \"neg_elbo\":{nll},\"accuracy\":0.5,\"weight\":1.0,\"skipped\":0,\"steps_per_second\":100.0}}\n",
        step as f64 / 6.0
    )
}

#[test]
fn hostile_names_are_words_and_nothing_else() {
    let folder = Folder::new("hostile");
    let (long, hebrew) = ("x".repeat(10_000), "\u{202e}שלום");
    let table = folder.join("table.csv");
    // A label may have 256 bytes, a column's name more.
    let names = [SCRIPT.to_owned(), format!("{}-end", &long[..250]), "a \"\"quoted\"\"\nname".into(), hebrew.into()];
    let rows: String = (0..400).map(|i| format!("{},{},\"{}\"\n", i % 7, i % 4, names[i % 4])).collect();
    fs::write(&table, format!("\"<img src=x onerror=alert(1)>\",\"{long}\",label\n{rows}")).expect("a table");
    let settings = [&format!("data.set={table}") as &str, "model.sizes=2,8,4", "posterior.kind=k-tied:2"];
    let plain = train(&folder, "plain", &settings);
    let run = copy(&folder, &plain, &format!("<script>alert(1)<\n\"'{hebrew}&amp;"));
    let events = fs::read_to_string(Path::new(&run).join("events.jsonl")).expect("a log");
    let with_layers = events.replace("\"layer\":\"dense_1\"", &format!("\"layer\":\"{SCRIPT}{long}\""));
    let tensors = with_layers.replace("network.layers.0.weights", "<b onmouseover=alert(1)>");
    log(&run, &tensors);
    let assets = folder.join("assets");
    let (page, _) = report(&folder, &[&run, &plain], &["--assets", &assets]);

    assert_eq!(page.matches("<script").count(), 2, "the page's own");
    assert!(!page.contains("<img src=x") && !page.contains("<b onmouseover") && !page.contains("alert(1)</script>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;↵&quot;&#39;") && page.contains("&amp;amp;"), "shown as it is");
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "a column's name");
    assert!(page.contains(&format!("<bdi>{hebrew}</bdi>")), "apart from the direction of the words around it");
    assert!(page.contains("-end") && !page.contains(&long[..100]), "long names lose their middle");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert_eq!(data(&page)["runs"][1], "plain");
    // The command is still one that a shell takes for what it is.
    let command = page.split("<pre class=\"command\" dir=\"ltr\"><code>").nth(1).expect("a command");
    let command = unescaped(command.split("</code>").next().expect("its end"));
    assert!(command.ends_with(&format!("\"'\\''{hebrew}&amp;-again'")), "{command}");
    for entry in fs::read_dir(&assets).expect("files").map(|entry| entry.expect("a file")) {
        let name = entry.file_name().into_string().expect("plain names");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)) && name.len() < 100, "{name}");
    }
}

#[test]
fn a_run_without_a_log_and_one_of_a_single_step_say_so() {
    let folder = Folder::new("short");
    let silent = train(&folder, "silent", &["posterior.kind=mean-field"]);
    fs::remove_file(Path::new(&silent).join("events.jsonl")).expect("a log");
    let (page, summary) = report(&folder, &[&silent], &[]);
    assert!(page.contains("It has no log (events.jsonl), so there are no curves of its training."));
    assert!(page.contains("No run has a log with losses.") && page.contains("No run has measured it"));
    assert!(
        page.contains("spectrum-1") && summary["notes"][0].as_array().is_some_and(|notes| notes.len() == 1),
        "{summary}"
    );
    log(&silent, "");
    assert!(report(&folder, &[&silent], &["--no-data"]).0.contains("Its log (events.jsonl) is empty"));

    let single = train(&folder, "single", &["posterior.kind=mean-field", "train.steps=1"]);
    let (page, _) = report(&folder, &[&single], &[]);
    let plots = data(&page)["plots"].clone();
    assert_eq!(plots["neg-elbo"]["lines"][0]["x"], serde_json::json!([1]));
    // One point is drawn as a marker, where a line would be nothing.
    let picture =
        page.split(" id=\"neg-elbo\"").nth(1).and_then(|rest| rest.split("</figure>").next()).expect("a plot");
    assert!(picture.contains("a3 3 0 1 0"), "a circle: {picture}");
}

#[test]
fn values_that_are_no_numbers_break_curves_and_are_counted() {
    let folder = Folder::new("nan");
    let run = train(&folder, "run", &["posterior.kind=mean-field"]);
    let mut text: String = (1..=20).map(|step| line(step, if step == 7 { "null" } else { "0.25" })).collect();
    text.push_str("{\"event\":\"train\",\"step\":21,\"nll\":NaN}\nnot json at all\n");
    log(&run, &text);
    fs::create_dir_all(Path::new(&run).join("evaluation")).expect("a folder");
    let evaluation = "{\"nll\":{\"value\":null,\"sem_examples\":null,\"sem_draws\":null},\"neg_elbo\":{\"value\":2.5,\
                      \"sem_examples\":0.5,\"sem_draws\":null},\"samples\":3,\"examples\":9,\"step\":50}";
    fs::write(Path::new(&run).join("evaluation/test.json"), evaluation).expect("an evaluation");
    let (page, _) = report(&folder, &[&run], &["--no-data"]);
    assert!(page.contains("2 logged values are not finite; curves are broken there."), "NLL and −ELBO");
    assert!(page.contains("2 lines of its log could not be read and are left out, the first is line 21."));
    assert!(page.contains("Its log has no end: it was interrupted, or is still being trained."));
    assert!(page.contains("Its evaluation is of step 50, what is inside the network of step 60."));
    assert!(page.contains(">not a number<") && page.contains(">2.5000<"));
    let nll = &data(&page)["plots"]["nll"]["lines"][0]["y"];
    assert!(nll[6].is_null() && nll[5] == 0.25, "{nll}");
    // Two stretches of the line, not one across the hole.
    let picture = page.split(" id=\"nll\"").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a plot");
    let path = picture.split("<path d=\"").find(|part| part.contains("stroke-linejoin")).expect("a line");
    assert_eq!(path.split('"').next().map(|path| path.matches('M').count()), Some(2), "{path}");

    let all: String = (1..=9).map(|step| line(step, "null")).collect();
    log(&run, &all);
    assert!(report(&folder, &[&run], &["--no-data"]).0.contains("No finite value to draw."));
}

#[test]
fn five_runs_of_100_000_steps_stay_small_and_keep_their_spikes() {
    let folder = Folder::new("long");
    let first = train(&folder, "run-1", &["posterior.kind=k-tied:2"]);
    let mut text = String::new();
    for step in 1..=100_000 {
        let nll = if step == 31_416 { 99.5 } else { 1.0 + ((step * 7919) % 1009) as f64 / 1009.0 };
        let _ = write!(text, "{}", line(step, &nll.to_string()));
    }
    log(&first, &text);
    let runs: Vec<String> =
        (2..=5).map(|number| copy(&folder, &first, &format!("run-{number}"))).chain([first.clone()]).collect();
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    let (page, _) = report(&folder, &runs, &[]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("of 500,000 points: the lowest and the highest of each column."));
    for line in data(&page)["plots"]["nll"]["lines"].as_array().expect("lines") {
        let xs = line["x"].as_array().expect("steps");
        let spike = xs.iter().position(|x| *x == 31_416).expect("the spike is kept");
        assert_eq!((line["y"][spike].as_f64(), xs.last().and_then(|x| x.as_u64())), (Some(99.5), Some(100_000)));
        assert!(xs.len() <= 602, "{}", xs.len());
    }
    // 100,000 steps at 100 a second.
    assert!(page.contains("16 min 40 s"));
}

#[test]
fn a_run_whose_data_or_checkpoint_are_gone_is_shown_without_them() {
    let folder = Folder::new("gone");
    let table = folder.join("table.csv");
    let rows: String = (0..200).map(|i| format!("{},{}\n", i % 13, i % 2)).collect();
    fs::write(&table, format!("x,label\n{rows}")).expect("a table");
    let settings = [&format!("data.set={table}") as &str, "data.task=classes", "model.sizes=1,8,2", "train.batch=160"];
    let run = train(&folder, "run", &settings);
    fs::write(&table, format!("x,label\n{}", rows.replace("12,0", "11,0"))).expect("another table");
    let (page, _) = report(&folder, &[&run], &[]);
    assert!(page.contains("Its data cannot be used, so no example is shown:") && page.contains("Not judged"));
    fs::remove_file(&table).expect("a table");
    let (page, _) = report(&folder, &[&run], &[]);
    assert!(page.contains("Its data cannot be used, so no example is shown:") && page.contains("spectrum-1"));
    assert!(page.contains("No example was predicted."));

    fs::remove_dir_all(Path::new(&run).join("checkpoints")).expect("checkpoints");
    let (page, _) = report(&folder, &[&run], &[]);
    assert!(page.contains("Its weights cannot be shown:") && page.contains("No run has a checkpoint to look into."));
    assert!(page.contains("id=\"nll\""), "the log is still there");
}
