//! Quantiles of a mixture of Gaussians.

use super::normal;

/// Gaussians of equal weight.
pub struct Mixture {
    /// Mean and standard deviation of each.
    components: Vec<(f64, f64)>,
}

/// Bisections: enough to halve any two numbers' distance down to rounding.
const MAX_STEPS: usize = 200;
/// Quantiles are found to this share of the distance that the components' own are apart.
const TOLERANCE: f64 = 1e-12;

impl Mixture {
    pub fn new(components: Vec<(f64, f64)>) -> Self {
        Self { components }
    }

    /// The quantiles ½ − level/2 and ½ + level/2.
    pub fn central_interval(&self, level: f64) -> [f64; 2] {
        let z = bisect(0.5 + 0.5 * level, [0.0, 40.0], normal::cdf);
        [(0.5 - 0.5 * level, -z), (0.5 + 0.5 * level, z)].map(|(share, z)| self.quantile(share, z))
    }

    /// The mixture's quantile, given that of the standard normal: it lies between those of its components.
    fn quantile(&self, share: f64, z: f64) -> f64 {
        let bracket = self.components.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], (mean, sd)| {
            let own = mean + sd * z;
            [low.min(own), high.max(own)]
        });
        bisect(share, bracket, |x| self.cdf(x))
    }

    /// F(x) = mean over components of Φ((x − mean)/sd)
    fn cdf(&self, x: f64) -> f64 {
        let sum: f64 = self.components.iter().map(|(mean, sd)| normal::cdf((x - mean) / sd)).sum();
        sum / self.components.len() as f64
    }
}

/// Where an increasing function passes `value`, in a bracket that holds that place.
fn bisect(value: f64, [mut low, mut high]: [f64; 2], function: impl Fn(f64) -> f64) -> f64 {
    let enough = TOLERANCE * (high - low);
    for _ in 0..MAX_STEPS {
        let middle = 0.5 * (low + high);
        if high - low <= enough || middle <= low || middle >= high {
            break;
        }
        if function(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_one_gaussian_is_the_one_in_tables() {
        let [lower, upper] = Mixture::new(vec![(3.0, 2.0)]).central_interval(0.95);
        assert!((lower - (3.0 - 2.0 * 1.959_963_984_540_054)).abs() < 1e-10, "{lower}");
        assert!((upper - (3.0 + 2.0 * 1.959_963_984_540_054)).abs() < 1e-10, "{upper}");
    }

    #[test]
    fn an_interval_holds_its_mass_with_equal_tails() {
        let mixture = Mixture::new(vec![(-4.0, 0.5), (0.0, 1.0), (0.3, 0.2), (90.0, 3.0)]);
        for level in [0.01, 0.5, 0.9, 0.999] {
            let [lower, upper] = mixture.central_interval(level);
            assert!((mixture.cdf(lower) - (0.5 - 0.5 * level)).abs() < 1e-9, "{level}");
            assert!((mixture.cdf(upper) - (0.5 + 0.5 * level)).abs() < 1e-9, "{level}");
        }
    }

    #[test]
    fn gaussians_without_width_have_their_means_as_quantiles() {
        let [lower, upper] = Mixture::new(vec![(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0)]).central_interval(0.9);
        assert!((lower - 1.0).abs() < 1e-9 && (upper - 4.0).abs() < 1e-9, "{lower} {upper}");
    }
}
