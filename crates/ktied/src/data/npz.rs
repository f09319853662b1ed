//! NumPy's .npz archives: a zip file of .npy arrays, stored or deflated.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive, ZipSliceArchive};

use super::bounded::MAX_BYTES;
use super::error::{Fault, quote};
use super::npy::Npy;

/// The most entries that are looked at.
pub(crate) const MAX_ENTRIES: usize = 64;

/// The arrays of an archive by name, without `.npy`. Those that `wanted` does not name are refused, not skipped: one of
/// them may be a name that was misspelt.
///
/// # Errors
/// One variant of [`Fault`] for each way the bytes can be wrong. An entry is unpacked to the size that its own header
/// says and no further, and all arrays together to [`MAX_BYTES`].
pub fn parse(bytes: &[u8], wanted: &[&str]) -> Result<BTreeMap<String, Npy>, Fault> {
    let arrays = parse_entries(
        bytes,
        MAX_ENTRIES,
        |path| array_name(path, wanted),
        |reader, budget| {
            let array = Npy::parse_within(reader, budget)?;
            let num_bytes = array.values.num_bytes();
            Ok((array, num_bytes))
        },
    )?;
    Ok(arrays.into_iter().collect())
}

/// What `parse_array` makes of each entry, by the name that `name_of` gives it, each once, in the order of the archive.
///
/// `parse_array` is told how many bytes it may still unpack and tells how many it did.
pub(crate) fn parse_entries<T>(
    bytes: &[u8],
    max_entries: usize,
    name_of: impl Fn(&[u8]) -> Result<String, Fault>,
    parse_array: impl Fn(&mut dyn Read, usize) -> Result<(T, usize), Fault>,
) -> Result<Vec<(String, T)>, Fault> {
    let archive = ZipArchive::from_slice(bytes).map_err(zip)?;
    let (mut arrays, mut names) = (Vec::new(), BTreeSet::new());
    let (mut entries, mut budget) = (archive.entries(), MAX_BYTES);
    while let Some(entry) = entries.next_entry().map_err(zip)? {
        if arrays.len() == max_entries {
            return Err(Fault::TooLarge { what: "arrays", limit: max_entries, found: "more".into() });
        }
        let name = name_of(entry.file_path().as_ref())?;
        let (array, num_bytes) =
            read(&archive, entry.wayfinder(), entry.compression_method(), |reader| parse_array(reader, budget))
                .map_err(|fault| fault.within(&name))?;
        budget = budget.saturating_sub(num_bytes);
        if !names.insert(name.clone()) {
            return Err(Fault::SameArray { name });
        }
        arrays.push((name, array));
    }
    Ok(arrays)
}

fn array_name(path: &[u8], wanted: &[&str]) -> Result<String, Fault> {
    let name = std::str::from_utf8(path).ok().and_then(|path| path.strip_suffix(".npy"));
    let name = name.filter(|name| wanted.contains(name));
    name.map(str::to_string).ok_or_else(|| Fault::UnknownArray { expected: wanted.join(", "), found: quote(path) })
}

fn read<T>(
    archive: &ZipSliceArchive<&[u8]>,
    place: rawzip::ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    parse: impl FnOnce(&mut dyn Read) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let entry = archive.get_entry(place).map_err(zip)?;
    let packed = entry.data();
    match method {
        CompressionMethod::STORE => parse(&mut BufReader::new(entry.verifying_reader(packed))),
        CompressionMethod::DEFLATE => parse(&mut BufReader::new(entry.verifying_reader(DeflateDecoder::new(packed)))),
        other => Err(Fault::ZipMethod { found: other.as_u16() }),
    }
}

pub(crate) fn zip(error: rawzip::Error) -> Fault {
    Fault::Zip { message: error.to_string() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::DeflateEncoder};
    use rawzip::ZipArchiveWriter;

    use super::super::npy::{Values, tests::npy};
    use super::*;

    /// An archive of these entries.
    pub(crate) fn npz(entries: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
        let mut output = Vec::new();
        let mut archive = ZipArchiveWriter::new(&mut output);
        for (name, bytes) in entries {
            let (mut entry, config) = archive.new_file(name).compression_method(method).start().unwrap();
            let descriptor = if method == CompressionMethod::DEFLATE {
                let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
                writer.write_all(bytes).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            } else {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap().1
            };
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        output
    }

    fn array() -> Vec<u8> {
        npy("|u1", "(3,)", &[1, 2, 3])
    }

    fn refusal(bytes: &[u8]) -> String {
        parse(bytes, &["x", "y"]).unwrap_err().to_string()
    }

    #[test]
    fn stored_and_deflated_arrays_are_read_by_name() {
        for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
            let bytes = npz(&[("x.npy", array()), ("y.npy", npy("|u1", "(1,)", &[9]))], method);
            let arrays = parse(&bytes, &["x", "y"]).unwrap();
            assert_eq!(arrays["x"].values, Values::U8(vec![1, 2, 3]));
            assert_eq!(arrays["y"].values, Values::U8(vec![9]));
        }
    }

    #[test]
    fn every_way_an_archive_can_lie_has_its_sentence() {
        let stored = |entries: &[(&str, Vec<u8>)]| npz(entries, CompressionMethod::STORE);
        assert!(refusal(b"not a zip").starts_with("expected a zip archive"));
        assert_eq!(refusal(&stored(&[("z.npy", array())])), "expected the arrays x, y, found `z.npy`");
        assert_eq!(refusal(&stored(&[("x", array())])), "expected the arrays x, y, found `x`");
        assert_eq!(
            refusal(&stored(&[("x.npy", array()), ("x.npy", array())])),
            "expected each array once, found `x` again"
        );
        assert!(refusal(&stored(&[("x.npy", b"nothing".to_vec())])).starts_with("x: expected 8 bytes of .npy header"));
        assert_eq!(
            refusal(&npz(&[("x.npy", array())], CompressionMethod::from(93))),
            "x: expected a stored or deflated entry, found method 93"
        );
        let whole = stored(&[("x.npy", array())]);
        assert!(refusal(&whole[..whole.len() - 4]).starts_with("expected a zip archive"));
    }

    #[test]
    fn a_changed_byte_fails_the_checksum() {
        let mut bytes = npz(&[("x.npy", array())], CompressionMethod::STORE);
        let place = bytes.windows(3).position(|three| three == [1, 2, 3]).unwrap();
        bytes[place] = 7;
        assert!(refusal(&bytes).starts_with("x: "), "{}", refusal(&bytes));
    }

    /// 16 MB of zeros behind a header that says three bytes.
    #[test]
    fn a_packed_bomb_is_cut_off_where_its_header_ends() {
        let bomb = npy("|u1", "(3,)", &vec![0; 1 << 24]);
        let bytes = npz(&[("x.npy", bomb)], CompressionMethod::DEFLATE);
        assert_eq!(refusal(&bytes), "x: expected the end after 3 bytes of .npy data, found more");
    }
}
