//! How far a posterior with other standard deviations is from the one that was trained.

use rayon::prelude::*;

use crate::linalg::Matrix;

/// KL(N(μ, q²) ‖ N(μ, p²)) = Σ ln(p/q) + q²/(2p²) − ½ over all weights, in nats: the price of the standard deviations q
/// where p was trained, the means being the same.
///
/// ```
/// use ktied::compress::divergence;
/// use ktied::linalg::Matrix;
/// let [p, q] = [vec![0.1, 0.2], vec![0.1, 0.1]].map(|scales| Matrix::new(1, 2, scales));
/// // ln 2 + 1/8 − 1/2
/// assert!((divergence(&q?, &p?) - 0.318147).abs() < 1e-6);
/// # Ok::<(), ktied::Error>(())
/// ```
pub fn divergence(q: &Matrix, p: &Matrix) -> f64 {
    let of_row = |(q, p): (&[f64], &[f64])| q.iter().zip(p).map(|(&q, &p)| of_weight(q, p)).sum::<f64>();
    let rows = (q.values().par_chunks(q.cols())).zip(p.values().par_chunks(p.cols()));
    // Collected, so that the sum has one order whatever the number of threads.
    rows.map(of_row).collect::<Vec<_>>().iter().sum()
}

/// ln(p/q) + q²/(2p²) − ½
pub(super) fn of_weight(q: f64, p: f64) -> f64 {
    let ratio = q / p;
    let x = ratio - 1.0;
    // Near 1 the terms cancel, and ln(1 + x) keeps what is left; near 0 it would lose what ln keeps.
    let log = if x.abs() < 0.5 { x.ln_1p() } else { ratio.ln() };
    x + 0.5 * x * x - log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_costs_what_the_closed_form_says() {
        for (q, p) in [(0.1, 0.2), (0.2, 0.1), (1e-8, 0.1), (3.0, 1.0)] {
            let expected = f64::ln(p / q) + q * q / (2.0 * p * p) - 0.5;
            assert!((of_weight(q, p) - expected).abs() < 1e-14 * expected.max(1.0), "{q} {p}");
        }
        // (q − p)²/p² to second order, where the closed form as it stands has lost all digits.
        let close = of_weight(0.1 * (1.0 + 1e-9), 0.1);
        assert!((close / 1e-18 - 1.0).abs() < 1e-6, "{close}");
        assert_eq!(of_weight(0.3, 0.3), 0.0);
        // One clamped weight costs about 18 nats.
        assert!((of_weight(1e-8, 1.0) - 17.9).abs() < 0.1);
    }
}
