//! What is measured: one case for every kernel, and the machine's peak. Shared by `ktied bench kernels` and the
//! criterion benches.

mod network;
mod peak;
mod variational;

pub use peak::Peak;

use ktied_kernels::{NoiseKey, Purpose, Result, noise};

/// What a kernel's time is divided into.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Additions and multiplications.
    Flops(f64),
    /// Bytes that have to be read and written at least once.
    Bytes(f64),
}

/// One kernel on operands of one size.
pub struct Case {
    /// Kernel, pass and sizes.
    pub name: String,
    /// What one run does.
    pub work: Work,
    /// Runs it once.
    pub run: Box<dyn FnMut() -> Result<()> + Send>,
}

impl Case {
    fn new(name: impl Into<String>, work: Work, run: impl FnMut() -> Result<()> + Send + 'static) -> Self {
        Self { name: name.into(), work, run: Box::new(run) }
    }
}

/// All cases, with the sizes of the four models of the paper.
pub fn cases() -> Vec<Case> {
    let mut cases = variational::cases();
    cases.extend(network::cases());
    cases
}

/// `count` single-precision numbers, read or written once.
fn floats(count: usize) -> Work {
    Work::Bytes(4.0 * count as f64)
}

fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    noise::normals(NoiseKey::new(seed).child(Purpose::Synthetic), 0, &mut values);
    values
}
