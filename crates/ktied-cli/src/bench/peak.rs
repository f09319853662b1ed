//! The machine's own limits, measured: a large product and a large copy.

use std::time::Instant;

use ktied_kernels::Result;
use ktied_kernels::gemm::{Mat, Threads, Update, product};
use rayon::prelude::*;

/// Best of several runs on all threads of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// Of a product of square matrices.
    pub gflop_per_s: f64,
    /// Of a copy far larger than the caches, bytes read plus bytes written.
    pub copy_gb_per_s: f64,
}

const SIDE: usize = 1536;
const COPY_LEN: usize = 1 << 26;
const RUNS: usize = 5;

impl Peak {
    /// Measures both, calling `tick` after each.
    ///
    /// # Errors
    /// None in practice: the sizes are this file's own.
    pub fn measure(tick: impl Fn()) -> Result<Self> {
        let gflop_per_s = product_rate()?;
        tick();
        let copy_gb_per_s = copy_rate();
        tick();
        Ok(Self { gflop_per_s, copy_gb_per_s })
    }
}

fn product_rate() -> Result<f64> {
    let (a, b, mut c) = (vec![0.5; SIDE * SIDE], vec![0.25; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let (a, b) = (Mat::new(&a, SIDE, SIDE)?, Mat::new(&b, SIDE, SIDE)?);
        product(&mut c, a, b, Update::Overwrite, Threads::All)?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(2.0 * (SIDE as f64).powi(3) / best / 1e9)
}

fn copy_rate() -> f64 {
    let (from, mut to) = (vec![1.0f32; COPY_LEN], vec![0.0f32; COPY_LEN]);
    let chunk = COPY_LEN.div_ceil(4 * rayon::current_num_threads());
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let begin = Instant::now();
        to.par_chunks_mut(chunk).zip(from.par_chunks(chunk)).for_each(|(to, from)| to.copy_from_slice(from));
        best = best.min(begin.elapsed().as_secs_f64());
    }
    8.0 * COPY_LEN as f64 / best / 1e9
}
