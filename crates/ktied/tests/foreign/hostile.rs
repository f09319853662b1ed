//! Files that lie.

use ktied::foreign::{Convention, Foreign};

use super::support::{fixture, npy, npz, refusal, safetensors, scratch};

#[test]
fn every_truncation_is_refused() {
    for name in ["tfp.npz", "bayesian_torch.safetensors"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        for len in (0..whole.len()).step_by(97).chain(whole.len() - 25..whole.len()) {
            refusal(&format!("cut_{name}"), &whole[..len]);
        }
    }
    assert_eq!(refusal("short.safetensors", &[1, 2, 3]), "`FILE` is damaged: it has 3 bytes instead of 8");
    assert!(refusal("short.npz", b"PK").starts_with("FILE: expected a zip archive"));
}

#[test]
fn names_are_taken_once() {
    let entry = |from: usize| format!(r#""w":{{"dtype":"F32","shape":[1],"data_offsets":[{from},{}]}}"#, from + 4);
    let header = format!("{{{},{}}}", entry(0), entry(4));
    let twice = refusal("twice.safetensors", &safetensors(&header, &[0; 8]));
    assert!(twice.starts_with("`FILE` is damaged: its header cannot be read: there are two tensors `w`"), "{twice}");
    let array = || npy("<f4", "False", "(1,)", &[0; 4]);
    let twice = refusal("twice.npz", &npz(&[("w.npy", array()), ("w.npy", array())]));
    assert_eq!(twice, "FILE: expected each array once, found `w` again");
}

#[test]
fn arrays_that_are_no_tensors_are_refused_by_name() {
    let rule = "expected little-endian floats, integers or booleans of up to 64 bits";
    for descr in ["|O", "<U7", "|S3", ">f4", "<c16", "<M8[s]", "|V8", "|b2"] {
        let bytes =
            npz(&[("ok.npy", npy("<f4", "False", "()", &[0; 4])), ("w.npy", npy(descr, "False", "(1,)", b"x"))]);
        assert_eq!(refusal("type.npz", &bytes), format!("FILE: the array `w` holds `{descr}`; {rule}"));
    }
    let long = "x".repeat(5000);
    let refused = refusal("type.npz", &npz(&[("w.npy", npy(&long, "False", "(1,)", b""))]));
    assert!(refused.len() < 200, "{refused}");
    let text = refusal("text.npz", &npz(&[("readme.txt", b"hello".to_vec())]));
    assert_eq!(text, "FILE: expected the arrays by names that end in .npy, found `readme.txt`");
    let header = r#"{"w":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}}"#;
    let unknown = refusal("type.safetensors", &safetensors(header, &[0; 4]));
    assert_eq!(unknown, "`FILE` is damaged: the tensor `w` has elements of the unknown type `F4`");
}

#[test]
fn shapes_that_lie_are_refused_before_memory_is_taken() {
    let refused =
        |shape: &str, len: usize| refusal("shape.npz", &npz(&[("w.npy", npy("<f4", "False", shape, &vec![0; len]))]));
    assert_eq!(refused("(2,)", 4), "FILE: w: expected 8 bytes of .npy data, found 4");
    assert_eq!(refused("(1,)", 5), "FILE: w: expected the end after 4 bytes of .npy data, found more");
    assert_eq!(
        refused("(4294967296, 4294967296)", 4),
        "FILE: w: expected at most 2147483648 bytes, found 4294967296×4294967296×4"
    );
    assert!(refused("(1, 1, 1, 1, 1, 1, 1, 1, 1)", 4).starts_with("FILE: w: expected a .npy header"));
    let refused = |shape: &str, end: u64| {
        let header = format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}}}"#);
        refusal("shape.safetensors", &safetensors(&header, &[0; 4]))
    };
    let place = "`FILE` is damaged: the elements of the tensor `w` are not where its header must put them";
    assert_eq!(refused("[2]", 4), place);
    assert_eq!(refused("[1024,1024]", 4_194_304), place);
    assert_eq!(
        refused("[4294967296,4294967296]", 4),
        "`FILE` is damaged: the tensor `w` has the impossible shape [4294967296, 4294967296]"
    );
}

#[test]
fn a_changed_byte_in_an_archive_fails_its_checksum() {
    let mut bytes = std::fs::read(fixture("tfp.npz")).unwrap();
    let place = bytes.windows(6).position(|six| six == b"\x93NUMPY").unwrap() + 128;
    bytes[place] ^= 1;
    assert!(refusal("flipped.npz", &bytes).starts_with("FILE: net/conv2d_flipout/kernel_posterior_loc:0: "));
}

/// Nothing panics, and whatever is read is read as what it is.
#[test]
fn random_damage_is_refused_or_read() {
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for (name, convention) in
        [("tfp.npz", Convention::tfp()), ("bayesian_torch.safetensors", Convention::bayesian_torch())]
    {
        let whole = std::fs::read(fixture(name)).unwrap();
        let (path, mut refused) = (scratch(&format!("damaged_{name}")), 0);
        for _ in 0..400 {
            let mut bytes = whole.clone();
            // The beginning holds a header, the end of an archive its directory.
            let at = if random(2) == 0 { random(3000) } else { whole.len() - 1 - random(1500) };
            bytes[at] ^= 1 << random(8);
            std::fs::write(&path, &bytes).unwrap();
            let pairs = Foreign::read(&path).and_then(|file| file.pairs(&convention));
            refused += usize::from(pairs.is_err());
        }
        assert!((1..400).contains(&refused), "{name}: {refused}");
    }
}
