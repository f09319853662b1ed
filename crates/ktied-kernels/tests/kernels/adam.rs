//! The fused Adam against its definition in double precision.

use ktied_kernels::adam::{self, AdamStep, Largest};

use crate::reference::{assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, random, to_f64};

fn step(step: u64) -> AdamStep {
    AdamStep { lr: 1e-2, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step }
}

#[test]
fn ten_steps_follow_the_definition() {
    for len in [0, 1, 1000, 20_000] {
        let mut state = [random(len, 1), vec![0.0; len], vec![0.0; len]];
        let mut exact = state.clone().map(|s| to_f64(&s));
        for t in 1..=10 {
            let grad = random(len, 100 + t);
            let [param, m, v] = &mut state;
            adam::update(param, m, v, &grad, step(t)).unwrap();
            let [param, m, v] = &mut exact;
            for (i, g) in to_f64(&grad).into_iter().enumerate() {
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                let (m_hat, v_hat) = (m[i] / (1.0 - 0.9f64.powi(t as i32)), v[i] / (1.0 - 0.999f64.powi(t as i32)));
                param[i] -= 1e-2 * m_hat / (v_hat.sqrt() + 1e-8);
            }
        }
        for (name, (found, expected)) in ["param", "m", "v"].iter().zip(state.iter().zip(&exact)) {
            assert_close(found, expected, 1e-6, 0.0, name);
        }
    }
}

#[test]
fn a_zero_gradient_from_zero_moments_moves_nothing() {
    let mut param = vec![1.5; 100];
    adam::update(&mut param, &mut [0.0; 100], &mut [0.0; 100], &[0.0; 100], step(1)).unwrap();
    assert_eq!(param, [1.5; 100]);
}

#[test]
fn adam_has_the_same_bits_on_any_number_of_threads_and_instruction_set() {
    let run = || {
        let mut state = [random(50_000, 1), random(50_000, 2), vec![0.5; 50_000]];
        let [param, m, v] = &mut state;
        let largest = adam::update(param, m, v, &random(50_000, 3), step(7)).unwrap();
        let Largest { param, moment_1, moment_2 } = largest;
        [state.concat(), vec![param, moment_1, moment_2]].concat()
    };
    assert_same_bits_on_any_threads("adam", run);
    assert_same_bits_on_any_level("adam", run);
}

#[test]
fn a_weight_that_only_its_prior_pulls_at_ends_at_zero_and_is_never_subnormal() {
    // It had gradients once, so that v is large; what is left is μ/(σₚ²N), by which it shrinks in proportion, for ever.
    let mut state = [vec![0.1, -0.1], vec![0.0; 2], vec![1e-6; 2]];
    let is_subnormal = |x: &f32| x.is_subnormal();
    for t in 10_000..30_000 {
        let [param, m, v] = &mut state;
        let grad: Vec<f32> = param.iter().map(|mean| mean / (0.2 * 0.2 * 50_000.0)).collect();
        adam::update(param, m, v, &grad, step(t)).unwrap();
        assert!(!state.iter().flatten().any(is_subnormal), "step {t}: {state:?}");
    }
    assert_eq!(state[0], [0.0; 2], "it was pulled all the way");
}

#[test]
fn adam_refuses_operands_that_do_not_fit() {
    let error = adam::update(&mut [0.0; 2], &mut [0.0; 3], &mut [0.0; 2], &[0.0; 2], step(1)).unwrap_err();
    assert_eq!(error.to_string(), "adam: `moment_1` must have length 2, got 3");
    let error = adam::update(&mut [0.0], &mut [0.0], &mut [0.0], &[0.0], step(0)).unwrap_err();
    assert_eq!(error.to_string(), "adam: `step` must be at least 1, got 0");
}

fn largest_of(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, x| if x.abs() > largest { x.abs() } else { largest })
}

#[test]
fn the_largest_magnitudes_are_returned_and_foreseen() {
    for len in [0, 1, 7, 20_000] {
        let [mut param, mut m, mut v, grad] = [1, 2, 3, 4].map(|seed| random(len, seed));
        v.iter_mut().for_each(|v| *v = v.abs());
        let foreseen = adam::foresee(&param, &m, &v, &grad, step(3)).unwrap();
        let largest = adam::update(&mut param, &mut m, &mut v, &grad, step(3)).unwrap();
        let expected = Largest { param: largest_of(&param), moment_1: largest_of(&m), moment_2: largest_of(&v) };
        assert_eq!((largest, foreseen), (expected, expected), "{len}");
    }
}

#[test]
fn a_number_that_is_not_finite_shows_in_the_largest_wherever_it_stands() {
    let len = 20_000;
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for place in [0, 1, 8_191, 8_192, len - 1] {
            for operand in 0..3 {
                let mut state = [random(len, 1), random(len, 2), vec![0.5; len]];
                state[operand][place] = bad;
                let grad = random(len, 3);
                let [param, m, v] = &mut state;
                let foreseen = adam::foresee(param, m, v, &grad, step(7)).unwrap();
                let largest = adam::update(param, m, v, &grad, step(7)).unwrap();
                for largest in [foreseen, largest] {
                    let finite = [largest.param, largest.moment_1, largest.moment_2].map(f32::is_finite);
                    assert!(!finite[operand] && !largest.is_finite(), "{bad} at {place} of {operand}: {finite:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_said_to_stay_finite_does() {
    let sizes = [0.0f32, 1e-30, 1e-8, 1.0, 1e8, 1e18, 1.7e19, 2e19, 1e30, 3.4e38, f32::INFINITY, f32::NAN];
    let (mut safe, mut doubtful) = (0, 0);
    for lr in [1e-3, 1.0, 1e10, 1e30, 1e39] {
        for epsilon in [0.0, 1e-8] {
            for t in [1, 2, 1000] {
                let step = AdamStep { lr, epsilon, ..step(t) };
                for (param, m) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
                    for (v, g) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
                        let largest = Largest { param, moment_1: m, moment_2: v };
                        if !largest.stays_finite(f64::from(g), step) {
                            doubtful += 1;
                            continue;
                        }
                        safe += 1;
                        // Below the largest may be anything: the worst are none, all, and the other way.
                        for (m, v) in [(m, v), (m, 0.0), (-m, v), (0.0, v)] {
                            for g in [g, -g, 0.0] {
                                let after = adam::foresee(&[param], &[m], &[v], &[g], step).unwrap();
                                assert!(after.is_finite(), "{param} {m} {v} {g} {step:?}: {after:?}");
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(safe > 10_000 && doubtful > 10_000, "{safe} {doubtful}");
}

#[test]
fn ordinary_numbers_need_no_second_look() {
    for (param, moment_1, moment_2, norm, lr) in [
        (1.0, 0.1, 0.01, 1.0, 1e-3),
        (100.0, 1e4, 1e8, 1e5, 10.0),
        (0.0, 0.0, 0.0, 0.0, 1e-3),
        (1e6, 1e12, 1e24, 1e12, 1.0),
    ] {
        for t in [1, 10, 1_000_000, u64::MAX] {
            let step = AdamStep { lr, ..step(t) };
            assert!(Largest { param, moment_1, moment_2 }.stays_finite(norm, step), "{param} {norm} {t}");
        }
    }
}
