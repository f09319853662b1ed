//! Elementary functions in single precision that the compiler can vectorise, with known maximum errors.
//!
//! Each is a branch-free `#[inline(always)]` scalar function, so a loop over it inside a
//! `vectorized!` kernel becomes vector code. None uses fused multiply-add, so each gives the same bits on every
//! machine. Errors are in units in the last place (ulp) of the exact result, over **every** finite input of the
//! stated range, found by trying all of them; the test suite tries every 251st against double precision, or all with
//! `KTIED_EXHAUSTIVE=1` (`tests/kernels/vmath.rs`).
//!
//! | function | range | maximum error |
//! |---|---|---|
//! | [`exp`] | all | 1.0 ulp (results below 1.2e-38: 1 ulp of the subnormal) |
//! | [`ln`] | all positive, subnormals too | 0.85 ulp |
//! | [`sin_cos_turns`] | \|x\| ≤ 2²⁰ turns | 9.3e-8 absolute |
//! | [`tanh`] | all | 1.35 ulp |
//! | [`sigmoid`] | all | 3.0 ulp where the result is above 1e-30 |
//! | [`softplus`] | all | 3.0 ulp |

const LN2_HI: f32 = 0.693_359_4; // 355/512: exact in nine bits, so n·LN2_HI is exact for |n| < 2¹⁵
const LN2_LO: f32 = -2.121_944_4e-4; // ln 2 − LN2_HI
const ROUND: f32 = 12_582_912.0; // 1.5·2²³: adding it leaves the nearest integer in the low bits

/// Maximum error of [`exp`] in ulp.
pub const EXP_MAX_ULP: f64 = 1.0;
/// Maximum error of [`ln`] in ulp.
pub const LN_MAX_ULP: f64 = 0.85;
/// Maximum absolute error of either part of [`sin_cos_turns`].
pub const SIN_COS_MAX_ABS: f64 = 9.3e-8;
/// Maximum error of [`tanh`] in ulp.
pub const TANH_MAX_ULP: f64 = 1.35;
/// Maximum error of [`sigmoid`] in ulp.
pub const SIGMOID_MAX_ULP: f64 = 3.0;
/// Maximum error of [`softplus`] in ulp.
pub const SOFTPLUS_MAX_ULP: f64 = 3.0;

/// eˣ. Overflows to infinity, underflows through the subnormals to zero, keeps NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Comparisons rather than min and max, which would drop a NaN.
    let x = if x < -105.0 { -105.0 } else { x };
    let x = if x > 89.5 { 89.5 } else { x };
    let (y, n) = exp_parts(x);
    // 2ⁿ in two halves: n runs from −152 to 129, one factor alone would leave the normal numbers.
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// [`exp`] for x from −87 to 87, where eˣ is a normal number, with the same bits.
#[inline(always)]
fn exp_of_moderate(x: f32) -> f32 {
    let (y, n) = exp_parts(x);
    y * power_of_two(n)
}

/// eˣ = y·2ⁿ with y between √½ and √2, about.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HI) - n * LN2_LO;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = (p * r * r + r) + 1.0;
    (y, (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// ln x. −∞ at zero, NaN below.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let (e, m) = split(scaled);
    let e = if tiny { e - 23.0 } else { e };
    let [y] = ln_parts([(e, m)]);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// ln x for positive normal x: what is left of [`ln`] where no special case can occur.
#[inline(always)]
pub(crate) fn ln_of_unit<const L: usize>(x: [f32; L]) -> [f32; L] {
    ln_parts(x.map(split))
}

/// x = m·2ᵉ with m in [√½, √2), for a positive normal x.
#[inline(always)]
pub(crate) fn split(x: f32) -> (f32, f32) {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let bits = x.to_bits().wrapping_sub(SQRT_HALF);
    let e = ((bits as i32) >> 23) as f32;
    (e, f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)))
}

/// p·x + c, the step of a polynomial, for L values side by side.
#[inline(always)]
fn step<const L: usize>(p: [f32; L], x: [f32; L], c: f32) -> [f32; L] {
    std::array::from_fn(|l| p[l] * x[l] + c)
}

/// ln(m·2ᵉ) of L pairs (e, m), for m in [√½, √2).
#[inline(always)]
pub(crate) fn ln_parts<const L: usize>(parts: [(f32, f32); L]) -> [f32; L] {
    let f = parts.map(|(_, m)| m - 1.0);
    let p = [7.037_683_6e-2; L];
    let p = step(p, f, -1.151_461e-1);
    let p = step(p, f, 1.167_699_9e-1);
    let p = step(p, f, -1.242_014_1e-1);
    let p = step(p, f, 1.424_932_3e-1);
    let p = step(p, f, -1.666_805_8e-1);
    let p = step(p, f, 2.000_071_5e-1);
    let p = step(p, f, -2.499_999_4e-1);
    let p = step(p, f, 3.333_333e-1);
    std::array::from_fn(|l| {
        let (e, f, f2) = (parts[l].0, f[l], f[l] * f[l]);
        let low = (f2 * f * p[l] + e * LN2_LO) - 0.5 * f2;
        (f + low) + e * LN2_HI
    })
}

/// (sin 2πx, cos 2πx): the angle is in turns, so the reduction is exact.
///
/// NaN and infinity give NaN; beyond 2²⁰ turns too few bits are left for an angle.
#[inline(always)]
pub fn sin_cos_turns(x: f32) -> (f32, f32) {
    let shifted = 4.0 * x + ROUND;
    let quarter = shifted - ROUND;
    let a = (x - 0.25 * quarter) * std::f32::consts::TAU;
    let [y] = sin_cos_parts([shifted.to_bits()], [a]);
    y
}

/// [`sin_cos_turns`] of the upper 23 bits of words, as fractions of a turn. Such an angle needs no rounding before it
/// is reduced, and two operations less.
#[inline(always)]
pub(crate) fn sin_cos_of_words<const L: usize>(words: [u32; L]) -> [(f32, f32); L] {
    let quarters = words.map(|x| f32::from_bits(0x4080_0000 | (x >> 9))); // 4 + four times the fraction
    let shifted = quarters.map(|q| q + (ROUND - 4.0));
    let a = std::array::from_fn(|l| (quarters[l] - (shifted[l] - (ROUND - 4.0))) * std::f32::consts::FRAC_PI_2);
    sin_cos_parts(shifted.map(f32::to_bits), a)
}

/// (sin, cos) of L angles: `quarter` right angles, of which the lowest two bits count, and `a` beyond them.
#[inline(always)]
fn sin_cos_parts<const L: usize>(quarter: [u32; L], a: [f32; L]) -> [(f32, f32); L] {
    let a2 = a.map(|a| a * a);
    let s = [-1.951_529_6e-4; L];
    let s = step(s, a2, 8.332_161e-3);
    let s = step(s, a2, -1.666_665_5e-1);
    let c = [2.443_315_7e-5; L];
    let c = step(c, a2, -1.388_731_6e-3);
    let c = step(c, a2, 4.166_664_6e-2);
    std::array::from_fn(|l| {
        let (a, a2, quarter) = (a[l], a2[l], quarter[l]);
        let s = s[l] * a2 * a + a;
        let c = (c[l] * a2 * a2 - 0.5 * a2) + 1.0;
        let swap = quarter & 1 == 1;
        let (sin, cos) = (if swap { c } else { s }, if swap { s } else { c });
        let sin_sign = (quarter & 2) << 30;
        let cos_sign = (quarter.wrapping_add(1) & 2) << 30;
        (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ cos_sign))
    })
}

/// tanh x.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let a2 = a * a;
    let p = -5.704_988_7e-3;
    let p = p * a2 + 2.063_909e-2;
    let p = p * a2 - 5.373_971_6e-2;
    let p = p * a2 + 1.333_144_2e-1;
    let p = p * a2 - 3.333_328e-1;
    let small = p * a2 * a + a;
    // Beyond 87 it has long been 1.
    let double = 2.0 * a;
    let large = 1.0 - 2.0 / (exp_of_moderate(if double > 87.0 { 87.0 } else { double }) + 1.0);
    let y = if a < 0.625 { small } else { large };
    f32::from_bits(y.to_bits() | (x.to_bits() & 0x8000_0000))
}

/// 1/(1 + e⁻ˣ).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // Below −87 it is 1.6e-38 at most, and taken as nothing; a comparison keeps a NaN.
    let a = -x.abs();
    let e = if a < -87.0 { 0.0 } else { exp_of_moderate(a) };
    let y = 1.0 / (1.0 + e);
    if x < 0.0 { e * y } else { y }
}

/// ln(1 + eˣ).
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let t = exp(-x.abs());
    // ln(1 + t) = ln(w)·t/(w − 1) with w the rounded 1 + t: the rounding of w cancels.
    let w = 1.0 + t;
    let d = w - 1.0;
    let log1p = if d == 0.0 { t } else { ln(w) * (t / d) };
    if x > 0.0 { x + log1p } else { log1p }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_angle_of_a_word_has_the_bits_of_the_general_reduction() {
        for x in 0..1u32 << 23 {
            let turns = f32::from_bits(0x3f80_0000 | x) - 1.0;
            let [(sin, cos)] = sin_cos_of_words([x << 9 | x & 0x1ff]);
            let general = sin_cos_turns(turns);
            assert_eq!((sin.to_bits(), cos.to_bits()), (general.0.to_bits(), general.1.to_bits()), "{x:#x}");
        }
    }
}
