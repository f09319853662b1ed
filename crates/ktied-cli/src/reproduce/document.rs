//! What a reproduction writes and what the page reads.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use ktied::checkpoint::write_file;
use ktied::files;
use serde::{Deserialize, Serialize};

use super::verdict::Verdict;
use super::{Model, Scale, Target};
use crate::exit::Failure;
use crate::log::MAX_DOCUMENT_BYTES;
use crate::table::json;

/// All figures of a target at a scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) target: Target,
    pub(crate) scale: Scale,
    pub(crate) rows: Vec<Row>,
}

/// One figure of the paper's, or one that belongs beside them, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) model: String,
    pub(crate) method: String,
    pub(crate) metric: String,
    /// None where the paper says nothing.
    pub(crate) paper: Option<f64>,
    pub(crate) paper_sem: Option<f64>,
    pub(crate) ours: f64,
    pub(crate) sem: Option<f64>,
    /// None where there is nothing to hold it against.
    pub(crate) verdict: Option<Verdict>,
    /// What the verdict rests on, where it is not plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default)]
    pub(crate) why: Option<String>,
    pub(crate) seed: Option<u64>,
    /// What gives this figure again.
    pub(crate) command: String,
    /// Seconds of the training behind it, on one thread.
    pub(crate) wall_s: f64,
}

impl Document {
    /// The name of the file of a target at a scale.
    pub(crate) fn path(results: &Path, target: Target, scale: Scale) -> PathBuf {
        let name = format!("{}.json", target.name());
        match scale {
            Scale::Full => results.join(name),
            Scale::Quick | Scale::Reduced => results.join(scale.name()).join(name),
        }
    }

    /// The document of a target at a scale, if there is one.
    ///
    /// # Errors
    /// If the file system refuses, or the file is something else.
    pub(crate) fn read(results: &Path, target: Target, scale: Scale) -> Result<Option<Self>, Failure> {
        let path = Self::path(results, target, scale);
        if !path.exists() {
            return Ok(None);
        }
        let text = files::read_text(&path, MAX_DOCUMENT_BYTES).map_err(|error| ktied::Error::read(&path, &error));
        let document: Self = serde_json::from_str(&text?)
            .map_err(|error| Failure::Usage(format!("{}: no results of this program: {error}", path.display())))?;
        if (document.target, document.scale) != (target, scale) {
            let (path, target, scale) = (path.display(), document.target.name(), document.scale.name());
            return Err(Failure::Usage(format!("{path}: holds the results of {target} at scale {scale}")));
        }
        Ok(Some(document))
    }

    /// The same with the rows that are known of other models, in the order of the models.
    pub(crate) fn beside(mut self, known: Option<Self>, models: &[Model]) -> Self {
        let is_other = |row: &Row| !models.iter().any(|model| row.model == model.name());
        let is_new = |row: &Row| !self.rows.iter().any(|new| new.model == row.model);
        let known = known.map_or(vec![], |known| known.rows);
        let others: Vec<Row> = known.into_iter().filter(|row| is_other(row) && is_new(row)).collect();
        self.rows.extend(others);
        let place = |row: &Row| Model::value_variants().iter().position(|model| row.model == model.name());
        self.rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        self
    }

    /// Writes the document in its place.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn write(&self, results: &Path) -> Result<PathBuf, Failure> {
        let path = Self::path(results, self.target, self.scale);
        write_file(&path, (json(self)? + "\n").as_bytes())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(rows: &[(&str, f64)]) -> Document {
        let row = |&(model, ours): &(&str, f64)| Row {
            model: model.into(),
            method: "mean-field".into(),
            metric: "nll".into(),
            paper: None,
            paper_sem: None,
            ours,
            sem: None,
            verdict: None,
            why: None,
            seed: None,
            command: String::new(),
            wall_s: 0.0,
        };
        Document { target: Target::LowRank, scale: Scale::Full, rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn new_rows_take_the_place_of_old_ones_and_other_models_stay() {
        let known = document(&[("mlp", 1.0), ("lenet", 2.0), ("lenet", 3.0), ("lstm", 4.0)]);
        let both = document(&[("lenet", 20.0)]).beside(Some(known), &[Model::LeNet]);
        let found: Vec<(&str, f64)> = both.rows.iter().map(|row| (row.model.as_str(), row.ours)).collect();
        assert_eq!(found, [("mlp", 1.0), ("lenet", 20.0), ("lstm", 4.0)]);
    }
}
