//! safetensors files: 8 bytes of length, a JSON header, the elements. The same tensors give the same bytes, and a file that
//! lies is refused.
//!
//! The format is Hugging Face's (huggingface.co/docs/safetensors), so any tool of theirs opens a checkpoint's files. It is
//! written and read here because two things matter that their crates do not promise: the same bytes in
//! every process, and an error of its own for each way in which a file can lie.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::error::{CheckpointError, Damage};
use super::tensors::{Dtype, NamedTensor, NamedTensors};

/// Longest header that is read: a hundred thousand tensors with long paths.
const MAX_HEADER: u64 = 32 << 20;
/// Bytes of the length in front of the header.
const LENGTH: usize = size_of::<u64>();
/// What others keep their remarks under; checkpoints have none.
pub(crate) const METADATA: &str = "__metadata__";

/// The file of these tensors: those with the widest elements first, so that all are aligned, then in the order of paths.
pub fn tensors_to_bytes(tensors: &NamedTensors) -> Vec<u8> {
    contents_to_bytes(tensors.iter(), &BTreeMap::new())
}

/// The file of tensors in an order of their own, the widest elements first all the same, and of remarks on them.
pub(crate) fn contents_to_bytes<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a NamedTensor)>,
    metadata: &BTreeMap<String, String>,
) -> Vec<u8> {
    let mut ordered: Vec<_> = tensors.collect();
    ordered.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    let mut header = header(&ordered, metadata).into_bytes();
    header.resize(header.len().next_multiple_of(LENGTH), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut header);
    ordered.iter().for_each(|(_, tensor)| bytes.extend(tensor.bytes()));
    bytes
}

/// `{"__metadata__":{…},"path":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…}`
fn header(tensors: &[(&str, &NamedTensor)], metadata: &BTreeMap<String, String>) -> String {
    let mut start = 0;
    let remarks = metadata.iter().map(|(key, text)| format!("{}:{}", Value::from(&**key), Value::from(&**text)));
    let remarks = remarks.collect::<Vec<_>>().join(",");
    let remarks = (!metadata.is_empty()).then(|| format!(r#""{METADATA}":{{{remarks}}}"#));
    let entries = tensors.iter().map(|(path, tensor)| {
        let end = start + tensor.bytes().len();
        let (path, dtype, shape) = (Value::from(*path), tensor.dtype(), Value::from(tensor.shape()));
        let entry = format!(r#"{path}:{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#);
        start = end;
        entry
    });
    format!("{{{}}}", remarks.into_iter().chain(entries).collect::<Vec<_>>().join(","))
}

/// The tensors of a file's bytes; `file` is its name in errors. Memory is taken for what is there, never for what a header
/// says.
///
/// # Errors
/// If the file is not exactly what a header and its elements make up.
pub fn read_tensors(file: &Path, bytes: &[u8]) -> Result<NamedTensors, CheckpointError> {
    read(bytes).map_err(|damage| CheckpointError::damaged(file, damage))
}

fn read(bytes: &[u8]) -> Result<NamedTensors, Damage> {
    let mut tensors = NamedTensors::default();
    for (path, tensor) in read_contents(bytes)?.tensors {
        tensors.insert(path, tensor).map_err(|error| Damage::Header(error.to_string()))?;
    }
    Ok(tensors)
}

/// Everything that a file holds.
#[derive(Debug)]
pub(crate) struct Contents {
    /// The tensors, each path once, in the order of their elements.
    pub(crate) tensors: Vec<(String, NamedTensor)>,
    /// The remarks on them.
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Like [`read_tensors`], with the order of the file and its remarks.
pub(crate) fn read_contents(bytes: &[u8]) -> Result<Contents, Damage> {
    let (header, elements) = split(bytes)?;
    let header = serde_json::from_slice(header).map_err(|error| Damage::Header(error.to_string()))?;
    let Header { entries, metadata } = header;
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let (mut tensors, mut start) = (Vec::new(), 0);
    for (path, entry) in entries {
        let tensor = entry.tensor(&path, elements, start)?;
        start += tensor.bytes().len();
        tensors.push((path, tensor));
    }
    if start != elements.len() {
        let found = bytes.len() as u64;
        return Err(Damage::Length { expected: found - (elements.len() - start) as u64, found });
    }
    Ok(Contents { tensors, metadata })
}

/// The header and the elements.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Damage> {
    let short = Damage::Length { expected: LENGTH as u64, found: bytes.len() as u64 };
    let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or(short)?;
    let found = u64::from_le_bytes(*length);
    let length = usize::try_from(found).ok().filter(|_| found <= MAX_HEADER);
    length.and_then(|length| rest.split_at_checked(length)).ok_or(Damage::HeaderLength { found })
}

/// What the header says of one tensor.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Entry {
    /// The tensor, whose elements must begin at `start`.
    fn tensor(self, path: &str, elements: &[u8], start: usize) -> Result<NamedTensor, Damage> {
        let dtype = Dtype::from_name(&self.dtype)
            .ok_or_else(|| Damage::UnknownDtype { path: path.into(), dtype: self.dtype.clone() })?;
        let shape: Result<Vec<usize>, _> = self.shape.iter().map(|&len| usize::try_from(len)).collect();
        let end = shape.as_ref().ok().and_then(|shape| start.checked_add(dtype.bytes_of(shape)?));
        let (Ok(shape), Some(end)) = (shape, end) else {
            return Err(Damage::Shape { path: path.into(), shape: self.shape });
        };
        let bytes = elements.get(start..end).filter(|_| self.data_offsets == (start as u64, end as u64));
        let there = bytes.and_then(|bytes| NamedTensor::new(dtype, shape, bytes.to_vec()).ok());
        there.ok_or_else(|| Damage::Offsets { path: path.into() })
    }
}

/// The entries by path, each path once, and the remarks.
#[derive(Default)]
struct Header {
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a tensor for each path")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        while let Some(path) = map.next_key::<String>()? {
            if path == METADATA {
                header.metadata.extend(map.next_value::<BTreeMap<String, String>>()?);
            } else if header.entries.insert(path.clone(), map.next_value()?).is_some() {
                return Err(de::Error::custom(format!("there are two tensors `{path}`")));
            }
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests;
