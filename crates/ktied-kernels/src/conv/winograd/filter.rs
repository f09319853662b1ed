//! Winograd's transforms of one dimension, on vectors of neighbouring channels.

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Channels that are transformed at once.
pub(super) const LANES: usize = 16;

/// Neighbouring channels. What follows is loops over arrays and not closures, which would not be compiled for the level in use.
pub(super) type Lanes = [f32; LANES];

pub(super) const ZERO: Lanes = [0.0; LANES];

#[inline(always)]
fn plus(a: Lanes, b: Lanes) -> Lanes {
    let mut sum = a;
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum += b;
    }
    sum
}

#[inline(always)]
fn minus(a: Lanes, b: Lanes) -> Lanes {
    let mut difference = a;
    for (difference, b) in difference.iter_mut().zip(b) {
        *difference -= b;
    }
    difference
}

#[inline(always)]
fn times(factor: f32, a: Lanes) -> Lanes {
    let mut product = a;
    for product in &mut product {
        *product *= factor;
    }
    product
}

/// The transforms of one dimension, of tiles of `SIDE` pixels and windows of `TAPS`.
pub(super) trait Filter<const SIDE: usize, const TAPS: usize> {
    /// Bᵀd
    fn of_inputs(d: [Lanes; SIDE]) -> [Lanes; SIDE];
    /// Aᵀm
    fn of_sums(m: [Lanes; SIDE]) -> [Lanes; 2];
    /// A dy
    fn of_gradients(dy: [Lanes; 2]) -> [Lanes; SIDE];
    /// G g
    fn of_weights(g: [Lanes; TAPS]) -> [Lanes; SIDE];
    /// Gᵀu
    fn to_weights(u: [Lanes; SIDE]) -> [Lanes; TAPS];
}

/// F(2, 3) at 0, ±1 and ∞.
pub(super) struct Three;

impl Filter<4, 3> for Three {
    #[inline(always)]
    fn of_inputs([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
        [minus(a, c), plus(b, c), minus(c, b), minus(b, d)]
    }

    #[inline(always)]
    fn of_sums([a, b, c, d]: [Lanes; 4]) -> [Lanes; 2] {
        [plus(plus(a, b), c), minus(minus(b, c), d)]
    }

    #[inline(always)]
    fn of_gradients([a, b]: [Lanes; 2]) -> [Lanes; 4] {
        [a, plus(a, b), minus(a, b), minus(ZERO, b)]
    }

    #[inline(always)]
    fn of_weights([a, b, c]: [Lanes; 3]) -> [Lanes; 4] {
        let (ends, middle) = (times(0.5, plus(a, c)), times(0.5, b));
        [a, plus(ends, middle), minus(ends, middle), c]
    }

    #[inline(always)]
    fn to_weights([a, b, c, d]: [Lanes; 4]) -> [Lanes; 3] {
        let middle = times(0.5, plus(b, c));
        [plus(a, middle), times(0.5, minus(b, c)), plus(middle, d)]
    }
}

/// F(2, 5) at 0, ±1/√2, ±√2 and ∞. A point and its negative share the sums of the even terms and, but for the sign, of the odd ones.
pub(super) struct Five;

impl Filter<6, 5> for Five {
    #[inline(always)]
    fn of_inputs([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 6] {
        let (low_even, low_odd) = (minus(e, times(2.0, c)), times(FRAC_1_SQRT_2, minus(d, times(2.0, b))));
        let (high_even, high_odd) = (minus(e, times(0.5, c)), times(SQRT_2, minus(d, times(0.5, b))));
        [
            plus(minus(a, times(2.5, c)), e),
            plus(low_even, low_odd),
            minus(low_even, low_odd),
            plus(high_even, high_odd),
            minus(high_even, high_odd),
            plus(minus(b, times(2.5, d)), f),
        ]
    }

    #[inline(always)]
    fn of_sums([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 2] {
        let odd = plus(times(FRAC_1_SQRT_2, minus(b, c)), times(SQRT_2, minus(d, e)));
        [plus(plus(a, plus(b, c)), plus(d, e)), plus(odd, f)]
    }

    #[inline(always)]
    fn of_gradients([a, b]: [Lanes; 2]) -> [Lanes; 6] {
        let (low, high) = (times(FRAC_1_SQRT_2, b), times(SQRT_2, b));
        [a, plus(a, low), minus(a, low), plus(a, high), minus(a, high), b]
    }

    #[inline(always)]
    fn of_weights([a, b, c, d, e]: [Lanes; 5]) -> [Lanes; 6] {
        let low_even = times(-2.0 / 3.0, plus(a, plus(times(0.5, c), times(0.25, e))));
        let low_odd = times(-2.0 / 3.0 * FRAC_1_SQRT_2, plus(b, times(0.5, d)));
        let high_even = times(1.0 / 6.0, plus(a, plus(times(2.0, c), times(4.0, e))));
        let high_odd = times(1.0 / 6.0 * SQRT_2, plus(b, times(2.0, d)));
        [a, plus(low_even, low_odd), minus(low_even, low_odd), plus(high_even, high_odd), minus(high_even, high_odd), e]
    }

    #[inline(always)]
    fn to_weights([a, b, c, d, e, f]: [Lanes; 6]) -> [Lanes; 5] {
        let (low_even, low_odd) = (times(-2.0 / 3.0, plus(b, c)), times(-2.0 / 3.0 * FRAC_1_SQRT_2, minus(b, c)));
        let (high_even, high_odd) = (times(1.0 / 6.0, plus(d, e)), times(1.0 / 6.0 * SQRT_2, minus(d, e)));
        [
            plus(a, plus(low_even, high_even)),
            plus(low_odd, high_odd),
            plus(times(0.5, low_even), times(2.0, high_even)),
            plus(times(0.5, low_odd), times(2.0, high_odd)),
            plus(plus(times(0.25, low_even), times(4.0, high_even)), f),
        ]
    }
}
