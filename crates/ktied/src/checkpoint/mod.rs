//! Checkpoints: everything that a run goes on from, bit for bit, in folders that survive a crash.
//!
//! A [`Checkpoint`] is two sets of [`NamedTensors`] (the weights; the optimiser and whatever else training needs) and
//! a [`Header`]. A [`Store`] keeps one folder a step under `checkpoints/`:
//!
//! ```text
//! step-00001234/weights.safetensors       by parameter path, as in layers.0.weights.kernel.loc
//! step-00001234/train_state.safetensors   as in adam.layers.0.weights.kernel.loc.moment_1
//! step-00001234/manifest.json             written last: header, digests and lengths of all of it
//! ```
//!
//! A folder is built under another name and renamed when it is complete, so a crash leaves the checkpoint before it.
//! What is read is checked against the manifest: a flipped bit is an error that names its file. Nothing in a
//! folder depends on the time, the process or the order of a hash map: equal states are equal bytes.
//!
//! ```
//! use burn::tensor::Device;
//! use ktied::checkpoint::{Checkpoint, Header, Store, load_module, module_tensors};
//! use ktied::models::{MlpSpec, NetworkConfig, PosteriorSpec};
//! use ktied::train::AdamConfig;
//!
//! # let folder = std::env::temp_dir().join(format!("ktied-doc-checkpoint-{}", std::process::id()));
//! let (device, mut adam) = (Device::flex().autodiff(), AdamConfig::new().init());
//! let config = NetworkConfig::new(PosteriorSpec::new("k-tied:2".parse()?));
//! let mlp = MlpSpec::new([64, 32, 10]).init(&config, &device)?;
//!
//! let store = Store::open(folder.join("checkpoints"))?;
//! let header = Header::new(100, 42);
//! store.save(&Checkpoint::new(header, module_tensors(&mlp)?, adam.to_tensors(&mlp)?)?)?;
//!
//! // Another process: a network of other first values, and the run goes on.
//! let mlp = MlpSpec::new([64, 32, 10]).init(&NetworkConfig { seed: 7, ..config }, &device)?;
//! let (newest, skipped) = store.newest_good()?;
//! let newest = newest.expect("one was saved");
//! let mlp = load_module(mlp, newest.weights())?;
//! adam.load_tensors(&mlp, newest.train_state())?;
//! assert_eq!((newest.header().step, skipped.len()), (100, 0));
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// What strangers wrote is read here: whatever it is, it is answered with an error.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod atomic;
mod digest;
mod error;
pub mod exact;
mod format;
mod lock;
mod manifest;
mod module;
mod optimizer;
pub(crate) mod path;
mod store;
mod tensors;

pub use atomic::write_file;
pub(crate) use atomic::{clear_leftovers, is_temporary};
pub use digest::Digest;
pub use error::{CheckpointError, Damage};
pub(crate) use format::{METADATA, contents_to_bytes, read_contents};
pub use format::{read_tensors, tensors_to_bytes};
pub use lock::RunLock;
pub use manifest::{FORMAT, FileEntry, Header, Manifest, instruction_set};
pub use module::{load_module, module_tensors};
pub use store::{Checkpoint, Skipped, Store};
pub use tensors::{Dtype, NamedTensor, NamedTensors};

/// What the functions of this module return.
type Result<T, E = CheckpointError> = std::result::Result<T, E>;
