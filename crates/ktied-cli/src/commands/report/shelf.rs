//! Data sets that several runs share, read once.

use std::rc::Rc;

use ktied::data::{DataSet, DataSpec, load};

/// The data sets that were asked for, or why they could not be read.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    sets: Vec<(DataSpec, Result<Rc<DataSet>, String>)>,
}

impl Shelf {
    /// The set, from the shelf if it is there.
    pub(super) fn get(&mut self, spec: &DataSpec) -> Result<Rc<DataSet>, String> {
        if let Some((_, set)) = self.sets.iter().find(|(known, _)| known == spec) {
            return set.clone();
        }
        let set = load(spec).map(Rc::new).map_err(|error| error.to_string());
        self.sets.push((spec.clone(), set.clone()));
        set
    }
}
