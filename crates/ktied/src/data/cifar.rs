//! The binary files of CIFAR-10 and CIFAR-100, and the two data sets made of them.
//!
//! A record is one label byte (CIFAR-10) or two (CIFAR-100: coarse, then fine), and 3,072 pixels: the red plane, the
//! green and the blue, 32×32 each. Networks here want channels last, `[32, 32, 3]`, so each image is transposed.

use std::io::Read;
use std::path::Path;

use rayon::prelude::*;

use super::bounded::{expect_end, read_len, with_contents};
use super::error::{DataError, Fault};
use super::preprocessing::Preprocessing;
use super::set::{DataSet, Inputs, Scaling, Split, Targets};

/// Pixels of one channel.
const PLANE: usize = 32 * 32;
const CHANNELS: usize = 3;
/// Numbers of an image.
pub const WIDTH: usize = PLANE * CHANNELS;
const IMAGE: [usize; 3] = [32, 32, CHANNELS];
const NUM_COARSE: usize = 20;
const NUM_FINE: usize = 100;
/// Images that are in memory a second time while they are transposed.
const BLOCK: usize = 1000;

/// Which labels the files have, and which of them are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// CIFAR-10: ten classes.
    Ten,
    /// CIFAR-100: a hundred classes.
    Fine,
    /// CIFAR-100: its twenty groups.
    Coarse,
}

impl Labels {
    /// Number of classes.
    pub fn num_classes(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Fine => NUM_FINE,
            Self::Coarse => NUM_COARSE,
        }
    }

    /// What the label bytes of a record are, and how many classes each has.
    fn bytes(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::Ten => &[("a label", 10)],
            Self::Fine | Self::Coarse => &[("a coarse label", NUM_COARSE), ("a fine label", NUM_FINE)],
        }
    }

    fn wanted(self) -> usize {
        usize::from(self == Self::Fine)
    }
}

/// Images and labels in the order of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// `[num_records, 32, 32, 3]`
    pub pixels: Vec<u8>,
    /// `[num_records]`
    pub labels: Vec<u32>,
}

impl Records {
    /// Reads exactly `num_records` records and adds them.
    ///
    /// # Errors
    /// Too few or too many bytes; a label that does not exist.
    pub fn parse(&mut self, mut reader: impl Read, labels: Labels, num_records: usize) -> Result<(), Fault> {
        let num_labels = labels.bytes().len();
        let record = num_labels + WIDTH;
        let total = record * num_records;
        for first in (0..num_records).step_by(BLOCK) {
            let len = BLOCK.min(num_records - first) * record;
            let block = read_len(&mut reader, "records", len).map_err(|fault| match fault {
                Fault::Truncated { what, found, .. } => {
                    Fault::Truncated { what, expected: total, found: first * record + found }
                }
                other => other,
            })?;
            self.push_labels(&block, labels, first + 1)?;
            self.push_pixels(&block, num_labels);
        }
        expect_end(&mut reader, "records", total)
    }

    fn push_labels(&mut self, block: &[u8], labels: Labels, first: usize) -> Result<(), Fault> {
        let kinds = labels.bytes();
        for (record, row) in block.chunks_exact(kinds.len() + WIDTH).zip(first..) {
            for (place, (&label, &(what, classes))) in record.iter().zip(kinds).enumerate() {
                if usize::from(label) >= classes {
                    return Err(Fault::Label { row, what, max: classes - 1, found: label.to_string() });
                }
                if place == labels.wanted() {
                    self.labels.push(label.into());
                }
            }
        }
        Ok(())
    }

    fn push_pixels(&mut self, block: &[u8], num_labels: usize) {
        let (start, record) = (self.pixels.len(), num_labels + WIDTH);
        self.pixels.resize(start + block.len() / record * WIDTH, 0);
        let (_, new) = self.pixels.split_at_mut(start);
        new.par_chunks_exact_mut(WIDTH).zip(block.par_chunks_exact(record)).for_each(|(image, record)| {
            let (red, rest) = record.split_at(num_labels).1.split_at(PLANE);
            let (green, blue) = rest.split_at(PLANE);
            let (pixels, _) = image.as_chunks_mut::<CHANNELS>();
            for (((pixel, &red), &green), &blue) in pixels.iter_mut().zip(red).zip(green).zip(blue) {
                *pixel = [red, green, blue];
            }
        });
    }

    fn read(folder: &Path, files: &[&str], labels: Labels, num_records: usize) -> Result<Self, DataError> {
        let mut records = Self::default();
        for file in files {
            with_contents(&folder.join(file), |reader| records.parse(reader, labels, num_records))?;
        }
        Ok(records)
    }

    fn split(self, labels: Labels, scaling: Scaling) -> Split {
        Split {
            inputs: Inputs::Bytes { data: self.pixels, width: WIDTH, scaling },
            targets: Targets::Classes { labels: self.labels, num_classes: labels.num_classes() },
        }
    }
}

/// Numbers of records: of each training file, of them all kept for validation, of the test file.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    train: usize,
    validation: usize,
    test: usize,
}

/// CIFAR-10 from its six files: 50,000 / 0 / 10,000 images, pixels/255 minus their mean over the training images.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load_10(name: &str, folder: &Path) -> Result<DataSet, DataError> {
    load_10_sizes(name, folder, Sizes { train: 10_000, validation: 0, test: 10_000 })
}

fn load_10_sizes(name: &str, folder: &Path, sizes: Sizes) -> Result<DataSet, DataError> {
    let batches = ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
    let train = Records::read(folder, &batches, Labels::Ten, sizes.train)?;
    let test = Records::read(folder, &["test_batch.bin"], Labels::Ten, sizes.test)?;
    let scaling = Scaling::Centered { divisor: 255.0, means: means(&train.pixels).into() };
    let mut train = train.split(Labels::Ten, scaling.clone());
    let validation = train.split_off(train.len());
    let preprocessing = Preprocessing::pixels(WIDTH, scaling.clone(), 255, Some(IMAGE));
    Ok(DataSet::new(name, [train, validation, test.split(Labels::Ten, scaling)], preprocessing))
}

/// CIFAR-100 from its two files: 40,000 / 10,000 (the last) / 10,000 images, pixels from 0 to 1.
///
/// # Errors
/// A file that is missing or wrong.
pub fn load_100(name: &str, folder: &Path, labels: Labels) -> Result<DataSet, DataError> {
    load_100_sizes(name, folder, labels, Sizes { train: 50_000, validation: 10_000, test: 10_000 })
}

fn load_100_sizes(name: &str, folder: &Path, labels: Labels, sizes: Sizes) -> Result<DataSet, DataError> {
    let scaling = Scaling::Uniform { divisor: 255.0, offset: 0.0 };
    let mut train = Records::read(folder, &["train.bin"], labels, sizes.train)?.split(labels, scaling.clone());
    let validation = train.split_off(sizes.train.saturating_sub(sizes.validation));
    let test = Records::read(folder, &["test.bin"], labels, sizes.test)?.split(labels, scaling.clone());
    let preprocessing = Preprocessing::pixels(WIDTH, scaling, 255, Some(IMAGE));
    Ok(DataSet::new(name, [train, validation, test], preprocessing))
}

/// mean over images of pixel/255, place by place, from exact sums.
fn means(pixels: &[u8]) -> Vec<f32> {
    let add = |mut sums: Vec<u64>, image: &[u8]| {
        sums.iter_mut().zip(image).for_each(|(sum, &pixel)| *sum += u64::from(pixel));
        sums
    };
    let join = |mut left: Vec<u64>, right: Vec<u64>| {
        left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
        left
    };
    let zeros = || vec![0; WIDTH];
    let sums = pixels.par_chunks_exact(WIDTH).fold(zeros, add).reduce(zeros, join);
    let count = (pixels.len() / WIDTH).max(1) as f64;
    sums.into_iter().map(|sum| (sum as f64 / count / 255.0) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bounded::tests::Folder;
    use super::super::npy::tests::npy;
    use super::super::stream::tests::assert_same;
    use super::*;

    /// A record whose pixel p of channel c is 80·c + p mod 64.
    fn record(labels: &[u8]) -> Vec<u8> {
        let pixels = (0..CHANNELS * PLANE).map(|i| (80 * (i / PLANE) + i % PLANE % 64) as u8);
        labels.iter().copied().chain(pixels).collect()
    }

    fn parse(bytes: &[u8], labels: Labels, num_records: usize) -> Result<Records, Fault> {
        let mut records = Records::default();
        records.parse(bytes, labels, num_records).map(|()| records)
    }

    fn refusal(bytes: &[u8], labels: Labels) -> String {
        parse(bytes, labels, 2).unwrap_err().to_string()
    }

    #[test]
    fn planes_become_pixels_with_channels_last() {
        let records = parse(&record(&[7]), Labels::Ten, 1).unwrap();
        assert_eq!(records.labels, [7]);
        for p in [0, 1, 63, 64, 1000, 1023] {
            let red = (p % 64) as u8;
            assert_eq!(records.pixels[3 * p..3 * p + 3], [red, red + 80, red + 160], "pixel {p}");
        }
    }

    /// More records than are transposed at a time.
    #[test]
    fn records_are_told_apart_across_blocks() {
        let mut bytes: Vec<u8> =
            (0..BLOCK + 3).flat_map(|i| [&[(i % 10) as u8][..], &[(i % 251) as u8; WIDTH]].concat()).collect();
        let records = parse(&bytes, Labels::Ten, BLOCK + 3).unwrap();
        assert!(records.labels.iter().enumerate().all(|(i, &label)| label as usize == i % 10));
        assert!(records.pixels.chunks(WIDTH).enumerate().all(|(i, image)| image == [(i % 251) as u8; WIDTH]));
        assert_eq!(records.labels.len(), BLOCK + 3);
        bytes[(BLOCK + 1) * (1 + WIDTH)] = 10;
        let error = parse(&bytes, Labels::Ten, BLOCK + 3).unwrap_err().to_string();
        assert_eq!(error, format!("example {}: expected a label from 0 to 9, found 10", BLOCK + 2));
    }

    #[test]
    fn the_coarse_label_is_the_first_byte_and_the_fine_one_the_second() {
        let bytes = [record(&[19, 99]), record(&[3, 42])].concat();
        assert_eq!(parse(&bytes, Labels::Coarse, 2).unwrap().labels, [19, 3]);
        assert_eq!(parse(&bytes, Labels::Fine, 2).unwrap().labels, [99, 42]);
    }

    #[test]
    fn every_way_a_file_can_lie_has_its_sentence() {
        let good = record(&[1, 2]);
        let cut = [&good[..], &good[..good.len() - 1]].concat();
        assert_eq!(refusal(&cut, Labels::Fine), "expected 6148 bytes of records, found 6147");
        assert_eq!(
            refusal(&[&cut[..], &[0, 0]].concat(), Labels::Fine),
            "expected the end after 6148 bytes of records, found more"
        );
        let (coarse, fine) = ([good.clone(), record(&[20, 2])].concat(), [good, record(&[19, 100])].concat());
        assert_eq!(refusal(&coarse, Labels::Fine), "example 2: expected a coarse label from 0 to 19, found 20");
        assert_eq!(refusal(&fine, Labels::Coarse), "example 2: expected a fine label from 0 to 99, found 100");
        assert_eq!(refusal(&record(&[10]).repeat(2), Labels::Ten), "example 1: expected a label from 0 to 9, found 10");
    }

    #[test]
    fn cifar_10_loses_the_mean_of_the_training_images_place_by_place() {
        let folder = Folder::new();
        for batch in 1..=5u8 {
            // The first byte of the red plane differs from batch to batch: 10, 20, … 50, mean 30.
            let mut bytes = [&[batch][..], &[100; WIDTH]].concat();
            bytes[1] = 10 * batch;
            folder.file(&format!("data_batch_{batch}.bin"), bytes);
        }
        folder.file("test_batch.bin", [&[9][..], &[255; WIDTH]].concat());
        let set = load_10_sizes("cifar10", &folder.0, Sizes { train: 1, validation: 0, test: 1 }).unwrap();
        assert_eq!((set.train.len(), set.validation.len(), set.test.len()), (5, 0, 1));
        assert_eq!(set.train.targets, Targets::Classes { labels: vec![1, 2, 3, 4, 5], num_classes: 10 });
        let mut pixels = Vec::new();
        set.test.inputs.gather(&[0], &mut pixels).unwrap();
        assert_eq!((pixels[0], pixels[1]), (1.0 - 30.0f32 / 255.0, 1.0 - 100.0f32 / 255.0));
        set.train.inputs.gather(&[0], &mut pixels).unwrap();
        assert!((pixels[0] - -20.0 / 255.0).abs() < 1e-7 && pixels[1].abs() < 1e-7, "{:?}", &pixels[..2]);
        let Inputs::Bytes { data, .. } = &set.train.inputs else { panic!("bytes") };
        let path = folder.file("x.npy", npy("|u1", "(5, 32, 32, 3)", data));
        assert_same("streamed", &path, None, &set, &set.train);
    }

    #[test]
    fn cifar_100_keeps_the_last_images_for_validation_and_scales_to_one() {
        let folder = Folder::new();
        let records: Vec<u8> = (0..5).flat_map(|i| [&[i, i + 50][..], &[i; WIDTH]].concat()).collect();
        folder.file("train.bin", &records);
        folder.file("test.bin", [&[19, 99][..], &[255; WIDTH]].concat());
        let sizes = Sizes { train: 5, validation: 2, test: 1 };
        let set = load_100_sizes("cifar100", &folder.0, Labels::Fine, sizes).unwrap();
        assert_eq!(set.train.targets, Targets::Classes { labels: vec![50, 51, 52], num_classes: 100 });
        assert_eq!(set.validation.targets, Targets::Classes { labels: vec![53, 54], num_classes: 100 });
        let mut pixels = Vec::new();
        set.test.inputs.gather(&[0], &mut pixels).unwrap();
        assert_eq!(pixels, [1.0; WIDTH]);
        let error = load_100_sizes("cifar100", &folder.0, Labels::Fine, Sizes { train: 6, ..sizes }).unwrap_err();
        assert!(error.to_string().ends_with("train.bin: expected 18444 bytes of records, found 15370"), "{error}");
    }
}
