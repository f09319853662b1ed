//! Matrix products on views: transposes, wide rows, accumulation, and views that do not fit.

use ktied_kernels::gemm::{Mat, Threads, Update, product};

use crate::reference::{assert_close, assert_same_bits_on_any_threads, matmul, random, to_f64};

fn transposed(x: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..rows * cols).map(|e| x[e % rows * cols + e / rows]).collect()
}

#[test]
fn products_of_views_match_the_reference_at_awkward_sizes() {
    for [i, k, j] in [[0, 3, 2], [2, 0, 3], [1, 1, 1], [1, 300, 1], [7, 5, 1], [1, 5, 7], [13, 17, 19], [65, 70, 33]] {
        let (a, b, start) = (random(i * k, 1), random(k * j, 2), random(i * j, 3));
        let exact = matmul(&to_f64(&a), &to_f64(&b), i, k, j);
        let (a_t, b_t) = (transposed(&a, i, k), transposed(&b, k, j));
        let views_a = [Mat::new(&a, i, k).unwrap(), Mat::new(&a_t, k, i).unwrap().t()];
        let views_b = [Mat::new(&b, k, j).unwrap(), Mat::new(&b_t, j, k).unwrap().t()];
        for (a, b) in views_a.iter().flat_map(|a| views_b.iter().map(move |b| (*a, *b))) {
            let mut out = start.clone();
            product(&mut out, a, b, Update::Overwrite, Threads::One).unwrap();
            assert_close(&out, &exact, 1e-6, 0.0, &format!("{i}×{k}×{j}"));
            let mut sum = start.clone();
            product(&mut sum, a, b, Update::Accumulate, Threads::All).unwrap();
            let expected: Vec<f64> = exact.iter().zip(&start).map(|(e, &s)| e + f64::from(s)).collect();
            assert_close(&sum, &expected, 1e-6, 0.0, &format!("{i}×{k}×{j} added"));
        }
    }
}

#[test]
fn rows_of_a_wider_matrix_are_a_matrix() {
    let wide = random(4 * 10, 1);
    let narrow: Vec<f32> = wide.chunks(10).flat_map(|row| &row[..6]).copied().collect();
    let b = random(6 * 3, 2);
    let run = |a: Mat<'_>| {
        let mut out = [0.0; 12];
        product(&mut out, a, Mat::new(&b, 6, 3).unwrap(), Update::Overwrite, Threads::One).unwrap();
        out
    };
    assert_eq!(run(Mat::with_row_stride(&wide[..36], 4, 6, 10).unwrap()), run(Mat::new(&narrow, 4, 6).unwrap()));
}

#[test]
fn products_have_the_same_bits_on_any_number_of_threads() {
    for [i, k, j] in [[200, 300, 250], [1000, 70, 3], [3, 500, 400]] {
        let (a, b) = (random(i * k, 1), random(k * j, 2));
        assert_same_bits_on_any_threads("product", || {
            let mut out = vec![0.0; i * j];
            let (a, b) = (Mat::new(&a, i, k).unwrap(), Mat::new(&b, k, j).unwrap());
            product(&mut out, a, b, Update::Overwrite, Threads::All).unwrap();
            out
        });
    }
}

#[test]
fn views_and_products_that_do_not_fit_are_refused() {
    let data = [0.0; 12];
    assert_eq!(Mat::new(&data, 3, 5).unwrap_err().to_string(), "matrix: `data` must have length 15, got 12");
    assert!(Mat::new(&data, usize::MAX, 2).is_err());
    assert!(Mat::with_row_stride(&data, 3, 5, 4).is_err(), "rows that overlap");
    assert!(Mat::with_row_stride(&data, 3, 4, 5).is_err(), "a last row that leaves the data");
    assert!(Mat::with_row_stride(&data, usize::MAX, 1, usize::MAX).is_err());
    let (a, b) = (Mat::new(&data, 3, 4).unwrap(), Mat::new(&data, 3, 4).unwrap());
    let error = product(&mut [0.0; 12], a, b, Update::Overwrite, Threads::One).unwrap_err();
    assert_eq!(error.to_string(), "product: `rows of b` must be the number of columns of a, got 3");
    let error = product(&mut [0.0; 8], a, b.t(), Update::Overwrite, Threads::One).unwrap_err();
    assert_eq!(error.to_string(), "product: `dst` must have length 9, got 8");
}
