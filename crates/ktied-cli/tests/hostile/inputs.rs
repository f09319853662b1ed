//! Inputs for `ktied predict`: arrays, archives, idx files and tables.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

use crate::case::{Case, Expect, Use, case, damaged};

/// Pixels of a digit.
const PIXELS: usize = 64;

fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let header = format!("{dict:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn digits(rows: usize) -> Vec<u8> {
    (0..rows * PIXELS).map(|i| (i % 17) as u8).collect()
}

fn idx(dims: &[u32], data: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_be_bytes()).collect();
    [&[0, 0, 8, (dims.len() / 4) as u8][..], &dims, data].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory is enough")
}

/// A zip archive of stored members.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (vec![], vec![]);
    for (name, data) in members {
        let mut crc = Crc::new();
        crc.update(data);
        let (len, name_len) = ((data.len() as u32).to_le_bytes(), (name.len() as u16).to_le_bytes());
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 33, 0], &crc.sum().to_le_bytes()[..], &len, &len, &name_len, &[0, 0]];
        let at = (out.len() as u32).to_le_bytes();
        out.extend([b"PK\x03\x04", &common.concat()[..], name.as_bytes(), data].concat());
        let rest = [&[0; 10][..], &at, name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &common.concat()[..], &rest].concat());
    }
    let (count, len) = ((members.len() as u16).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let at = (out.len() as u32).to_le_bytes();
    out.extend(directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &len, &at, &[0, 0]].concat());
    out
}

fn lies() -> Vec<Case> {
    let (good, data) = (npy("'|u1'", "False", "(1, 64)", &digits(1)), digits(1));
    let array = |name: &str, descr: &str, shape: &str, part| {
        case(format!("npy {name}"), "x.npy", npy(descr, "False", shape, &data), Expect::Refused(3, part))
    };
    let packed = gzip(&idx(&[1, 8, 8], &data));
    let two = [&packed[..], &packed].concat();
    let bomb = gzip(&idx(&[1 << 14, 8, 8], &vec![0; 64 << 14]));
    vec![
        array("of objects", "'|O'", "(1, 64)", "|O"),
        array("big-endian", "'>f8'", "(1, 8)", ">f8"),
        array("of texts", "'<U4'", "(1, 4)", "<U4"),
        array("of terabytes", "'<f8'", "(1000000000000, 64)", ""),
        array("whose size overflows", "'<f8'", "(4294967296, 4294967296, 64)", ""),
        array("of more than there is", "'|u1'", "(2, 64)", "expected 128 bytes"),
        array("of a negative size", "'|u1'", "(-1, 64)", ""),
        array("of another width", "'|u1'", "(2, 32)", "64"),
        case("npy in Fortran order", "x.npy", npy("'|u1'", "True", "(1, 64)", &data), Expect::Refused(3, "order")),
        case("npy with more after it", "x.npy", [&good[..], b"!"].concat(), Expect::Refused(3, "found more")),
        case("npy of another magic", "x.npy", [b"NUMPY!", &good[6..]].concat(), Expect::Refused(3, "")),
        case("npy with NaN", "x.npy", npy("'<f4'", "False", "(1, 64)", &[0xff; 256]), Expect::Refused(3, "")),
        case("idx of terabytes", "x-idx3-ubyte", idx(&[u32::MAX, 8, 8], &data), Expect::Refused(3, "")),
        case("idx whose size overflows", "x-idx3-ubyte", idx(&[u32::MAX; 3], &data), Expect::Refused(3, "")),
        case("idx with more after it", "x-idx3-ubyte", idx(&[1, 8, 8], &digits(2)), Expect::Refused(3, "found more")),
        case("idx of pixels that are no digits'", "x-idx3-ubyte", idx(&[1, 8, 8], &[99; 64]), Expect::Refused(3, "")),
        case("gzip of two members", "x-idx3-ubyte.gz", two, Expect::Refused(3, "")),
        case("gzip with more after it", "x-idx3-ubyte.gz", [&packed[..], b"!"].concat(), Expect::Refused(3, "")),
        case("gzip that is none", "x-idx3-ubyte.gz", digits(1), Expect::Refused(3, "")),
        // A thousand times its size when it is unpacked, and then it ends too soon.
        case("bomb of a wrong count", "x-idx3-ubyte.gz", bomb[..bomb.len() / 2].to_vec(), Expect::Refused(3, "")),
        // A name is only a name: nothing is unpacked to a path.
        case("npz with a path", "x.npz", zip(&[("../x.npy", &good)]), Expect::Accepted),
        case("npz with a name twice", "x.npz", zip(&[("x.npy", &good), ("x.npy", &good)]), Expect::Refused(3, "x")),
        case("npz without an array", "x.npz", zip(&[("readme.txt", b"none")]), Expect::Refused(3, "")),
        case("npz of nothing", "x.npz", zip(&[]), Expect::Refused(3, "")),
        case("npz with more after it", "x.npz", [&zip(&[("x.npy", &good)])[..], b"!"].concat(), Expect::Either(3)),
        case("no form that is read", "x.pickle", good, Expect::Refused(3, "")),
    ]
}

fn tables() -> Vec<Case> {
    let row = |cell: &str| vec![cell; PIXELS].join(",");
    let names = (0..PIXELS).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",");
    let table = |name: &str, text: String, expect| case(format!("csv {name}"), "x.csv", text.into_bytes(), expect);
    let refused = |part| Expect::Refused(3, part);
    vec![
        table("whole", format!("{names}\n{}\n", row("3")), Expect::Accepted),
        // No line, no example.
        table("of nothing", String::new(), Expect::Accepted),
        table("of NaN", format!("{names}\n{}\n", row("NaN")), refused("line 2")),
        table("of inf", format!("{names}\n{}\n", row("inf")), refused("line 2")),
        table("of 1e999", format!("{names}\n{}\n", row("1e999")), refused("line 2")),
        table("of words", format!("{names}\n{}\n", row("three")), refused("line 2")),
        table("of empty cells", format!("{names}\n{}\n", row("")), refused("line 2")),
        table("short of a cell", format!("{names}\n{}\n", row("3").trim_end_matches(",3")), refused("line 2")),
        table("with a cell more", format!("{names}\n{},3\n", row("3")), refused("line 2")),
        table("with a bad third line", format!("{names}\n{}\n{}\n", row("3"), row("x")), refused("line 3")),
        table("with an open quote", format!("{names}\n\"{}\n", row("3")), refused("")),
        table("with NUL", format!("{names}\n{}\n", row("\0")), refused("")),
        table("of one endless line", "3,".repeat(1 << 20), refused("")),
        case("csv of no UTF-8", "x.csv", vec![0xff; 300], refused("")),
    ]
}

/// Data sets of one's own: labels that are none, and arrays that do not belong together.
pub fn own_sets() -> Vec<Case> {
    let archive = |x: &[u8], y: &[u8]| zip(&[("x_train.npy", x), ("y_train.npy", y)]);
    let x = |rows: usize| npy("'|u1'", "False", &format!("({rows}, 64)"), &digits(rows));
    let labels = |labels: &[u8]| npy("'|u1'", "False", &format!("({},)", labels.len()), labels);
    let all: Vec<u8> = (0..40).map(|i| i % 10).collect();
    let floats = |value: f32| npy("'<f4'", "False", "(40, 64)", &value.to_le_bytes().repeat(40 * 64));
    let float_labels = npy("'<f4'", "False", "(40,)", &f32::NAN.to_le_bytes().repeat(40));
    let signed: Vec<u8> = all.iter().flat_map(|&label| (i64::from(label) - 1).to_le_bytes()).collect();
    let refused = |part| Expect::Refused(3, part);
    let bad = |name: &str, bytes: Vec<u8>| case(format!("own set {name}"), "own.npz", bytes, refused(""));
    let table = |name: &str, text: String| case(format!("own table {name}"), "own.csv", text.into_bytes(), refused(""));
    let cases = vec![
        case("own set whole", "own.npz", archive(&x(40), &labels(&all)), Expect::Accepted),
        bad("with a label less", archive(&x(40), &labels(&all[..39]))),
        bad("with a label more", archive(&x(39), &labels(&all))),
        bad("without labels", zip(&[("x_train.npy", &x(40))])),
        bad("without inputs", zip(&[("y_train.npy", &labels(&all))])),
        bad("of nothing", archive(&x(0), &labels(&[]))),
        bad("with inputs of NaN", archive(&floats(f32::NAN), &labels(&all))),
        bad("with inputs of inf", archive(&floats(f32::INFINITY), &labels(&all))),
        bad("with labels of NaN", archive(&x(40), &float_labels)),
        bad("with a negative label", archive(&x(40), &npy("'<i8'", "False", "(40,)", &signed))),
        bad("with labels of objects", archive(&x(40), &npy("'|O'", "False", "(40,)", &[0; 320]))),
        bad("with inputs in Fortran order", archive(&npy("'|u1'", "True", "(40, 64)", &digits(40)), &labels(&all))),
        bad("with big-endian inputs", archive(&npy("'>f4'", "False", "(40, 64)", &[0; 40 * 256]), &labels(&all))),
        bad(
            "with a name twice",
            zip(&[("x_train.npy", &x(40)), ("x_train.npy", &x(40)), ("y_train.npy", &labels(&all))]),
        ),
        table("without a label column", "a,b\n1,2\n".into()),
        table("of nothing", String::new()),
        table("of a header", "a,label\n".into()),
        table("of NaN", "a,label\nNaN,1\n1,0\n".into()),
        table("with an empty label", "a,label\n1,\n1,0\n".into()),
        table("with a name twice", "a,a,label\n1,1,0\n".into()),
    ];
    cases.into_iter().map(|case| case.used(Use::TrainOn)).collect()
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let array = npy("'|u1'", "False", "(1, 64)", &digits(1));
    let mut cases = damaged("x.npy", &array, 48);
    cases.extend(damaged("x-idx3-ubyte", &idx(&[1, 8, 8], &digits(1)), 16));
    cases.extend(damaged("x-idx3-ubyte.gz", &gzip(&idx(&[1, 8, 8], &digits(1))), 10));
    cases.extend(damaged("x.npz", &zip(&[("x.npy", &array)]), 30));
    cases.extend(lies());
    cases.extend(tables());
    cases
}
