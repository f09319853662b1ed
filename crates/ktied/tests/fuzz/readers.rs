//! The readers, each as a function from bytes to whether they were accepted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use flate2::Compression;
use flate2::write::GzEncoder;
use ktied::checkpoint::{Digest, Manifest, NamedTensors, read_tensors, tensors_to_bytes};
use ktied::config::{Config, Preset, Tree};
use ktied::data::cifar::Labels;
use ktied::data::stream::{self, BadRows, InputStream};
use ktied::data::words::Vocabulary;
use ktied::data::{DataSpec, Preprocessing, Steps, cifar, csv, idx, imdb, load, npy, npz};
use ktied::foreign::{Convention, Foreign};
use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use serde_json::{Deserializer, Value};

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
    reader(
        "idx-gz",
        |folder, bytes| {
            let forms = [bytes, &gzipped(bytes)];
            forms.map(|bytes| streams(folder, "images-idx3-ubyte.gz", bytes, &DIGITS)).contains(&true)
        },
        &["two-members"],
    ),
    reader(
        "cifar",
        |_, bytes| {
            let forms = [(Labels::Ten, 2), (Labels::Fine, 1), (Labels::Coarse, 1)];
            forms.map(|(labels, count)| cifar::Records::default().parse(bytes, labels, count).is_ok()).contains(&true)
        },
        &[],
    ),
    reader(
        "npy",
        |folder, bytes| {
            let forms = [bytes, &measured_array(bytes)].map(|bytes| {
                streams(folder, "x.npy", bytes, &DIGITS);
                npy::Npy::parse(bytes).is_ok()
            });
            forms.contains(&true)
        },
        &["big-endian", "bool", "f8-fortran", "u2-fortran", "version-3"],
    ),
    reader(
        "npz",
        |folder, bytes| {
            let archives =
                [bytes, &zipped(bytes, ["x", "y"], <[u8]>::to_vec), &zipped(bytes, ["x", "y"], measured_array)];
            let archives = archives.map(|bytes| {
                streams(folder, "x.npz", bytes, &DIGITS);
                own(folder, "own.npz", bytes);
                npz::parse(bytes, &["x", "y"]).is_ok()
            });
            archives.contains(&true)
        },
        &[],
    ),
    reader(
        "csv",
        |folder, bytes| {
            own(folder, "own.csv", bytes);
            let forms = [streams(folder, "x.csv", bytes, &DIGITS), csv::Csv::parse(bytes, "label").is_ok()];
            forms.contains(&true)
        },
        &["values"],
    ),
    reader(
        "uci",
        |folder, bytes| {
            table(folder, bytes);
            load(&DataSpec { set: "uci/yacht".into(), dir: Some(folder.path().into()), ..DataSpec::default() }).is_ok()
        },
        &["twice"],
    ),
    reader(
        "imdb",
        |folder, bytes| {
            folder.file("reviews.json", bytes);
            imdb::read(folder.path()).is_ok()
        },
        &["too-few"],
    ),
    reader("text", |folder, bytes| streams(folder, "x.txt", bytes, &WORDS), &["no-utf-8"]),
    reader(
        "safetensors",
        |_, bytes| {
            let forms = [bytes, &measured(bytes)];
            forms.map(|bytes| tensors(bytes).is_some_and(|read| is_kept(&read))).contains(&true)
        },
        &[],
    ),
    reader("manifest", |_, bytes| manifest(bytes) || manifest(&sealed(bytes)), &[]),
    reader("config", |_, bytes| std::str::from_utf8(bytes).is_ok_and(configured), &["wrong"]),
    reader(
        "foreign-npz",
        |folder, bytes| {
            let names = ["loc", "untransformed_scale"].map(|end| format!("dense/kernel_posterior_{end}:0"));
            let names = names.each_ref().map(|name| &name[..]);
            let archives = [bytes, &zipped(bytes, names, <[u8]>::to_vec), &zipped(bytes, names, measured_array)];
            archives.map(|bytes| foreign(&folder.file("posterior.npz", bytes))).contains(&true)
        },
        &["texts"],
    ),
    reader(
        "foreign-safetensors",
        |folder, bytes| {
            let forms = [bytes, &measured(bytes)];
            forms.map(|bytes| foreign(&folder.file("posterior.safetensors", bytes))).contains(&true)
        },
        &[],
    ),
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

/// The files of a table of numbers, which form feeds part: as many of them as there are.
fn table(folder: &Scratch, bytes: &[u8]) {
    const NAMES: [&str; 5] =
        ["data.txt", "index_features.txt", "index_target.txt", "index_train_0.txt", "index_test_0.txt"];
    let place = folder.path().join("uci/yacht");
    std::fs::create_dir_all(&place).unwrap();
    let mut parts = bytes.split(|&byte| byte == 0x0c);
    for path in NAMES.map(|name| place.join(name)) {
        match parts.next() {
            Some(part) => std::fs::write(path, part).unwrap(),
            None if path.exists() => std::fs::remove_file(path).unwrap(),
            None => {}
        }
    }
}

/// A configuration file by itself, and over the preset that it names.
fn configured(text: &str) -> bool {
    let is_good = |config: Config| config.check().is_ok_and(|()| is_written_back(&config));
    let whole = Config::from_toml(text).is_ok_and(is_good);
    let changed = text.parse::<toml::Table>().is_ok_and(|mut table| {
        let named = table.remove("preset").and_then(|name| name.as_str()?.parse::<Preset>().ok());
        let mut tree = Tree::of(&named.unwrap_or(Preset::MlpMnist).config());
        tree.overlay(&table).is_ok() && tree.config().is_ok_and(is_good)
    });
    whole || changed
}

fn is_written_back(config: &Config) -> bool {
    assert_eq!(Config::from_toml(&config.to_toml()).as_ref(), Ok(config), "another configuration is written");
    assert_eq!(Tree::of(config).config().as_ref(), Ok(config), "another configuration is in the tree");
    true
}

fn tensors(bytes: &[u8]) -> Option<NamedTensors> {
    read_tensors(Path::new("weights.safetensors"), bytes).ok()
}

fn is_kept(read: &NamedTensors) -> bool {
    let again = tensors(&tensors_to_bytes(read)).expect("what was read can be written");
    assert_eq!((again.len(), again.digest()), (read.len(), read.digest()), "other tensors are written");
    true
}

fn manifest(bytes: &[u8]) -> bool {
    let read = |bytes: &[u8]| Manifest::from_bytes(Path::new(Manifest::NAME), bytes).ok();
    let Some(manifest) = read(bytes) else { return false };
    let again =
        read(&manifest.to_bytes().expect("what was read can be written")).expect("what was written can be read");
    assert_eq!((again.tensors, &again.files), (manifest.tensors, &manifest.files), "another manifest is written");
    true
}

/// A manifest with a seal that fits, so that what is under the seal is read.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let open = bytes.strip_suffix(b"\n}").unwrap_or(bytes);
    let sealed = [open, b",\n  \"sha256\": \""].concat();
    let seal = Digest::of(&sealed).to_string();
    [&sealed[..], seal.as_bytes(), b"\"\n}\n"].concat()
}

/// The most bytes of data in files that are mended.
const MOST: usize = 1 << 14;

/// A safetensors file whose header is as long as it says, and its data too, so that what the header says is read.
fn measured(bytes: &[u8]) -> Vec<u8> {
    let rest = bytes.get(8..).unwrap_or_default();
    let mut documents = Deserializer::from_slice(rest).into_iter::<Value>();
    let Some(Ok(header)) = documents.next() else { return bytes.to_vec() };
    let (text, data) = rest.split_at(documents.byte_offset());
    let ends =
        header.as_object().into_iter().flatten().filter_map(|(_, tensor)| tensor.get("data_offsets")?.get(1)?.as_u64());
    let mut data = data.to_vec();
    data.resize(ends.max().unwrap_or(0).min(MOST as u64) as usize, 0);
    [&(text.len() as u64).to_le_bytes(), text, &data].concat()
}

/// The same for an array: a header as long as it says, and as much data as shape and type want.
fn measured_array(bytes: &[u8]) -> Vec<u8> {
    const LENGTH: usize = 8;
    let (size, start) = if bytes.get(6) == Some(&1) { (2, 10) } else { (4, 12) };
    let Some((start, rest)) = bytes.split_at_checked(start) else { return bytes.to_vec() };
    let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
    let (header, data) = rest.split_at(end);
    let text = String::from_utf8_lossy(header);
    let after = |word: &str, end: char| text.split_once(word).and_then(|(_, rest)| Some(rest.split_once(end)?.0));
    let dims =
        after("'shape': (", ')').unwrap_or_default().split(',').filter_map(|dim| dim.trim().parse::<usize>().ok());
    let width = after("'descr': '", '\'').and_then(|kind| kind.get(2..)?.parse().ok()).unwrap_or(1);
    let mut data = data.to_vec();
    data.resize(dims.fold(width, usize::saturating_mul).min(MOST), 0);
    let len = (header.len() as u32).to_le_bytes();
    [&start[..LENGTH], &len[..size], header, &data].concat()
}

/// The bytes as gzip packs them, so that they are not refused for a checksum before they are looked at.
fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// An archive of two arrays whose checksums are right: the bytes, cut where the second array begins, and each as `form` makes it.
fn zipped(bytes: &[u8], names: [&str; 2], form: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY";
    let second = bytes.windows(MAGIC.len()).skip(1).position(|bytes| bytes == MAGIC).map_or(bytes.len(), |at| at + 1);
    let (first, second) = bytes.split_at(second);
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (name, array) in names.into_iter().zip([first, second]) {
        let path = EntryPath::verbatim(format!("{name}.npy").into_bytes());
        let (mut entry, config) = archive.new_file(path).compression_method(CompressionMethod::STORE).start().unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(&form(array)).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

fn foreign(path: &Path) -> bool {
    let Ok(foreign) = Foreign::read(path) else { return false };
    // Some of what one format holds has no place in the other.
    if foreign.write(path).is_ok() {
        let again = Foreign::read(path).expect("what was written can be read");
        // By name: in a file, wide elements come first.
        let by_name = |file: &Foreign| {
            BTreeMap::from_iter(file.tensors().map(|(name, tensor)| (name.to_string(), tensor.clone())))
        };
        assert!(
            by_name(&again) == by_name(&foreign) && again.metadata() == foreign.metadata(),
            "other tensors are written"
        );
    }
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
