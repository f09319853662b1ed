//! `analyze`, `compress` and `prune` of the real program, on a short run on the digits.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Folder, code, json, ok};

fn train(folder: &Folder, posterior: &str) -> String {
    let out = folder.join(&posterior.replace(':', "-"));
    let args = ["train", "--preset", "mlp-digits", "--posterior", posterior, "--quiet", "--set", "train.steps=60"];
    ok(&[&args[..], &["--out", &out]].concat());
    out
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).expect("a text file")
}

#[test]
fn analyze_writes_tables_and_pictures_of_every_layer() {
    let folder = Folder::new("analyze");
    let run = train(&folder, "mean-field");
    let report = json(&["analyze", &run]);
    let layers = report["layers"].as_array().unwrap();
    assert_eq!(
        layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect::<Vec<_>>(),
        ["dense_1", "dense_2", "dense_3"]
    );
    for layer in layers {
        let explained: f64 = layer["scales"]["explained"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum();
        assert!((explained - 1.0).abs() < 1e-9);
        assert!(layer["recommendation"]["why"].as_str().unwrap().contains("rank"));
    }
    let analysis = Path::new(&run).join("analysis");
    let stored: Value = serde_json::from_str(&read(analysis.join("analysis.json"))).unwrap();
    assert_eq!(stored["layers"], report["layers"]);
    assert_eq!(read(analysis.join("layers.csv")).lines().count(), 4);
    // 64 + 64 + 10 singular values of means and as many of scales.
    assert_eq!(read(analysis.join("spectra.csv")).lines().count(), 1 + 2 * 138);
    for name in ["spectra", "scales-dense_1", "scales-dense_2", "scales-dense_3"].map(|name| name.replace('_', "-")) {
        assert!(read(analysis.join(format!("{name}.svg"))).starts_with("<svg"), "{name}");
        assert_eq!(&fs::read(analysis.join(format!("{name}.png"))).unwrap()[1..4], b"PNG", "{name}");
    }
    let text = ok(&["analyze", &run, "--no-pictures", "--out", &folder.join("elsewhere")]);
    assert!(text.contains("eff. rank") && text.contains("dense_3: "), "{text}");
    assert!(!Path::new(&folder.join("elsewhere")).join("spectra.svg").exists());
}

#[test]
fn a_compressed_run_is_a_run_like_any_other() {
    let folder = Folder::new("compress");
    let run = train(&folder, "mean-field");
    for (method, posterior) in [("positive", "k-tied:2"), ("svd", "low-rank:2")] {
        let out = folder.join(method);
        let report = json(&["compress", &run, "--rank", "2", "--method", method, "--samples", "10", "--out", &out]);
        assert_eq!(report["after"]["posterior"], posterior);
        let [before, after] = ["before", "after"].map(|of| report[of]["parameters"].as_u64().unwrap());
        // 8,832 weights and 138 biases, each with its own scale; then 2·(128 + 128 + 74) factors.
        assert_eq!((before, after), (2 * 8_970, 8_832 + 2 * 330 + 2 * 138));
        assert!(report["before"]["bytes"].as_u64() > report["after"]["bytes"].as_u64());
        assert!(report["kl_between"].as_f64().unwrap() >= 0.0);
        assert_eq!(report["layers"].as_array().unwrap().len(), 3);
        let judged = json(&["evaluate", &out, "--samples", "10"]);
        assert_eq!(judged["neg_elbo"], report["after"]["neg_elbo"], "{method}");
        assert_eq!(json(&["inspect", &out])["posterior"], posterior);
        let stored: Value = serde_json::from_str(&read(Path::new(&out).join("compression.json"))).unwrap();
        assert_eq!(stored, report);
    }
    let tuned = folder.join("tuned");
    let report = json(&["compress", &run, "--rank", "1", "--finetune-epochs", "3", "--samples", "5", "--out", &tuned]);
    assert!(report["finetuned"]["neg_elbo"]["value"].as_f64() < report["after"]["neg_elbo"]["value"].as_f64());
    assert_eq!(json(&["inspect", &tuned])["step"], 3 * 6);
    let auto = folder.join("auto");
    let report = json(&["compress", &run, "--rank", "auto", "--tolerance", "5", "--samples", "5", "--out", &auto]);
    assert_eq!((&report["rank"], report["choice"]["rows"].as_array().unwrap().len()), (&1.into(), 1));
    let none = ["compress", &run, "--rank", "auto", "--tolerance=-9", "--max-rank", "2", "--samples", "2", "--out"];
    let (status, message) = code(&[&none[..], &[&folder.join("none")]].concat());
    assert!(status == Some(2) && message.contains("no rank from 1 to 2 loses less than -9"), "{message}");
}

#[test]
fn what_cannot_be_compressed_or_pruned_is_refused_and_nothing_is_written() {
    let folder = Folder::new("refused");
    let (run, tied) = (train(&folder, "mean-field"), train(&folder, "k-tied:2"));
    let point = train(&folder, "point");
    let out = folder.join("out");
    for (arguments, status, part) in [
        (vec!["compress", &run, "--rank", "0"], 2, "layer `dense_1.kernel` is 64×64: rank must be 1 to 64, got 0"),
        (vec!["compress", &run, "--rank", "11"], 2, "layer `dense_3.kernel` is 64×10: rank must be 1 to 10, got 11"),
        (vec!["compress", &run, "--rank", "two"], 2, "a whole number or auto"),
        (vec!["compress", &run, "--rank", "2", "--method", "qr"], 2, "use svd or positive"),
        (vec!["compress", &run, "--rank", "2", "--conv"], 2, "no convolutions"),
        (
            vec!["compress", &tied, "--rank", "1"],
            2,
            "only a mean-field posterior can be compressed, and this one is k-tied:2",
        ),
        (vec!["compress", "no-such-run", "--rank", "1"], 2, "no-such-run"),
        (vec!["prune", &point], 2, "no standard deviations"),
        (vec!["prune", &run, "--keep-frac", "1.5"], 2, "between 0 and 1, got 1.5"),
    ] {
        let (found, message) = code(&[&arguments[..], &["--out", &out]].concat());
        assert!(found == Some(status) && message.contains(part), "{arguments:?}: {found:?} {message}");
        assert!(!Path::new(&out).exists(), "{arguments:?}");
    }
    for command in [vec!["compress", &run, "--rank", "2"], vec!["prune", &run, "--keep-frac", "0.5"]] {
        let (found, message) = code(&[&command[..], &["--out", &tied]].concat());
        assert!(found == Some(2) && message.contains("k-tied-2"), "{message}");
    }
}

#[test]
fn a_pruned_run_is_sparse_and_evaluates() {
    let folder = Folder::new("prune");
    let (run, out) = (train(&folder, "k-tied:2"), folder.join("sparse"));
    let report = json(&["prune", &run, "--keep-frac", "0.5", "--samples", "3", "--out", &out]);
    assert_eq!((&report["kept"], &report["weights"]), (&4416.into(), &8832.into()));
    assert_eq!(report["curve"].as_array().unwrap().len(), 14);
    let judged = json(&["evaluate", &out]);
    assert_eq!(judged["nll"], report["after"]["nll"]);
    let pruning = Path::new(&out).join("pruning");
    assert_eq!(read(pruning.join("curve.csv")).lines().count(), 15);
    assert!(read(pruning.join("curve.svg")).starts_with("<svg") && pruning.join("curve.png").exists());
    // Without a share it takes the sparsest that is good enough; everything is, with such a tolerance.
    let out = folder.join("sparsest");
    let report = json(&["prune", &run, "--tolerance", "100", "--samples", "2", "--out", &out]);
    assert_eq!(report["keep_frac"], 0.01);
}

#[test]
fn a_posterior_of_bayesian_torch_is_made_smaller_where_it_lies() {
    let folder = Folder::new("foreign");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ktied/tests/foreign");
    let source = fixtures.join("bayesian_torch.safetensors").to_string_lossy().into_owned();
    for (write, smaller) in [("factors", true), ("same", false)] {
        let out = folder.join(&format!("{write}.safetensors"));
        let names = ["--names", "bayesian-torch", "--rank", "2", "--write", write, "--out", &out];
        let report = json(&[&["compress", &source][..], &names].concat());
        let [before, after] = [0, 1].map(|side| report["bytes"][side].as_u64().unwrap());
        assert_eq!(after < before, smaller, "{write}: {before} {after}");
        assert!(!report["weights"].as_array().unwrap().is_empty());
        let again = [&["compress", &source][..], &names].concat();
        assert!(code(&again).1.contains("there is a file of this name already"));
    }
    let out = folder.join("out.npz");
    for (arguments, part) in [
        (vec!["--rank", "2"], "say how the file names its tensors"),
        (vec!["--rank", "2", "--names", "{}.nothing,{}.here"], "no "),
        (vec!["--rank", "auto", "--names", "tfp"], "no data to judge by"),
        (vec!["--rank", "900", "--names", "bayesian-torch"], "rank must be 1 to"),
    ] {
        let (status, message) = code(&[&["compress", &source, "--out", &out][..], &arguments].concat());
        assert!(status != Some(0) && message.contains(part), "{arguments:?}: {message}");
        assert!(!Path::new(&out).exists());
    }
}
