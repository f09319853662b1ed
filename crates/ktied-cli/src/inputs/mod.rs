//! Inputs that the library does not read itself: PNG images, one or a folder of them.

pub mod png;

use std::path::Path;

use ktied::data::stream::{self, Source};
use ktied::data::{DataError, Preprocessing};

use self::png::PngFiles;

/// Opens what a user has: a PNG image, a folder of them, or any file of [`ktied::data::stream`].
///
/// # Errors
/// What is missing, of no form that is read, or not as the network wants it.
pub fn open(path: &Path, array: Option<&str>, wanted: &Preprocessing) -> Result<Box<dyn Source>, DataError> {
    if array.is_none() && (path.is_dir() || png::is_png(path)) {
        return Ok(Box::new(PngFiles::open(path, wanted)?));
    }
    stream::open(path, array, wanted)
}
