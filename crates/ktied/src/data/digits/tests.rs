//! Tests of the embedded digits: the right file, the split, and a file for each way of being wrong.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};

use super::*;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    Digits::parse(bytes).unwrap_err().to_string()
}

/// The text of the right file with one field of one row replaced; both count from 1.
fn with_field(row: usize, column: usize, value: &str) -> Vec<u8> {
    let text = String::from_utf8(gunzip(EMBEDDED).unwrap()).unwrap();
    let mut rows: Vec<String> = text.lines().map(String::from).collect();
    let mut fields: Vec<&str> = rows[row - 1].split(',').collect();
    fields[column - 1] = value;
    rows[row - 1] = fields.join(",");
    gzip((rows.join("\n") + "\n").as_bytes())
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_embedded_file_is_the_published_one() {
    assert_eq!((EMBEDDED.len(), checksum(EMBEDDED)), (57_523, 0x8ddf_f3e8_f21b_bc62));
}

/// Counts and the sum of all pixels are from an independent reading of the file (Python).
#[test]
fn the_embedded_digits_have_the_known_sums() {
    let digits = Digits::embedded().unwrap();
    assert_eq!((digits.pixels().len(), digits.labels().len()), (1797 * 64, 1797));
    assert_eq!(digits.pixels().iter().map(|&pixel| u32::from(pixel)).sum::<u32>(), 561_718);
    assert_eq!(digits.pixels()[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
    assert_eq!(class_counts(digits.labels()), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
}

fn class_counts(labels: &[u8]) -> [usize; NUM_CLASSES] {
    std::array::from_fn(|class| labels.iter().filter(|&&label| usize::from(label) == class).count())
}

#[test]
fn the_parts_of_the_split_are_disjoint_and_cover_all_rows() {
    let SplitRows { train, test } = split_rows();
    assert_eq!((train.len(), test.len()), (1400, 397));
    let mut all = [train, test].concat();
    all.sort_unstable();
    assert_eq!(all, (0..1797).collect::<Vec<_>>());
}

/// Rows and counts are from an independent implementation of the split (Python).
#[test]
fn the_split_never_changes() {
    let SplitRows { train, test } = split_rows();
    assert_eq!(train[..6], [541, 938, 1, 236, 563, 86]);
    assert_eq!(test[..4], [781, 247, 1114, 1774]);
    assert_eq!(test[394..], [1743, 1394, 617]);
    let (train, test) = Digits::embedded().unwrap().split();
    assert_eq!(class_counts(&train.labels), [133, 137, 142, 138, 140, 146, 138, 143, 138, 145]);
    assert_eq!(class_counts(&test.labels), [45, 45, 35, 45, 41, 36, 43, 36, 36, 35]);
}

#[test]
fn inputs_are_the_scaled_pixels_of_the_rows_of_the_split() {
    let digits = Digits::embedded().unwrap();
    let (train, test) = digits.split();
    let rows = split_rows();
    for (part, rows) in [(train, rows.train), (test, rows.test)] {
        for (image, row) in part.inputs.chunks(64).zip(rows) {
            let pixels = &digits.pixels()[64 * row..64 * row + 64];
            assert!(image.iter().zip(pixels).all(|(input, &pixel)| input * 16.0 == f32::from(pixel)));
        }
    }
    assert_eq!([0, 4, 16].map(scaled), [0.0, 0.25, 1.0]);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for len in [0, 1, 9, 30, 1000, EMBEDDED.len() - 8, EMBEDDED.len() - 1] {
        assert!(matches!(Digits::parse(&EMBEDDED[..len]), Err(DigitsError::Truncated)), "{len}");
    }
}

#[test]
fn a_file_that_is_not_gzip_is_refused() {
    let message = refusal(b"0,0,5,13,9,1,0,0,0,0,13,15,10,15");
    assert!(message.starts_with("digits: the gzip file is damaged: "), "{message}");
}

#[test]
fn a_file_whose_checksum_fails_is_refused() {
    let mut bytes = EMBEDDED.to_vec();
    let place = bytes.len() - 6;
    bytes[place] ^= 1;
    assert!(matches!(Digits::parse(&bytes), Err(DigitsError::Damaged(_))));
}

#[test]
fn bytes_after_the_end_are_refused() {
    let message = refusal(&[EMBEDDED, b"xyz"].concat());
    assert_eq!(message, "digits: the gzip file must end where its data do, but 3 more bytes follow");
}

#[test]
fn a_gzip_bomb_is_refused_after_a_bounded_read() {
    assert_eq!(refusal(&gzip(&vec![b'0'; 50 << 20])), "digits: the text must have at most 348618 bytes, got more");
}

#[test]
fn a_missing_and_an_additional_row_are_refused() {
    let text = gunzip(EMBEDDED).unwrap();
    let first = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(refusal(&gzip(&text[first..])), "digits: expected 1797 rows, got 1796");
    assert_eq!(refusal(&gzip(&[&text[..], &text[..first]].concat())), "digits: expected 1797 rows, got 1798");
    assert_eq!(refusal(&gzip(b"")), "digits: expected 1797 rows, got 0");
}

#[test]
fn a_missing_and_an_additional_column_are_refused() {
    assert_eq!(refusal(&with_field(3, 65, "1,2")), "digits: row 3: expected 65 columns, got 66");
    let mut text = gunzip(EMBEDDED).unwrap();
    text.drain(..2);
    assert_eq!(refusal(&gzip(&text)), "digits: row 1: expected 65 columns, got 64");
}

#[test]
fn what_is_not_a_whole_number_is_refused() {
    for field in ["x", "", " 1", "+1", "-1", "1.0", "1\r", "99999999999"] {
        let message = refusal(&with_field(1797, 2, field));
        assert_eq!(
            message,
            format!("digits: row 1797, column 2: expected a small whole number, got `{}`", field.escape_default())
        );
    }
    let message = refusal(&with_field(1, 1, &"long ".repeat(100)));
    assert!(message.ends_with("got `long long long l`"), "{message}");
}

#[test]
fn a_pixel_of_17_is_refused() {
    assert_eq!(refusal(&with_field(7, 64, "17")), "digits: row 7, column 64: expected a pixel from 0 to 16, got 17");
    assert_eq!(refusal(&with_field(7, 1, "256")), "digits: row 7, column 1: expected a pixel from 0 to 16, got 256");
    assert!(Digits::parse(&with_field(7, 64, "16")).is_ok());
}

#[test]
fn a_label_of_10_is_refused() {
    assert_eq!(refusal(&with_field(7, 65, "10")), "digits: row 7, column 65: expected a label from 0 to 9, got 10");
    assert!(Digits::parse(&with_field(7, 65, "9")).is_ok());
}
