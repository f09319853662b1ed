//! Tensors by path, as bytes: what checkpoints hold, compare and digest.

use std::collections::BTreeMap;
use std::fmt;

use burn::tensor::{BoolStore, DType, TensorData};

use super::digest::Digest;
use super::{CheckpointError, Result};

/// Type of a tensor's elements. Checkpoints are made of the first five; files of others may hold any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 32 bits.
    U32,
    /// Half precision.
    F16,
    /// Single precision without its last 16 bits.
    BF16,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 64 bits.
    U64,
    /// Yes or no, one byte each.
    Bool,
}

impl Dtype {
    /// Those that burn's tensors are saved in.
    const CHECKPOINT: [Self; 5] = [Self::F32, Self::F64, Self::I32, Self::I64, Self::U32];
    const OTHERS: [Self; 8] = [Self::F16, Self::BF16, Self::I8, Self::I16, Self::U8, Self::U16, Self::U64, Self::Bool];

    /// Its name in files, which is safetensors' own.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::U32 => "U32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I8 => "I8",
            Self::I16 => "I16",
            Self::U8 => "U8",
            Self::U16 => "U16",
            Self::U64 => "U64",
            Self::Bool => "BOOL",
        }
    }

    /// The type of this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::CHECKPOINT.into_iter().chain(Self::OTHERS).find(|dtype| dtype.name() == name)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// burn's name for it.
    pub(super) fn to_burn(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
            Self::I32 => DType::I32,
            Self::I64 => DType::I64,
            Self::U32 => DType::U32,
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
            Self::I8 => DType::I8,
            Self::I16 => DType::I16,
            Self::U8 => DType::U8,
            Self::U16 => DType::U16,
            Self::U64 => DType::U64,
            Self::Bool => DType::Bool(BoolStore::Native),
        }
    }

    /// The type that burn calls `dtype`, if checkpoints are made of it.
    pub(super) fn from_burn(dtype: DType) -> Option<Self> {
        Self::CHECKPOINT.into_iter().find(|ours| ours.to_burn() == dtype)
    }

    /// Bytes of a tensor, if they can be counted.
    pub(crate) fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        shape.iter().try_fold(self.size(), |bytes, &len| bytes.checked_mul(len))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor as bytes: row-major, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl NamedTensor {
    /// A tensor of elements that are bytes already.
    ///
    /// # Errors
    /// If there are not as many as the shape says.
    pub fn new(dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self> {
        if dtype.bytes_of(&shape) != Some(bytes.len()) {
            return Err(CheckpointError::TensorSize { shape, found: bytes.len() });
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Single numbers, for what a loop counts or averages.
    pub fn scalar_i64(value: i64) -> Self {
        Self { dtype: Dtype::I64, shape: vec![], bytes: value.to_le_bytes().into() }
    }

    /// The number of a [`scalar_i64`](Self::scalar_i64).
    pub fn as_scalar_i64(&self) -> Option<i64> {
        let there = self.dtype == Dtype::I64 && self.shape.is_empty();
        there.then(|| self.bytes.as_slice().try_into().ok().map(i64::from_le_bytes)).flatten()
    }

    /// burn's tensor of this path, whose shape may be given anew (a flat tensor that stands for a matrix).
    pub(super) fn from_data(path: &str, shape: Vec<usize>, data: &TensorData) -> Result<Self> {
        macro_rules! little_endian {
            ($($burn:ident $ty:ty),+) => {
                match data.dtype() {
                    $(DType::$burn => data.as_slice::<$ty>().map(|values| {
                        values.iter().flat_map(|value| value.to_le_bytes()).collect()
                    }).ok(),)+
                    _ => None,
                }
            };
        }
        let bytes: Option<Vec<u8>> = little_endian!(F32 f32, F64 f64, I32 i32, I64 i64, U32 u32);
        match (Dtype::from_burn(data.dtype()), bytes) {
            (Some(dtype), Some(bytes)) => Self::new(dtype, shape, bytes),
            _ => Err(CheckpointError::UnsupportedDtype { path: path.into(), dtype: format!("{:?}", data.dtype()) }),
        }
    }

    /// The elements for burn, in the shape given, which must have as many.
    pub(super) fn to_data(&self, shape: impl Into<Vec<usize>>) -> TensorData {
        macro_rules! values {
            ($ty:ty) => {
                TensorData::new(
                    self.bytes
                        .as_chunks::<{ size_of::<$ty>() }>()
                        .0
                        .iter()
                        .map(|bytes| <$ty>::from_le_bytes(*bytes))
                        .collect::<Vec<_>>(),
                    shape.into(),
                )
            };
        }
        match self.dtype {
            Dtype::F32 => values!(f32),
            Dtype::F64 => values!(f64),
            Dtype::I32 => values!(i32),
            Dtype::I64 => values!(i64),
            Dtype::U32 => values!(u32),
            // No module has these: its places are of the types above, and a place takes its own type only.
            other => TensorData::from_bytes_vec(self.bytes.clone(), shape.into(), other.to_burn()),
        }
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether none of its numbers is NaN or infinite; whole numbers never are.
    pub fn is_finite(&self) -> bool {
        // A number of IEEE 754 is finite if not all bits of its exponent are set.
        let (ones, len) = match self.dtype {
            Dtype::F32 | Dtype::BF16 => (0x7f80, self.dtype.size()),
            Dtype::F64 => (0x7ff0, 8),
            Dtype::F16 => (0x7c00, 2),
            _ => return true,
        };
        let finite = |number: &[u8]| match number {
            [.., low, high] => u16::from_le_bytes([*low, *high]) & ones != ones,
            _ => true,
        };
        self.bytes.chunks_exact(len).all(finite)
    }

    /// Digest of the elements.
    pub fn sha256(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

/// Tensors by path, in the order of the paths.
///
/// ```
/// use ktied::checkpoint::{Dtype, NamedTensor, NamedTensors};
/// let mut tensors = NamedTensors::default();
/// let bytes = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// tensors.insert("layers.0.weights.bias.loc", NamedTensor::new(Dtype::F32, vec![1, 2], bytes)?)?;
/// assert_eq!(tensors.get("layers.0.weights.bias.loc").map(|bias| bias.shape()), Some(&[1, 2][..]));
/// # Ok::<(), ktied::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTensors(BTreeMap<String, NamedTensor>);

impl NamedTensors {
    /// Adds a tensor.
    ///
    /// # Errors
    /// If the path is taken.
    pub fn insert(&mut self, path: impl Into<String>, tensor: NamedTensor) -> Result<()> {
        let path = path.into();
        if self.0.contains_key(&path) {
            return Err(CheckpointError::DuplicateTensor { path });
        }
        self.0.insert(path, tensor);
        Ok(())
    }

    /// Adds all tensors of `others`.
    ///
    /// # Errors
    /// If a path is taken.
    pub fn extend(&mut self, others: Self) -> Result<()> {
        others.0.into_iter().try_for_each(|(path, tensor)| self.insert(path, tensor))
    }

    /// The tensor of a path.
    pub fn get(&self, path: &str) -> Option<&NamedTensor> {
        self.0.get(path)
    }

    /// All of them in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NamedTensor)> {
        self.0.iter().map(|(path, tensor)| (path.as_str(), tensor))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One digest of all of them: equal digests mean equal paths, types, shapes and bits.
    ///
    /// It is the SHA-256 of the line `ktied tensors 1` with its line feed and then, for each tensor in the order of the
    /// paths (by their bytes): length of the path, path, length of the type's name, name, number of dimensions,
    /// dimensions, SHA-256 of the elements (32 bytes); numbers as 8 bytes, little-endian. Every part has a length before it
    /// or a fixed one, so two different sets never give the same bytes.
    pub fn digest(&self) -> Digest {
        digest(self.iter())
    }
}

/// See [`NamedTensors::digest`]; the tensors come in the order of their paths.
pub(super) fn digest<'a>(tensors: impl Iterator<Item = (&'a str, &'a NamedTensor)>) -> Digest {
    let mut encoding = b"ktied tensors 1\n".to_vec();
    for (path, tensor) in tensors {
        for text in [path, tensor.dtype.name()] {
            encoding.extend((text.len() as u64).to_le_bytes());
            encoding.extend(text.as_bytes());
        }
        encoding.extend((tensor.shape.len() as u64).to_le_bytes());
        tensor.shape.iter().for_each(|&len| encoding.extend((len as u64).to_le_bytes()));
        encoding.extend(tensor.sha256().as_bytes());
    }
    Digest::of(&encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: Dtype, shape: &[usize], byte: u8) -> NamedTensor {
        NamedTensor::new(dtype, shape.into(), vec![byte; dtype.bytes_of(shape).unwrap()]).unwrap()
    }

    fn set(tensors: &[(&str, NamedTensor)]) -> NamedTensors {
        let mut set = NamedTensors::default();
        tensors.iter().for_each(|(path, tensor)| set.insert(*path, tensor.clone()).unwrap());
        set
    }

    #[test]
    fn the_digest_feels_path_type_shape_bits_and_number() {
        let plain = || tensor(Dtype::F32, &[2, 3], 1);
        let all = [
            set(&[]),
            set(&[("a", plain())]),
            set(&[("b", plain())]),
            set(&[("a", tensor(Dtype::F32, &[3, 2], 1))]),
            set(&[("a", tensor(Dtype::F32, &[6], 1))]),
            set(&[("a", tensor(Dtype::F32, &[6, 1], 1))]),
            set(&[("a", tensor(Dtype::I32, &[2, 3], 1))]),
            set(&[("a", tensor(Dtype::U32, &[2, 3], 1))]),
            set(&[("a", tensor(Dtype::F64, &[3], 1))]),
            set(&[("a", tensor(Dtype::F32, &[2, 3], 2))]),
            set(&[("a", plain()), ("b", plain())]),
            set(&[("a", tensor(Dtype::F32, &[0], 1))]),
            set(&[("a", tensor(Dtype::F32, &[0, 7], 1))]),
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(one.digest() == other.digest(), i == j, "{i} {j}");
            }
        }
    }

    #[test]
    fn the_digest_is_the_documented_one() {
        // hashlib.sha256 of the bytes put together by hand, in Python.
        let set = set(&[("a.b", tensor(Dtype::F32, &[1, 2], 7))]);
        assert_eq!(set.digest().to_string(), "5f59b04239a3604ec0f1be79a3814694a183c9be87985d291cca42d67ad87e57");
    }

    #[test]
    fn elements_must_make_up_the_shape() {
        let refuse = |shape: &[usize], len| NamedTensor::new(Dtype::F32, shape.into(), vec![0; len]).unwrap_err();
        assert_eq!(refuse(&[2, 2], 15).to_string(), "15 bytes do not make a tensor of shape [2, 2]");
        assert!(matches!(refuse(&[usize::MAX, 2], 0), CheckpointError::TensorSize { .. }));
        assert_eq!(NamedTensor::scalar_i64(-3).as_scalar_i64(), Some(-3));
        assert_eq!(tensor(Dtype::F64, &[], 0).as_scalar_i64(), None);
    }

    #[test]
    fn a_path_is_taken_once() {
        let mut tensors = set(&[("a", tensor(Dtype::F32, &[1], 0))]);
        let again = tensors.insert("a", tensor(Dtype::F32, &[1], 1)).unwrap_err();
        assert_eq!(again.to_string(), "there are two tensors `a`");
        assert_eq!(tensors.get("a"), Some(&tensor(Dtype::F32, &[1], 0)));
    }

    #[test]
    fn every_bit_survives_the_way_through_burn() {
        let bits: Vec<u8> = [f32::NAN.to_bits() | 1, 0x8000_0000, 1, f32::INFINITY.to_bits()]
            .iter()
            .flat_map(|bits| bits.to_le_bytes())
            .collect();
        let there = NamedTensor::new(Dtype::F32, vec![2, 2], bits).unwrap();
        assert_eq!(NamedTensor::from_data("a", vec![2, 2], &there.to_data([2, 2])).unwrap(), there);
        for dtype in Dtype::CHECKPOINT {
            let there = tensor(dtype, &[3], 0x5a);
            assert_eq!(NamedTensor::from_data("a", vec![3], &there.to_data([3])).unwrap(), there);
        }
        let error = NamedTensor::from_data("a.b", vec![1], &TensorData::from([true])).unwrap_err();
        assert!(error.to_string().starts_with("the tensor `a.b` holds Bool"), "{error}");
    }
}
