//! The readers, each as a function from bytes to whether they were accepted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ktied::checkpoint::{Digest, Manifest, read_tensors};
use ktied::config::{Config, Preset};
use ktied::data::stream::{self, BadRows, InputStream};
use ktied::data::words::Vocabulary;
use ktied::data::{DataSpec, Preprocessing, Steps, cifar, csv, idx, imdb, load, npy, npz};
use ktied::foreign::{Convention, Foreign};

pub struct Reader {
    /// Also the folder of its corpus.
    pub name: &'static str,
    pub read: fn(&Scratch, &[u8]) -> bool,
    /// Files of the corpus that it has to refuse.
    pub refused: &'static [&'static str],
}

const fn reader(name: &'static str, read: fn(&Scratch, &[u8]) -> bool, refused: &'static [&'static str]) -> Reader {
    Reader { name, read, refused }
}

pub const READERS: &[Reader] = &[
    reader("idx", |_, bytes| idx::Idx::parse(bytes, 3).is_ok() || idx::Idx::parse(bytes, 1).is_ok(), &[]),
    reader("idx-gz", |folder, bytes| streams(folder, "images-idx3-ubyte.gz", bytes, &DIGITS), &["two-members"]),
    reader("cifar", |_, bytes| cifar::Records::default().parse(bytes, cifar::Labels::Ten, 2).is_ok(), &[]),
    reader(
        "npy",
        |folder, bytes| {
            streams(folder, "x.npy", bytes, &DIGITS);
            npy::Npy::parse(bytes).is_ok()
        },
        &["big-endian", "bool", "f8-fortran"],
    ),
    reader(
        "npz",
        |folder, bytes| {
            streams(folder, "x.npz", bytes, &DIGITS);
            own(folder, "own.npz", bytes);
            npz::parse(bytes, &["x", "y"]).is_ok()
        },
        &[],
    ),
    reader(
        "csv",
        |folder, bytes| {
            streams(folder, "x.csv", bytes, &DIGITS);
            own(folder, "own.csv", bytes);
            csv::Csv::parse(bytes, "label").is_ok()
        },
        &[],
    ),
    reader(
        "imdb",
        |folder, bytes| {
            folder.file("reviews.json", bytes);
            imdb::read(folder.path()).is_ok()
        },
        &["too-few"],
    ),
    reader("text", |folder, bytes| streams(folder, "x.txt", bytes, &WORDS), &[]),
    reader("safetensors", |_, bytes| read_tensors(Path::new("weights.safetensors"), bytes).is_ok(), &[]),
    reader("manifest", |_, bytes| manifest(bytes) || manifest(&sealed(bytes)), &[]),
    reader("config", |_, bytes| std::str::from_utf8(bytes).is_ok_and(configured), &["wrong"]),
    reader("foreign-npz", |folder, bytes| foreign(&folder.file("posterior.npz", bytes)), &[]),
    reader("foreign-safetensors", |folder, bytes| foreign(&folder.file("posterior.safetensors", bytes)), &[]),
];

/// What the embedded digits want of new inputs: 64 numbers a row.
static DIGITS: LazyLock<Preprocessing> =
    LazyLock::new(|| load(&DataSpec { set: "digits".into(), ..DataSpec::default() }).unwrap().preprocessing);

/// What a network for reviews wants: five words a row.
static WORDS: LazyLock<Preprocessing> = LazyLock::new(|| {
    let vocabulary = Vocabulary::new(&["a film as good as bread".into()], 9);
    Preprocessing { width: 5, steps: Steps::Words { size: 9, vocabulary: Some(Arc::new(vocabulary)) } }
});

/// New inputs for a network, read to the end.
fn streams(folder: &Scratch, name: &str, bytes: &[u8], wanted: &Preprocessing) -> bool {
    match stream::open(&folder.file(name, bytes), None, wanted) {
        Ok(source) => InputStream::new(source, wanted.clone(), 4, BadRows::Refuse).all(|batch| batch.is_ok()),
        Err(_) => false,
    }
}

/// A user's own data set.
fn own(folder: &Scratch, name: &str, bytes: &[u8]) -> bool {
    let set = folder.file(name, bytes).to_string_lossy().into_owned();
    load(&DataSpec { set, ..DataSpec::default() }).is_ok()
}

/// A configuration file over that of a preset.
fn configured(text: &str) -> bool {
    let whole = Config::from_toml(text).is_ok_and(|config| config.check().is_ok());
    let changed = text.parse::<toml::Table>().is_ok_and(|table| {
        let mut tree = ktied::config::Tree::of(&Preset::MlpMnist.config());
        tree.overlay(&table).is_ok() && tree.config().is_ok_and(|config| config.check().is_ok())
    });
    whole || changed
}

fn manifest(bytes: &[u8]) -> bool {
    Manifest::from_bytes(Path::new(Manifest::NAME), bytes).is_ok()
}

/// A manifest with a seal that fits, so that what is under the seal is read.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let open = bytes.strip_suffix(b"\n}").unwrap_or(bytes);
    let sealed = [open, b",\n  \"sha256\": \""].concat();
    let seal = Digest::of(&sealed).to_string();
    [&sealed[..], seal.as_bytes(), b"\"\n}\n"].concat()
}

fn foreign(path: &Path) -> bool {
    let Ok(foreign) = Foreign::read(path) else { return false };
    let found = [Convention::bayesian_torch(), Convention::tfp()].map(|convention| foreign.pairs(&convention).is_ok());
    found.contains(&true)
}

/// A folder of its own for readers that want a path; in memory where the system has one there, because a disk would be what
/// is tried.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
        let folder = root.join(format!("ktied-fuzz-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
