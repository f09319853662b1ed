//! The fused Adam against its definition in double precision.

use ktied_kernels::adam::{self, AdamStep};

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
        adam::update(param, m, v, &random(50_000, 3), step(7)).unwrap();
        state.concat()
    };
    assert_same_bits_on_any_threads("adam", run);
    assert_same_bits_on_any_level("adam", run);
}

#[test]
fn adam_refuses_operands_that_do_not_fit() {
    let error = adam::update(&mut [0.0; 2], &mut [0.0; 3], &mut [0.0; 2], &[0.0; 2], step(1)).unwrap_err();
    assert_eq!(error.to_string(), "adam: `moment_1` must have length 2, got 3");
    let error = adam::update(&mut [0.0], &mut [0.0], &mut [0.0], &[0.0], step(0)).unwrap_err();
    assert_eq!(error.to_string(), "adam: `step` must be at least 1, got 0");
}
