//! Images of every kind, what becomes of their pixels, and each way of being wrong.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::png::Encoder;
use burn::tensor::Device;
use ktied::data::stream::{BadRows, InputStream};
use ktied::data::{DataSpec, Scaling, load};
use ktied::models::Features;

use super::*;

/// A folder of its own for a test, removed when it goes out of scope.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("ktied-png-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn image(colors: ColorType, depth: BitDepth, [height, width]: [u32; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(colors);
    encoder.set_depth(depth);
    if colors == ColorType::Indexed {
        encoder.set_palette(&[10, 20, 30, 200, 100, 50][..]);
        encoder.set_trns(&[255, 0][..]);
    }
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

fn wanted(image: [usize; 3]) -> Preprocessing {
    let scaling = Scaling::Uniform { divisor: 1.0, offset: 0.0 };
    Preprocessing { width: image.iter().product(), steps: Steps::Pixels { scaling, max: 255, image: Some(image) } }
}

/// The pixels of one image, for a network of these channels.
fn pixels(bytes: &[u8], shape: [usize; 3]) -> Result<Vec<f64>, String> {
    let folder = Folder::new();
    let path = folder.file("a.png", bytes);
    let mut out = Vec::new();
    read(&path, shape, &mut out).map(|()| out).map_err(|fault| fault.to_string())
}

#[test]
fn every_kind_of_image_becomes_the_networks_channels() {
    use {BitDepth::*, ColorType::*};
    let both = |colors, depth, data: &[u8]| {
        let bytes = image(colors, depth, [1, 2], data);
        (pixels(&bytes, [1, 2, 1]).unwrap(), pixels(&bytes, [1, 2, 3]).unwrap())
    };
    let grey = |a: f64, b: f64| (vec![a, b], vec![a, a, a, b, b, b]);
    assert_eq!(both(Grayscale, Eight, &[7, 200]), grey(7.0, 200.0));
    assert_eq!(both(Grayscale, One, &[0b0100_0000]), grey(0.0, 255.0));
    assert_eq!(both(Grayscale, Four, &[0x1f]), grey(17.0, 255.0));
    // 16 bits: 0x0101 is 1 exactly, 0x8000 lies between 127 and 128.
    let (sixteen, _) = both(Grayscale, Sixteen, &[1, 1, 0x80, 0]);
    assert_eq!(sixteen, [1.0, 32768.0 / 257.0]);
    // On white: opaque stays, transparent is white, a fifth of black on it is 204.
    assert_eq!(both(GrayscaleAlpha, Eight, &[7, 255, 0, 51]), grey(7.0, 204.0));
    assert_eq!(both(GrayscaleAlpha, Eight, &[7, 0, 9, 0]), grey(255.0, 255.0));
    let luma = (299.0 * 200.0 + 587.0 * 100.0 + 114.0 * 50.0) / 1000.0;
    let rgb = (vec![9.0, luma], vec![9.0, 9.0, 9.0, 200.0, 100.0, 50.0]);
    assert_eq!(both(Rgb, Eight, &[9, 9, 9, 200, 100, 50]), rgb);
    assert_eq!(both(Rgba, Eight, &[9, 9, 9, 255, 200, 100, 50, 255]), rgb);
    // The palette's second colour is transparent.
    let (_, palette) = both(Indexed, One, &[0b0100_0000]);
    assert_eq!(palette, [10.0, 20.0, 30.0, 255.0, 255.0, 255.0]);
    assert_eq!(both(Rgba, Sixteen, &[[0, 9, 0, 9, 0, 9, 255, 255], [0; 8]].concat()).0, [9.0 / 257.0, 255.0]);
}

#[test]
fn every_way_an_image_can_be_wrong_has_its_sentence() {
    let good = image(ColorType::Grayscale, BitDepth::Eight, [2, 3], &[0; 6]);
    assert_eq!(pixels(&good, [3, 2, 1]).unwrap_err(), "expected the shape 3×2, found 2×3");
    assert!(pixels(b"", [2, 3, 1]).unwrap_err().starts_with("expected a PNG image: "));
    assert!(pixels(b"GIF89a", [2, 3, 1]).unwrap_err().starts_with("expected a PNG image: "));
    for len in 0..good.len() - 12 {
        assert!(pixels(&good[..len], [2, 3, 1]).is_err(), "cut after {len} bytes");
    }
    for place in 0..good.len() {
        let mut flipped = good.clone();
        flipped[place] ^= 1;
        let _ = pixels(&flipped, [2, 3, 1]); // refused or not, it does not panic
    }
    // A header that claims 4 billion pixels a side.
    let mut huge = good.clone();
    huge[16..24].fill(0x7f);
    assert!(pixels(&huge, [2, 3, 1]).is_err());
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_bad_images_are_named_or_skipped() {
    let folder = Folder::new();
    let grey = |value: u8| image(ColorType::Grayscale, BitDepth::Eight, [1, 1], &[value]);
    folder.file("b.png", &grey(2));
    folder.file("a.PNG", &grey(1));
    folder.file("c10.png", b"nothing");
    folder.file("c9.png", &grey(3));
    folder.file("notes.txt", b"not an image");
    let stream = |bad_rows| {
        let source = crate::inputs::open(&folder.0, None, &wanted([1, 1, 1])).unwrap();
        InputStream::new(source, wanted([1, 1, 1]), 2, bad_rows)
    };
    let mut skipping = stream(BadRows::Skip);
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for batch in skipping.by_ref() {
        let (batch, Features::Rows(rows)) = batch.unwrap().on(&Device::flex()) else { panic!("rows") };
        names.extend(batch);
        values.extend(rows.into_data().iter::<f32>());
    }
    assert_eq!((names, values), (["a.PNG", "b.png", "c9.png"].map(String::from).to_vec(), vec![1.0, 2.0, 3.0]));
    assert_eq!((skipping.skipped(), skipping.faults().len()), (1, 1));
    let error = stream(BadRows::Refuse).find_map(Result::err).unwrap().to_string();
    assert!(error.contains("c10.png: expected a PNG image: "), "{error}");
}

#[test]
fn networks_that_see_no_images_and_folders_without_any_are_refused() {
    let folder = Folder::new();
    let refusal = |wanted: &Preprocessing| crate::inputs::open(&folder.0, None, wanted).err().unwrap().to_string();
    assert!(refusal(&wanted([1, 1, 1])).ends_with("expected at least one file that ends in .png, found none"));
    let columns = refusal(&Preprocessing::plain(4));
    assert!(columns.ends_with("expected rows of numbers, as the network was trained on, found images"), "{columns}");
    assert!(refusal(&wanted([2, 2, 4])).contains("expected the shape 2×2×4"));
}

#[test]
fn a_png_of_an_embedded_digit_is_that_digit() {
    let digits = load(&DataSpec::named("digits")).unwrap();
    let mut expected = Vec::new();
    digits.test.inputs.gather(&[0], &mut expected).unwrap();
    // Pixels from 0 to 16 as sixteen bits: 65535/16 is not whole, so the picture is as near as it can be.
    let data: Vec<u8> = expected.iter().flat_map(|x| ((x * 65535.0).round() as u16).to_be_bytes()).collect();
    let folder = Folder::new();
    let path = folder.file("digit.png", &image(ColorType::Grayscale, BitDepth::Sixteen, [8, 8], &data));
    let source = crate::inputs::open(&path, None, &digits.preprocessing).unwrap();
    let batch = InputStream::new(source, digits.preprocessing, 10, BadRows::Refuse).next().unwrap().unwrap();
    let (_, Features::Rows(rows)) = batch.on(&Device::flex()) else { panic!("rows") };
    let found: Vec<f32> = rows.into_data().iter().collect();
    assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() <= 0.5 / 65535.0 + 1e-7), "{found:?} {expected:?}");
}
