//! New scales in the place of old ones: in the same form, or as factors.

use std::sync::Arc;

use super::{Convention, Foreign, ForeignError, Pair, Result};
use crate::checkpoint::{Dtype, NamedTensor};
use crate::posterior::LowRank;

/// The least σ that signed factors stand for: σ = max(u vᵀ, 10⁻⁸).
pub const SIGNED_FLOOR: f64 = LowRank::FLOOR;

/// Under which key of a safetensors file's remarks the convention is.
const CONVENTION: &str = "ktied.convention";
/// Under which key the greatest rank is.
const RANK: &str = "ktied.rank";

/// Two thin matrices whose product is σ.
///
/// They are stored under the scale's name with an ending: `fc1.rho_weight` becomes `fc1.rho_weight.log_u` and
/// `fc1.rho_weight.log_v`, or `.u` and `.v`, in the scale's type. The matrix σ has M rows and N columns as [`Pair`] has it:
/// with outputs first, the tensor of σ is that of (u vᵀ)ᵀ in the shape of the mean, which stays.
#[derive(Clone, Debug, PartialEq)]
pub enum Factors {
    /// σᵢⱼ = Σₐ exp(log_uᵢₐ + log_vⱼₐ)
    Positive {
        /// K
        rank: usize,
        /// `[M, K]`
        log_u: Vec<f64>,
        /// `[N, K]`
        log_v: Vec<f64>,
    },
    /// σᵢⱼ = max(Σₐ uᵢₐ vⱼₐ, [`SIGNED_FLOOR`])
    Signed {
        /// K
        rank: usize,
        /// `[M, K]`
        u: Vec<f64>,
        /// `[N, K]`
        v: Vec<f64>,
    },
}

/// What takes the place of a scale.
#[derive(Clone, Debug, PartialEq)]
pub enum NewScale {
    /// σ itself, `[M, N]` and row-major, stored as the old one is.
    Scale(Vec<f64>),
    /// Its factors.
    Factors(Factors),
}

impl Factors {
    /// Rank, ending and numbers of both.
    fn parts(&self) -> (usize, [(&'static str, &[f64]); 2]) {
        match self {
            Self::Positive { rank, log_u, log_v } => (*rank, [("log_u", log_u), ("log_v", log_v)]),
            Self::Signed { rank, u, v } => (*rank, [("u", u), ("v", v)]),
        }
    }
}

impl Foreign {
    /// The file with what `compress` makes of each matrix; where it gives nothing, σ stays as it is.
    ///
    /// # Errors
    /// Those of [`Foreign::pairs`], [`Foreign::set_scale`] and [`Foreign::set_factors`], and what `compress` returns.
    pub fn rewritten<E: From<ForeignError>>(
        &self,
        convention: &Convention,
        mut compress: impl FnMut(&Pair) -> Result<Option<NewScale>, E>,
    ) -> Result<Self, E> {
        let mut file = self.clone();
        for pair in self.pairs(convention)?.iter().filter(|pair| pair.matrix().is_some()) {
            match compress(pair)? {
                Some(NewScale::Scale(scale)) => file.set_scale(pair, &scale)?,
                Some(NewScale::Factors(factors)) => file.set_factors(pair, &factors)?,
                None => {}
            }
        }
        Ok(file)
    }

    /// Stores another σ for a weight: in the form, type and order of dimensions of the old one.
    ///
    /// # Shapes
    /// `scale`: `[M, N]`, as [`Pair::scale`] gives it.
    ///
    /// # Errors
    /// Too few or too many numbers; a number that is not positive and finite, or that the tensor cannot hold; a pair of
    /// another file.
    pub fn set_scale(&mut self, pair: &Pair, scale: &[f64]) -> Result<()> {
        let (rows, cols, dtype) = (pair.layout.num_rows(), pair.layout.num_cols(), pair.dtype());
        if rows.checked_mul(cols) != Some(scale.len()) {
            return Err(ForeignError::ScaleSize { weight: pair.name().into(), rows, cols, found: scale.len() });
        }
        let stored: Vec<f64> = scale.iter().map(|&scale| rounded(pair.form.stored(scale, dtype), dtype)).collect();
        let good = |x: f64| x > 0.0 && x.is_finite();
        let mut both = scale.iter().zip(&stored);
        if let Some(place) = both.position(|(&scale, &stored)| !(good(scale) && good(pair.form.scale(stored, dtype)))) {
            return Err(not_storable(pair, scale, place));
        }
        let bytes = to_bytes(&pair.layout.to_tensor(&stored), dtype);
        let tensor = NamedTensor::new(dtype, pair.shape().into(), bytes)?;
        self.replace(&pair.scale_name, vec![(pair.scale_name.clone(), tensor)])
    }

    /// Puts two factors in the place of a weight's scale; see [`Factors`]. The remarks then name the convention
    /// (`ktied.convention`) and the greatest rank (`ktied.rank`).
    ///
    /// # Errors
    /// A weight that is no matrix; factors of other sizes; a number that is not finite or that the tensor's type cannot
    /// hold; a name that is taken; a pair of another file.
    pub fn set_factors(&mut self, pair: &Pair, factors: &Factors) -> Result<()> {
        let (rank, parts) = factors.parts();
        let (rows, cols) = pair.matrix().ok_or_else(|| ForeignError::NotAMatrix { weight: pair.name().into() })?;
        let [(_, left), (_, right)] = parts;
        let fits = |len: usize, factor: &[f64]| len.checked_mul(rank) == Some(factor.len());
        if !((1..=rows.min(cols)).contains(&rank) && fits(rows, left) && fits(cols, right)) {
            let (weight, left, right) = (pair.name().into(), left.len(), right.len());
            return Err(ForeignError::FactorSize { weight, rows, cols, rank, left, right });
        }
        let mut tensors = Vec::new();
        for (len, (ending, values)) in [rows, cols].into_iter().zip(parts) {
            let name = format!("{}.{ending}", pair.scale_name);
            let tensor = factor(&name, vec![len, rank], values, pair.dtype())?;
            tensors.push((name, tensor));
        }
        self.replace(&pair.scale_name, tensors)?;
        self.remark(pair, rank);
        Ok(())
    }

    /// Puts tensors in the place of one.
    fn replace(&mut self, name: &str, by: Vec<(String, NamedTensor)>) -> Result<()> {
        let place = self.tensors.iter().position(|(other, _)| other == name);
        let place = place.ok_or_else(|| ForeignError::Gone { tensor: name.into() })?;
        if let Some((taken, _)) = by.iter().find(|(new, _)| new != name && self.get(new).is_some()) {
            return Err(ForeignError::Taken { tensor: taken.clone() });
        }
        self.tensors.splice(place..=place, by.into_iter().map(|(name, tensor)| (name, Arc::new(tensor))));
        Ok(())
    }

    fn remark(&mut self, pair: &Pair, rank: usize) {
        let before = self.metadata.get(RANK).and_then(|rank| rank.parse().ok()).unwrap_or(0);
        self.metadata.insert(RANK.into(), rank.max(before).to_string());
        self.metadata.insert(CONVENTION.into(), pair.convention.clone());
    }
}

fn not_storable(pair: &Pair, scale: &[f64], place: usize) -> ForeignError {
    // A place there is, so there are columns.
    let cols = pair.layout.num_cols().max(1);
    ForeignError::NewScale {
        weight: pair.name().into(),
        row: place / cols,
        col: place % cols,
        found: scale.get(place).copied().unwrap_or(f64::NAN),
        tensor: pair.scale_name.clone(),
        dtype: pair.dtype(),
        form: pair.form,
    }
}

fn factor(name: &str, shape: Vec<usize>, values: &[f64], dtype: Dtype) -> Result<NamedTensor> {
    if let Some((place, &found)) = values.iter().enumerate().find(|(_, value)| !rounded(**value, dtype).is_finite()) {
        return Err(ForeignError::FactorNotFinite { tensor: name.into(), place, found, dtype });
    }
    Ok(NamedTensor::new(dtype, shape, to_bytes(values, dtype))?)
}

/// The number of the tensor's type.
fn rounded(value: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => value,
        _ => (value as f32).into(),
    }
}

fn to_bytes(values: &[f64], dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
    }
}
