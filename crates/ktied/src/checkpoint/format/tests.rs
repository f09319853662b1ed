//! safetensors files from raw bytes: each way to lie, and thousands of random ones.

use super::*;

/// A file made of a header's text and elements.
fn file(header: &str, elements: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

fn sample() -> NamedTensors {
    let mut tensors = NamedTensors::default();
    for (path, dtype, shape) in
        [("a.loc", Dtype::F32, vec![2, 3]), ("b \"quoted\" ä", Dtype::F32, vec![1]), ("time", Dtype::I64, vec![])]
    {
        let bytes = (0..dtype.bytes_of(&shape).unwrap()).map(|i| i as u8).collect();
        tensors.insert(path, NamedTensor::new(dtype, shape, bytes).unwrap()).unwrap();
    }
    tensors
}

#[test]
fn what_is_written_is_read() {
    for tensors in [NamedTensors::default(), sample()] {
        let bytes = tensors_to_bytes(&tensors);
        assert_eq!(read(&bytes), Ok(tensors));
        let header_end = LENGTH + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(header_end % LENGTH, 0);
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let mut tensors = NamedTensors::default();
    let single = |shape: Vec<usize>, bytes: Vec<u8>| NamedTensor::new(Dtype::F32, shape, bytes).unwrap();
    tensors.insert("a", single(vec![1, 2], vec![0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
    tensors.insert("t", NamedTensor::scalar_i64(3)).unwrap();
    // The bytes that the safetensors crate, version 0.8, writes of the same tensors.
    let header = concat!(
        r#"{"t":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"#,
        r#""a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}   "#
    );
    let elements = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64];
    assert_eq!(tensors_to_bytes(&tensors), file(header, &elements));
}

#[test]
fn remarks_of_other_writers_are_read_over() {
    let bytes =
        file(r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"U32","shape":[1],"data_offsets":[0,4]}}"#, &[1; 4]);
    assert_eq!(read(&bytes).unwrap().get("w").unwrap().bytes(), [1; 4]);
    assert!(matches!(read(&file(r#"{"__metadata__":{"format":3}}"#, &[])), Err(Damage::Header(_))));
}

#[test]
fn each_lie_has_its_own_error() {
    let one = |dtype: &str, shape: &str, offsets: &str, len: usize| {
        let header = format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        read(&file(&header, &vec![0; len])).unwrap_err()
    };
    let offsets = Damage::Offsets { path: "w".into() };
    let shape = |shape: &[u64]| Damage::Shape { path: "w".into(), shape: shape.into() };
    assert_eq!(one("F33", "[1]", "[0,4]", 4), Damage::UnknownDtype { path: "w".into(), dtype: "F33".into() });
    assert_eq!(one("F32", "[2]", "[0,4]", 4), offsets);
    assert_eq!(one("F32", "[1]", "[4,8]", 8), offsets);
    assert_eq!(one("F32", "[1]", "[4,0]", 4), offsets);
    assert_eq!(one("F32", "[2]", "[0,8]", 4), offsets);
    assert_eq!(one("F32", "[18446744073709551615,2]", "[0,4]", 4), shape(&[u64::MAX, 2]));
    assert_eq!(one("F32", "[4294967296,4294967296]", "[0,4]", 4), shape(&[1 << 32, 1 << 32]));
    assert!(matches!(one("F32", "[4294967296,1024]", "[0,4398046511104]", 4), Damage::Offsets { .. }));
    assert!(matches!(one("F32", "[-1]", "[0,4]", 4), Damage::Header(_)));
    assert!(matches!(one("F32", "[1.5]", "[0,4]", 4), Damage::Header(_)));
    assert!(matches!(one("F32", "[1],\"extra\":1", "[0,4]", 4), Damage::Header(_)));
    assert!(matches!(one("F32", "[1]", "[0,4]", 5), Damage::Length { .. }));
}

#[test]
fn tensors_do_not_overlap_nor_leave_gaps_nor_come_twice() {
    let two = |names: [&str; 2], offsets: [&str; 2], len: usize| {
        let entry = |i: usize| format!(r#""{}":{{"dtype":"U32","shape":[1],"data_offsets":{}}}"#, names[i], offsets[i]);
        read(&file(&format!("{{{},{}}}", entry(0), entry(1)), &vec![0; len]))
    };
    assert_eq!(two(["a", "b"], ["[4,8]", "[0,4]"], 8).unwrap().len(), 2);
    assert_eq!(two(["a", "b"], ["[0,4]", "[0,4]"], 4).unwrap_err(), Damage::Offsets { path: "b".into() });
    assert_eq!(two(["a", "b"], ["[0,4]", "[2,6]"], 6).unwrap_err(), Damage::Offsets { path: "b".into() });
    assert_eq!(two(["a", "b"], ["[0,4]", "[5,9]"], 9).unwrap_err(), Damage::Offsets { path: "b".into() });
    let twice = two(["a", "a"], ["[0,4]", "[4,8]"], 8).unwrap_err();
    assert!(matches!(&twice, Damage::Header(message) if message.contains("two tensors `a`")), "{twice}");
}

#[test]
fn a_header_must_fit_into_the_file_and_be_json() {
    for length in [1, 2, MAX_HEADER, MAX_HEADER + 1, u64::MAX] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(b"{");
        let damage = read(&bytes).unwrap_err();
        let expected = if length == 1 {
            matches!(damage, Damage::Header(_))
        } else {
            damage == (Damage::HeaderLength { found: length })
        };
        assert!(expected, "{length}: {damage}");
    }
    for header in ["", "[]", "{}}", "{} x", "{\"w\":3}", "null", "{\"\u{0}\":{}}"] {
        assert!(matches!(read(&file(header, &[])), Err(Damage::Header(_))), "{header}");
    }
    assert!(matches!(read(&[&8u64.to_le_bytes()[..], &[0xff; 8]].concat()), Err(Damage::Header(_))));
    let deep = "[".repeat(100_000);
    assert!(matches!(read(&file(&deep, &[])), Err(Damage::Header(_))));
}

#[test]
fn every_truncation_and_every_extension_is_refused() {
    let bytes = tensors_to_bytes(&sample());
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len}");
    }
    for extra in 1..20 {
        let found = (bytes.len() + extra) as u64;
        let longer = [&bytes[..], &vec![b' '; extra]].concat();
        assert_eq!(read(&longer), Err(Damage::Length { expected: bytes.len() as u64, found }));
    }
    let error = read_tensors(Path::new("run/weights.safetensors"), &bytes[..3]).unwrap_err();
    assert_eq!(error.to_string(), "`run/weights.safetensors` is damaged: it has 3 bytes instead of 8");
}

#[test]
fn random_damage_never_panics_nor_changes_the_amount_of_elements() {
    let bytes = tensors_to_bytes(&sample());
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random(4) {
            let at = random(damaged.len());
            match random(4) {
                0 => damaged[at] ^= 1 << random(8),
                1 => damaged[at] = b"0123456789[]{},:\" eE-."[random(22)],
                2 => damaged.truncate(at.max(1)),
                _ => damaged.insert(at, random(256) as u8),
            }
        }
        if let Ok(tensors) = read(&damaged) {
            accepted += 1;
            // Another writer's file may say the same; what it holds is never more than the file.
            assert!(tensors.iter().map(|(_, tensor)| tensor.bytes().len()).sum::<usize>() <= damaged.len());
            assert_eq!(read(&tensors_to_bytes(&tensors)), Ok(tensors));
        }
    }
    // Flips of elements and of letters in paths are for the digests to find.
    assert!((1..20_000).contains(&accepted));
}
