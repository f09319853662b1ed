//! What a checkpoint says of itself: `manifest.json`, written last and sealed with its own SHA-256.

use std::collections::BTreeMap;
use std::path::Path;

use ktied_kernels::simd::{self, Level};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Result;
use super::digest::Digest;
use super::error::{CheckpointError, Damage};

/// Version of the format that is written and read.
pub const FORMAT: u64 = 1;

/// What a checkpoint holds besides tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Updates made so far.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Digest of the data that the run trains on, in the words of whoever reads data.
    pub data: String,
    /// The whole configuration.
    pub config: Value,
    /// What the training loop keeps for itself, such as its best step; see [`exact`](super::exact) for fractions.
    pub state: Value,
    /// Version of this crate that wrote it.
    pub ktied: String,
    /// Instruction set of the machine that wrote it: bits of matrix products may differ between them.
    pub instruction_set: String,
}

impl Header {
    /// A header of this version on this machine, without configuration, data and state.
    pub fn new(step: u64, seed: u64) -> Self {
        let (data, config, state) = (String::new(), Value::Null, Value::Null);
        Self {
            step,
            seed,
            data,
            config,
            state,
            ktied: env!("CARGO_PKG_VERSION").into(),
            instruction_set: instruction_set(),
        }
    }
}

/// What the bits of this machine's matrix products depend on, as in `x86_64 avx2 fma`.
pub fn instruction_set() -> String {
    let level = match simd::active() {
        Level::Baseline => "baseline",
        Level::Avx2 => "avx2",
        Level::Avx512 => "avx512",
    };
    let mut words = vec![std::env::consts::ARCH, level];
    // The products use more than our kernels where the machine has it.
    #[cfg(target_arch = "x86_64")]
    words.extend(
        [("fma", is_x86_feature_detected!("fma")), ("avx512f", is_x86_feature_detected!("avx512f"))]
            .into_iter()
            .filter_map(|(name, there)| there.then_some(name)),
    );
    words.join(" ")
}

/// Length and digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Bytes.
    pub length: u64,
    /// Digest of the bytes.
    pub sha256: Digest,
}

impl FileEntry {
    /// The entry of a file of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len() as u64, sha256: Digest::of(bytes) }
    }
}

/// The contents of `manifest.json`, without its seal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format.
    pub format: u64,
    /// What the checkpoint holds besides tensors.
    pub header: Header,
    /// Digest of all tensors (see [`NamedTensors::digest`](super::NamedTensors::digest)).
    pub tensors: Digest,
    /// The files by name.
    pub files: BTreeMap<String, FileEntry>,
}

/// All that is read of a manifest before its version is known.
#[derive(Deserialize)]
struct Version {
    format: u64,
}

/// The last line but one; its digest is of all bytes up to and including this.
const SEAL: &str = ",\n  \"sha256\": \"";
const END: &str = "\"\n}\n";

impl Manifest {
    /// Name of the file.
    pub const NAME: &'static str = "manifest.json";
    /// Longest manifest that is read.
    pub(super) const MAX_LENGTH: u64 = 64 << 20;

    /// The file: JSON for people, with the seal as its last field.
    ///
    /// # Errors
    /// If JSON cannot hold the header.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let unwritable = |message: String| CheckpointError::Unwritable { step: self.header.step, message };
        let json = serde_json::to_string_pretty(self).map_err(|error| unwritable(error.to_string()))?;
        let open = json.strip_suffix("\n}").ok_or_else(|| unwritable("it is not an object".into()))?;
        let sealed = format!("{open}{SEAL}");
        let seal = Digest::of(sealed.as_bytes());
        Ok(format!("{sealed}{seal}{END}").into_bytes())
    }

    /// The manifest of a file's bytes; `file` is its name in errors.
    ///
    /// # Errors
    /// If the file is of another version, or a byte of it was changed.
    pub fn from_bytes(file: &Path, bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|damage| CheckpointError::damaged(file, damage))
    }

    fn read(bytes: &[u8]) -> Result<Self, Damage> {
        // The version first: a newer one may seal itself in another way.
        if let Ok(Version { format: found }) = serde_json::from_slice(bytes)
            && found != FORMAT
        {
            return Err(Damage::Format { found, known: FORMAT });
        }
        let open = unsealed(bytes).ok_or(Damage::Seal)?;
        let json = [open, b"\n}"].concat();
        serde_json::from_slice(&json).map_err(|error| Damage::Manifest(error.to_string()))
    }
}

/// What comes before the seal, if the seal fits.
fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let body = bytes.strip_suffix(END.as_bytes())?;
    let (sealed, seal) = body.split_at_checked(body.len().checked_sub(Digest::DIGITS)?)?;
    let seal: Digest = std::str::from_utf8(seal).ok()?.parse().ok()?;
    (Digest::of(sealed) == seal).then(|| sealed.strip_suffix(SEAL.as_bytes())).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Manifest {
        let mut header = Header::new(1234, u64::MAX);
        header.config = json!({"optim": {"lr": 0.001}, "model": {"kind": "mlp"}});
        let files = BTreeMap::from([("weights.safetensors".into(), FileEntry::of(b"abc"))]);
        Manifest { format: FORMAT, header, tensors: Digest::of(b""), files }
    }

    fn read(bytes: &[u8]) -> Result<Manifest, Damage> {
        Manifest::read(bytes)
    }

    #[test]
    fn a_manifest_is_json_that_comes_back() {
        let bytes = manifest().to_bytes().unwrap();
        assert_eq!(read(&bytes), Ok(manifest()));
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["header"]["step"], 1234);
        assert_eq!(json["sha256"].as_str().map(str::len), Some(Digest::DIGITS));
    }

    #[test]
    fn every_flipped_bit_every_cut_and_every_addition_is_found() {
        let bytes = manifest().to_bytes().unwrap();
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(read(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
        assert_eq!(read(&[&bytes[..], b"\n"].concat()), Err(Damage::Seal));
        assert_eq!(read(b""), Err(Damage::Seal));
    }

    #[test]
    fn another_version_is_called_by_its_number() {
        let newer = br#"{"format": 2, "seal": "of another kind"}"#;
        assert_eq!(read(newer), Err(Damage::Format { found: 2, known: FORMAT }));
        let sentence = read(newer).unwrap_err().to_string();
        assert_eq!(
            sentence,
            "it has format 2, and this program reads format 1: use the version that wrote it, or a newer one"
        );
    }

    #[test]
    fn a_field_too_many_or_too_few_is_refused_even_under_a_good_seal() {
        let seal = |open: &str| {
            let sealed = format!("{open}{SEAL}");
            format!("{sealed}{}{END}", Digest::of(sealed.as_bytes()))
        };
        let text = serde_json::to_string_pretty(&manifest()).unwrap();
        let open = text.strip_suffix("\n}").unwrap();
        assert!(read(seal(open).as_bytes()).is_ok());
        for other in
            [open.replace("\"seed\"", "\"sed\""), format!("{open},\n  \"more\": 1"), "{\n  \"format\": 1".into()]
        {
            assert!(matches!(read(seal(&other).as_bytes()), Err(Damage::Manifest(_))), "{other}");
        }
    }

    #[test]
    fn the_instruction_set_names_the_machine() {
        assert!(instruction_set().starts_with(std::env::consts::ARCH));
    }
}
