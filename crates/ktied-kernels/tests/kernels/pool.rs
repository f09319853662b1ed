//! Pooling.

use ktied_kernels::pool::{PoolShape, avg_backward, avg_forward, max_backward, max_forward};

use crate::reference::{
    assert_close, assert_same_bits_on_any_level, assert_same_bits_on_any_threads, central_difference, dot, random,
    to_f64,
};

fn shape(
    batch: usize,
    [height, width]: [usize; 2],
    channels: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
) -> PoolShape {
    PoolShape { batch, height, width, channels, kernel, stride }
}

fn shapes() -> [PoolShape; 8] {
    [
        shape(0, [2, 2], 3, [2, 2], [2, 2]),
        shape(2, [2, 2], 0, [2, 2], [2, 2]),
        shape(1, [1, 1], 1, [1, 1], [1, 1]),
        shape(2, [4, 6], 3, [2, 2], [2, 2]),
        shape(1, [5, 7], 17, [2, 3], [2, 2]), // a row left over, windows that overlap across
        shape(2, [5, 4], 2, [3, 3], [1, 1]),  // windows that overlap
        shape(1, [7, 7], 33, [2, 2], [3, 4]), // gaps between windows
        shape(1, [4, 4], 16, [4, 4], [1, 1]), // one window
    ]
}

fn num_inputs(s: &PoolShape) -> usize {
    s.batch * s.height * s.width * s.channels
}

fn num_outputs(s: &PoolShape) -> usize {
    s.batch * s.out_height().unwrap() * s.out_width().unwrap() * s.channels
}

/// For every output, the indices in x of its window, row by row.
fn windows(s: &PoolShape) -> Vec<Vec<usize>> {
    let (out_height, out_width) = (s.out_height().unwrap(), s.out_width().unwrap());
    let window = |i: usize| {
        let (c, position) = (i % s.channels, i / s.channels);
        let (b, oy, ox) =
            (position / (out_height * out_width), position / out_width % out_height, position % out_width);
        let index = |tap: usize| {
            let (y, x) = (oy * s.stride[0] + tap / s.kernel[1], ox * s.stride[1] + tap % s.kernel[1]);
            ((b * s.height + y) * s.width + x) * s.channels + c
        };
        (0..s.kernel[0] * s.kernel[1]).map(index).collect()
    };
    (0..num_outputs(s)).map(window).collect()
}

fn max_reference(x: &[f64], windows: &[Vec<usize>]) -> Vec<f64> {
    windows.iter().map(|w| w.iter().map(|&i| x[i]).fold(f64::NEG_INFINITY, f64::max)).collect()
}

fn avg_reference(x: &[f64], windows: &[Vec<usize>]) -> Vec<f64> {
    windows.iter().map(|w| w.iter().map(|&i| x[i]).sum::<f64>() / w.len() as f64).collect()
}

#[test]
fn forward_equals_the_plain_maximum_and_mean() {
    for s in shapes() {
        let (x, windows) = (random(num_inputs(&s), 1), windows(&s));
        let (mut y, mut argmax) = (vec![f32::NAN; windows.len()], vec![255; windows.len()]);
        max_forward(&mut y, &mut argmax, &x, &s).unwrap();
        assert_close(&y, &max_reference(&to_f64(&x), &windows), 0.0, 0.0, &format!("max of {s:?}"));
        for ((y, at), window) in y.iter().zip(&argmax).zip(&windows) {
            assert_eq!(*y, x[window[usize::from(*at)]], "argmax of {s:?}");
        }
        avg_forward(&mut y, &x, &s).unwrap();
        assert_close(&y, &avg_reference(&to_f64(&x), &windows), 1e-6, 0.0, &format!("mean of {s:?}"));
    }
}

#[test]
fn backward_equals_central_differences() {
    for s in shapes() {
        let (x, windows) = (random(num_inputs(&s), 1), windows(&s));
        let dy = random(windows.len(), 2);
        let (mut y, mut argmax, mut dx) = (vec![0.0; dy.len()], vec![0; dy.len()], vec![f32::NAN; x.len()]);
        let (x64, dy64) = (to_f64(&x), to_f64(&dy));
        max_forward(&mut y, &mut argmax, &x, &s).unwrap();
        max_backward(&mut dx, &dy, &argmax, &s).unwrap();
        let expected = central_difference(&mut |x| dot(&max_reference(x, &windows), &dy64), &x64, 1e-6);
        assert_close(&dx, &expected, 1e-6, 1e-8, &format!("max of {s:?}"));
        avg_backward(&mut dx, &dy, &s).unwrap();
        let expected = central_difference(&mut |x| dot(&avg_reference(x, &windows), &dy64), &x64, 1e-3);
        assert_close(&dx, &expected, 1e-6, 1e-9, &format!("mean of {s:?}"));
    }
}

#[test]
fn of_equal_pixels_the_first_wins() {
    for channels in [1, 16, 19] {
        let s = shape(1, [2, 2], channels, [2, 2], [2, 2]);
        let x = [vec![0.0; channels], vec![1.0; channels], vec![1.0; channels], vec![-1.0; channels]].concat();
        let (mut y, mut argmax) = (vec![0.0; channels], vec![255; channels]);
        max_forward(&mut y, &mut argmax, &x, &s).unwrap();
        assert_eq!((y, argmax), (vec![1.0; channels], vec![1; channels]));
    }
}

#[test]
fn a_nan_anywhere_in_a_window_is_its_maximum() {
    let s = shape(1, [2, 2], 1, [2, 2], [1, 1]);
    for at in 0..4 {
        let mut x = [1.0, 5.0, f32::INFINITY, 2.0];
        x[at] = f32::NAN;
        let (mut y, mut argmax) = ([0.0], [255]);
        max_forward(&mut y, &mut argmax, &x, &s).unwrap();
        assert!(y[0].is_nan() && usize::from(argmax[0]) == at, "NaN at {at}: {y:?} {argmax:?}");
    }
}

fn everything() -> Vec<f32> {
    let s = shape(40, [13, 12], 21, [3, 2], [2, 2]);
    let (x, dy) = (random(num_inputs(&s), 1), random(num_outputs(&s), 2));
    let (mut y, mut argmax) = (vec![0.0; dy.len()], vec![0; dy.len()]);
    let (mut mean, mut dx, mut dx_mean) = (vec![0.0; dy.len()], vec![0.0; x.len()], vec![0.0; x.len()]);
    max_forward(&mut y, &mut argmax, &x, &s).unwrap();
    max_backward(&mut dx, &dy, &argmax, &s).unwrap();
    avg_forward(&mut mean, &x, &s).unwrap();
    avg_backward(&mut dx_mean, &dy, &s).unwrap();
    [y, argmax.iter().map(|&a| f32::from(a)).collect(), mean, dx, dx_mean].concat()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    assert_same_bits_on_any_threads("pooling", everything);
}

#[test]
fn any_instruction_set_gives_the_same_bits() {
    assert_same_bits_on_any_level("pooling", everything);
}

#[test]
fn bad_shapes_are_refused() {
    let good = shape(1, [2, 2], 1, [2, 2], [1, 1]);
    let max = |s: &PoolShape| max_forward(&mut [0.0], &mut [0], &[0.0; 4], s).unwrap_err().to_string();
    assert_eq!(max(&shape(1, [2, 2], 2, [2, 2], [1, 1])), "max_pool2d: `x` must have length 8, got 4");
    assert_eq!(max(&PoolShape { kernel: [0, 1], ..good }), "max_pool2d: `kernel` must be at least 1, got 0");
    assert_eq!(max(&PoolShape { stride: [0, 1], ..good }), "max_pool2d: `stride` must be at least 1, got 0");
    assert_eq!(
        max(&PoolShape { kernel: [16, 17], ..good }),
        "max_pool2d: `kernel` must be at most 256 pixels, got 272"
    );
    let wide = "max_pool2d: `height` must be with its padding at least the size of the window, got 2";
    assert_eq!(max(&PoolShape { kernel: [3, 1], ..good }), wide);
    assert!(max(&PoolShape { batch: usize::MAX, ..good }).ends_with("too large"));
    let error = max_forward(&mut [0.0], &mut [], &[0.0; 4], &good).unwrap_err();
    assert_eq!(error.to_string(), "max_pool2d: `argmax` must have length 1, got 0");
    let error = max_backward(&mut [0.0; 4], &[0.0], &[4], &good).unwrap_err();
    let outside = "max_pool2d backward: `argmax` must be below the number of pixels of the window, got 4";
    assert_eq!(error.to_string(), outside);
    assert!(
        avg_forward(&mut [0.0; 2], &[0.0; 4], &good).is_err() && avg_backward(&mut [0.0; 3], &[0.0], &good).is_err()
    );
}

#[test]
fn sizes_that_only_emptiness_makes_possible_do_no_harm() {
    let endless = shape(0, [1 << 40, 1 << 40], 1 << 40, [2, 2], [1, 1]);
    max_forward(&mut [], &mut [], &[], &endless).unwrap();
    max_backward(&mut [], &[], &[], &endless).unwrap();
    avg_forward(&mut [], &[], &endless).unwrap();
    avg_backward(&mut [], &[], &endless).unwrap();
}
