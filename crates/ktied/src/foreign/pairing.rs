//! Which tensors of a file belong together, and whether they can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pair::{Layout, floats};
use super::{Convention, ForeignError, Mismatch, NamePattern, OutputDim, Pair, Result};
use crate::checkpoint::{Dtype, NamedTensor};

/// How many of a file's tensors an error names.
const MAX_NAMES: usize = 20;

type Tensors = [(String, Arc<NamedTensor>)];

/// The places of a weight's two tensors.
struct Found<'a> {
    pattern: &'a NamePattern,
    weight: &'a str,
    loc: &'a (String, Arc<NamedTensor>),
    scale: &'a (String, Arc<NamedTensor>),
}

/// All pairs, in the order of their means; see [`Foreign::pairs`](super::Foreign::pairs).
pub(super) fn pairs(tensors: &Tensors, convention: &Convention) -> Result<Vec<Pair>> {
    let found = find(tensors, convention);
    let taken: BTreeSet<&str> = found.iter().flat_map(|found| [&*found.loc.0, &*found.scale.0]).collect();
    let mut mismatches: Vec<_> = found.iter().filter_map(Found::mismatch).collect();
    mismatches.extend(
        tensors.iter().filter(|(name, _)| !taken.contains(&**name)).filter_map(|(name, _)| lonely(name, convention)),
    );
    if !mismatches.is_empty() {
        return Err(ForeignError::Unpaired { mismatches });
    }
    if found.is_empty() {
        return Err(ForeignError::NoPair { convention: convention.to_string(), found: names(tensors) });
    }
    let vectors = vectors(tensors, convention);
    found.iter().map(|found| found.checked(convention, &vectors)).collect()
}

/// The pairs of the first pattern that has them, each tensor in one pair only.
fn find<'a>(tensors: &'a Tensors, convention: &'a Convention) -> Vec<Found<'a>> {
    let places: BTreeMap<&str, usize> = tensors.iter().enumerate().map(|(i, (name, _))| (&**name, i)).collect();
    let (mut found, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for pattern in convention.patterns() {
        for (place, loc) in tensors.iter().enumerate() {
            let Some(weight) = pattern.weight_of_loc(&loc.0) else { continue };
            let Some(&partner) = places.get(&*pattern.scale_name(weight)) else { continue };
            let Some(scale) = tensors.get(partner) else { continue };
            if !taken.contains(&place) && !taken.contains(&partner) {
                taken.extend([place, partner]);
                found.insert(place, Found { pattern, weight, loc, scale });
            }
        }
    }
    found.into_values().collect()
}

/// What is wrong with a tensor that is in no pair: it may be none of the posterior's, or a point.
fn lonely(name: &str, convention: &Convention) -> Option<Mismatch> {
    convention.patterns().iter().find_map(|pattern| {
        if let Some(weight) = pattern.weight_of_loc(name) {
            let (loc, scale) = (name.into(), pattern.scale_name(weight));
            return Some((!pattern.scale_is_optional()).then_some(Mismatch::NoScale { loc, scale }));
        }
        let weight = pattern.weight_of_scale(name)?;
        Some(Some(Mismatch::NoLoc { scale: name.into(), loc: pattern.loc_name(weight) }))
    })?
}

fn names(tensors: &Tensors) -> String {
    if tensors.is_empty() {
        return "no tensors".into();
    }
    let names: Vec<_> = tensors.iter().take(MAX_NAMES).map(|(name, _)| &**name).collect();
    let more = match tensors.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("these tensors: {}{more}", names.join(", "))
}

/// The lengths of each weight's means of one dimension, which are its biases.
fn vectors<'a>(tensors: &'a Tensors, convention: &Convention) -> BTreeMap<&'a str, Vec<usize>> {
    let mut vectors = BTreeMap::<_, Vec<_>>::new();
    for (name, tensor) in tensors {
        let weight = convention.patterns().iter().find_map(|pattern| pattern.weight_of_loc(name));
        if let (Some(weight), [len]) = (weight, tensor.shape()) {
            vectors.entry(weight).or_default().push(*len);
        }
    }
    vectors
}

impl Found<'_> {
    fn mismatch(&self) -> Option<Mismatch> {
        let (loc_shape, scale_shape) = (self.loc.1.shape(), self.scale.1.shape());
        (loc_shape != scale_shape).then(|| Mismatch::Shapes {
            loc: self.loc.0.clone(),
            loc_shape: loc_shape.into(),
            scale: self.scale.0.clone(),
            scale_shape: scale_shape.into(),
        })
    }

    fn checked(&self, convention: &Convention, vectors: &BTreeMap<&str, Vec<usize>>) -> Result<Pair> {
        let ((loc_name, loc), (scale_name, scale)) = (self.loc, self.scale);
        check_finite(loc_name, loc)?;
        let stored = check_finite(scale_name, scale)?;
        let form = self.pattern.form();
        let wrong = |found: &f64| !(found.is_finite() && *found > 0.0);
        let scales = stored.iter().map(|stored| form.scale(*stored, scale.dtype()));
        if let Some((place, found)) = scales.enumerate().find(|(_, scale)| wrong(scale)) {
            let index = index_of(place, scale.shape());
            return Err(ForeignError::NotPositive { tensor: scale_name.clone(), index, found });
        }
        let biases = vectors.get(self.weight).map(Vec::as_slice).unwrap_or_default();
        let axis = output_axis(loc_name, scale.shape(), convention.output_dim(), biases)?;
        Ok(Pair {
            name: self.weight.into(),
            loc_name: loc_name.clone(),
            loc: loc.clone(),
            scale_name: scale_name.clone(),
            scale: scale.clone(),
            form,
            layout: Layout::new(scale.shape(), axis),
            convention: convention.to_string(),
        })
    }
}

/// The elements, if they are finite floats.
fn check_finite(name: &str, tensor: &NamedTensor) -> Result<Vec<f64>> {
    if !matches!(tensor.dtype(), Dtype::F32 | Dtype::F64) {
        return Err(ForeignError::TensorType { tensor: name.into(), found: tensor.dtype() });
    }
    let values = floats(tensor);
    match values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((place, &found)) => {
            let index = index_of(place, tensor.shape());
            Err(ForeignError::NotFinite { tensor: name.into(), index, found })
        }
        None => Ok(values),
    }
}

/// The index of the element at a place of a row-major tensor.
fn index_of(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = Vec::with_capacity(shape.len());
    for &len in shape.iter().rev() {
        index.push(place.checked_rem(len).unwrap_or_default());
        place = place.checked_div(len).unwrap_or_default();
    }
    index.reverse();
    index
}

/// The dimension of the outputs.
///
/// Transposed convolutions have it second (second to last, with outputs last), and no name tells them from others: only
/// their bias does, which has an element for each output. Without one, or with as many inputs as outputs, the
/// dimension is that of an ordinary convolution.
fn output_axis(weight: &str, shape: &[usize], output_dim: OutputDim, biases: &[usize]) -> Result<usize> {
    let last = shape.len().saturating_sub(1);
    let (ordinary, transposed) = match output_dim {
        OutputDim::First => (0, 1),
        OutputDim::Last => (last, last.saturating_sub(1)),
    };
    let (Some(&bias), Some(&outputs), Some(&others), true) =
        (biases.first(), shape.get(ordinary), shape.get(transposed), shape.len() > 2)
    else {
        return Ok(ordinary);
    };
    if biases.contains(&outputs) {
        Ok(ordinary)
    } else if biases.contains(&others) {
        Ok(transposed)
    } else {
        let (weight, shape) = (weight.into(), shape.into());
        Err(ForeignError::Outputs { weight, shape, bias, outputs, transposed: others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bias_tells_a_transposed_convolution() {
        let axis = |shape: &[usize], biases: &[usize]| output_axis("up", shape, OutputDim::First, biases);
        assert_eq!(axis(&[4, 3, 2, 2], &[4]), Ok(0));
        assert_eq!(axis(&[4, 3, 2, 2], &[3]), Ok(1));
        assert_eq!(axis(&[4, 3, 2, 2], &[]), Ok(0));
        assert_eq!(axis(&[4, 4, 2, 2], &[4]), Ok(0));
        // A matrix is the same up to its transpose, so that its bias need not agree.
        assert_eq!(axis(&[4, 3], &[3]), Ok(0));
        let last = |shape: &[usize], biases: &[usize]| output_axis("up", shape, OutputDim::Last, biases);
        assert_eq!(last(&[2, 2, 3, 4], &[4]), Ok(3));
        assert_eq!(last(&[2, 2, 3, 4], &[3]), Ok(2));
        assert_eq!(
            axis(&[4, 3, 2, 2], &[6]).unwrap_err().to_string(),
            "the weight `up` is [4, 3, 2, 2] and its bias has 6 elements: expected one for each output, which are 4 or, \
             in a transposed convolution, 3; transposed convolutions with groups are not supported"
        );
    }

    #[test]
    fn a_place_has_its_index() {
        assert_eq!(index_of(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(index_of(5, &[2, 3, 4]), [0, 1, 1]);
        assert_eq!(index_of(0, &[]), [0usize; 0]);
    }
}
