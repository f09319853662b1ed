//! What there is to convert: found and checked before anything is changed.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};
use ktied_kernels::{NoiseKey, Purpose};
use sha2::{Digest, Sha256};

use super::config::{BayesianConfig, Conversion, InitialScale, ParamInfo};
use super::error::ConvertError;
use super::variational::{Sizes, to_matrix};
use crate::error::{Error, Result};
use crate::posterior::PosteriorKind;

/// How many paths a message names.
const NAMED: usize = 12;

/// One parameter that is to be converted, or was.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Where it is.
    pub path: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// What it becomes.
    pub conversion: Conversion,
    /// Dimension of its outputs.
    pub(super) outputs: usize,
    /// σₚ
    pub prior_scale: f64,
}

impl Planned {
    /// Its family: vectors have nothing to tie.
    pub fn kind(&self) -> PosteriorKind {
        let kind = self.conversion.posterior;
        if self.shape.len() < 2 { kind.of_vectors() } else { kind }
    }

    /// Rows and columns of the parameter as a matrix; one of them counts the outputs.
    pub fn matrix(&self) -> [usize; 2] {
        let all: usize = self.shape.iter().product();
        let count = self.shape.get(self.outputs).copied().unwrap_or(1);
        let rest = all / count.max(1);
        if self.outputs + 1 >= self.shape.len() { [rest, count] } else { [count, rest] }
    }

    /// Numbers that are trained: means and scales.
    pub fn num_params(&self) -> usize {
        let [rows, cols] = self.matrix();
        self.kind().num_params(rows, cols)
    }

    /// The noise of a parameter is a function of its path.
    pub(super) fn layer(&self) -> u64 {
        let digest = Sha256::digest(self.path.as_bytes());
        digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(super) fn key(&self, seed: u64) -> NoiseKey {
        NoiseKey::new(seed).child(Purpose::Init).at(0, self.layer())
    }
}

/// The parameters of a model that a configuration chooses, by path.
///
/// # Errors
/// If there is none, or one cannot become what is asked.
pub fn plan<M: Module>(model: &M, config: &BayesianConfig) -> Result<BTreeMap<String, Planned>> {
    let mut survey = Survey { config, path: vec![], found: vec![], planned: BTreeMap::new(), error: None };
    model.visit(&mut survey);
    match survey.error {
        Some(error) => Err(error),
        None if survey.planned.is_empty() => Err(nothing_chosen(&survey.found)),
        None => Ok(survey.planned),
    }
}

fn nothing_chosen(paths: &[String]) -> Error {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let found = if named.is_empty() { "no parameters".into() } else { format!("{}{more}", named.join(", ")) };
    ConvertError::NothingChosen { found }.into()
}

struct Survey<'a> {
    config: &'a BayesianConfig,
    path: Vec<String>,
    found: Vec<String>,
    planned: BTreeMap<String, Planned>,
    /// The first.
    error: Option<Error>,
}

impl Survey<'_> {
    fn note(&mut self, result: Result<()>) {
        if let (Err(error), None) = (result, &self.error) {
            self.error = Some(error);
        }
    }

    fn float<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Result<()> {
        let (path, shape) = (self.path.join("."), param.lazy_shape().to_vec());
        self.found.push(path.clone());
        let Some(conversion) = self.config.of(&ParamInfo { path: &path, shape: &shape }) else { return Ok(()) };
        let outputs = conversion.outputs_of(D);
        if outputs >= D.max(1) {
            return Err(ConvertError::Outputs { path, dims: D, found: outputs }.into());
        }
        let count = shape.get(outputs).copied().unwrap_or(1);
        let fan_in = (D >= 2).then(|| shape.iter().product::<usize>() / count.max(1));
        let prior_scale = conversion.prior.scale(fan_in)?;
        Error::positive("posterior.init_scale", conversion.scale.value())?;
        let planned = Planned { path: path.clone(), shape, conversion, outputs, prior_scale };
        let [rows, cols] = planned.matrix();
        match planned.kind() {
            PosteriorKind::MeanField | PosteriorKind::KTied { .. } => planned.kind().check(&path, rows, cols)?,
            other => return Err(ConvertError::Family { path, found: other.to_string() }.into()),
        }
        let relative = matches!(conversion.scale, InitialScale::Relative(_));
        if relative && Sizes::of(&to_matrix(param.val().detach(), outputs)).mean == 0.0 {
            return Err(ConvertError::AllZero { path }.into());
        }
        self.planned.insert(path, planned);
        Ok(())
    }

    /// A parameter that cannot be converted is an error only where a rule chooses it.
    fn other(&mut self, shape: Vec<usize>, found: &'static str) -> Result<()> {
        let path = self.path.join(".");
        let chosen = matches!(self.config.ruled(&ParamInfo { path: &path, shape: &shape }), Some(Some(_)));
        if chosen { Err(ConvertError::NotFloat { path, found }.into()) } else { Ok(()) }
    }
}

impl ModuleVisitor for Survey<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        if container == "Reparameterization" {
            let (path, found) = (self.path.join("."), name.into());
            self.note(Err(ConvertError::AlreadyConverted { path, found }.into()));
        }
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let result = self.float(param);
        self.note(result);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let result = self.other(param.lazy_shape().to_vec(), "integers");
        self.note(result);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        let result = self.other(param.lazy_shape().to_vec(), "truth values");
        self.note(result);
    }
}
