//! Chooses, at run time, the instruction set that a kernel's loops are compiled for.
//!
//! A kernel body is ordinary Rust: loops over slices, without fused multiply-add and without a horizontal sum
//! whose order depends on the vector width. The compiler vectorises it once for every [`Level`], and because no
//! rounding differs between the levels, **every level gives the same bits** (the matrix products of
//! [`crate::gemm`] are the one exception: they use fused multiply-add where the machine has it).

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernel bodies are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every machine of the target has: SSE2 on x86-64, NEON on 64-bit ARM.
    Baseline,
    /// x86-64 with AVX2 (every desktop and server processor since about 2014).
    Avx2,
    /// x86-64 with AVX-512 (servers since about 2017, AMD's processors since Zen 4).
    Avx512,
}

const UNKNOWN: u8 = 0;
const BASELINE: u8 = 1;
const AVX2: u8 = 2;
const AVX512: u8 = 3;

static ACTIVE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The widest level this machine runs.
pub fn widest() -> Level {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        return if has_avx512() { Level::Avx512 } else { Level::Avx2 };
    }
    Level::Baseline
}

/// The level in use: the widest, unless [`select`] chose another.
#[inline]
pub fn active() -> Level {
    match ACTIVE.load(Ordering::Relaxed) {
        BASELINE => Level::Baseline,
        AVX2 => Level::Avx2,
        AVX512 => Level::Avx512,
        _ => select(widest()),
    }
}

/// Uses `level` from now on in the whole process, or the widest there is if the machine lacks it, and returns
/// what was chosen. Results do not change, so this is for tests and measurements.
pub fn select(level: Level) -> Level {
    let level = level.min(widest());
    let code = match level {
        Level::Baseline => BASELINE,
        Level::Avx2 => AVX2,
        Level::Avx512 => AVX512,
    };
    ACTIVE.store(code, Ordering::Relaxed);
    level
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Asks for a slice that will be read soon, so that memory need not be waited for then. Where the processor cannot be asked, nothing happens.
#[inline(always)]
pub(crate) fn prefetch(values: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.chunks(16) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it changes no value, and the address is that of an element.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
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
            #[allow(clippy::too_many_arguments, reason = "as above")]
            #[target_feature(enable = "avx2,bmi2,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            match $crate::simd::active() {
                // SAFETY: a level is active only after the machine was asked for all its features.
                $crate::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                $crate::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                $crate::simd::Level::Baseline => {}
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
        let of = |level| {
            let mut out = vec![0.0; 1000];
            select(level);
            triple(&x, &mut out);
            out
        };
        let narrow = of(Level::Baseline);
        assert_eq!(narrow, of(Level::Avx2));
        assert_eq!(narrow, of(Level::Avx512));
    }
}
