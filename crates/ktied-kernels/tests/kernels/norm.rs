//! The norm of a vector.

use ktied_kernels::norm::sum_of_squares;

use crate::reference::{assert_same_bits_on_any_level, assert_same_bits_on_any_threads, random};

#[test]
fn the_sum_takes_every_element() {
    for len in [0, 1, 7, 8, 9, 100, 40_000] {
        let values: Vec<f32> = (0..len).map(|i| (i % 50) as f32).collect();
        let expected: f64 = (0..len).map(|i| ((i % 50) * (i % 50)) as f64).sum();
        assert_eq!(sum_of_squares(&values), expected, "{len}");
    }
}

#[test]
fn a_number_that_is_not_finite_is_seen_wherever_it_stands() {
    for place in [0, 9, 39_999] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut values = vec![1.0; 40_000];
            values[place] = bad;
            assert!(!sum_of_squares(&values).is_finite(), "{bad} at {place}");
        }
    }
    assert!(sum_of_squares(&[f32::MAX; 100]).is_finite(), "large is not infinite");
}

#[test]
fn threads_and_instruction_sets_change_no_bit() {
    let values = random(70_001, 1);
    let run = || sum_of_squares(&values).to_bits().to_le_bytes().map(f32::from).to_vec();
    assert_same_bits_on_any_threads("norm", run);
    assert_same_bits_on_any_level("norm", run);
}
