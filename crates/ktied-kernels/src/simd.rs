//! Chooses, at run time, the instruction set that a kernel's loops are compiled for.
//!
//! A kernel body is ordinary Rust: loops over slices, without fused multiply-add and without a horizontal sum
//! whose order depends on the vector width. The compiler vectorises it once for every [`Level`], and because no
//! rounding differs between the levels, **every level gives the same bits** (the matrix products of
//! [`crate::gemm`] are the one exception: they use fused multiply-add where the machine has it).

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernel bodies are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every machine of the target has: SSE2 on x86-64, NEON on 64-bit ARM.
    Baseline,
    /// x86-64 with AVX2 (every desktop and server processor since about 2014).
    Avx2,
}

const UNKNOWN: u8 = 0;
const BASELINE: u8 = 1;
const AVX2: u8 = 2;

static ACTIVE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The widest level this machine runs.
pub fn widest() -> Level {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        return Level::Avx2;
    }
    Level::Baseline
}

/// The level in use: the widest, unless [`select`] chose another.
#[inline]
pub fn active() -> Level {
    match ACTIVE.load(Ordering::Relaxed) {
        BASELINE => Level::Baseline,
        AVX2 => Level::Avx2,
        _ => select(widest()),
    }
}

/// Uses `level` from now on in the whole process, or the widest there is if the machine lacks it, and returns
/// what was chosen. Results do not change, so this is for tests and measurements.
pub fn select(level: Level) -> Level {
    let level = if level == Level::Avx2 { widest() } else { level };
    let code = if level == Level::Avx2 { AVX2 } else { BASELINE };
    ACTIVE.store(code, Ordering::Relaxed);
    level
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt")
}

/// Declares functions whose bodies are compiled once for every [`Level`] and chosen at run time.
///
/// Everything a body calls must be `#[inline(always)]`, or it stays compiled for the baseline.
macro_rules! vectorized {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "a kernel's operands are all it has")]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[target_feature(enable = "avx2,bmi2,lzcnt")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            if $crate::simd::active() == $crate::simd::Level::Avx2 {
                // SAFETY: the level is active only after the machine was asked for all three features.
                return unsafe { avx2($($arg),*) };
            }
            body($($arg),*)
        }
    )+};
}
pub(crate) use vectorized;

#[cfg(test)]
mod tests {
    use super::*;

    vectorized! {
        fn triple(x: &[f32], out: &mut [f32]) {
            for (o, x) in out.iter_mut().zip(x) {
                *o = 3.0 * x + 1.0;
            }
        }
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let (mut narrow, mut wide) = (vec![0.0; 1000], vec![0.0; 1000]);
        select(Level::Baseline);
        triple(&x, &mut narrow);
        select(Level::Avx2);
        triple(&x, &mut wide);
        assert_eq!(narrow, wide);
    }
}
