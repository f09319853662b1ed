//! A file of tensors, whatever its container.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{Convention, ForeignError, Pair, Result, npz, pairing};
use crate::checkpoint::{CheckpointError, METADATA, NamedTensor, contents_to_bytes, read_contents, write_file};
use crate::data::bounded::{MAX_BYTES, read_file};

/// What kind of file tensors are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Hugging Face's format.
    Safetensors,
    /// NumPy's archive.
    Npz,
}

impl Container {
    /// The kind that the file's name says.
    ///
    /// # Errors
    /// If it ends neither in `.safetensors` nor in `.npz`.
    pub fn of(path: &Path) -> Result<Self> {
        let ends = |with: &str| path.extension().is_some_and(|end| end.eq_ignore_ascii_case(with));
        match (ends("safetensors"), ends("npz")) {
            (true, _) => Ok(Self::Safetensors),
            (_, true) => Ok(Self::Npz),
            _ => Err(ForeignError::Extension { path: path.into() }),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safetensors => ".safetensors",
            Self::Npz => ".npz",
        })
    }
}

/// The tensors of a file in their order, and the remarks on them that safetensors files may have.
///
/// Tensors that belong to no posterior are kept as they are, whatever they hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foreign {
    pub(super) tensors: Vec<(String, Arc<NamedTensor>)>,
    pub(super) metadata: BTreeMap<String, String>,
}

impl Foreign {
    /// Reads a `.safetensors` or `.npz` file of at most two gibibytes.
    ///
    /// Arrays that numpy wrote column by column are put in order: tensors are row-major.
    ///
    /// # Errors
    /// One variant of [`Damage`](crate::checkpoint::Damage) or [`Fault`](crate::data::Fault) for each way in which a file
    /// can lie; arrays of objects, texts, or numbers in another byte order.
    pub fn read(path: &Path) -> Result<Self> {
        let container = Container::of(path)?;
        let bytes = read_file(path, MAX_BYTES)?;
        let (tensors, metadata) = match container {
            Container::Safetensors => {
                let contents = read_contents(&bytes);
                let contents = contents.map_err(|damage| CheckpointError::Damaged { file: path.into(), damage })?;
                (contents.tensors, contents.metadata)
            }
            Container::Npz => (npz::read(path, &bytes)?, BTreeMap::new()),
        };
        let tensors = tensors.into_iter().map(|(name, tensor)| (name, Arc::new(tensor))).collect();
        Ok(Self { tensors, metadata })
    }

    /// Writes a `.safetensors` or `.npz` file, whole or not at all; see [`Foreign::to_bytes`].
    ///
    /// # Errors
    /// Another ending; a tensor that the container cannot hold; the file system.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes(Container::of(path)?)?;
        Ok(write_file(path, &bytes)?)
    }

    /// The bytes of a file: the same tensors give the same.
    ///
    /// A safetensors file has its tensors in the order of their elements' sizes, and those of one size in the order here.
    /// An archive has them in the order here, stored; it has no place for remarks, which are left out.
    ///
    /// # Errors
    /// A tensor that the container cannot hold: BF16 or more than eight dimensions in an archive, the name `__metadata__`
    /// in a safetensors file.
    pub fn to_bytes(&self, container: Container) -> Result<Vec<u8>> {
        match container {
            Container::Npz => npz::to_bytes(&self.tensors),
            Container::Safetensors if self.get(METADATA).is_some() => Err(ForeignError::Unwritable {
                tensor: METADATA.into(),
                container,
                reason: "the format keeps its remarks under that name".into(),
            }),
            Container::Safetensors => Ok(contents_to_bytes(self.tensors(), &self.metadata)),
        }
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &NamedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (&**name, &**tensor))
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&NamedTensor> {
        self.tensors().find(|(other, _)| *other == name).map(|(_, tensor)| tensor)
    }

    /// Adds a tensor after all others.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn insert(&mut self, name: impl Into<String>, tensor: NamedTensor) -> Result<()> {
        let name = name.into();
        if self.get(&name).is_some() {
            return Err(ForeignError::Taken { tensor: name });
        }
        self.tensors.push((name, Arc::new(tensor)));
        Ok(())
    }

    /// The remarks of a safetensors file, by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The weights that have a mean and a scale, in the order of their means.
    ///
    /// A tensor belongs to the first pattern for which its partner is there too. Where the outputs of a convolution are is
    /// what the convention says, unless its bias fits a transposed convolution only.
    ///
    /// # Errors
    /// All means without a scale, scales without a mean and pairs of different shapes, in one error; no pair at all; a
    /// tensor that holds something else than F32 or F64; a number that is not finite; a σ that is not positive.
    pub fn pairs(&self, convention: &Convention) -> Result<Vec<Pair>> {
        pairing::pairs(&self.tensors, convention)
    }
}
