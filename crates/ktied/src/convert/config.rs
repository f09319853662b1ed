//! Which parameters of a model become Bayesian, and how.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::posterior::PosteriorKind;
use crate::prior::{Prior, PriorRule};

/// What a predicate sees of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo<'a> {
    /// Where it is, as in `encoder.layers.0.mha.query.weight`.
    pub path: &'a str,
    /// Its dimensions.
    pub shape: &'a [usize],
}

impl ParamInfo<'_> {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// The posterior of one parameter, and how it begins; its means are the weights that the model had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversion {
    /// Its family; vectors get mean-field where matrices are tied.
    pub posterior: PosteriorKind,
    /// Its prior.
    pub prior: ConvertedPrior,
    /// How its standard deviations begin.
    pub scale: InitialScale,
    /// Which dimension the outputs are, counted from 0: a parameter is a matrix of the outputs and all the rest. If
    /// nothing is said, the last of two, as in burn's `Linear`, and the first of more, as in its convolutions; a
    /// transposed convolution, `[in, out, …]`, wants 1.
    pub outputs: Option<usize>,
}

impl Conversion {
    /// Prior N(0, 0.2²), and standard deviations that begin around 0.01.
    pub fn new(posterior: PosteriorKind) -> Self {
        let (prior, scale) = (ConvertedPrior::Normal { scale: 0.2 }, InitialScale::Absolute(0.01));
        Self { posterior, prior, scale, outputs: None }
    }

    pub(super) fn outputs_of(&self, dims: usize) -> usize {
        self.outputs.unwrap_or(if dims > 2 { 0 } else { dims.saturating_sub(1) })
    }
}

/// The prior of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConvertedPrior {
    /// N(0, σₚ²)
    Normal {
        /// σₚ
        scale: f64,
    },
    /// N(0, 2/fan-in), and N(0, 1) for vectors.
    He,
    /// N(w, σₚ²) around the weights that the model had: for a trained one, whose neighbourhood is to be explored.
    Centred {
        /// σₚ
        scale: f64,
    },
}

impl ConvertedPrior {
    /// σₚ of a parameter with `fan_in` inputs to each output; none for a vector.
    pub(super) fn scale(self, fan_in: Option<usize>) -> Result<f64> {
        let prior = match (self, fan_in) {
            (Self::Normal { scale } | Self::Centred { scale }, _) => Prior::normal(scale),
            (Self::He, Some(fan_in)) => PriorRule::He.of_kernel(fan_in),
            (Self::He, None) => PriorRule::He.of_bias(),
        };
        Ok(prior?.scale())
    }
}

/// How standard deviations begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitialScale {
    /// Around this number.
    Absolute(f64),
    /// In this proportion to the weights' sizes: σ ∝ |w| for mean field. Where they are tied, σ is the product of what its
    /// row and its column have, in proportion to their mean |w|. A weight of zero counts as a hundredth of the mean one.
    Relative(f64),
}

impl InitialScale {
    pub(super) fn value(self) -> f64 {
        match self {
            Self::Absolute(value) | Self::Relative(value) => value,
        }
    }
}

type Predicate = Arc<dyn Fn(&ParamInfo<'_>) -> bool + Send + Sync>;

/// How a model becomes Bayesian.
///
/// Every parameter of two or more dimensions is chosen, unless something else is said. Rules come before that; of several
/// that apply to a parameter, the last one counts.
///
/// ```
/// use ktied::convert::{BayesianConfig, Conversion, ConvertedPrior, InitialScale};
/// let config = BayesianConfig::new("k-tied:2".parse()?)
///     .with_prior(ConvertedPrior::Centred { scale: 0.1 }) // a trained model: stay close
///     .with_scale(InitialScale::Relative(0.05))
///     .with_biases() // mean-field, as everywhere
///     .leave(|p| p.path.starts_with("embedding")) // no posterior for these
///     .rule(|p| p.name() == "head", Conversion::new("mean-field".parse()?));
/// # let _ = config;
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone)]
pub struct BayesianConfig {
    default: Conversion,
    biases: bool,
    seed: u64,
    rules: Vec<(Predicate, Option<Conversion>)>,
}

impl fmt::Debug for BayesianConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { default, biases, seed, rules } = self;
        let rules: Vec<_> = rules.iter().map(|(_, conversion)| conversion).collect();
        let mut lines = f.debug_struct("BayesianConfig");
        lines.field("default", default).field("biases", biases).field("seed", seed).field("rules", &rules).finish()
    }
}

impl BayesianConfig {
    /// This family for every parameter of two or more dimensions; the rest as [`Conversion::new`].
    pub fn new(posterior: PosteriorKind) -> Self {
        Self { default: Conversion::new(posterior), biases: false, seed: 0, rules: vec![] }
    }

    /// Another prior.
    pub fn with_prior(self, prior: ConvertedPrior) -> Self {
        Self { default: Conversion { prior, ..self.default }, ..self }
    }

    /// Other standard deviations to begin with.
    pub fn with_scale(self, scale: InitialScale) -> Self {
        Self { default: Conversion { scale, ..self.default }, ..self }
    }

    /// Vectors named `bias` too.
    pub fn with_biases(self) -> Self {
        Self { biases: true, ..self }
    }

    /// Another seed of the first standard deviations.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// What some parameters get.
    pub fn rule(
        mut self,
        applies: impl Fn(&ParamInfo<'_>) -> bool + Send + Sync + 'static,
        conversion: Conversion,
    ) -> Self {
        self.rules.push((Arc::new(applies), Some(conversion)));
        self
    }

    /// Leaves some parameters as they are.
    pub fn leave(mut self, applies: impl Fn(&ParamInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push((Arc::new(applies), None));
        self
    }

    /// Leaves all parameters as they are but some, of whatever dimensions.
    pub fn only(self, applies: impl Fn(&ParamInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        let default = self.default;
        self.leave(|_| true).rule(applies, default)
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// What a rule says of a parameter, if one applies.
    pub(super) fn ruled(&self, param: &ParamInfo<'_>) -> Option<Option<Conversion>> {
        self.rules.iter().rev().find(|(applies, _)| applies(param)).map(|(_, conversion)| *conversion)
    }

    /// What a parameter of floating-point numbers gets.
    pub(super) fn of(&self, param: &ParamInfo<'_>) -> Option<Conversion> {
        let conversion = self.ruled(param).unwrap_or_else(|| {
            let is_bias = self.biases && param.shape.len() == 1 && param.name() == "bias";
            (is_bias || param.shape.len() >= 2).then_some(self.default)
        });
        conversion.filter(|conversion| conversion.posterior != PosteriorKind::Point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: &BayesianConfig, path: &str, shape: &[usize]) -> Option<PosteriorKind> {
        config.of(&ParamInfo { path, shape }).map(|conversion| conversion.posterior)
    }

    #[test]
    fn matrices_are_chosen_and_biases_where_they_are_asked_for() {
        let [tied, free]: [PosteriorKind; 2] = ["k-tied:2", "mean-field"].map(|kind| kind.parse().unwrap());
        let config = BayesianConfig::new(tied);
        assert_eq!(of(&config, "a.weight", &[3, 4]), Some(tied));
        assert_eq!(of(&config, "conv.weight", &[8, 3, 5, 5]), Some(tied));
        assert_eq!(of(&config, "a.bias", &[4]), None);
        let config = config.with_biases();
        assert_eq!(of(&config, "a.bias", &[4]), Some(tied));
        assert_eq!(of(&config, "norm.gamma", &[4]), None);
        // The last rule that applies counts.
        let config = config.leave(|p| p.path.starts_with("a.")).rule(|p| p.path == "a.weight", Conversion::new(free));
        assert_eq!(of(&config, "a.weight", &[3, 4]), Some(free));
        assert_eq!(of(&config, "a.bias", &[4]), None);
        assert_eq!(of(&config, "b.bias", &[4]), Some(tied));
        let config = BayesianConfig::new(tied).only(|p| p.name() == "gamma");
        assert_eq!(of(&config, "norm.gamma", &[4]), Some(tied));
        assert_eq!(of(&config, "a.weight", &[3, 4]), None);
        assert_eq!(of(&BayesianConfig::new(PosteriorKind::Point), "a.weight", &[3, 4]), None);
    }

    #[test]
    fn outputs_are_the_last_of_two_dimensions_and_the_first_of_more() {
        let conversion = Conversion::new(PosteriorKind::MeanField);
        assert_eq!([1, 2, 3, 4].map(|dims| conversion.outputs_of(dims)), [0, 1, 0, 0]);
        assert_eq!(Conversion { outputs: Some(1), ..conversion }.outputs_of(4), 1);
    }
}
