//! The names of the posterior families, and how many parameters each takes for a matrix.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A posterior family, as configurations and the program name it.
///
/// ```
/// use ktied::posterior::PosteriorKind;
/// let kind: PosteriorKind = "k-tied:2".parse()?;
/// assert_eq!(kind, PosteriorKind::KTied { rank: 2 });
/// assert_eq!(kind.num_params(784, 400), 784 * 400 + 2 * (784 + 400));
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PosteriorKind {
    /// `point`: one number a weight, no uncertainty.
    Point,
    /// `mean-field`: a mean and a standard deviation for each weight.
    MeanField,
    /// `k-tied:K`: a mean for each weight, standard deviations U Vᵀ of rank K.
    KTied {
        /// K
        rank: usize,
    },
    /// `matrix-normal`: the matrix-variate Normal with diagonal row and column covariances.
    MatrixNormal,
    /// `low-rank:K`: standard deviations max(U Vᵀ, 1e-8) of factors of any sign, which is what a truncated singular
    /// value decomposition leaves of a mean-field posterior.
    LowRank {
        /// K
        rank: usize,
    },
}

impl PosteriorKind {
    /// Parameters of this family for a matrix of `rows`×`cols` weights (table 1 of the paper).
    pub fn num_params(self, rows: usize, cols: usize) -> usize {
        let means = rows * cols;
        match self {
            Self::Point => means,
            Self::MeanField => 2 * means,
            Self::KTied { rank } | Self::LowRank { rank } => means + rank * (rows + cols),
            Self::MatrixNormal => means + rows + cols,
        }
    }

    /// K, where there is one.
    pub fn rank(self) -> Option<usize> {
        match self {
            Self::KTied { rank } | Self::LowRank { rank } => Some(rank),
            _ => None,
        }
    }

    /// Says whether a layer's matrix allows this family.
    ///
    /// # Errors
    /// [`Error::Rank`], naming the layer, if a rank is not between 1 and min(rows, cols).
    pub fn check(self, layer: &str, rows: usize, cols: usize) -> Result<()> {
        match self.rank() {
            Some(rank) if rank == 0 || rank > rows.min(cols) => {
                Err(Error::Rank { layer: layer.into(), rows, cols, rank })
            }
            _ => Ok(()),
        }
    }

    /// What a vector, such as a bias, gets where matrices get this family: tied families have nothing to tie there.
    pub fn of_vectors(self) -> Self {
        match self {
            Self::Point => Self::Point,
            _ => Self::MeanField,
        }
    }
}

impl fmt::Display for PosteriorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Point => f.write_str("point"),
            Self::MeanField => f.write_str("mean-field"),
            Self::KTied { rank } => write!(f, "k-tied:{rank}"),
            Self::MatrixNormal => f.write_str("matrix-normal"),
            Self::LowRank { rank } => write!(f, "low-rank:{rank}"),
        }
    }
}

impl From<PosteriorKind> for String {
    fn from(kind: PosteriorKind) -> Self {
        kind.to_string()
    }
}

impl TryFrom<String> for PosteriorKind {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for PosteriorKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::UnknownPosterior { found: text.into() };
        match text {
            "point" => Ok(Self::Point),
            "mean-field" => Ok(Self::MeanField),
            "matrix-normal" => Ok(Self::MatrixNormal),
            _ => {
                let (name, rank) = text.split_once(':').ok_or_else(unknown)?;
                let digits = rank.bytes().all(|b| b.is_ascii_digit());
                let rank = if digits { rank.parse().ok() } else { None };
                match (name, rank) {
                    ("k-tied", Some(rank)) => Ok(Self::KTied { rank }),
                    ("low-rank", Some(rank)) => Ok(Self::LowRank { rank }),
                    _ => Err(unknown()),
                }
            }
        }
    }
}

/// The five families of the paper's table 1, with those that nobody trains for a whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table1 {
    /// A Normal with a full covariance of all weights.
    Multivariate,
    /// A Normal with a diagonal covariance: mean field.
    Diagonal,
    /// The matrix-variate Normal with full row and column covariances.
    MatrixNormal,
    /// The matrix-variate Normal with diagonal ones.
    DiagonalMatrixNormal,
    /// The k-tied Normal.
    KTied {
        /// K
        rank: usize,
    },
}

impl Table1 {
    /// Parameters for a matrix of `rows`×`cols` weights; wide, because a full covariance leaves 64 bits early.
    pub fn num_params(self, rows: usize, cols: usize) -> u128 {
        let (m, n) = (rows as u128, cols as u128);
        let triangle = |size: u128| size * (size + 1) / 2;
        let scales = match self {
            Self::Multivariate => triangle(m * n),
            Self::Diagonal => m * n,
            Self::MatrixNormal => triangle(m) + triangle(n),
            Self::DiagonalMatrixNormal => m + n,
            Self::KTied { rank } => rank as u128 * (m + n),
        };
        m * n + scales
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for text in ["point", "mean-field", "k-tied:1", "k-tied:17", "matrix-normal", "low-rank:2"] {
            assert_eq!(text.parse::<PosteriorKind>().map(|kind| kind.to_string()), Ok(text.into()));
        }
        for text in [
            "",
            "k-tied",
            "k-tied:",
            "k-tied:+2",
            "k-tied:-1",
            "k-tied:2.0",
            "low-rank:",
            "tied:2",
            "Point",
            "k-tied:99999999999999999999",
        ] {
            let error = text.parse::<PosteriorKind>().unwrap_err();
            assert!(error.to_string().contains("use point, mean-field, k-tied:K"), "{error}");
        }
    }

    #[test]
    fn a_rank_must_fit_the_matrix() {
        let check = |rank| PosteriorKind::KTied { rank }.check("dense_1", 784, 400);
        assert!(check(1).is_ok() && check(400).is_ok());
        assert_eq!(check(0).unwrap_err().to_string(), "layer `dense_1` is 784×400: rank must be 1 to 400, got 0");
        assert_eq!(check(401).unwrap_err().to_string(), "layer `dense_1` is 784×400: rank must be 1 to 400, got 401");
    }

    #[test]
    fn table_1_counts_every_family() {
        // m = 3, n = 2, by hand: 6 means plus 21, 6, 6 + 3, 5, 2·5 scales.
        let counts = [
            (Table1::Multivariate, 27),
            (Table1::Diagonal, 12),
            (Table1::MatrixNormal, 15),
            (Table1::DiagonalMatrixNormal, 11),
            (Table1::KTied { rank: 2 }, 16),
        ];
        for (family, count) in counts {
            assert_eq!(family.num_params(3, 2), count, "{family:?}");
        }
        assert_eq!(Table1::Multivariate.num_params(4096, 512), 2_097_152 + 2_097_152 * 2_097_153 / 2);
        for (kind, family) in [
            (PosteriorKind::MeanField, Table1::Diagonal),
            (PosteriorKind::MatrixNormal, Table1::DiagonalMatrixNormal),
            (PosteriorKind::KTied { rank: 3 }, Table1::KTied { rank: 3 }),
        ] {
            assert_eq!(kind.num_params(784, 400) as u128, family.num_params(784, 400));
        }
    }
}
