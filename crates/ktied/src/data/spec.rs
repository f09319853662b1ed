//! Which data, and how: the description that configurations hold, and the data set that comes of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::digits::Digits;
use super::error::DataError;
use super::preprocessing::Preprocessing;
use super::set::{DataSet, Inputs, Scaling, Split, Targets};
use super::standard::{Kind, Standard};
use super::{cifar, digits, idx, imdb, own, place, uci, words};

/// The greatest vocabulary.
pub const MAX_VOCABULARY: usize = 1 << 22;
/// The longest text, in words.
pub const MAX_LENGTH: usize = 1 << 12;

/// Which data, and how.
///
/// ```
/// use ktied::data::{DataSpec, load};
/// let digits = load(&DataSpec::named("digits"))?;
/// assert_eq!((digits.train.len(), digits.validation.len(), digits.test.len()), (1400, 0, 397));
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataSpec {
    /// `mnist`, `fashion-mnist`, `cifar10`, `cifar100`, `imdb`, `digits`, `uci/NAME`; or a path that ends in .npz or .csv, or
    /// of a folder with `x.npy` and `y.npy`.
    pub set: String,
    /// Where named sets are looked for first; then in `$KTIED_DATA` and in the user's cache folder.
    pub dir: Option<PathBuf>,
    /// The label column of a CSV table, if it is not called `label`.
    pub label: Option<String>,
    /// What the targets of a user's own data are.
    pub task: Task,
    /// The fraction kept for validation, where the files do not say: of all rows, or of a UCI table's training rows.
    pub validation: f64,
    /// The fraction of all rows kept for testing, where the files do not say.
    pub test: f64,
    /// The seed of such a division.
    pub seed: u64,
    /// Which of a UCI table's own divisions to take.
    pub split: usize,
    /// Whether to bring tables and floating-point arrays to mean 0 and standard deviation 1.
    pub standardize: bool,
    /// Numbers of words, those for padding, start and unknown included.
    pub vocabulary: usize,
    /// Words a review.
    pub length: usize,
    /// The twenty groups of CIFAR-100 instead of its hundred classes.
    pub coarse: bool,
    /// Examples to train on, the first ones; all if none.
    pub limit: Option<usize>,
}

/// What targets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Classes if they are whole numbers or names, values if not.
    #[default]
    Auto,
    /// One of several classes.
    Classes,
    /// Numbers.
    Values,
}

impl Default for DataSpec {
    fn default() -> Self {
        Self {
            set: "digits".into(),
            dir: None,
            label: None,
            task: Task::Auto,
            validation: 0.1,
            test: 0.1,
            seed: 0,
            split: 0,
            standardize: true,
            vocabulary: 20_000,
            length: 80,
            coarse: false,
            limit: None,
        }
    }
}

impl DataSpec {
    /// The defaults for a set.
    pub fn named(set: impl Into<String>) -> Self {
        Self { set: set.into(), ..Self::default() }
    }

    /// The same with the folder in which a named set was found and with absolute paths, so that it is found again from
    /// anywhere.
    #[must_use]
    pub fn located(self) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
        let Ok(standard) = Standard::named(&self.set) else {
            let set = absolute(Path::new(&self.set));
            // A name that is no set's and no file's keeps its spelling, for the message about it.
            let set = if set.exists() { set.to_string_lossy().into_owned() } else { self.set };
            return Self { set, ..self };
        };
        if matches!(standard.kind, Kind::Embedded) {
            return self;
        }
        let folders = place::folders(self.dir.as_deref());
        let found = folders.into_iter().find(|folder| standard.find(std::slice::from_ref(folder)).is_ok());
        Self { dir: found.or(self.dir).map(|dir| absolute(&dir)), ..self }
    }

    /// Refuses settings that cannot be.
    ///
    /// # Errors
    /// Fractions that leave nothing to train on; a vocabulary or length without words or without end.
    pub fn check(&self) -> Result<(), DataError> {
        let wrong = |key, expected: String, found: String| Err(DataError::Setting { key, expected, found });
        for (key, frac) in [("validation", self.validation), ("test", self.test)] {
            if !(0.0..1.0).contains(&frac) {
                return wrong(key, "at least 0 and less than 1".into(), frac.to_string());
            }
        }
        if self.validation + self.test >= 1.0 {
            let expected = format!("less than {}, so that something is left to train on", 1.0 - self.test);
            return wrong("validation", expected, self.validation.to_string());
        }
        let least = words::FIRST_WORD as usize + 1;
        if !(least..=MAX_VOCABULARY).contains(&self.vocabulary) {
            return wrong("vocabulary", format!("{least} to {MAX_VOCABULARY}"), self.vocabulary.to_string());
        }
        if !(1..=MAX_LENGTH).contains(&self.length) {
            return wrong("length", format!("1 to {MAX_LENGTH}"), self.length.to_string());
        }
        if self.limit == Some(0) {
            return wrong("limit", "at least 1, or none".into(), "0".into());
        }
        Ok(())
    }
}

/// Reads the data set that `spec` describes, checking everything.
///
/// # Errors
/// [`Error::Data`](crate::Error::Data): an unknown or missing set, a file that is not what it should be, a setting that
/// cannot be.
pub fn load(spec: &DataSpec) -> crate::Result<DataSet> {
    spec.check()?;
    let path = Path::new(&spec.set);
    let ends = |end: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(end));
    let set = if ends("npz") {
        own::load_npz(path, spec)?
    } else if ends("csv") {
        own::load_csv(path, spec)?
    } else if path.join("x.npy").is_file() {
        own::load_folder(path, spec)?
    } else {
        load_standard(Standard::named(&spec.set)?, spec)?
    };
    Ok(match spec.limit {
        Some(limit) => set.limited(limit),
        None => set,
    })
}

fn load_standard(set: &Standard, spec: &DataSpec) -> Result<DataSet, DataError> {
    let folder = set.find(&place::folders(spec.dir.as_deref()))?;
    match set.kind {
        Kind::Embedded => embedded(set.name),
        Kind::Idx(_) => idx::load(set.name, &folder),
        Kind::Cifar(_) if set.name == "cifar10" => cifar::load_10(set.name, &folder),
        Kind::Cifar(_) if spec.coarse => cifar::load_100(set.name, &folder, cifar::Labels::Coarse),
        Kind::Cifar(_) => cifar::load_100(set.name, &folder, cifar::Labels::Fine),
        Kind::Imdb(_) => imdb::load(set.name, &folder, spec.vocabulary, spec.length),
        Kind::Uci(..) => uci::load(set.name, &folder, spec),
    }
}

/// The embedded digits, pixels from 0 to 1.
fn embedded(name: &str) -> Result<DataSet, DataError> {
    let digits = Digits::embedded().map_err(|error| DataError::Embedded { message: error.to_string() })?;
    let (images, _) = digits.pixels().as_chunks::<{ digits::NUM_PIXELS }>();
    let scaling = Scaling::Uniform { divisor: digits::MAX_PIXEL.into(), offset: 0.0 };
    let split = |rows: &[usize]| Split {
        inputs: Inputs::Bytes {
            data: rows.iter().filter_map(|&row| images.get(row)).flatten().copied().collect(),
            width: digits::NUM_PIXELS,
            scaling: scaling.clone(),
        },
        targets: Targets::Classes {
            labels: rows.iter().filter_map(|&row| digits.labels().get(row)).map(|&label| label.into()).collect(),
            num_classes: digits::NUM_CLASSES,
        },
    };
    let rows = digits::split_rows();
    let image = Some([digits::SIDE, digits::SIDE, 1]);
    let preprocessing = Preprocessing::pixels(digits::NUM_PIXELS, scaling.clone(), digits::MAX_PIXEL, image);
    Ok(DataSet::new(name, [split(&rows.train), split(&[]), split(&rows.test)], preprocessing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_embedded_split() {
        let set = load(&DataSpec::default()).unwrap();
        let (train, test) = Digits::embedded().unwrap().split();
        for (split, examples) in [(&set.train, train), (&set.test, test)] {
            let rows: Vec<usize> = (0..split.len()).collect();
            let (mut inputs, mut labels) = (Vec::new(), Vec::new());
            split.inputs.gather(&rows, &mut inputs).unwrap();
            split.targets.gather_classes(&rows, &mut labels).unwrap();
            assert_eq!(inputs, examples.inputs);
            assert!(labels.iter().zip(&examples.labels).all(|(&a, &b)| a == u32::from(b)));
        }
        assert!(set.validation.is_empty());
        assert_eq!(set.digest, DIGITS_DIGEST, "the digest is a promise to checkpoints");
    }

    const DIGITS_DIGEST: &str = "3c2128aba9ddc27ec9abdafacb5881edfdfb747d38edf30f580ed4ebc3f346d5";

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let refusal = |spec: DataSpec| load(&spec).unwrap_err().to_string();
        let default = DataSpec::default;
        assert_eq!(
            refusal(DataSpec { validation: 1.0, ..default() }),
            "data.validation must be at least 0 and less than 1, got 1"
        );
        assert_eq!(
            refusal(DataSpec { test: f64::NAN, ..default() }),
            "data.test must be at least 0 and less than 1, got NaN"
        );
        let both = refusal(DataSpec { validation: 0.5, test: 0.5, ..default() });
        assert_eq!(both, "data.validation must be less than 0.5, so that something is left to train on, got 0.5");
        assert_eq!(refusal(DataSpec { vocabulary: 3, ..default() }), "data.vocabulary must be 4 to 4194304, got 3");
        assert_eq!(refusal(DataSpec { length: 0, ..default() }), "data.length must be 1 to 4096, got 0");
        assert_eq!(refusal(DataSpec { limit: Some(0), ..default() }), "data.limit must be at least 1, or none, got 0");
        assert!(refusal(DataSpec::named("mnits")).contains("did you mean `mnist`?"));
        assert!(refusal(DataSpec::named("no-such-file.npz")).starts_with("cannot open no-such-file.npz"));
    }

    #[test]
    fn a_limit_keeps_the_first_training_examples_and_all_others() {
        let [all, some] = [None, Some(100)].map(|limit| load(&DataSpec { limit, ..DataSpec::default() }).unwrap());
        assert_eq!((some.train.len(), some.test.len()), (100, all.test.len()));
        let rows: Vec<usize> = (0..100).collect();
        let gathered = |set: &DataSet| {
            let (mut inputs, mut labels) = (Vec::new(), Vec::new());
            set.train.inputs.gather(&rows, &mut inputs).unwrap();
            set.train.targets.gather_classes(&rows, &mut labels).unwrap();
            (inputs, labels)
        };
        assert_eq!(gathered(&some), gathered(&all));
        assert_ne!(some.digest, all.digest, "other data have another digest");
        // One that asks for more than there are changes nothing.
        assert_eq!(load(&DataSpec { limit: Some(5000), ..DataSpec::default() }).unwrap(), all);
    }

    #[test]
    fn a_description_is_read_with_defaults_and_without_misspellings() {
        let spec: DataSpec = serde_json::from_str(r#"{"set": "imdb", "task": "classes", "length": 40}"#).unwrap();
        let expected = DataSpec { set: "imdb".into(), task: Task::Classes, length: 40, ..DataSpec::default() };
        assert_eq!(spec, expected);
        let text = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<DataSpec>(&text).unwrap(), expected);
        assert!(serde_json::from_str::<DataSpec>(r#"{"lenght": 40}"#).is_err());
    }
}
