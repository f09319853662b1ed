//! PNG images for `ktied predict`.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::case::{Case, Expect, case, flipped, truncated};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Length, name and checksum of the chunk at the end, which holds nothing.
const END: usize = 12;

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    [&(data.len() as u32).to_be_bytes(), &kind[..], data, &crc.sum().to_be_bytes()].concat()
}

/// A header of this width, height, depth, kind of colours and interlacing.
fn header(width: u32, height: u32, depth: u8, colors: u8, interlaced: u8) -> Vec<u8> {
    let rest = [depth, colors, 0, 0, interlaced];
    chunk(b"IHDR", &[&width.to_be_bytes()[..], &height.to_be_bytes(), &rest].concat())
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).and_then(|()| encoder.finish()).expect("memory is enough")
}

fn picture(chunks: &[Vec<u8>]) -> Vec<u8> {
    [SIGNATURE, &chunks.concat(), &chunk(b"IEND", &[])].concat()
}

/// All of them: the digits' networks want 8×8 pixels.
pub fn cases() -> Vec<Case> {
    // A filter of 0 before each line.
    let pixels: Vec<u8> = (0..8).flat_map(|y| [0, 0, 32, 64, 96, 128, 160, 192, y]).collect();
    let (plain, data) = (header(8, 8, 8, 0, 0), chunk(b"IDAT", &deflated(&pixels)));
    let good = picture(&[plain.clone(), data.clone()]);
    let bomb = deflated(&vec![0; 64 << 20]);
    let text = [b"Comment\0\0", &bomb[..]].concat();
    let profile = [b"icc\0\0", &bomb[..]].concat();
    let refused = |name: &str, chunks: &[Vec<u8>], part| {
        case(format!("png {name}"), "x.png", picture(chunks), Expect::Refused(3, part))
    };
    let accepted =
        |name: &str, chunks: &[Vec<u8>]| case(format!("png {name}"), "x.png", picture(chunks), Expect::Accepted);
    let mut cases = vec![
        accepted("whole", &[plain.clone(), data.clone()]),
        // What is no pixel is not unpacked.
        accepted("with a text that is a bomb", &[plain.clone(), chunk(b"zTXt", &text), data.clone()]),
        accepted("with a profile that is a bomb", &[plain.clone(), chunk(b"iCCP", &profile), data.clone()]),
        accepted("of more pixels than it says", &[plain.clone(), chunk(b"IDAT", &bomb)]),
        refused("of fewer pixels than it says", &[plain.clone(), chunk(b"IDAT", &deflated(&pixels[..40]))], "PNG"),
        refused("of another size", &[header(9, 8, 8, 0, 0), data.clone()], "8×9"),
        refused("of four billion pixels a side", &[header(i32::MAX as u32, i32::MAX as u32, 16, 6, 0)], "8×8"),
        refused("of no width", &[header(0, 8, 8, 0, 0), data.clone()], "PNG"),
        refused("of three bits", &[header(8, 8, 3, 0, 0), data.clone()], "PNG"),
        refused("of unknown colours", &[header(8, 8, 8, 5, 0), data.clone()], "PNG"),
        refused("of unknown interlacing", &[header(8, 8, 8, 0, 7), data.clone()], "PNG"),
        refused("of a palette that is missing", &[header(8, 8, 8, 3, 0), data.clone()], "PNG"),
        refused("with its header twice", &[plain.clone(), plain.clone(), data.clone()], "PNG"),
        refused("without a header", std::slice::from_ref(&data), "PNG"),
        refused("without pixels", std::slice::from_ref(&plain), "PNG"),
        refused("of bytes that are not deflated", &[plain.clone(), chunk(b"IDAT", &pixels)], "PNG"),
        refused("of an unknown filter", &[plain, chunk(b"IDAT", &deflated(&[9; 72]))], "PNG"),
        case("png that is a GIF", "x.png", b"GIF89a\x08\0\x08\0".to_vec(), Expect::Refused(3, "PNG")),
        case("png of nothing", "x.png", vec![], Expect::Refused(3, "PNG")),
    ];
    // Without its last chunk an image is whole all the same.
    cases.extend(truncated("x.png", &good[..good.len() - END], Expect::Refused(3, "PNG")));
    cases.extend(flipped("x.png", &good, good.len() - END, Expect::Either(3)));
    cases
}
