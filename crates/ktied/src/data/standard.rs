//! The data sets with names: what is in them, which files they are, and what those contain.

use std::path::{Path, PathBuf};

use super::bounded::{read_file, with_contents};
use super::digest::Digest;
use super::error::{DataError, Fault};
use super::{idx, imdb, uci};
use crate::nearest::nearest;

/// A data set with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    /// Its name, which is its folder's too.
    pub name: &'static str,
    /// How many examples there are to train on, to validate with and to test by.
    pub examples: [usize; 3],
    /// What it is.
    pub about: &'static str,
    /// What it is made of.
    pub kind: Kind,
}

/// What a data set is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Part of this library.
    Embedded,
    /// Four idx files, plain or gzip.
    Idx(&'static [Contents]),
    /// CIFAR's binary files.
    Cifar(&'static [Contents]),
    /// Folders of texts, or one JSON file; SHA-256 of all words.
    Imdb(&'static str),
    /// A table; SHA-256 of its numbers and of its lists.
    Uci(&'static str, &'static str),
}

/// A file and what it holds when it is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its name, without `.gz`.
    pub file: &'static str,
    /// Number of bytes.
    pub len: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: &'static str,
}

/// One comparison of contents with what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What was read.
    pub file: String,
    /// The SHA-256 that it should have.
    pub expected: &'static str,
    /// The SHA-256 that it has.
    pub found: String,
}

impl Checked {
    /// Whether they are equal.
    pub fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

const fn contents(file: &'static str, len: u64, sha256: &'static str) -> Contents {
    Contents { file, len, sha256 }
}

const MNIST: [Contents; 4] = [
    contents("train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    contents("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    contents("t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    contents("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
];

const FASHION_MNIST: [Contents; 4] = [
    contents("train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    contents("train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    contents("t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    contents("t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
];

const CIFAR10: [Contents; 6] = [
    contents("data_batch_1.bin", 30_730_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    contents("data_batch_2.bin", 30_730_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    contents("data_batch_3.bin", 30_730_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    contents("data_batch_4.bin", 30_730_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    contents("data_batch_5.bin", 30_730_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    contents("test_batch.bin", 30_730_000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
];

const CIFAR100: [Contents; 2] = [
    contents("train.bin", 153_700_000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
    contents("test.bin", 30_740_000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
];

const IMDB_WORDS: &str = "fb937f301775d55a6416324d166f8abcb71d9f01967cc2a8fbef2983ada982f4";

const fn uci(name: &'static str, [train, test]: [usize; 2], data: &'static str, lists: &'static str) -> Standard {
    // A tenth of the training rows is kept for validation if nothing else is said.
    let validation = (train + 5) / 10;
    let examples = [train - validation, validation, test];
    Standard { name, examples, about: "regression table, division 0", kind: Kind::Uci(data, lists) }
}

/// All data sets with names.
pub const STANDARD: &[Standard] = &[
    Standard {
        name: "digits",
        examples: [1400, 0, 397],
        about: "8×8 handwritten digits, 10 classes, embedded",
        kind: Kind::Embedded,
    },
    Standard {
        name: "mnist",
        examples: [50_000, 10_000, 10_000],
        about: "28×28 handwritten digits, 10 classes",
        kind: Kind::Idx(&MNIST),
    },
    Standard {
        name: "fashion-mnist",
        examples: [50_000, 10_000, 10_000],
        about: "28×28 clothes, 10 classes",
        kind: Kind::Idx(&FASHION_MNIST),
    },
    Standard {
        name: "cifar10",
        examples: [50_000, 0, 10_000],
        about: "32×32×3 photographs, 10 classes",
        kind: Kind::Cifar(&CIFAR10),
    },
    Standard {
        name: "cifar100",
        examples: [40_000, 10_000, 10_000],
        about: "32×32×3 photographs, 100 classes in 20 groups",
        kind: Kind::Cifar(&CIFAR100),
    },
    Standard {
        name: "imdb",
        examples: [20_000, 5_000, 25_000],
        about: "film reviews, good or bad",
        kind: Kind::Imdb(IMDB_WORDS),
    },
    uci(
        "uci/bostonHousing",
        [455, 51],
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        "05f3365adf2f3dc21ee63795325e07bc2d559aea5a32fe9a0f027ba685ef09fb",
    ),
    uci(
        "uci/concrete",
        [927, 103],
        "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        "102c72aa4a471072cdfd6199c6cd5fb61c24bbb7ac17ef3c3690433b8c9c86c6",
    ),
    uci(
        "uci/energy",
        [691, 77],
        "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
        "c39b0463370594b4d4f2182dd6b9d4149a1502c295d37e40e77ad687f34716c3",
    ),
    uci(
        "uci/kin8nm",
        [7373, 819],
        "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        "59f44c2fed2eb2483009d68e011dfc39004b94bdde8b520f500c2e445879d54a",
    ),
    uci(
        "uci/naval-propulsion-plant",
        [10741, 1193],
        "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        "e3943e2326998f24ae191354499c255b132a49d58ab87adf294a4c3354d3fe70",
    ),
    uci(
        "uci/power-plant",
        [8611, 957],
        "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        "96f111acd2c76b0711fd7da3ae761b04bcf80052e6c2c8644a2e637d23917ca9",
    ),
    uci(
        "uci/protein-tertiary-structure",
        [41157, 4573],
        "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        "402cf52c88dccfce8d9ec57284c1637a6f9a831098eb5596cad55c2c3e71bf93",
    ),
    uci(
        "uci/wine-quality-red",
        [1439, 160],
        "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        "74005a68a13055fc30e8e99fa30365083777398880301592c97bbdea5e92e54a",
    ),
    uci(
        "uci/yacht",
        [277, 31],
        "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        "17d75025b1b2869950245745d947ea42b07b05c3d59d69516cafa986830b607f",
    ),
];

impl Standard {
    /// The data set of this name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn named(name: &str) -> Result<&'static Self, DataError> {
        STANDARD.iter().find(|set| set.name == name).ok_or_else(|| {
            let names: Vec<&str> = STANDARD.iter().map(|set| set.name).collect();
            let nearest = nearest(name, names.iter().copied()).unwrap_or_default().into();
            DataError::UnknownSet { found: name.into(), nearest, names: names.join(", ") }
        })
    }

    /// Its folder: the first of `folders` with a sub-folder of its name decides.
    ///
    /// # Errors
    /// No such sub-folder anywhere, or one that lacks a file. An embedded set has none: its path is empty.
    pub fn find(&self, folders: &[PathBuf]) -> Result<PathBuf, DataError> {
        match self.kind {
            Kind::Embedded => Ok(PathBuf::new()),
            Kind::Uci(..) => {
                let table = self.name.trim_start_matches("uci/");
                let found = folders.iter().find_map(|folder| uci::folder(&folder.join("uci"), table));
                found.ok_or_else(|| self.missing(folders))
            }
            _ => {
                let folder = folders.iter().map(|folder| folder.join(self.name)).find(|folder| folder.is_dir());
                let folder = folder.ok_or_else(|| self.missing(folders))?;
                self.complete(&folder)?;
                Ok(folder)
            }
        }
    }

    /// Refuses a folder that lacks a file.
    fn complete(&self, folder: &Path) -> Result<(), DataError> {
        let lacks = match self.kind {
            Kind::Embedded | Kind::Uci(..) => None,
            Kind::Idx(files) => {
                let lacks = files.iter().find(|contents| !idx::plain_or_gz(folder, contents.file).is_file());
                lacks.map(|contents| format!("{0} or {0}.gz", contents.file))
            }
            Kind::Cifar(files) => {
                files.iter().find(|contents| !folder.join(contents.file).is_file()).map(|contents| contents.file.into())
            }
            Kind::Imdb(_) => (!imdb::is_in(folder)).then(|| "reviews.json or aclImdb/train/neg".into()),
        };
        match lacks {
            Some(file) => Err(DataError::Incomplete { folder: folder.into(), file, hint: self.hint() }),
            None => Ok(()),
        }
    }

    fn missing(&self, folders: &[PathBuf]) -> DataError {
        let looked: Vec<String> = folders.iter().map(|folder| folder.join(self.name).display().to_string()).collect();
        let looked =
            if looked.is_empty() { "any folder (there is no home folder)".into() } else { looked.join(", nor in ") };
        DataError::Missing { set: self.name.into(), looked, hint: self.hint() }
    }

    fn hint(&self) -> String {
        match self.kind {
            Kind::Uci(..) => "no single host has these tables; put a folder with data.txt there, as the \
                              documentation of ktied::data::uci describes"
                .into(),
            _ => format!("get it with `ktied data get {}`", self.name),
        }
    }

    /// Reads all contents and compares their SHA-256 with the known ones.
    ///
    /// # Errors
    /// A file that cannot be read; other contents are not an error here.
    pub fn check(&self, folder: &Path) -> Result<Vec<Checked>, DataError> {
        match self.kind {
            Kind::Embedded => Ok(Vec::new()),
            Kind::Idx(files) => {
                files.iter().map(|contents| contents.check(&idx::plain_or_gz(folder, contents.file))).collect()
            }
            Kind::Cifar(files) => files.iter().map(|contents| contents.check(&folder.join(contents.file))).collect(),
            Kind::Imdb(expected) => {
                let found = imdb::words_digest(&imdb::read(folder)?);
                Ok(vec![Checked { file: "words of all reviews".into(), expected, found }])
            }
            Kind::Uci(data, lists) => {
                let file = "data.txt";
                let found = files_digest(folder, &[file.into()])?;
                let numbers = Checked { file: file.into(), expected: data, found };
                let found = files_digest(folder, &uci::lists(folder))?;
                Ok(vec![numbers, Checked { file: "index_*.txt".into(), expected: lists, found }])
            }
        }
    }
}

impl Contents {
    /// SHA-256 of a file's contents, unpacked, of which no more is read than there should be and one byte.
    ///
    /// # Errors
    /// A file that cannot be read, or that is longer.
    pub fn check(&self, path: &Path) -> Result<Checked, DataError> {
        let found = with_contents(path, |reader| {
            let mut digest = Digest::default();
            let read = digest.reader(std::io::Read::take(reader, self.len + 1));
            match read.map_err(|error| Fault::Packed { message: error.to_string() })? {
                read if read > self.len => Err(Fault::TrailingBytes { what: "contents", expected: self.len as usize }),
                _ => Ok(digest.hex()),
            }
        })?;
        let file = path.file_name().map_or_else(|| self.file.into(), |name| name.to_string_lossy().into_owned());
        Ok(Checked { file, expected: self.sha256, found })
    }
}

/// SHA-256 of several files, one after the other.
fn files_digest(folder: &Path, files: &[String]) -> Result<String, DataError> {
    let mut digest = Digest::default();
    for file in files {
        digest.update(&read_file(&folder.join(file), uci::MAX_TEXT_BYTES)?);
    }
    Ok(digest.hex())
}

#[cfg(test)]
mod tests {
    use super::super::bounded::tests::{Folder, gzip};
    use super::super::digest::sha256;
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        assert_eq!(Standard::named("mnist").map(|set| set.examples), Ok([50_000, 10_000, 10_000]));
        let error = Standard::named("cifar-10").unwrap_err().to_string();
        assert!(error.contains("data set `cifar-10` is unknown: did you mean `cifar10`?"), "{error}");
        let error = Standard::named("uci/yatch").unwrap_err().to_string();
        assert!(error.contains("did you mean `uci/yacht`?"), "{error}");
    }

    #[test]
    fn a_missing_set_says_where_it_was_looked_for_and_how_to_get_it() {
        let folders = ["/nowhere/a", "/nowhere/b"].map(PathBuf::from);
        let error = Standard::named("mnist").unwrap().find(&folders).unwrap_err().to_string();
        let expected =
            "data set `mnist` is not in /nowhere/a/mnist, nor in /nowhere/b/mnist: get it with `ktied data get mnist`";
        assert_eq!(error, expected);
        let error = Standard::named("uci/yacht").unwrap().find(&folders).unwrap_err().to_string();
        assert!(error.contains("/nowhere/a/uci/yacht") && error.contains("no single host"), "{error}");
    }

    #[test]
    fn the_first_folder_with_the_set_decides_and_an_incomplete_one_is_named() {
        let (first, second) = (Folder::new(), Folder::new());
        let folders = [first.0.clone(), second.0.clone()];
        let mnist = Standard::named("mnist").unwrap();
        for contents in &MNIST {
            second.file(&format!("mnist/{}.gz", contents.file), b"");
        }
        assert_eq!(mnist.find(&folders), Ok(second.0.join("mnist")));
        first.file("mnist/train-images-idx3-ubyte", b"");
        let error = mnist.find(&folders).unwrap_err().to_string();
        assert!(
            error.contains("expected train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz, found no such"),
            "{error}"
        );
        first.file("uci/UCI_Datasets/yacht/data/data.txt", b"");
        let yacht = Standard::named("uci/yacht").unwrap().find(&folders);
        assert_eq!(yacht, Ok(first.0.join("uci/UCI_Datasets/yacht/data")));
    }

    #[test]
    fn contents_are_compared_unpacked_and_no_further_than_their_length() {
        let folder = Folder::new();
        let digest: &'static str = sha256(b"abc").leak();
        let contents = contents("a", 3, digest);
        for (name, bytes, is_right) in [
            ("a", b"abc".to_vec(), true),
            ("a", b"abd".to_vec(), false),
            ("a", b"abcd".to_vec(), false),
            ("a", b"ab".to_vec(), false),
            ("a.gz", gzip(b"abc"), true),
            ("a.gz", gzip(b"abcd"), false),
        ] {
            let path = folder.file(name, &bytes);
            let checked = contents.check(&path);
            assert_eq!(checked.is_ok_and(|checked| checked.is_right()), is_right, "{name} {bytes:?}");
        }
    }

    #[test]
    fn names_are_unique_and_digests_complete() {
        let mut names: Vec<_> = STANDARD.iter().map(|set| set.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STANDARD.len());
        for set in STANDARD {
            let digests = match set.kind {
                Kind::Embedded => vec![],
                Kind::Idx(files) | Kind::Cifar(files) => files.iter().map(|contents| contents.sha256).collect(),
                Kind::Imdb(words) => vec![words],
                Kind::Uci(data, lists) => vec![data, lists],
            };
            assert!(digests.iter().all(|digest| digest.len() == 64), "{}", set.name);
        }
    }
}
