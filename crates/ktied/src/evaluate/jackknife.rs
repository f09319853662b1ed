//! Standard errors over draws, by leaving out one group of them at a time.

/// The standard error of a metric whose value without the draws of group g is `without[g]`; group g has `sizes[g]` draws.
///
/// With h_g = S/size_g, pseudo-values θ_g = h_g·θ − (h_g − 1)·θ₋g and their mean θ̄ = Σ θ_g/h_g:
///
/// variance = 1/G · Σ (θ_g − θ̄)²/(h_g − 1)
///
/// (Busing, Meijer, van der Leeden, *Delete-m jackknife for unequal m*, 1999). For a mean over draws it is an unbiased estimate whatever
/// the sizes; for equal sizes it is the usual (G − 1)/G · Σ (θ₋g − mean of θ₋)².
pub fn standard_error(value: f64, without: &[f64], sizes: &[u64]) -> Option<f64> {
    if without.len() < 2 {
        return None;
    }
    let total = sizes.iter().sum::<u64>() as f64;
    let pseudo = without.iter().zip(sizes).map(|(without, &size)| {
        let h = total / size as f64;
        (h, h * value - (h - 1.0) * without)
    });
    let mean: f64 = pseudo.clone().map(|(h, pseudo)| pseudo / h).sum();
    let variance = pseudo.map(|(h, pseudo)| (pseudo - mean).powi(2) / (h - 1.0)).sum::<f64>() / without.len() as f64;
    Some(variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means of all groups but one, of numbers divided into groups of these sizes.
    fn means_without(numbers: &[f64], sizes: &[u64]) -> Vec<f64> {
        let total: f64 = numbers.iter().sum();
        let mut rest = numbers;
        let without = |&size: &u64| {
            let (group, after) = rest.split_at(size as usize);
            rest = after;
            (total - group.iter().sum::<f64>()) / (numbers.len() - group.len()) as f64
        };
        sizes.iter().map(without).collect()
    }

    #[test]
    fn leaving_out_single_draws_of_a_mean_gives_its_standard_error() {
        let numbers = [1.0, 4.0, 2.0, 9.0];
        // Deviations −3, 0, −2, 5 from 4: √(38/3/4).
        let found = standard_error(4.0, &means_without(&numbers, &[1; 4]), &[1; 4]).unwrap();
        assert!((found - (38.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(standard_error(1.0, &[], &[1]), None);
    }

    #[test]
    fn groups_of_equal_size_give_the_usual_formula_for_any_metric() {
        let without = [0.31, 0.29, 0.35, 0.3, 0.28];
        let mean = without.iter().sum::<f64>() / 5.0;
        let usual = (4.0 / 5.0 * without.iter().map(|w| (w - mean).powi(2)).sum::<f64>()).sqrt();
        assert!((standard_error(0.3, &without, &[7; 5]).unwrap() - usual).abs() < 1e-12);
    }

    #[test]
    fn groups_of_unequal_size_are_unbiased_for_a_mean() {
        // Every way to fill five places with ±1: the expectation is exact, variance 1, so 1/5 for the mean.
        let sizes = [1, 2, 2];
        let variances = (0..32u32).map(|bits| {
            let numbers: Vec<f64> = (0..5).map(|i| if bits >> i & 1 == 1 { 1.0 } else { -1.0 }).collect();
            let mean = numbers.iter().sum::<f64>() / 5.0;
            standard_error(mean, &means_without(&numbers, &sizes), &sizes).unwrap().powi(2)
        });
        assert!((variances.sum::<f64>() / 32.0 - 0.2).abs() < 1e-12);
    }
}
