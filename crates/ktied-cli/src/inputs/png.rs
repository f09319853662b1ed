//! PNG images as rows of pixels: grey or colour, with or without transparency, of 1 to 16 bits, with or without a palette.
//!
//! What is transparent lies on white; colours become grey by the luma of Rec. 601, (299 R + 587 G + 114 B)/1000; a grey image
//! has three equal colours. Sixteen bits keep all their precision. An animated image is its first picture.

use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use ::png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};
use ktied::data::stream::{Next, Row, Source};
use ktied::data::{DataError, Fault, Preprocessing, Steps};

/// The most memory that the decoder may take beside the picture.
const MAX_DECODER_BYTES: usize = 1 << 24;
/// The most images of a folder.
const MAX_FILES: usize = 1 << 22;

/// Whether a file's name says that it is a PNG image.
pub fn is_png(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("png"))
}

/// Images in the order of their names, each read when it is asked for.
#[derive(Debug)]
pub struct PngFiles {
    paths: std::vec::IntoIter<PathBuf>,
    /// The one that was read last.
    path: PathBuf,
    shape: [usize; 3],
    /// What 255 becomes.
    max: f64,
}

impl PngFiles {
    /// An image, or all images of a folder whose names end in `.png`; other files and folders in it do not count.
    ///
    /// # Errors
    /// A network that was not trained on images; a folder that cannot be read or has no image.
    pub fn open(path: &Path, wanted: &Preprocessing) -> Result<Self, DataError> {
        let file = |fault| DataError::File { path: path.into(), fault };
        let (shape, max) = match (&wanted.steps, wanted.image()) {
            (Steps::Pixels { max, .. }, Some(shape)) => (shape, f64::from(*max)),
            _ => return Err(file(Fault::InputKind { expected: wanted.wants(), found: "images" })),
        };
        if let channels @ (0 | 2 | 4..) = shape[2] {
            let expected = format!("{}×{}×{channels}", shape[0], shape[1]);
            return Err(file(Fault::Shape { expected, found: "an image of 1 or 3 channels".into() }));
        }
        let paths = if path.is_dir() { images_of(path)? } else { vec![path.into()] };
        if paths.is_empty() {
            return Err(file(Fault::Empty { what: "file that ends in .png" }));
        }
        Ok(Self { paths: paths.into_iter(), path: path.into(), shape, max })
    }
}

impl Source for PngFiles {
    fn next(&mut self, row: &mut Row) -> Result<Next, DataError> {
        let Some(path) = self.paths.next() else { return Ok(Next::End) };
        self.path = path;
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pixels = row.begin_numbers(name);
        // Other images may be whole where one is not, or was taken away meanwhile.
        Ok(match read(&self.path, self.shape, pixels) {
            Ok(()) => {
                pixels.iter_mut().for_each(|pixel| *pixel = *pixel * self.max / 255.0);
                Next::Row
            }
            Err(fault) => Next::Bad(fault),
        })
    }

    fn locate(&self, fault: Fault) -> DataError {
        DataError::File { path: self.path.clone(), fault }
    }
}

fn images_of(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |error: std::io::Error| DataError::Io {
        action: "list",
        path: folder.into(),
        kind: error.kind(),
        message: error.to_string(),
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if is_png(&path) && path.is_file() {
            paths.push(path);
        }
        if paths.len() > MAX_FILES {
            let fault = Fault::TooLarge { what: "images", limit: MAX_FILES, found: "more".into() };
            return Err(DataError::File { path: folder.into(), fault });
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// The image's pixels from 0 to 255, `[H, W, C]`, if it is of this shape but for the channels.
fn read(path: &Path, [height, width, channels]: [usize; 3], out: &mut Vec<f64>) -> Result<(), Fault> {
    let file = ktied::files::open(path).map_err(|error| Fault::Read { message: error.to_string() })?;
    let mut decoder = Decoder::new_with_limits(BufReader::new(file), Limits { bytes: MAX_DECODER_BYTES });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    // The size comes first, so that no memory is taken for a picture that would not do.
    let info = decoder.read_header_info().map_err(png)?;
    let (found_width, found_height) = (info.width as usize, info.height as usize);
    if (found_height, found_width) != (height, width) {
        let size = |height, width| format!("{height}×{width}");
        return Err(Fault::Shape { expected: size(height, width), found: size(found_height, found_width) });
    }
    let mut reader = decoder.read_info().map_err(png)?;
    let len = reader.output_buffer_size().filter(|len| *len <= height * width * 8);
    let mut bytes = vec![0; len.ok_or_else(|| Fault::Png { message: "it is larger than it says".into() })?];
    reader.next_frame(&mut bytes).map_err(png)?;
    let (colors, depth) = reader.output_color_type();
    let samples: Vec<f64> = match depth {
        BitDepth::Sixteen => {
            bytes.as_chunks().0.iter().map(|&pair| f64::from(u16::from_be_bytes(pair)) / 257.0).collect()
        }
        _ => bytes.iter().map(|&byte| f64::from(byte)).collect(),
    };
    push(&samples, colors, channels, out);
    Ok(())
}

/// Puts each pixel on white and into the network's channels.
fn push(samples: &[f64], colors: ColorType, channels: usize, out: &mut Vec<f64>) {
    for pixel in samples.chunks_exact(colors.samples()) {
        let (color, alpha) = match *pixel {
            [grey] => ([grey; 3], 255.0),
            [grey, alpha] => ([grey; 3], alpha),
            [red, green, blue] => ([red, green, blue], 255.0),
            [red, green, blue, alpha] => ([red, green, blue], alpha),
            _ => continue,
        };
        let color = color.map(|color| (color * alpha + 255.0 * (255.0 - alpha)) / 255.0);
        match channels {
            1 => out.push(luma(color)),
            _ => out.extend(color),
        }
    }
}

/// Whole weights, so that equal colours give themselves, exactly.
fn luma([red, green, blue]: [f64; 3]) -> f64 {
    if red == green && green == blue { red } else { (299.0 * red + 587.0 * green + 114.0 * blue) / 1000.0 }
}

fn png(error: DecodingError) -> Fault {
    match error {
        DecodingError::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => {
            Fault::Read { message: error.to_string() }
        }
        other => Fault::Png { message: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
