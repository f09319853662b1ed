//! What can go wrong when a model is converted, one variant each.

/// Why a model could not be made Bayesian, or not be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// Nothing to convert.
    #[error("no parameter was chosen to become Bayesian; the model has {found}")]
    NothingChosen {
        /// The paths of its parameters.
        found: String,
    },
    /// A parameter whose values are already a function of others.
    #[error("`{path}` already has a reparameterization `{found}`: convert the model once, and before adapters")]
    AlreadyConverted {
        /// Path of the parameter.
        path: String,
        /// Name of what is attached to it.
        found: String,
    },
    /// A parameter without a density.
    #[error("`{path}` holds {found}: only parameters of floating-point numbers can have a posterior")]
    NotFloat {
        /// Path of the parameter.
        path: String,
        /// What it holds.
        found: &'static str,
    },
    /// A family that has no place beside a parameter.
    #[error("`{path}`: a converted parameter can be point, mean-field or k-tied:K, not {found}")]
    Family {
        /// Path of the parameter.
        path: String,
        /// The family that was asked for.
        found: String,
    },
    /// An output dimension that is none.
    #[error("`{path}` has {dims} dimensions: the outputs cannot be dimension {found}, counted from 0")]
    Outputs {
        /// Path of the parameter.
        path: String,
        /// How many it has.
        dims: usize,
        /// What was asked for.
        found: usize,
    },
    /// Standard deviations in proportion to weights that are all zero.
    #[error("`{path}`: all its weights are zero, so standard deviations cannot begin in proportion to them")]
    AllZero {
        /// Path of the parameter.
        path: String,
    },
    /// An estimator that needs the layer's code.
    #[error("a converted model draws its weights: use Estimator::Reparam, not {found}")]
    Estimator {
        /// What was asked for.
        found: String,
    },
    /// A pass within a pass.
    #[error("a pass of this model is already under way: run one after the other, not one inside the other")]
    Nested,
    /// A posterior that was taken off again.
    #[error("`{path}` has lost its posterior: was the model materialized?")]
    Lost {
        /// Path of the parameter.
        path: String,
    },
}
