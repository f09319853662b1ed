//! Tests of a user's own data: each form of files, what is made of them, and each way of being wrong.

use rawzip::CompressionMethod;

use super::super::bounded::tests::Folder;
use super::super::npy::tests::npy;
use super::super::npz::tests::npz;
use super::super::set::{Inputs, Scaling, Targets, Units};
use super::*;

fn spec() -> DataSpec {
    DataSpec { validation: 0.0, test: 0.0, standardize: false, ..DataSpec::default() }
}

fn floats(shape: &str, data: &[f32]) -> Vec<u8> {
    npy("<f4", shape, &data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

fn ints(shape: &str, data: &[i64]) -> Vec<u8> {
    npy("<i8", shape, &data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

fn from_npz(entries: &[(&str, Vec<u8>)], spec: &DataSpec) -> Result<DataSet, Fault> {
    let entries: Vec<(String, Vec<u8>)> =
        entries.iter().map(|(name, bytes)| (format!("{name}.npy"), bytes.clone())).collect();
    let entries: Vec<(&str, Vec<u8>)> = entries.iter().map(|(name, bytes)| (&name[..], bytes.clone())).collect();
    npz_set(&npz(&entries, CompressionMethod::DEFLATE), "t", spec)
}

fn refusal(entries: &[(&str, Vec<u8>)]) -> String {
    from_npz(entries, &spec()).unwrap_err().to_string()
}

fn csv(text: &str, task: Task) -> Result<DataSet, Fault> {
    csv_set(text.as_bytes(), "t", &DataSpec { task, ..spec() })
}

#[test]
fn the_arrays_of_an_archive_are_its_parts() {
    let set = from_npz(
        &[
            ("x_train", floats("(2, 1, 2)", &[1.0, 2.0, 3.0, 4.0])),
            ("y_train", ints("(2,)", &[0, 2])),
            ("x_val", floats("(1, 1, 2)", &[5.0, 6.0])),
            ("y_val", ints("(1,)", &[1])),
            ("x_test", floats("(1, 1, 2)", &[7.0, 8.0])),
            ("y_test", ints("(1, 1)", &[4])),
        ],
        &DataSpec { validation: 0.5, test: 0.5, ..spec() },
    );
    let set = set.unwrap();
    let inputs = |data: &[f32]| Inputs::Floats { data: data.into(), width: 2, units: Units::default() };
    let classes = |labels: &[u32]| Targets::Classes { labels: labels.into(), num_classes: 5 };
    assert_eq!((set.validation.inputs, set.validation.targets), (inputs(&[5.0, 6.0]), classes(&[1])));
    assert_eq!((set.test.inputs, set.test.targets), (inputs(&[7.0, 8.0]), classes(&[4])));
    assert_eq!(set.train.len(), 2, "the fractions count only where the file does not say");
    assert_eq!(set.digest.len(), 64);
}

#[test]
fn what_an_archive_does_not_divide_the_fractions_do() {
    let x: Vec<u8> = (0..10).collect();
    let y: Vec<i64> = (0..10).collect();
    let spec = DataSpec { validation: 0.2, test: 0.3, ..spec() };
    let set = from_npz(&[("x_train", npy("|u1", "(10,)", &x)), ("y_train", ints("(10,)", &y))], &spec).unwrap();
    assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (5, 2, 3));
    let mut seen = Vec::new();
    for split in [&set.train, &set.validation, &set.test] {
        let (Inputs::Bytes { data, width: 1, scaling }, Targets::Classes { labels, num_classes: 10 }) =
            (&split.inputs, &split.targets)
        else {
            panic!("{split:?}")
        };
        assert_eq!(scaling, &Scaling::Uniform { divisor: 255.0, offset: 0.0 });
        assert!(data.iter().zip(labels).all(|(&x, &y)| u32::from(x) == y), "each input with its own target");
        seen.extend(data.clone());
    }
    seen.sort_unstable();
    assert_eq!(seen, x);
}

#[test]
fn whole_numbers_are_words_and_floating_point_targets_values() {
    let set = from_npz(
        &[("x_train", ints("(2, 2)", &[0, 3, 1, 9])), ("y_train", floats("(2, 2)", &[0.5, 1.5, 2.5, 3.5]))],
        &DataSpec { vocabulary: 10, ..spec() },
    );
    let set = set.unwrap();
    let (Inputs::Tokens { data, width: 2 }, Targets::Values { data: values, width: 2, .. }) =
        (&set.train.inputs, &set.train.targets)
    else {
        panic!("{set:?}")
    };
    assert_eq!((data.len(), values.len()), (4, 4));
}

#[test]
fn every_way_arrays_can_disagree_has_its_sentence() {
    let x = || ("x_train", floats("(2, 1)", &[1.0, 2.0]));
    let y = || ("y_train", ints("(2,)", &[0, 1]));
    assert_eq!(refusal(&[y()]), "expected an array x_train, found y_train");
    assert_eq!(refusal(&[x()]), "expected an array y_train, found x_train");
    assert_eq!(
        refusal(&[x(), y(), ("x_val", floats("(1, 1)", &[1.0]))]),
        "expected an array y_val, found x_train, x_val, y_train"
    );
    assert!(refusal(&[x(), y(), ("x_valid", x().1)]).contains("found `x_valid.npy`"));
    let one = ("y_train", ints("(1,)", &[0]));
    assert_eq!(refusal(&[x(), one]), "expected the shape 2×… of y, one row for each of x, found 1");
    let wide = ("y_train", ints("(2, 3)", &[0; 6]));
    assert_eq!(refusal(&[x(), wide]), "y: expected the shape N or N×1 for classes, found 2×3");
    assert_eq!(refusal(&[x(), ("y_train", ints("()", &[0]))]), "y: expected the shape N or N×width, found ");
    let minus = ("y_train", ints("(2,)", &[0, -1]));
    assert_eq!(refusal(&[x(), minus]), "y: example 2: expected a class from 0 to 65535, found -1");
    let word = ("x_train", ints("(2,)", &[0, 20_000]));
    assert_eq!(refusal(&[word, y()]), "x: example 2: expected a word from 0 to 19999, found 20000");
    let nan = ("x_train", floats("(2,)", &[0.0, f32::NAN]));
    assert_eq!(refusal(&[nan, y()]), "x: expected finite numbers, found NaN at place 1");
    assert_eq!(refusal(&[("x_train", floats("(2, 0)", &[])), y()]), "x: expected at least one number, found none");
    let (wider, label) = (("x_test", floats("(1, 2)", &[0.0; 2])), ("y_test", ints("(1,)", &[0])));
    let message = "x_test: expected rows of 1 floating-point numbers as in the arrays before, found rows of 2 floating-point numbers";
    assert_eq!(refusal(&[x(), y(), wider, label]), message);
    let halves = [x(), ("y_train", floats("(2,)", &[0.0, 0.5]))];
    let error = from_npz(&halves, &DataSpec { task: Task::Classes, ..spec() }).unwrap_err().to_string();
    assert_eq!(error, "y: example 2: expected a class from 0 to 65535, found 0.5");
}

#[test]
fn a_folder_of_two_arrays_is_a_data_set() {
    let folder = Folder::new();
    folder.file("x.npy", floats("(4, 2)", &[1.0; 8]));
    folder.file("y.npy", floats("(4,)", &[1.0, 2.0, 3.0, 4.0]));
    let set = load_folder(&folder.0, &DataSpec { test: 0.25, ..spec() }).unwrap();
    assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (3, 0, 1));
    folder.file("y.npy", b"");
    let error = load_folder(&folder.0, &spec()).unwrap_err().to_string();
    assert!(error.ends_with("y.npy: expected 8 bytes of .npy header, found 0"), "{error}");
}

#[test]
fn labels_of_a_table_are_classes_names_or_values() {
    let targets = |text: &str, task| {
        let set = csv(&format!("a,label\n{text}"), task).unwrap();
        let mut rows: Vec<f64> = match set.train.targets {
            Targets::Classes { labels, .. } => labels.into_iter().map(f64::from).collect(),
            Targets::Values { data, .. } => data.into_iter().map(|x| -f64::from(x)).collect(),
        };
        rows.sort_by(f64::total_cmp);
        (rows, set.class_names)
    };
    let named = |names: &[&str]| names.iter().map(|&name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(targets("1,0\n1,2\n", Task::Auto), (vec![0.0, 2.0], vec![]));
    assert_eq!(targets("1,dog\n1,cat\n1,dog\n", Task::Auto), (vec![0.0, 1.0, 1.0], named(&["cat", "dog"])));
    assert_eq!(targets("1,0.5\n1,2\n", Task::Auto), (vec![-2.0, -0.5], vec![]), "values are marked by their sign here");
    assert_eq!(targets("1,0\n1,2\n", Task::Values), (vec![-2.0, 0.0], vec![]));
    assert_eq!(targets("1,-1\n1,1\n", Task::Classes), (vec![0.0, 1.0], named(&["-1", "1"])));
    let many: String = (0..=MAX_AUTO_CLASSES).map(|i| format!("1,{i}\n")).collect();
    assert_eq!(targets(&many, Task::Auto).0[0], -100.0, "so many whole numbers are values");
    let error = csv("a,label\n1,2\n1,dog\n", Task::Values).unwrap_err().to_string();
    assert!(error.starts_with("row 3: expected a finite number as label, found `dog`"), "{error}");
}

#[test]
fn the_label_column_is_the_one_that_is_named() {
    let text = b"a,price\n1,2.5\n3,4.5\n";
    assert!(csv_set(text, "t", &spec()).unwrap_err().to_string().contains("expected a label column `label`"));
    let named = DataSpec { label: Some("price".into()), ..spec() };
    assert_eq!(csv_set(text, "t", &named).unwrap().train.len(), 2);
}
