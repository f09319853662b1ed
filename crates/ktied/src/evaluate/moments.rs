//! Mean and spread of numbers that come one at a time.

/// Mean and spread of numbers that come one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: f64,
    sum: f64,
    /// Σ (x − mean)², by a recurrence that does not subtract sums of squares (Youngs and Cramer, 1971).
    squares: f64,
}

impl Moments {
    pub fn add(&mut self, x: f64) {
        let before = self.count;
        self.count += 1.0;
        self.sum += x;
        if before > 0.0 {
            self.squares += (self.count * x - self.sum).powi(2) / (self.count * before);
        }
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// The sample standard deviation, of two numbers at least.
    pub fn standard_deviation(&self) -> Option<f64> {
        (self.count > 1.0).then(|| (self.squares / (self.count - 1.0)).sqrt())
    }

    /// Of the mean: the sample standard deviation over √count.
    pub fn standard_error(&self) -> Option<f64> {
        Some(self.standard_deviation()? / self.count.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_that_of_a_sample_even_far_from_zero() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.standard_error()), (None, None));
        moments.add(1e9 + 4.0);
        assert_eq!((moments.mean(), moments.standard_error()), (Some(1e9 + 4.0), None));
        [7.0, 13.0, 16.0].into_iter().for_each(|x| moments.add(1e9 + x));
        // Deviations −6, −3, 3, 6 from 10: variance 90/3, standard error √(30/4).
        assert_eq!(moments.mean(), Some(1e9 + 10.0));
        assert!((moments.standard_error().unwrap() - 7.5f64.sqrt()).abs() < 1e-12);
    }
}
