//! Tests on the real data sets, which run when `KTIED_DATA` names their folder. All expected numbers are from an independent
//! reading of the same files (Python).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use super::bounded::tests::Folder;
use super::imdb::{self, words_digest};
use super::npy::tests::npy;
use super::stream::tests::assert_same;
use super::words::{FIRST_WORD, Vocabulary};
use super::{DataSet, DataSpec, Inputs, Split, Targets, Units, idx, load, place, standard::STANDARD, stream};

/// Past the test runner, which keeps what a passing test prints.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The folder with the data sets, or a loud word that a test did not run.
fn data_dir(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os(place::VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    if dir.is_none() {
        say(&format!("SKIPPED {test}: set {} to a folder with the real data sets to run it", place::VARIABLE));
    }
    dir
}

fn timed(spec: &DataSpec) -> DataSet {
    let begin = Instant::now();
    let set = load(spec).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    let lens = [&set.train, &set.validation, &set.test].map(Split::len);
    say(&format!("{}: {lens:?} examples in {seconds:.2} s, digest {}", set.name, set.digest));
    set
}

fn counts(split: &Split) -> Vec<usize> {
    let Targets::Classes { labels, num_classes } = &split.targets else { panic!("classes") };
    (0..*num_classes).map(|class| labels.iter().filter(|&&label| label as usize == class).count()).collect()
}

fn labels(split: &Split, rows: &[usize]) -> Vec<u32> {
    let mut labels = Vec::new();
    split.targets.gather_classes(rows, &mut labels).unwrap();
    labels
}

fn bytes(split: &Split) -> &[u8] {
    let Inputs::Bytes { data, .. } = &split.inputs else { panic!("bytes") };
    data
}

fn sum(split: &Split) -> u64 {
    bytes(split).iter().map(|&byte| u64::from(byte)).sum()
}

#[test]
fn mnist_is_the_known_one() {
    if data_dir("mnist_is_the_known_one").is_none() {
        return;
    }
    let set = timed(&DataSpec::named("mnist"));
    assert_eq!(counts(&set.train), [4932, 5678, 4968, 5101, 4859, 4506, 4951, 5175, 4842, 4988]);
    assert_eq!(counts(&set.validation), [991, 1064, 990, 1030, 983, 915, 967, 1090, 1009, 961]);
    assert_eq!(counts(&set.test), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    assert_eq!((sum(&set.train), sum(&set.validation)), (1_309_089_051, 258_209_494));
    assert_eq!(labels(&set.validation, &[0, 1, 2, 3, 4]), [3, 8, 6, 9, 6]);
    assert_eq!(bytes(&set.validation)[400..410], [0, 0, 0, 207, 254, 254, 65, 0, 0, 0]);
    let mut row = Vec::new();
    set.train.inputs.gather(&[0], &mut row).unwrap();
    assert!(row.iter().all(|pixel| (-1.0..=1.0).contains(pixel)) && row[0] == -1.0);
}

#[test]
fn fashion_mnist_is_the_known_one() {
    if data_dir("fashion_mnist_is_the_known_one").is_none() {
        return;
    }
    let set = timed(&DataSpec::named("fashion-mnist"));
    assert_eq!(counts(&set.train), [4977, 5012, 4992, 4979, 4950, 5004, 5030, 5045, 5032, 4979]);
    assert_eq!(counts(&set.test), [1000; 10]);
    assert_eq!((sum(&set.train), sum(&set.validation)), (2_853_847_097, 577_267_072));
}

#[test]
fn cifar_10_is_the_known_one() {
    if data_dir("cifar_10_is_the_known_one").is_none() {
        return;
    }
    let set = timed(&DataSpec::named("cifar10"));
    assert_eq!((counts(&set.train), counts(&set.test)), (vec![5000; 10], vec![1000; 10]));
    assert_eq!(labels(&set.train, &[0, 1, 2, 3, 4]), [6, 9, 9, 4, 1]);
    assert_eq!(bytes(&set.train)[..3], [59, 62, 63]);
    let mut row = Vec::new();
    set.train.inputs.gather(&[0], &mut row).unwrap();
    // pixel/255 − mean, of the first pixel's three channels and of the red and green of pixel 500.
    let means = [0.512_591_137, 0.533_553_490, 0.519_818_824];
    for ((found, pixel), mean) in row.iter().zip([59.0, 62.0, 63.0]).zip(means) {
        assert!((f64::from(*found) - (pixel / 255.0 - mean)).abs() < 1e-7, "{found}");
    }
    for (place, mean) in [(1500, 0.504_995_608), (1501, 0.466_583_922)] {
        let pixel = f64::from(bytes(&set.train)[place]) / 255.0;
        assert!((f64::from(row[place]) - (pixel - mean)).abs() < 1e-7, "{place}");
    }
}

#[test]
fn cifar_100_is_the_known_one() {
    if data_dir("cifar_100_is_the_known_one").is_none() {
        return;
    }
    let set = timed(&DataSpec::named("cifar100"));
    let both: Vec<usize> = counts(&set.train).iter().zip(counts(&set.validation)).map(|(a, b)| a + b).collect();
    assert_eq!((both, counts(&set.test)), (vec![500; 100], vec![100; 100]));
    assert_eq!(labels(&set.train, &[0, 1, 2, 3, 4]), [0x13, 0x1d, 0x00, 0x0b, 0x01]);
    assert_eq!(labels(&set.validation, &[0, 1, 2, 3, 4]), [0x4c, 0x02, 0x62, 0x38, 0x22]);
    let coarse = timed(&DataSpec { coarse: true, ..DataSpec::named("cifar100") });
    assert_eq!(labels(&coarse.train, &[0, 1, 2, 3, 4]), [0x0b, 0x0f, 0x04, 0x0e, 0x01]);
    assert_eq!(counts(&coarse.test), [500; 20]);
    assert_ne!(coarse.digest, set.digest);
}

#[test]
fn imdb_is_the_known_one() {
    let Some(dir) = data_dir("imdb_is_the_known_one") else { return };
    let set = timed(&DataSpec::named("imdb"));
    let (train, validation) = (counts(&set.train), counts(&set.validation));
    say(&format!("imdb: negative and positive reviews: {train:?}, validation {validation:?}"));
    assert_eq!((train[0] + validation[0], counts(&set.test)), (12_500, vec![12_500; 2]));
    let count = |split: &Split, wanted: u32| {
        let Inputs::Tokens { data, width: 80 } = &split.inputs else { panic!("words") };
        assert!(data.iter().all(|&word| word < 20_000));
        data.iter().filter(|&&word| word == wanted).count()
    };
    let both = |wanted| count(&set.train, wanted) + count(&set.validation, wanted);
    assert_eq!([0, 1, 2].map(|wanted| count(&set.test, wanted)), [43_920, 2042, 58_899]);
    assert_eq!([0, 2].map(both), [40_264, 48_996]);
    let mut rows = Vec::new();
    set.test.inputs.gather_tokens(&[0, 24_999], &mut rows).unwrap();
    assert_eq!(rows[70..80], [80, 7, 400, 38, 1587, 11, 124, 34, 533, 10]);
    assert_eq!(rows[150..160], [3, 310, 8613, 4, 3, 8613, 6, 60, 106, 3194]);

    let folder = dir.join("imdb");
    let reviews = imdb::read(&folder).unwrap();
    assert_eq!(words_digest(&reviews), "fb937f301775d55a6416324d166f8abcb71d9f01967cc2a8fbef2983ada982f4");
    words_are_those_of_keras(&folder, &reviews);
}

/// The word list that Keras publishes, if it lies beside the reviews: the same words, and the same most frequent.
fn words_are_those_of_keras(folder: &std::path::Path, reviews: &imdb::Reviews) {
    let Ok(text) = std::fs::read_to_string(folder.join("imdb_word_index.json")) else {
        return say("SKIPPED the comparison with the word list of Keras: there is no imdb_word_index.json");
    };
    let ranks: BTreeMap<String, u32> = serde_json::from_str(&text).unwrap();
    let all = Vocabulary::new(&reviews.train, usize::MAX);
    say(&format!("imdb: {} words in the training reviews, {} in Keras' list", all.len(), ranks.len()));
    assert_eq!(all.len(), ranks.len());
    assert!(ranks.keys().all(|word| all.id(word).is_some()));
    // Both are sorted by frequency, and equals differ in order only: the ten most frequent have no equals.
    let top = |word: &str| all.id(word).map(|id| id - FIRST_WORD + 1);
    assert!(ranks.iter().filter(|&(_, &rank)| rank <= 10).all(|(word, &rank)| top(word) == Some(rank)));
}

#[test]
fn the_uci_tables_are_the_known_ones() {
    if data_dir("the_uci_tables_are_the_known_ones").is_none() {
        return;
    }
    for set in STANDARD.iter().filter(|set| set.name.starts_with("uci/")) {
        let found = timed(&DataSpec::named(set.name));
        assert_eq!([&found.train, &found.validation, &found.test].map(Split::len), set.examples, "{}", set.name);
    }
    let yacht = load(&DataSpec { validation: 0.0, ..DataSpec::named("uci/yacht") }).unwrap();
    let Targets::Values { data, width: 1, units: Units { loc, scale } } = &yacht.test.targets else { panic!("values") };
    assert!((loc[0] - 10.646_462).abs() < 1e-5 && (scale[0] - 15.109_908).abs() < 1e-5, "{loc:?} {scale:?}");
    for (value, original) in data.iter().zip([7.37, 0.86, 3.04]) {
        assert!((value * scale[0] + loc[0] - original).abs() < 1e-4, "{value}");
    }
}

#[test]
fn the_contents_of_all_files_have_the_known_digests() {
    let Some(dir) = data_dir("the_contents_of_all_files_have_the_known_digests") else { return };
    for set in STANDARD {
        let folder = set.find(std::slice::from_ref(&dir)).unwrap();
        let wrong: Vec<_> = set.check(&folder).unwrap().into_iter().filter(|checked| !checked.is_right()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", set.name);
    }
}

#[test]
fn the_raw_files_streamed_are_the_data_sets_own_inputs_bit_for_bit() {
    let name = "the_raw_files_streamed_are_the_data_sets_own_inputs_bit_for_bit";
    let (Some(dir), folder) = (data_dir(name), Folder::new()) else { return };
    for set in ["mnist", "fashion-mnist"] {
        let path = idx::plain_or_gz(&dir.join(set), "t10k-images-idx3-ubyte");
        let set = load(&DataSpec::named(set)).unwrap();
        assert_same(&set.name, &path, None, &set, &set.test);
    }
    for (set, file, num_labels) in [("cifar10", "test_batch.bin", 1), ("cifar100", "test.bin", 2)] {
        let bytes = std::fs::read(dir.join(set).join(file)).unwrap();
        let pixel = |image: &[u8], place: usize| image[num_labels + place % 3 * 1024 + place / 3];
        let images = bytes.chunks(3072 + num_labels);
        let last: Vec<u8> = images.clone().flat_map(|image| (0..3072).map(|place| pixel(image, place))).collect();
        let set = load(&DataSpec::named(set)).unwrap();
        let path = folder.file("x.npy", npy("|u1", "(10000, 32, 32, 3)", &last));
        assert_same(&set.name, &path, None, &set, &set.test);
        let first: Vec<u8> = images.flat_map(|image| image[num_labels..].to_vec()).collect();
        let path = folder.file("x.npy", npy("|u1", "(10000, 3, 32, 32)", &first));
        assert!(stream::open(&path, None, &set.preprocessing).is_err(), "channels first");
    }
    let set = load(&DataSpec::named("imdb")).unwrap();
    let texts = imdb::read(&dir.join("imdb")).unwrap().test;
    let lines: String = texts.iter().map(|text| text.replace('\n', " ") + "\n").collect();
    assert_same("imdb", &folder.file("reviews.txt", lines), None, &set, &set.test);
}

#[test]
fn a_uci_tables_test_rows_streamed_are_the_data_sets_own_inputs_bit_for_bit() {
    let name = "a_uci_tables_test_rows_streamed_are_the_data_sets_own_inputs_bit_for_bit";
    let (Some(dir), folder) = (data_dir(name), Folder::new()) else { return };
    for table in ["yacht", "naval-propulsion-plant"] {
        let files = dir.join("uci/UCI_Datasets").join(table).join("data");
        let text = |name: &str| std::fs::read_to_string(files.join(name)).unwrap();
        let numbers = |name: &str| -> Vec<usize> {
            text(name).split_whitespace().map(|field| field.parse::<f64>().unwrap() as usize).collect()
        };
        let (data, columns) = (text("data.txt"), numbers("index_features.txt"));
        let rows: Vec<Vec<&str>> = data.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |row: usize| columns.iter().map(|&column| rows[row][column]).collect::<Vec<_>>().join(",");
        let lines: String = numbers("index_test_0.txt").into_iter().map(|test| row(test) + "\n").collect();
        let set = load(&DataSpec::named(format!("uci/{table}"))).unwrap();
        assert_same(table, &folder.file("x.csv", lines), None, &set, &set.test);
    }
}
