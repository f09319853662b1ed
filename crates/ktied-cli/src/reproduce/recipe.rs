//! The runs behind the results, and what a scale changes about them.

use std::path::Path;

use ktied::config::Preset;

use super::Scale;
use crate::args::Train;

/// Seed of every run but those that are repeated with several.
pub(super) const SEED: u64 = 1;
/// Seeds where the paper has three.
pub(super) const SEEDS: [u64; 3] = [1, 2, 3];
/// What is trained in a table of k-tied posteriors.
pub(super) const TRAINED: [&str; 4] = ["mean-field", "k-tied:1", "k-tied:2", "k-tied:3"];
/// Ranks that a trained mean-field posterior is cut to.
pub(super) const RANKS: [usize; 3] = [1, 2, 3];
/// Steps that the paper looks at, and the last of them.
pub(super) const MARKS: [u64; 3] = [1000, 5000, 9000];

/// The four models of the paper; the last one twice, for its two priors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// 784-400-400-10 on MNIST.
    Mlp,
    /// LeNet on CIFAR-100.
    #[value(name = "lenet")]
    LeNet,
    /// An LSTM on IMDB.
    Lstm,
    /// ResNet-18 on CIFAR-10, prior N(0, 1).
    #[value(name = "resnet18")]
    ResNet18,
    /// ResNet-18 on CIFAR-10, prior N(0, 2/fan-in).
    #[value(name = "resnet18-he")]
    ResNet18He,
}

impl Model {
    /// The three whose dense layers are tied in training.
    pub(super) const TIED: [Self; 3] = [Self::Mlp, Self::LeNet, Self::Lstm];
    /// ResNet-18 under its two priors.
    pub(super) const RESIDUAL: [Self; 2] = [Self::ResNet18, Self::ResNet18He];

    /// Its name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mlp => "mlp",
            Self::LeNet => "lenet",
            Self::Lstm => "lstm",
            Self::ResNet18 => "resnet18",
            Self::ResNet18He => "resnet18-he",
        }
    }

    pub(super) fn preset(self) -> Preset {
        match self {
            Self::Mlp => Preset::MlpMnist,
            Self::LeNet => Preset::LeNetCifar100,
            Self::Lstm => Preset::LstmImdb,
            Self::ResNet18 | Self::ResNet18He => Preset::ResNet18Cifar10,
        }
    }

    /// Draws of the weights behind a test score.
    pub(super) fn draws(self, scale: Scale) -> u64 {
        match (scale, self) {
            (Scale::Full | Scale::Reduced, _) => 100,
            (Scale::Quick, Self::Mlp) => 50,
            (Scale::Quick, Self::Lstm) => 10,
            (Scale::Quick, _) => 20,
        }
    }
}

/// A run: a preset, what is set beside it, and the name of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) preset: Preset,
    pub(crate) settings: Vec<String>,
}

impl Recipe {
    fn new(name: String, model: Model, settings: &[&[&str]]) -> Self {
        let settings = settings.concat().into_iter().map(str::to_owned).collect();
        Self { name, preset: model.preset(), settings }
    }

    /// A mean-field or k-tied posterior without annealing, trained until it no longer gets better.
    pub(super) fn converged(model: Model, method: &str, scale: Scale) -> Self {
        let kind = format!("posterior.kind={method}");
        let settings = [&[kind.as_str(), "anneal.per_batch=none"][..], &size(model, scale)];
        Self::new(format!("{}-converged-{}", model.name(), slug(method)), model, &settings)
    }

    /// A posterior trained with the paper's annealing.
    pub(super) fn annealed(model: Model, method: &str, scale: Scale) -> Self {
        let kind = format!("posterior.kind={method}");
        let faster: &[&str] = match (scale, model) {
            // Half of the steps.
            (Scale::Reduced, Model::LeNet) => &["anneal.per_batch=4e-4"],
            (Scale::Full | Scale::Reduced, _) => &[],
            // Two thirds of the steps of each.
            (Scale::Quick, Model::Mlp) => &["anneal.per_batch=8e-4"],
            (Scale::Quick, _) => &["anneal.per_batch=1.2e-3"],
        };
        let settings = [&[kind.as_str()], faster, &size(model, scale)];
        Self::new(format!("{}-annealed-{}", model.name(), slug(method)), model, &settings)
    }

    /// The MLP of the SNR and convergence tables: no annealing, and every ninth part of the way saved.
    pub(super) fn watched(method: &str, seed: u64, scale: Scale) -> Self {
        let (kind, seed) = (format!("posterior.kind={method}"), format!("train.seed={seed}"));
        let pace: [&str; 3] = match scale {
            Scale::Full | Scale::Reduced => ["optim.lr=3e-4", "train.steps=9000", "train.checkpoint_steps=1000"],
            Scale::Quick => ["optim.lr=1.5e-3", "train.steps=1800", "train.checkpoint_steps=200"],
        };
        let others = [
            "anneal.per_batch=none",
            "train.snr=true",
            "train.validate_every=0",
            "train.checkpoint_every=0",
            "train.keep=9",
        ];
        let name = format!("mlp-watched-{}-{}", slug(method), seed.replace("train.", "").replace('=', "-"));
        Self::new(name, Model::Mlp, &[&[kind.as_str(), &seed], &pace, &others])
    }

    /// ResNet-18, mean-field, under one of two priors.
    pub(super) fn resnet(model: Model, scale: Scale) -> Self {
        let prior: &[&str] = if model == Model::ResNet18He { &["prior.kind=he"] } else { &[] };
        Self::new(format!("{}-converged-mean-field", model.name()), model, &[prior, &size(model, scale)])
    }

    /// A network whose convolutions are tied as well.
    pub(super) fn all_tied(model: Model, scale: Scale) -> Self {
        let plain = match model {
            Model::LeNet => Self::annealed(model, "k-tied:2", scale),
            _ => Self::resnet(model, scale),
        };
        let tied = ["posterior.kind=k-tied:2", "posterior.conv=k-tied:2"].map(str::to_owned);
        // ResNet-18 has one posterior for all kernels.
        let count = if model == Model::LeNet { 2 } else { 1 };
        let others = plain.settings.into_iter().filter(|setting| !setting.starts_with("posterior.kind"));
        let settings = tied.into_iter().take(count).chain(others).collect();
        Self { name: format!("{}-all-tied", model.name()), settings, ..plain }
    }

    /// An MLP that is trained for a time, not a number of steps.
    pub(crate) fn racer(method: &str, estimator: &str) -> Self {
        let (kind, by) = (format!("posterior.kind={method}"), format!("estimator.kind={estimator}"));
        let others = ["anneal.per_batch=none", "train.steps=10000000", "train.checkpoint_every=0", "train.seed=1"];
        let name = format!("mlp-race-{}-{estimator}", slug(method));
        Self::new(name, Model::Mlp, &[&[kind.as_str(), &by], &others])
    }

    /// Whether it ends when validation −ELBO no longer falls; then what is judged is the best checkpoint, not the last.
    pub(crate) fn ends_early(&self) -> bool {
        self.settings.iter().any(|setting| setting.starts_with("train.patience="))
    }

    /// Which checkpoint of it is meant, as other commands take it.
    pub(crate) fn checkpoint(&self) -> &'static str {
        if self.ends_early() { " --best" } else { "" }
    }

    /// As the program's own command takes it.
    pub(crate) fn train(&self, folder: &Path, data: Option<&Path>) -> Train {
        Train {
            preset: Some(self.preset),
            set: self.settings.clone(),
            data: data.map(Path::to_owned),
            out: folder.join(&self.name),
            resume: true,
            ..Train::default()
        }
    }

    /// What trains it by hand.
    pub(crate) fn command(&self) -> String {
        let settings: String = self.settings.iter().map(|setting| format!(" --set {setting}")).collect();
        format!("ktied train --preset {}{settings} --out {}", self.preset, self.name)
    }
}

/// How long and how large a run of a model is, and how often it is looked at.
fn size(model: Model, scale: Scale) -> Vec<&'static str> {
    let of_model: &[&str] = match (scale, model) {
        (Scale::Full | Scale::Reduced, Model::Mlp) => &["train.validate_every=10", "train.checkpoint_every=25"],
        (Scale::Full, Model::LeNet) => &["train.patience=6", "train.validate_every=5", "train.checkpoint_every=5"],
        (Scale::Reduced, Model::LeNet) => &["train.batch=256", "train.epochs=30", "train.checkpoint_every=5"],
        (Scale::Full | Scale::Reduced, Model::Lstm) => {
            &["train.patience=10", "train.validate_every=2", "train.checkpoint_every=2"]
        }
        (Scale::Full, Model::ResNet18 | Model::ResNet18He) => &[],
        (Scale::Quick, Model::Mlp) => {
            &["estimator.kind=local", "optim.scale_lr=0.01", "train.epochs=40", "train.validate_every=4"]
        }
        (Scale::Quick, Model::LeNet) => &[
            "model.kernel=3",
            "model.filters=16,32",
            "model.dense=128",
            "train.batch=256",
            "train.epochs=8",
            "optim.lr=3e-3",
            "optim.scale_lr=6e-3",
        ],
        (Scale::Quick, Model::Lstm) => &["data.length=40", "train.epochs=8", "optim.lr=3e-3", "optim.scale_lr=6e-3"],
        (Scale::Reduced, Model::ResNet18 | Model::ResNet18He) => &[
            "model.widths=8,16,32,64",
            "train.epochs=40",
            "anneal.epochs=2",
            "optim.lr=1e-2",
            "optim.scale_lr=0.01",
            "optim.drop_after=0.75",
            "train.checkpoint_every=5",
        ],
        (Scale::Quick, Model::ResNet18 | Model::ResNet18He) => {
            &["model.widths=8,16,32,64", "train.epochs=8", "anneal.epochs=2", "optim.lr=1e-3", "optim.scale_lr=0.05"]
        }
    };
    [of_model, &["train.seed=1"]].concat()
}

/// A method's name as part of a folder's.
pub(super) fn slug(method: &str) -> String {
    method.replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::train::config_of;

    #[test]
    fn every_recipe_is_a_configuration_and_has_a_folder_of_its_own() {
        for scale in Scale::ALL {
            let mut recipes = vec![Recipe::resnet(Model::ResNet18, scale), Recipe::resnet(Model::ResNet18He, scale)];
            for method in TRAINED {
                for model in Model::TIED {
                    recipes.extend([Recipe::converged(model, method, scale), Recipe::annealed(model, method, scale)]);
                }
                recipes.extend(SEEDS.map(|seed| Recipe::watched(method, seed, scale)));
                recipes.extend(["reparam", "flipout", "local"].map(|estimator| Recipe::racer(method, estimator)));
            }
            recipes.extend([Model::LeNet, Model::ResNet18].map(|model| Recipe::all_tied(model, scale)));
            for (index, recipe) in recipes.iter().enumerate() {
                let config = config_of(&recipe.train(Path::new("reproduction"), None)).expect(&recipe.name);
                config.check().expect(&recipe.name);
                assert_eq!(recipes.iter().position(|other| other.name == recipe.name), Some(index), "{}", recipe.name);
            }
        }
    }

    #[test]
    fn full_scale_changes_nothing_that_the_paper_says() {
        // The settings that remain are how often to look, when to stop, and the seed.
        for model in Model::TIED {
            let recipe = Recipe::annealed(model, "k-tied:2", Scale::Full);
            let beside = |setting: &&String| !setting.starts_with("train.") && !setting.starts_with("posterior.kind");
            assert_eq!(recipe.settings.iter().find(beside), None);
        }
        assert_eq!(Recipe::resnet(Model::ResNet18, Scale::Full).settings, ["train.seed=1"]);
    }

    #[test]
    fn all_kernels_of_a_tied_network_are_tied() {
        use ktied::models::Role;
        use ktied::posterior::PosteriorKind;
        for model in [Model::LeNet, Model::ResNet18] {
            let config =
                config_of(&Recipe::all_tied(model, Scale::Quick).train(Path::new("reproduction"), None)).expect("one");
            let layers = config.model.layers(&config.posterior).expect("layers");
            let kernels = layers.iter().filter(|layer| layer.role == Role::Kernel);
            assert!(kernels.clone().count() >= 4);
            assert!(kernels.clone().all(|layer| layer.posterior == PosteriorKind::KTied { rank: 2 }), "{layers:?}");
        }
    }

    #[test]
    fn a_command_is_what_one_would_type() {
        let command = Recipe::converged(Model::Lstm, "mean-field", Scale::Full).command();
        assert!(
            command.starts_with("ktied train --preset lstm-imdb --set posterior.kind=mean-field --set anneal.per_")
        );
        assert!(command.ends_with(" --out lstm-converged-mean-field"), "{command}");
    }
}
