//! What a configuration says about a network: which model, which sizes, which posterior.

use serde::{Deserialize, Serialize};

use ktied_kernels::ScaleForm;

use super::{LayerSpec, LeNetSpec, LstmSpec, MlpSpec, Norm, ResNet18Spec};
use crate::error::{Error, Result};
use crate::posterior::{LocInit, PosteriorKind, ScaleInit};

/// The posterior of a network's layers, as in `kind = "k-tied:2"`, `conv = "mean-field"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PosteriorSpec {
    /// The family of the kernels.
    pub kind: PosteriorKind,
    /// The family of the convolution kernels, where it is not the one that the model chooses.
    pub conv: Option<PosteriorKind>,
    /// How mean-field scales are stored: `log` or `softplus`.
    #[serde(with = "crate::text")]
    pub scale: ScaleForm,
    /// Where standard deviations begin.
    pub init_scale: f64,
    /// The largest standard deviation allowed.
    pub cap: Option<f64>,
    /// Standard deviation of the first means, where it is not He's rule.
    pub init_means: Option<f64>,
    /// Whether weights may have been pruned.
    pub pruned: bool,
}

impl Default for PosteriorSpec {
    fn default() -> Self {
        Self::new(PosteriorKind::MeanField)
    }
}

impl PosteriorSpec {
    /// One family, the model's choice for its convolutions, and the paper's initial values.
    pub fn new(kind: PosteriorKind) -> Self {
        let ScaleInit { form, scale, cap } = ScaleInit::default();
        Self { kind, conv: None, scale: form, init_scale: scale, cap, init_means: None, pruned: false }
    }

    /// How scales begin, and their cap.
    pub fn scale_init(&self) -> ScaleInit {
        ScaleInit { form: self.scale, scale: self.init_scale, cap: self.cap }
    }

    /// How means begin.
    pub fn loc_init(&self) -> LocInit {
        self.init_means.map_or(LocInit::He, |scale| LocInit::Normal { scale })
    }

    /// Refuses `posterior.conv` on behalf of a model without convolutions, where it would change nothing.
    pub(super) fn refuse_conv(&self, model: &str) -> Result<()> {
        self.conv.map_or(Ok(()), |_| Err(Error::NoConvolutions { model: model.into() }))
    }
}

/// A network: which model, and its sizes. What is not said is as in the paper.
///
/// ```
/// use ktied::models::{LeNetSpec, ModelSpec, PosteriorSpec, Totals};
///
/// let model = ModelSpec::LeNet(LeNetSpec { kernel: 3, ..LeNetSpec::default() });
/// let layers = model.layers(&PosteriorSpec::new("k-tied:2".parse()?))?;
/// assert_eq!(layers[0].shape, [3, 3, 3, 32]);
/// assert_eq!(Totals::of(&layers)?.total, 2_198_800);
/// # Ok::<(), ktied::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ModelSpec {
    /// `mlp`
    Mlp(MlpSpec),
    /// `lenet`
    #[serde(rename = "lenet")]
    LeNet(LeNetSpec),
    /// `lstm`
    Lstm(LstmSpec),
    /// `resnet18`
    #[serde(rename = "resnet18")]
    ResNet18(ResNet18Spec),
}

impl ModelSpec {
    /// Every tensor of the network under a posterior, in the order of use.
    ///
    /// # Errors
    /// [`Error::Rank`] if a layer does not allow the rank, [`Error::TooSmall`] or [`Error::TooLarge`] for a size that
    /// makes no network, [`Error::NoConvolutions`] if `posterior.conv` is set where there is none.
    pub fn layers(&self, posterior: &PosteriorSpec) -> Result<Vec<LayerSpec>> {
        match self {
            Self::Mlp(spec) => spec.layers(posterior),
            Self::LeNet(spec) => spec.layers(posterior),
            Self::Lstm(spec) => spec.layers(posterior),
            Self::ResNet18(spec) => spec.layers(posterior),
        }
    }

    /// Its name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mlp(_) => "mlp",
            Self::LeNet(_) => "lenet",
            Self::Lstm(_) => "lstm",
            Self::ResNet18(_) => "resnet18",
        }
    }

    /// Whether it normalises by mean and variance of a batch, which must be in one place then.
    pub fn has_batch_statistics(&self) -> bool {
        matches!(self, Self::ResNet18(spec) if spec.norm == Norm::Batch)
    }

    /// Share of units that a draw leaves out (Gal and Ghahramani, 2016): inputs of dense layers, but never the network's own.
    pub fn dropout(&self) -> f64 {
        match self {
            Self::Mlp(spec) => spec.dropout,
            Self::LeNet(spec) => spec.dropout,
            Self::Lstm(spec) => spec.dropout,
            Self::ResNet18(spec) => spec.dropout,
        }
    }

    /// Height, width and channels of the images that the network sees, if it sees images.
    pub fn image(&self) -> Option<[usize; 3]> {
        match self {
            Self::LeNet(spec) => Some([spec.side, spec.side, spec.channels]),
            Self::ResNet18(spec) => Some([spec.side, spec.side, spec.channels]),
            Self::Mlp(_) | Self::Lstm(_) => None,
        }
    }

    /// How many numbers the network gives an example.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Mlp(spec) => spec.sizes.last().copied().unwrap_or(0),
            Self::LeNet(spec) => spec.classes,
            Self::Lstm(_) => 1,
            Self::ResNet18(spec) => spec.classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Totals;

    const POSTERIORS: [&str; 4] = ["mean-field", "k-tied:1", "k-tied:2", "k-tied:3"];

    fn totals(model: &str, posterior: &str) -> Totals {
        let model: ModelSpec = serde_json::from_str(model).unwrap();
        let layers = model.layers(&PosteriorSpec::new(posterior.parse().unwrap())).unwrap();
        Totals::of(&layers).unwrap()
    }

    #[test]
    fn every_total_of_the_paper_comes_out() {
        let table = [
            (r#"{"kind": "mlp"}"#, [956_820, 481_614, 484_008, 486_402], 0),
            (r#"{"kind": "lenet"}"#, [4_405_320, 2_262_188, 2_267_408, 2_272_628], 0),
            (r#"{"kind": "lenet", "kernel": 3}"#, [4_336_712, 2_193_580, 2_198_800, 2_204_020], 0),
            (r#"{"kind": "lstm"}"#, [2_822_656, 2_692_864, 2_694_144, 2_695_424], 257),
            (r#"{"kind": "resnet18"}"#, [9_814_026, 4_929_711, 4_946_964, 4_964_217], 0),
        ];
        for (model, row, head) in table {
            for (posterior, total) in POSTERIORS.into_iter().zip(row) {
                let expected = Totals { total, with_head: total + head };
                assert_eq!(totals(model, posterior), expected, "{model} {posterior}");
            }
        }
    }

    #[test]
    fn a_point_network_has_one_number_a_weight_and_a_bias() {
        let mlp = totals(r#"{"kind": "mlp"}"#, "point");
        assert_eq!(mlp.total, 784 * 400 + 400 + 400 * 400 + 400 + 400 * 10 + 10);
        let lstm = totals(r#"{"kind": "lstm"}"#, "point");
        assert_eq!(lstm.total, 20_000 * 128 + 2 * 128 * 512 + 512);
        assert_eq!(lstm.with_head, lstm.total + 129);
    }

    #[test]
    fn descriptions_round_trip_and_unknown_fields_are_refused() {
        for kind in ["mlp", "lenet", "lstm", "resnet18"] {
            let model: ModelSpec = serde_json::from_value(serde_json::json!({ "kind": kind })).unwrap();
            let text = serde_json::to_string(&model).unwrap();
            assert_eq!(serde_json::from_str::<ModelSpec>(&text).unwrap(), model);
            let unknown = serde_json::json!({ "kind": kind, "kernal": 3 });
            let error = serde_json::from_value::<ModelSpec>(unknown).unwrap_err().to_string();
            assert!(error.contains("unknown field `kernal`"), "{error}");
        }
        let posterior: PosteriorSpec = serde_json::from_str(r#"{"kind": "k-tied:2", "conv": "mean-field"}"#).unwrap();
        let conv = Some(PosteriorKind::MeanField);
        assert_eq!(posterior, PosteriorSpec { conv, ..PosteriorSpec::new(PosteriorKind::KTied { rank: 2 }) });
        let text = serde_json::to_string(&posterior).unwrap();
        assert!(
            text.starts_with(r#"{"kind":"k-tied:2","conv":"mean-field","scale":"log","init_scale":0.01"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<PosteriorSpec>(&text).unwrap(), posterior);
        let error = serde_json::from_str::<PosteriorSpec>(r#"{"kind": "k-tied"}"#).unwrap_err().to_string();
        assert!(error.contains("posterior `k-tied` is unknown"), "{error}");
    }

    #[test]
    fn a_posterior_of_convolutions_is_refused_where_there_are_none() {
        let posterior = PosteriorSpec { conv: Some(PosteriorKind::MeanField), ..PosteriorSpec::default() };
        for model in [ModelSpec::Mlp(MlpSpec::default()), ModelSpec::Lstm(LstmSpec::default())] {
            let error = model.layers(&posterior).unwrap_err().to_string();
            assert!(error.contains("posterior.conv") && error.contains("no convolutions"), "{error}");
        }
    }
}
