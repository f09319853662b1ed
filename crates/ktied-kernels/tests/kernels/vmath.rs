//! The elementary functions against double precision, over their whole range.
//!
//! Every 251st of all 2³² floats by default, with the awkward ones added; all of them with `KTIED_EXHAUSTIVE=1`.

use ktied_kernels::vmath;

fn stride() -> usize {
    if std::env::var_os("KTIED_EXHAUSTIVE").is_some() { 1 } else { 251 }
}

const AWKWARD: [f32; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::MIN_POSITIVE,
    f32::EPSILON,
    f32::MAX,
    f32::MIN,
    1e-45,
    88.722_83,
    -87.336_54,
    std::f32::consts::LN_2,
];

fn finite_floats() -> impl Iterator<Item = f32> {
    (0..=u32::MAX).step_by(stride()).map(f32::from_bits).chain(AWKWARD).filter(|x| x.is_finite())
}

/// Distance between neighbouring floats around `x`.
fn ulp(x: f64) -> f64 {
    2f64.powi((x.abs().log2().floor() as i32 - 23).max(-149))
}

/// The largest error of `f` over `inputs`, in ulp of the exact result.
fn worst_ulp(inputs: impl Iterator<Item = f32>, f: fn(f32) -> f32, exact: fn(f64) -> f64) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for x in inputs {
        let (found, expected) = (f(x), exact(f64::from(x)));
        let rounded = expected as f32;
        if rounded.is_infinite() || expected == 0.0 {
            assert!(found == rounded, "f({x:e}) is {found}, expected {rounded}");
            continue;
        }
        let error = (f64::from(found) - expected).abs() / ulp(expected);
        assert!(!error.is_nan(), "f({x:e}) is {found}, expected {expected}");
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

fn assert_within(name: &str, (worst, at): (f64, f32), bound: f64) {
    println!("{name}: at most {worst:.3} ulp, at {at:e}");
    assert!(worst <= bound, "{name}: {worst:.3} ulp at {at:e}, stated {bound}");
    assert!(worst > 0.3 * bound, "{name}: {worst:.3} ulp, far below the stated {bound}: state the truth");
}

#[test]
fn exp_is_as_exact_as_stated_for_every_float() {
    // Between the last finite result and infinity lies a rounding that may go either way.
    let inputs = finite_floats().filter(|&x| !(88.722_82..88.722_85).contains(&x));
    assert_within("exp", worst_ulp(inputs, vmath::exp, f64::exp), vmath::EXP_MAX_ULP);
    assert_eq!(vmath::exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(vmath::exp(f32::INFINITY), f32::INFINITY);
    assert!(vmath::exp(f32::NAN).is_nan());
}

#[test]
fn ln_is_as_exact_as_stated_for_every_positive_float() {
    let inputs = finite_floats().filter(|&x| x > 0.0);
    assert_within("ln", worst_ulp(inputs, vmath::ln, f64::ln), vmath::LN_MAX_ULP);
    assert_eq!(vmath::ln(0.0), f32::NEG_INFINITY);
    assert_eq!(vmath::ln(-0.0), f32::NEG_INFINITY);
    assert_eq!(vmath::ln(f32::INFINITY), f32::INFINITY);
    assert!([f32::NAN, -1.0, -1e-45, f32::NEG_INFINITY].iter().all(|&x| vmath::ln(x).is_nan()));
}

#[test]
fn sin_and_cos_are_as_exact_as_stated_over_their_range() {
    let mut worst: f64 = 0.0;
    for x in finite_floats().filter(|x| x.abs() <= 1_048_576.0) {
        // The exact fraction of a turn, so that the reference does not lose what a large angle would cost it.
        let turn = f64::from(x) - f64::from(x).floor();
        let (sin, cos) = vmath::sin_cos_turns(x);
        let (s, c) = (turn * std::f64::consts::TAU).sin_cos();
        worst = worst.max((f64::from(sin) - s).abs()).max((f64::from(cos) - c).abs());
    }
    println!("sin, cos: at most {worst:.3e}");
    assert!(worst <= vmath::SIN_COS_MAX_ABS && worst > 0.3 * vmath::SIN_COS_MAX_ABS, "{worst:e}");
    assert!(vmath::sin_cos_turns(f32::NAN).0.is_nan() && vmath::sin_cos_turns(f32::INFINITY).1.is_nan());
    assert_eq!(vmath::sin_cos_turns(0.25), (1.0, 0.0));
    assert_eq!(vmath::sin_cos_turns(0.5).1, -1.0);
}

#[test]
fn tanh_sigmoid_and_softplus_are_as_exact_as_stated_for_every_float() {
    assert_within("tanh", worst_ulp(finite_floats(), vmath::tanh, f64::tanh), vmath::TANH_MAX_ULP);
    let inputs = finite_floats().filter(|&x| x > -69.0);
    assert_within("sigmoid", worst_ulp(inputs, vmath::sigmoid, |x| 1.0 / (1.0 + (-x).exp())), vmath::SIGMOID_MAX_ULP);
    let exact = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    assert_within("softplus", worst_ulp(finite_floats(), vmath::softplus, exact), vmath::SOFTPLUS_MAX_ULP);
    for f in [vmath::tanh, vmath::sigmoid, vmath::softplus] {
        assert!(f(f32::NAN).is_nan());
    }
    assert_eq!((vmath::tanh(f32::INFINITY), vmath::tanh(f32::NEG_INFINITY)), (1.0, -1.0));
    assert_eq!((vmath::sigmoid(f32::INFINITY), vmath::sigmoid(f32::NEG_INFINITY)), (1.0, 0.0));
}
