//! Files that are no inputs: data sets, configurations, posteriors of other libraries, manifests of checkpoints.

use std::fs;
use std::path::Path;

use ktied::checkpoint::Digest;

use crate::case::{Case, Expect, Use, case, flipped, truncated};

/// A batch of CIFAR-10.
const CIFAR: &str = "cifar10/data_batch_1.bin";
/// Bytes of one.
const CIFAR_LEN: u64 = 30_730_000;
/// The other files of the set.
const SIBLINGS: [&str; 5] =
    ["data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"];
const IMDB: &str = "imdb/reviews.json";
const MANIFEST: &str = "run/checkpoints/step-00000001/manifest.json";

pub fn images() -> Vec<Case> {
    let record: Vec<u8> = (0..3073).map(|i| (i % 10) as u8).collect();
    let train = Use::Train("resnet18-cifar10");
    let refused = |part| Expect::Refused(3, part);
    let big = |name: &str, bytes: &[u8], len, part| case(name, CIFAR, bytes.to_vec(), refused(part)).with_len(len);
    let cut = (0..=record.len())
        .step_by(64)
        .map(|len| case(format!("cifar of {len} bytes"), CIFAR, record[..len].to_vec(), refused("")));
    let mut cases: Vec<Case> = cut.collect();
    cases.extend([
        big("cifar with class 10 in the first record", &[10], CIFAR_LEN, "10"),
        big("cifar with class 255 in the second record", &[&record[..], &[255]].concat(), CIFAR_LEN, "255"),
        big("cifar short of a byte", &record, CIFAR_LEN - 1, ""),
        big("cifar of one record less", &record, CIFAR_LEN - 3073, ""),
        big("cifar with a byte more", &[], CIFAR_LEN + 1, ""),
        big("cifar of a terabyte", &[], 1 << 40, ""),
    ]);
    let with_siblings = |case: Case| Case { siblings: &SIBLINGS, siblings_len: CIFAR_LEN, ..case };
    cases.into_iter().map(|case| with_siblings(case.used(train))).collect()
}

pub fn reviews() -> Vec<Case> {
    let good = br#"[{"t": "a good film", "s": 1}, {"t": "a b\u00e4d one"}]"#;
    let refused = Expect::Refused(3, "");
    let text = |name: &str, text: String| case(format!("reviews {name}"), IMDB, text.into_bytes(), refused);
    // None so short is accepted: there must be 50,000.
    let mut cases = truncated(IMDB, good, refused);
    cases.extend(flipped(IMDB, good, good.len(), refused));
    cases.extend([
        text("that are too few", String::from_utf8_lossy(good).into()),
        text("that are one too many", format!("[{}]", vec![r#"{"t":""}"#; 50_001].join(","))),
        text("of one that is too long", format!(r#"[{{"t":"{}"}}]"#, "x".repeat(2 << 20))),
        text("in an abyss", "[".repeat(1 << 20)),
        text("in an abyss of objects", r#"[{"t":{"t":"#.repeat(1 << 16)),
        text("that are numbers", "[1, 2, 3]".into()),
        text("that are nothing", "[null]".into()),
        text("of a number", r#"[{"t": 1e999}]"#.into()),
        text("of NaN", r#"[{"t": NaN}]"#.into()),
        text("without a text", r#"[{"s": 1}]"#.into()),
        text("with two texts", r#"[{"t": "a", "t": "b"}]"#.into()),
        text("in an object", r#"{"t": "a"}"#.into()),
        text("with more after them", format!("{}x", String::from_utf8_lossy(good))),
        text("of half a surrogate", r#"[{"t": "\ud800"}]"#.into()),
        text("with NUL", "[{\"t\": \"\0\"}]".into()),
        case("reviews of no UTF-8", IMDB, b"[{\"t\": \"\xff\xfe\"}]".to_vec(), refused),
        case("reviews of a terabyte", IMDB, good.to_vec(), refused).with_len(1 << 40),
    ]);
    cases.into_iter().map(|case| case.used(Use::Train("lstm-imdb"))).collect()
}

pub fn configurations() -> Vec<Case> {
    const FILE: &str = "x.toml";
    let good =
        b"preset = \"mlp-digits\"\n[model]\nsizes = [64, 4, 10]\n[train]\nsteps = 3\nbatch = 16\n[optim]\nlr = 1e-3\n";
    let mut cases = vec![case("configuration whole", FILE, good.to_vec(), Expect::Accepted)];
    // A half may be a whole one, and a changed value one that is refused by its key.
    cases.extend(truncated(FILE, good, Expect::EitherByKey(2)).into_iter().skip(1));
    cases.extend(flipped(FILE, good, good.len(), Expect::EitherByKey(2)));
    let bad = |name: &str, text: String, part| {
        case(format!("configuration {name}"), FILE, text.into_bytes(), Expect::Refused(2, part))
    };
    let by_key = |name: &str, text: &str| {
        let text = format!("preset = \"mlp-digits\"\n{text}\n");
        case(format!("configuration {name}"), FILE, text.into_bytes(), Expect::EitherByKey(2))
    };
    cases.extend([
        bad("of an unknown key", "[train]\nepoch = 3\n".into(), "train.epoch"),
        bad("of a key twice", "[train]\nseed = 3\nseed = 4\n".into(), ""),
        bad("of a table twice", "[train]\nseed = 3\n[train]\nbatch = 4\n".into(), ""),
        bad("of a wrong type", "[train]\nbatch = 'many'\n".into(), "train.batch"),
        bad("of an unknown preset", "preset = 'mlp-mnits'\n".into(), "mlp-mnist"),
        bad("of a preset that is no name", "preset = 7\n".into(), "preset"),
        bad("of a number that is too long", format!("[train]\nseed = {}\n", "9".repeat(99)), ""),
        bad("of a negative count", "[train]\nbatch = -1\n".into(), "train.batch"),
        bad("of a date", "[train]\nseed = 1979-05-27\n".into(), "train.seed"),
        bad("in an abyss", format!("a = {}", "[".repeat(100_000)), ""),
        bad("in an abyss of tables", format!("a = {}", "{b = ".repeat(50_000)), ""),
        bad("in an abyss of dots", format!("a{} = 1", ".b".repeat(50_000)), ""),
        bad("with an open quote", "preset = \"mlp".into(), ""),
        bad("with NUL", "preset = \"mlp\0\"".into(), ""),
        by_key("of NaN", "[optim]\nlr = nan"),
        by_key("of inf", "[prior]\nscale = inf"),
        by_key("of 1e999", "[optim]\nlr = 1e999"),
        by_key("of a network of terabytes", "[model]\nsizes = [64, 4000000000, 10]"),
        by_key(
            "of a network that cannot be counted",
            "[model]\nsizes = [64, 9223372036854775807, 9223372036854775807, 10]",
        ),
        by_key("of no layers", "[model]\nsizes = []"),
        by_key("of a batch that cannot be", "[train]\nbatch = 9223372036854775807"),
        by_key("of draws that cannot be", "[estimator]\ndraws = 0"),
        by_key("of a set that is a path", "[data]\nset = '../../../etc/passwd'"),
        case("configuration of no UTF-8", FILE, b"preset = \"\xff\"".to_vec(), Expect::Refused(2, "UTF-8")),
        case("configuration of a terabyte", FILE, good.to_vec(), Expect::Refused(2, "")).with_len(1 << 40),
    ]);
    cases.into_iter().map(|case| case.used(Use::Configure)).collect()
}

pub fn posteriors() -> Vec<Case> {
    const FILE: &str = "x.safetensors";
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ktied/tests/fuzz/corpus/foreign-safetensors");
    let good = fs::read(corpus.join("bayesian-torch")).expect("a good file");
    let mut cases = vec![case("safetensors whole", FILE, good.clone(), Expect::Accepted)];
    cases.extend(truncated(FILE, &good, Expect::Refused(3, "")));
    // A flipped bit in a name makes a request that fits no tensor, which is refused with 2 and without the file.
    cases.extend(flipped(FILE, &good, 96, Expect::EitherByKey(3)));
    let with = |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    let bad = |name: &str, bytes: Vec<u8>| case(format!("safetensors {name}"), FILE, bytes, Expect::Refused(3, ""));
    let tensor = |shape: &str, offsets: &str| {
        format!(r#"{{"fc1.mu_weight":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    cases.extend([
        bad("with a header of exabytes", [&u64::MAX.to_le_bytes()[..], &good[8..]].concat()),
        bad("with a header of a gigabyte", [&(1u64 << 30).to_le_bytes()[..], &good[8..]].concat()),
        bad("without a header", vec![0; 8]),
        bad("with more after it", [&good[..], b"!"].concat()),
        bad("of terabytes", with(&tensor("[1000000000000, 4]", "[0, 16000000000000]"), &[0; 16])),
        bad("whose size overflows", with(&tensor("[4294967296, 4294967296, 4]", "[0, 16]"), &[0; 16])),
        bad("of a negative size", with(&tensor("[-1, 4]", "[0, 16]"), &[0; 16])),
        bad("that ends before it begins", with(&tensor("[1, 4]", "[16, 0]"), &[0; 16])),
        bad("that begins later", with(&tensor("[1, 4]", "[4, 20]"), &[0; 20])),
        bad("of another size", with(&tensor("[1, 3]", "[0, 16]"), &[0; 16])),
        bad("of a type that nobody knows", with(&tensor("[1, 4]", "[0, 16]").replace("F32", "F33"), &[0; 16])),
        bad(
            "with a name twice",
            with(
                &format!("{0},{1}", tensor("[1]", "[0, 4]").trim_end_matches('}'), &tensor("[1]", "[4, 8]")[1..]),
                &[0; 8],
            ),
        ),
        bad("in an abyss", with(&"[".repeat(100_000), &[])),
        bad("of no UTF-8", with("", &[0xff; 16])),
    ]);
    let overlap = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    cases.push(bad("of tensors that overlap", with(overlap, &[0; 12])));
    cases.into_iter().map(|case| case.used(Use::Compress)).collect()
}

/// The manifest of `trained`, damaged; and sealed again, so that what is under the seal is read.
pub fn manifests(trained: &str) -> Vec<Case> {
    let path = Path::new(trained).join(MANIFEST.strip_prefix("run/").expect("a part"));
    let good = fs::read_to_string(path).expect("a manifest");
    let bytes = good.as_bytes();
    let refused = Expect::Refused(4, "");
    let mut cases = vec![case("manifest whole", MANIFEST, bytes.to_vec(), Expect::Accepted)];
    cases.extend(truncated(MANIFEST, bytes, refused).into_iter().step_by(11));
    cases.extend(flipped(MANIFEST, bytes, 48, refused));
    let sealed = |text: &str| {
        let (open, _) = text.rsplit_once("\"sha256\": \"").expect("a seal");
        let sealed = format!("{open}\"sha256\": \"");
        format!("{sealed}{}\"\n}}\n", Digest::of(sealed.as_bytes())).into_bytes()
    };
    assert_eq!(sealed(&good), bytes, "the seal is understood");
    // The configuration in the header has keys of the same names as the list of files.
    let (header, files) = good.split_at(good.find("\"files\": ").expect("the files"));
    let length = files.split("\"length\": ").nth(1).and_then(|rest| rest.split(',').next()).expect("a length");
    let lie = |name: &str, from: &str, to: &str| {
        let text = match files.contains(from) {
            true => format!("{header}{}", files.replacen(from, to, 1)),
            false => format!("{}{files}", header.replacen(from, to, 1)),
        };
        assert_ne!(text, good, "{name}");
        let expect = if from == length { Expect::RefusedElsewhere(4) } else { refused };
        case(format!("manifest {name}"), MANIFEST, sealed(&text), expect)
    };
    cases.extend([
        lie("of another step", "\"step\": 1", "\"step\": 2"),
        lie("of a newer format", "\"format\": 1", "\"format\": 2"),
        lie("of a negative format", "\"format\": 1", "\"format\": -1"),
        lie("of a longer file", length, &format!("1{length}")),
        lie("of exabytes", length, "18446744073709551615"),
        lie("of more than there are", length, "99999999999999999999999"),
        lie("of a path", "\"weights.safetensors\"", "\"../../../weights.safetensors\""),
        lie("of an absolute path", "\"weights.safetensors\"", "\"/etc/passwd\""),
        lie("of a key that nobody knows", "\"seed\":", "\"sed\": 0, \"seed\":"),
        lie("of a digest that is none", "\"tensors\": \"", "\"tensors\": \"x"),
    ]);
    let plain = |name: &str, bytes: Vec<u8>| case(format!("manifest {name}"), MANIFEST, bytes, refused);
    cases.extend([
        plain("in an abyss", vec![b'['; 1 << 20]),
        plain("of no UTF-8", vec![0xff; 300]),
        plain("of a terabyte", bytes.to_vec()).with_len(1 << 40),
        plain("with more after it", [bytes, b"x"].concat()),
    ]);
    cases.into_iter().map(|case| case.used(Use::Inspect)).collect()
}
