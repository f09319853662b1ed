//! Every form of file against the data set's own inputs, bit for bit, and each way of being wrong.

use std::path::PathBuf;

use rawzip::CompressionMethod;

use super::super::bounded::tests::{Folder, gzip};
use super::super::npy::tests::npy;
use super::super::npz::tests::npz;
use super::super::{DataSet, DataSpec, Split, Steps, load};
use super::*;

fn stream(path: &Path, array: Option<&str>, wanted: &Preprocessing, bad_rows: BadRows) -> InputStream {
    InputStream::new(open(path, array, wanted).unwrap(), wanted.clone(), 3, bad_rows)
}

/// All inputs of a file, with their names.
fn read(path: &Path, array: Option<&str>, wanted: &Preprocessing) -> (Vec<String>, Vec<f32>) {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for batch in stream(path, array, wanted, BadRows::Refuse) {
        let InputBatch { names: more, inputs } = batch.unwrap();
        names.extend(more);
        match inputs {
            HostInputs::Rows(rows) => values.extend(rows),
            HostInputs::Words(words) => values.extend(words.into_iter().map(|word| word as f32)),
        }
    }
    (names, values)
}

/// What the data set itself has of a split.
fn own(split: &Split) -> Vec<f32> {
    let rows: Vec<usize> = (0..split.len()).collect();
    let (mut numbers, mut words) = (Vec::new(), Vec::new());
    match split.inputs.gather(&rows, &mut numbers) {
        Ok(()) => numbers,
        Err(_) => {
            split.inputs.gather_tokens(&rows, &mut words).unwrap();
            words.into_iter().map(|word| word as f32).collect()
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

pub(crate) fn assert_same(what: &str, path: &Path, array: Option<&str>, set: &DataSet, split: &Split) {
    let (names, found) = read(path, array, &set.preprocessing);
    assert!(bits(&found) == bits(&own(split)), "{what}: other inputs than the data set's own");
    let numbers: Vec<String> = (1..=split.len()).map(|row| row.to_string()).collect();
    assert_eq!(names, numbers, "{what}");
}

/// The first fault of a file in strict mode, without the file's name.
fn refusal(folder: &Folder, name: &str, bytes: &[u8], wanted: &Preprocessing) -> String {
    let path = folder.file(name, bytes);
    let error = match open(&path, None, wanted) {
        Err(error) => error,
        Ok(source) => InputStream::new(source, wanted.clone(), 2, BadRows::Refuse).find_map(Result::err).unwrap(),
    };
    let message = error.to_string();
    message.strip_prefix(&format!("{}: ", path.display())).expect("the file's name").into()
}

fn bytes_of<const SIZE: usize, T: Copy>(data: &[T], to_bytes: impl Fn(T) -> [u8; SIZE]) -> Vec<u8> {
    data.iter().flat_map(|&x| to_bytes(x)).collect()
}

#[test]
fn the_embedded_digits_come_back_bit_for_bit_from_every_form() {
    let set = load(&DataSpec::named("digits")).unwrap();
    let super::super::Inputs::Bytes { data, .. } = &set.test.inputs else { panic!("bytes") };
    let (folder, rows) = (Folder::new(), set.test.len());
    let text: String =
        data.chunks(64).map(|row| row.iter().map(u8::to_string).collect::<Vec<_>>().join(",") + "\n").collect();
    let header: String =
        (0..64).map(|i| format!("pixel{i},")).collect::<String>().trim_end_matches(',').to_string() + "\r\n";
    let wide: Vec<f32> = data.iter().map(|&x| x.into()).collect();
    let idx = [&[0, 0, 8, 3], &(rows as u32).to_be_bytes()[..], &[0, 0, 0, 8, 0, 0, 0, 8], data].concat();
    let floats = npy("<f4", &format!("({rows}, 64)"), &bytes_of(&wide, f32::to_le_bytes));
    let doubles: Vec<f64> = data.iter().map(|&x| x.into()).collect();
    let longs: Vec<i64> = data.iter().map(|&x| x.into()).collect();
    let ints: Vec<i32> = data.iter().map(|&x| x.into()).collect();
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("a.csv", text.clone().into()),
        ("b.csv", format!("\u{feff}{header}\n{}", text.replace(',', " , ")).into()),
        ("c.csv.gz", gzip(text.as_bytes())),
        (
            "quoted.csv",
            text.replace(',', "\",\"").replace('\n', "\"\n\"").trim_end_matches('"').replacen("", "\"", 1).into(),
        ),
        ("a.npy", npy("|u1", &format!("({rows}, 8, 8)"), data)),
        ("b.npy", floats.clone()),
        ("c.npy", npy("<f8", &format!("({rows}, 8, 8, 1)"), &bytes_of(&doubles, f64::to_le_bytes))),
        ("d.npy", npy("<i8", &format!("({rows}, 64)"), &bytes_of(&longs, i64::to_le_bytes))),
        ("e.npy", npy("<i4", &format!("({rows}, 64)"), &bytes_of(&ints, i32::to_le_bytes))),
        ("f.npy.gz", gzip(&floats)),
        ("g.npz", npz(&[("only.npy", floats.clone())], CompressionMethod::DEFLATE)),
        ("t-images-idx3-ubyte", idx.clone()),
        ("t-images-idx3-ubyte.gz", gzip(&idx)),
        ("t.idx", idx),
    ];
    for (name, bytes) in files {
        assert_same(name, &folder.file(name, bytes), None, &set, &set.test);
    }
    for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
        let path = folder.file("h.npz", npz(&[("y.npy", npy("|u1", "(1,)", &[1])), ("x.npy", floats.clone())], method));
        assert_same("h.npz", &path, Some("x"), &set, &set.test);
    }
}

/// Columns of very different sizes, a constant one among them, divided by the file itself.
#[test]
fn an_archive_of_ones_own_comes_back_bit_for_bit() {
    let x = |rows: std::ops::Range<usize>| -> Vec<f64> {
        rows.flat_map(|i| [(i as f64).sin() * 1e-3, 1e6 + (i * i) as f64 / 7.0, 0.1]).collect()
    };
    let doubles = |shape: &str, data: &[f64]| npy("<f8", shape, &bytes_of(data, f64::to_le_bytes));
    let (folder, test) = (Folder::new(), doubles("(8, 3)", &x(20..28)));
    let y = |shape: &str, len| npy("|u1", shape, &vec![1; len]);
    let entries = [
        ("x_train.npy", doubles("(20, 3)", &x(0..20))),
        ("y_train.npy", y("(20,)", 20)),
        ("x_test.npy", test.clone()),
        ("y_test.npy", y("(8,)", 8)),
    ];
    let archive = folder.file("set.npz", npz(&entries, CompressionMethod::DEFLATE));
    for standardize in [true, false] {
        let set = load(&DataSpec { standardize, ..DataSpec::named(archive.to_string_lossy()) }).unwrap();
        assert_same("npz", &archive, Some("x_test"), &set, &set.test);
        assert_same("npy", &folder.file("test.npy", &test), None, &set, &set.test);
        let text: String = x(20..28).chunks(3).map(|row| format!("{:?},{:?},{:?}\n", row[0], row[1], row[2])).collect();
        assert_same("csv", &folder.file("test.csv", text), None, &set, &set.test);
    }
}

#[test]
fn a_table_of_ones_own_comes_back_bit_for_bit_and_its_columns_are_known_by_name() {
    let folder = Folder::new();
    let row = |i: usize| format!("{},{}", i as f64 / 3.0, 1000.0 - (i * i) as f64);
    let text: String = (0..30).map(|i| format!("{},{}\n", row(i), i % 2)).collect();
    let table = folder.file("t.csv", format!("age,income,label\n{text}"));
    let set = load(&DataSpec { test: 0.0, validation: 0.0, ..DataSpec::named(table.to_string_lossy()) }).unwrap();
    // The rows of the table are shuffled in the set: find each by its features.
    let all: String = (0..30).map(|i| row(i) + "\n").collect();
    let (_, found) = read(&folder.file("x.csv", format!("age,\"income\"\n{all}")), None, &set.preprocessing);
    let mut sorted = [bits(&found), bits(&own(&set.train))].map(|rows| {
        let mut rows: Vec<Vec<u32>> = rows.chunks(2).map(<[u32]>::to_vec).collect();
        rows.sort();
        rows
    });
    assert_eq!(sorted[0].len(), 30);
    assert_eq!(std::mem::take(&mut sorted[0]), std::mem::take(&mut sorted[1]));
    let swapped = refusal(&folder, "y.csv", format!("income,age\n{all}").as_bytes(), &set.preprocessing);
    assert_eq!(
        swapped,
        "line 1: expected the columns of the training table in their order, `age` here, found `income`"
    );
    let labelled = refusal(&folder, "z.csv", format!("age,income,label\n{text}").as_bytes(), &set.preprocessing);
    assert_eq!(labelled, "line 1: expected 2 numbers a row, found 3");
}

#[test]
fn a_row_that_is_not_as_it_should_be_is_named_or_skipped_and_counted() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(2));
    let table = "1,2\n3\nx,4\n\n5,6,7\n8,nan\n9,1e999\n10,11\n";
    let sentences = [
        "line 2: expected 2 numbers a row, found 1",
        "line 3: column 1: expected a finite number, found `x`",
        "line 5: expected 2 numbers a row, found 3",
        "line 6: column 2: expected a finite number, found `nan`",
        "line 7: column 2: expected a finite number, found `1e999`",
    ];
    assert_eq!(refusal(&folder, "t.csv", table.as_bytes(), &wanted), sentences[0]);
    let path = folder.file("t.csv", table);
    let mut skipping = stream(&path, None, &wanted, BadRows::Skip);
    let batches: Vec<InputBatch> = skipping.by_ref().map(Result::unwrap).collect();
    assert_eq!(batches.iter().flat_map(InputBatch::names).collect::<Vec<_>>(), ["1", "7"]);
    assert_eq!(batches[0].inputs, HostInputs::Rows(vec![1.0, 2.0, 10.0, 11.0]));
    assert_eq!(skipping.skipped(), 5);
    for (fault, sentence) in skipping.faults().iter().zip(sentences) {
        assert!(fault.to_string().ends_with(sentence), "{fault}, expected {sentence}");
    }
    let floats = npy("<f4", "(3, 2)", &bytes_of(&[1.0, 2.0, f32::NAN, 0.0, 3.0, f32::INFINITY], f32::to_le_bytes));
    assert_eq!(refusal(&folder, "t.npy", &floats, &wanted), "row 2: column 1: expected a finite number, found NaN");
    let mut skipping = stream(&folder.file("t.npy", &floats), None, &wanted, BadRows::Skip);
    assert_eq!(skipping.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 1);
    assert_eq!(skipping.skipped(), 2);
    let many: String = "x\n".repeat(100);
    let mut skipping = stream(&folder.file("many.csv", format!("1,2\n{many}")), None, &wanted, BadRows::Skip);
    assert_eq!(skipping.by_ref().count(), 1);
    assert_eq!((skipping.skipped(), skipping.faults().len()), (100, MAX_KEPT_FAULTS));
}

#[test]
fn every_way_a_file_can_lie_has_its_sentence_before_or_where_it_is_found() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(2));
    let refuse = |name: &str, bytes: &[u8]| refusal(&folder, name, bytes, &wanted);
    let array = |shape: &str, len: usize| npy("<f4", shape, &vec![0; len]);
    assert_eq!(refuse("a.npy", &array("(3, 2)", 23)), "expected 24 bytes of .npy data, found 23");
    assert_eq!(refuse("a.npy", &array("(3, 2)", 25)), "expected the end after 24 bytes of .npy data, found more");
    assert_eq!(refuse("a.npy", &array("(3, 3)", 36)), "expected the shape N×2, found 3×3");
    assert_eq!(refuse("a.npy", &array("(2,)", 8)), "expected the shape N×2, found 2");
    assert_eq!(
        refuse("a.npy", &npy("<c8", "(1, 2)", &[0; 16])),
        "expected numbers of type <f4, <f8, |u1, <i4 or <i8, found `<c8`"
    );
    let claims = array("(9223372036854775807, 2)", 8);
    assert!(refuse("a.npy", &claims).starts_with("expected at most"), "{}", refuse("a.npy", &claims));
    // Packed, the length is known only at the end.
    let short = refuse("a.npy.gz", &gzip(&array("(1000000000000, 2)", 20)));
    assert_eq!(short, "row 3: expected 8 bytes of .npy data, found 4");
    let long = refuse("a.npy.gz", &gzip(&array("(1, 2)", 9)));
    assert_eq!(long, "row 1: expected the end after 8 bytes of .npy data, found more");
    let trailing = [gzip(&array("(1, 2)", 8)), vec![0]].concat();
    assert!(refuse("a.npy.gz", &trailing).contains("after the gzip data"));
    assert!(refuse("a.csv.gz", b"1,2\n").contains("found damage"));
    assert!(refuse("a.npz", b"not a zip").starts_with("expected a zip archive"));
    assert!(refuse("a.jpg", b"").starts_with("expected a file that ends in .npy, .npz, .csv, .txt"));
    assert_eq!(refuse("a.txt", b"good"), "expected rows of numbers, as the network was trained on, found texts");
    let two = npz(&[("a.npy", array("(1, 2)", 8)), ("b.npy", array("(1, 2)", 8))], CompressionMethod::STORE);
    assert_eq!(refuse("a.npz", &two), "expected the name of one of the arrays a, b, found none");
    let path = folder.file("a.npz", &two);
    let other = open(&path, Some("c"), &wanted).err().unwrap().to_string();
    assert!(other.ends_with("expected the name of one of the arrays a, b, found `c`"), "{other}");
    let named = open(&folder.file("a.csv", "1,2"), Some("c"), &wanted).err().unwrap().to_string();
    assert!(named.ends_with("expected a .npz archive, since an array is named"), "{named}");
    let missing = open(&folder.0.join("none.csv"), None, &wanted).err().unwrap();
    assert!(matches!(missing, DataError::Io { .. }), "{missing}");
}

#[test]
fn a_changed_byte_of_an_archive_fails_the_checksum() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(3));
    let mut bytes = npz(&[("x.npy", npy("|u1", "(1, 3)", &[1, 2, 3]))], CompressionMethod::STORE);
    let place = bytes.windows(3).position(|three| three == [1, 2, 3]).unwrap();
    bytes[place] = 7;
    let refused = refusal(&folder, "x.npz", &bytes, &wanted);
    assert!(refused.contains("Invalid checksum"), "{refused}");
}

/// No file, however it was cut or changed, makes the program panic.
#[test]
fn damaged_files_are_refused_or_read_but_never_panic() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(2));
    let array = npy("<f4", "(2, 2)", &[0; 16]);
    let packed = npz(&[("x.npy", array.clone())], CompressionMethod::DEFLATE);
    for (name, bytes) in [("d.npy", array.clone()), ("d.npy.gz", gzip(&array)), ("d.npz", packed)] {
        let try_it = |bytes: &[u8]| {
            let path = folder.file(name, bytes);
            if let Ok(source) = open(&path, None, &wanted) {
                let _ = InputStream::new(source, wanted.clone(), 2, BadRows::Skip).count();
            }
        };
        (0..bytes.len()).for_each(|len| try_it(&bytes[..len]));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x55;
            try_it(&changed);
        }
    }
}

#[test]
fn a_line_without_end_takes_no_more_memory_than_a_line_may() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(2));
    let long = "9".repeat(MAX_LINE_BYTES + 1);
    let path =
        folder.file("long.csv.gz", gzip(format!("{}\n1,2\n{long}\n3,4\n{long}", "0".repeat(1 << 24)).as_bytes()));
    let mut stream = stream(&path, None, &wanted, BadRows::Skip);
    let names: Vec<String> = stream.by_ref().flat_map(|batch| batch.unwrap().names).collect();
    assert_eq!((names.as_slice(), stream.skipped()), (&["1".to_string(), "2".to_string()][..], 3));
    let sentence = stream.faults()[1].to_string();
    assert!(sentence.ends_with("line 3: expected at most 1048576 bytes a line, found more"), "{sentence}");
}

fn reviews() -> (Folder, PathBuf, Preprocessing) {
    let texts = ["a great film".to_string(), "a bad film, a bore".to_string()];
    let vocabulary = super::super::words::Vocabulary::new(&texts, 10);
    let steps = Steps::Words { size: 10, vocabulary: Some(vocabulary.into()) };
    let folder = Folder::new();
    let path = folder.file("reviews.txt", b"A film!\r\n\nunheard of\ncaf\xe9\ngreat");
    (folder, path, Preprocessing { width: 4, steps })
}

#[test]
fn reviews_are_lines_and_an_empty_line_is_an_empty_review() {
    let (_folder, path, wanted) = reviews();
    let mut stream = stream(&path, None, &wanted, BadRows::Skip);
    let batches: Vec<InputBatch> = stream.by_ref().map(Result::unwrap).collect();
    let names: Vec<&String> = batches.iter().flat_map(InputBatch::names).collect();
    assert_eq!(names, ["1", "2", "3", "5"]);
    let Steps::Words { vocabulary: Some(known), .. } = &wanted.steps else { panic!("words") };
    let [a, film, great] = ["a", "film", "great"].map(|word| known.id(word).unwrap() as i32);
    let words: Vec<i32> = batches
        .into_iter()
        .flat_map(|batch| match batch.inputs {
            HostInputs::Words(words) => words,
            HostInputs::Rows(_) => panic!("words"),
        })
        .collect();
    assert_eq!(words, [[0, 1, a, film], [0, 0, 0, 1], [0, 1, 2, 2], [0, 0, 1, great]].concat());
    assert!(
        stream.faults()[0]
            .to_string()
            .ends_with("reviews.txt: line 4: expected UTF-8 text, found other bytes from byte 3 on")
    );
}

#[test]
fn words_that_are_numbers_already_are_taken_as_they_are() {
    let (folder, _, wanted) = reviews();
    let ids = npy("<i8", "(1, 4)", &bytes_of(&[0i64, 1, 9, 3], i64::to_le_bytes));
    let (_, found) = read(&folder.file("ids.npy", &ids), None, &wanted);
    assert_eq!(found, [0.0, 1.0, 9.0, 3.0]);
    let beyond = npy("<i8", "(1, 4)", &bytes_of(&[0i64, 1, 10, 3], i64::to_le_bytes));
    assert_eq!(refusal(&folder, "ids.npy", &beyond, &wanted), "row 1: column 3: expected a word from 0 to 9, found 10");
}

#[test]
fn fractions_where_pixels_are_wanted_are_refused_with_what_to_do() {
    let (folder, wanted) = (Folder::new(), load(&DataSpec::named("digits")).unwrap().preprocessing);
    let half = npy("<f4", "(1, 64)", &bytes_of(&[0.5f32; 64], f32::to_le_bytes));
    assert_eq!(
        refusal(&folder, "half.npy", &half, &wanted),
        "row 1: expected pixels from 0 to 16, found fractions from 0 to 1: multiply them by 16"
    );
}

#[test]
fn batches_are_tensors_of_one_row_an_example() {
    let (folder, wanted) = (Folder::new(), Preprocessing::plain(2));
    let path = folder.file("t.csv", "1,2\n3,4\n5,6\n7,8\n");
    let shapes: Vec<[usize; 2]> = stream(&path, None, &wanted, BadRows::Refuse)
        .map(|batch| match batch.unwrap().on(&Device::flex()) {
            (names, Features::Rows(rows)) => {
                assert_eq!(names.len(), rows.dims()[0]);
                rows.dims()
            }
            (_, Features::Words(_)) => panic!("rows"),
        })
        .collect();
    assert_eq!(shapes, [[3, 2], [1, 2]]);
    assert_eq!(stream(&folder.file("e.csv", ""), None, &wanted, BadRows::Refuse).count(), 0);
}
