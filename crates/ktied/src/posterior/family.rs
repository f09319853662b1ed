//! The families of this crate behind one type, for networks whose posterior is chosen at run time.

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use ktied_kernels::NoiseKey;

use super::{KTied, LowRank, MatrixNormal, MeanField, Point, Posterior, PosteriorKind, WeightInit};
use crate::error::Result;
use crate::ops::LocalInput;
use crate::prior::Prior;

/// Any family of this crate.
#[derive(Debug, Module)]
#[allow(clippy::large_enum_variant, reason = "there is one for each tensor of a network, not one for each weight")]
pub enum Family {
    /// See [`Point`].
    Point(Point),
    /// See [`MeanField`].
    MeanField(MeanField),
    /// See [`KTied`].
    KTied(KTied),
    /// See [`MatrixNormal`].
    MatrixNormal(MatrixNormal),
    /// See [`LowRank`].
    LowRank(LowRank),
}

impl Family {
    /// First values of a family for an M×N matrix; `layer` names it in errors.
    ///
    /// # Errors
    /// If a rank does not fit the matrix, or the initial scale or the cap is not a positive number.
    pub fn new(kind: PosteriorKind, layer: &str, shape: [usize; 2], init: WeightInit<'_>) -> Result<Self> {
        Ok(match kind {
            PosteriorKind::Point => Self::Point(Point::new(shape, init)),
            PosteriorKind::MeanField => Self::MeanField(MeanField::new(shape, init)?),
            PosteriorKind::KTied { rank } => Self::KTied(KTied::new(layer, shape, rank, init)?),
            PosteriorKind::MatrixNormal => Self::MatrixNormal(MatrixNormal::new(shape, init)?),
            PosteriorKind::LowRank { rank } => Self::LowRank(LowRank::new(layer, shape, rank, init)?),
        })
    }
}

impl Family {
    /// All mass on one matrix.
    pub(crate) fn at(loc: Tensor<2>) -> Self {
        Self::Point(Point { loc: Param::from_tensor(loc) })
    }

    /// Which family it is.
    pub fn kind(&self) -> PosteriorKind {
        match self {
            Self::Point(_) => PosteriorKind::Point,
            Self::MeanField(_) => PosteriorKind::MeanField,
            Self::KTied(family) => PosteriorKind::KTied { rank: family.rank() },
            Self::MatrixNormal(_) => PosteriorKind::MatrixNormal,
            Self::LowRank(family) => PosteriorKind::LowRank { rank: family.rank() },
        }
    }
}

/// Calls a method of the family that is there.
macro_rules! each {
    ($family:expr, $inner:ident => $call:expr) => {
        match $family {
            Family::Point($inner) => $call,
            Family::MeanField($inner) => $call,
            Family::KTied($inner) => $call,
            Family::MatrixNormal($inner) => $call,
            Family::LowRank($inner) => $call,
        }
    };
}

impl Posterior for Family {
    fn loc(&self) -> Tensor<2> {
        each!(self, family => family.loc())
    }

    fn scale(&self) -> Option<Tensor<2>> {
        each!(self, family => family.scale())
    }

    fn draw(&self, key: NoiseKey) -> Result<Tensor<2>> {
        each!(self, family => family.draw(key))
    }

    fn perturbation(&self, key: NoiseKey) -> Result<Option<Tensor<2>>> {
        each!(self, family => family.perturbation(key))
    }

    fn local(&self, input: LocalInput) -> Result<Tensor<2>> {
        each!(self, family => family.local(input))
    }

    fn prefers_local(&self) -> bool {
        each!(self, family => family.prefers_local())
    }

    fn sum_variance(&self, x: Tensor<2>) -> Option<Tensor<2>> {
        each!(self, family => family.sum_variance(x))
    }

    fn kl(&self, prior: &Prior) -> Result<Tensor<1>> {
        each!(self, family => family.kl(prior))
    }

    fn add_kl_gradients(&self, prior: &Prior, by: f64, grads: &mut GradientsParams) -> Result<f64> {
        each!(self, family => family.add_kl_gradients(prior, by, grads))
    }

    fn clipped(self) -> Self {
        match self {
            Self::Point(family) => Self::Point(family.clipped()),
            Self::MeanField(family) => Self::MeanField(family.clipped()),
            Self::KTied(family) => Self::KTied(family.clipped()),
            Self::MatrixNormal(family) => Self::MatrixNormal(family.clipped()),
            Self::LowRank(family) => Self::LowRank(family.clipped()),
        }
    }
}
