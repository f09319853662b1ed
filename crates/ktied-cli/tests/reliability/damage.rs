//! The newest checkpoint damaged at a hundred places, and all of them: the one before is used and that is said, and nothing is deleted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Folder, json, ktied, ok};
use crate::{ensure, for_all, selected, stderr};

const FILES: [&str; 3] = ["weights.safetensors", "train_state.safetensors", "manifest.json"];
/// Places in each file, for a cut and for a flipped bit: 17 · 3 · 2 = 102 in all.
const PLACES: usize = 17;

fn train(out: &str) -> Vec<&str> {
    let short = ["train", "--preset", "mlp-digits", "--set", "model.sizes=64,4,10", "--threads", "1"];
    [&short[..], &["--set", "train.steps=6", "--set", "train.checkpoint_steps=2", "--out", out]].concat()
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => all.extend(files(&path)),
            path => drop(all.insert(path.clone(), fs::read(path).expect("a file"))),
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let path = to.join(path.strip_prefix(from).expect("a part of it"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Cut at a place.
    Cut(usize),
    /// One bit flipped at a place.
    Flip(usize),
    /// Another number that is as good as the one it replaces: only the seal tells.
    Edit(&'static str, &'static str),
}

#[derive(Clone, Copy, Debug)]
struct Harm {
    file: &'static str,
    kind: Kind,
}

impl Harm {
    fn to(self, checkpoint: &Path) {
        let path = checkpoint.join(self.file);
        let mut bytes = fs::read(&path).expect("a file");
        let at = |place: usize| place * (bytes.len() - 1) / (PLACES - 1);
        match self.kind {
            Kind::Cut(place) => bytes.truncate(at(place)),
            Kind::Flip(place) => {
                let at = at(place);
                bytes[at] ^= 1 << (place % 8);
            }
            Kind::Edit(from, to) => {
                let text = String::from_utf8(bytes.clone()).expect("text");
                bytes = text.replacen(from, to, 1).into_bytes();
                assert_ne!(text.as_bytes(), bytes, "{from}");
            }
        }
        fs::write(path, bytes).expect("a file");
    }
}

/// Changes after which a manifest is as good as before in everything but its seal.
const EDITS: [Kind; 3] = [
    Kind::Edit("\"seed\": 0", "\"seed\": 1"),
    Kind::Edit("\"skipped\": 0", "\"skipped\": 7"),
    Kind::Edit("\"ktied\": \"0.", "\"ktied\": \"9."),
];

#[test]
fn a_damaged_newest_checkpoint_is_said_and_the_one_before_goes_on() {
    let folder = Folder::new("damaged");
    let whole = folder.join("whole");
    ok(&train(&whole));
    let end = json(&["inspect", &whole])["digest"].clone();
    let before = json(&["inspect", &format!("{whole}/checkpoints/step-00000004")])["digest"].clone();
    let kinds = || (0..PLACES).flat_map(|place| [Kind::Cut(place), Kind::Flip(place)]);
    let places = FILES.iter().flat_map(|&file| kinds().map(move |kind| Harm { file, kind }));
    let mut harms = selected("damaged places", places.collect(), 24);
    harms.extend(EDITS.map(|kind| Harm { file: "manifest.json", kind }));
    for_all("damaged places", &harms, |number, harm| {
        let run = folder.join(&format!("run-{number}"));
        copy(Path::new(&whole), Path::new(&run));
        let newest = Path::new(&run).join("checkpoints/step-00000006");
        harm.to(&newest);
        let damaged = files(&newest);
        let inspected = ktied(&["inspect", &run, "--json"]);
        let found: Value = serde_json::from_slice(&inspected.stdout).unwrap_or_default();
        ensure(found["step"] == 4 && found["digest"] == before, || format!("{harm:?}: inspect found {found}"))?;
        ensure(files(&newest) == damaged, || format!("{harm:?}: inspect changed it"))?;
        let resumed = ktied(&[&train(&run)[..], &["--resume", "--json"]].concat());
        let (report, said): (Value, _) =
            (serde_json::from_slice(&resumed.stdout).unwrap_or_default(), stderr(&resumed));
        ensure(report["digest"] == end, || format!("{harm:?}: {report} {said}"))?;
        let is_said = said.contains("the checkpoint of step 6 is skipped: ") && said.contains(harm.file);
        ensure(is_said, || format!("{harm:?} is not said: {said}"))?;
        let aside = Path::new(&run).join("checkpoints/step-00000006.1.damaged");
        let kept: Vec<_> = files(&aside).into_values().collect();
        ensure(kept == damaged.into_values().collect::<Vec<_>>(), || format!("{harm:?}: it is not kept"))
    });
}

#[test]
fn checkpoints_that_are_all_damaged_are_refused_with_4_and_left_alone() {
    let folder = Folder::new("all-damaged");
    let whole = folder.join("whole");
    ok(&train(&whole));
    for file in FILES {
        for (name, kind) in [("cut", Kind::Cut(PLACES / 2)), ("flip", Kind::Flip(PLACES / 2))] {
            let run = folder.join(&format!("{file}-{name}"));
            copy(Path::new(&whole), Path::new(&run));
            for step in [4, 6] {
                Harm { file, kind }.to(&Path::new(&run).join(format!("checkpoints/step-{step:08}")));
            }
            let before = files(Path::new(&run));
            let resume = [&train(&run)[..], &["--resume"]].concat();
            for args in [&["inspect", &run][..], &["evaluate", &run], &["analyze", &run], &resume] {
                let output = ktied(args);
                let said = stderr(&output);
                assert_eq!(output.status.code(), Some(4), "{args:?}: {said}");
                assert!(said.contains("has no good checkpoint") && said.contains(file), "{args:?}: {said}");
                assert_eq!(files(Path::new(&run)), before, "{args:?}");
            }
        }
    }
}
