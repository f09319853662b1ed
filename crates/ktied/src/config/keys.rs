//! What every key means: one table, from which the program's help and the reference page are made.

use std::fmt::Write as _;

use super::{Preset, Tree};

/// A key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its dotted name.
    pub name: &'static str,
    /// What it means, and what it may be.
    pub meaning: &'static str,
}

const fn key(name: &'static str, meaning: &'static str) -> Key {
    Key { name, meaning }
}

/// Every key of every model, in the order of the sections.
pub const KEYS: &[Key] = &[
    key(
        "data.set",
        "mnist, fashion-mnist, cifar10, cifar100, imdb, digits, uci/NAME; or a path to a .npz, a .csv, or a folder with \
         x.npy and y.npy",
    ),
    key("data.dir", "folder that has one sub-folder a set; before $KTIED_DATA and the cache folder"),
    key("data.label", "label column of a CSV table; `label` if none"),
    key("data.task", "what the targets of your own data are: auto, classes or values"),
    key("data.validation", "fraction of the rows kept for validation, where the files do not say"),
    key("data.test", "fraction of the rows kept for testing, where the files do not say"),
    key("data.seed", "seed of such a division"),
    key("data.split", "which of a UCI table's own divisions"),
    key("data.standardize", "whether tables and floating-point arrays get mean 0 and standard deviation 1"),
    key("data.vocabulary", "IMDB: number of words, padding, start and unknown included"),
    key("data.length", "IMDB: words of a review that are read, the last ones"),
    key("data.coarse", "CIFAR-100: its 20 groups instead of its 100 classes"),
    key("data.limit", "training examples to use, the first ones; none: all"),
    key("model.kind", "mlp, lenet, lstm or resnet18; another kind begins with its own defaults"),
    key("model.sizes", "mlp: inputs, hidden units of each layer, outputs"),
    key("model.side", "lenet, resnet18: height and width of an image"),
    key("model.channels", "lenet, resnet18: colours of an image"),
    key("model.kernel", "lenet: height and width of the convolution kernels"),
    key("model.filters", "lenet: outputs of the two convolutions"),
    key("model.dense", "lenet: outputs of the first dense layer"),
    key("model.classes", "lenet, resnet18: outputs of the last layer"),
    key("model.vocabulary", "lstm: number of words"),
    key("model.embedding", "lstm: length of a word's vector"),
    key("model.hidden", "lstm: length of the state"),
    key("model.widths", "resnet18: outputs of the four blocks"),
    key("model.norm", "resnet18: batch (statistics of the batch, running averages to evaluate) or frozen (0 and 1)"),
    key(
        "model.dropout",
        "share of the inputs of dense layers, never the network's own, that every draw leaves out; with a point \
         posterior and several draws, MC dropout",
    ),
    key("posterior.kind", "point, mean-field, k-tied:K, matrix-normal, or low-rank:K, which compression makes"),
    key("posterior.conv", "posterior of the convolution kernels; none: the model's choice"),
    key("posterior.scale", "how mean-field standard deviations are stored: log or softplus"),
    key("posterior.init_scale", "where standard deviations begin"),
    key("posterior.cap", "largest standard deviation allowed; none: no cap"),
    key("posterior.init_means", "standard deviation of the first means; none: He's rule"),
    key(
        "posterior.pruned",
        "whether kernels have a mask of the weights that `ktied prune` kept; true in runs that it makes",
    ),
    key(
        "prior.kind",
        "normal (one σₚ), he (N(0, 2/fan-in), biases N(0, 1)) or empirical (a σₚ for each tensor, learned)",
    ),
    key("prior.scale", "σₚ of a normal prior; where an empirical one begins"),
    key("prior.every", "steps between updates of an empirical prior"),
    key("estimator.kind", "reparam, flipout, or local (where a layer sees one position an example, flipout elsewhere)"),
    key("estimator.draws", "draws of the weights a step"),
    key("likelihood.kind", "softmax, bernoulli, gaussian or gaussian-fixed; none: what targets and outputs suggest"),
    key("likelihood.noise", "standard deviation of a Gaussian's noise; where a learned one begins"),
    key("likelihood.temperature", "weight on the divergence for ever; below 1 a cold posterior"),
    key("optim.lr", "learning rate of Adam"),
    key("optim.scale_lr", "learning rate of the scale parameters; none: the same"),
    key("optim.drop_after", "share of the run, between 0 and 1, after which both rates are a tenth; none: never"),
    key("optim.clip", "largest norm of the whole gradient; none: any"),
    key("anneal.per_batch", "c of the paper's schedule, min(1, c·100·⌊step/100⌋), of the weight on the divergence"),
    key("anneal.epochs", "epochs over which that weight grows linearly; none of both: weight 1 from the start"),
    key("train.epochs", "passes over the training examples"),
    key("train.steps", "steps, where they and not the epochs say how long"),
    key("train.batch", "examples a step"),
    key("train.seed", "root of all randomness: same seed, same bits"),
    key("train.validate_every", "epochs between validations; 0: never"),
    key("train.validate_draws", "draws of a validation"),
    key("train.patience", "validations without a better −ELBO after which training stops; none: never"),
    key("train.checkpoint_every", "epochs between checkpoints; 0: one at the end"),
    key("train.checkpoint_steps", "steps between checkpoints, besides those of epochs"),
    key("train.keep", "checkpoints that are kept, besides the best"),
    key("train.log_every", "steps between lines of events.jsonl"),
    key("train.non_finite", "when a loss or gradient is not finite: stop, skip (the step) or halve (and the rate)"),
    key("train.snr", "whether to log the signal-to-noise ratio of the scales' gradients"),
    key(
        "cluster.noise",
        "of several processes: shared (all draw the same weights) or per-rank (each its own, for a gradient of lower variance)",
    ),
    key("cluster.wire", "how gradients are sent between processes: single (four bytes a number) or half (two)"),
];

/// The reference page of the configuration, in Markdown: every key, what it means, and what each preset says.
pub fn reference() -> String {
    let trees = Preset::ALL.map(|preset| Tree::of(&preset.config()));
    let mut page = String::from(
        "# Configuration\n\nThe same names in TOML files (`ktied train --config FILE.toml`), in `--set key=value`, in \
         `ktied sweep --grid` and in a run's `config.toml`. In a file a section is a table: `[train]`, then `epochs = 10`. \
         `none` unsets what may be unset. A file may name the preset that it changes, \
         as in `preset = \"lenet-cifar100\"`; without one it changes `mlp-mnist`.\n\n\
         This page is made by `KTIED_WRITE_DOCS=1 cargo test --workspace --lib config`.\n",
    );
    let mut section = "";
    for Key { name, meaning } in KEYS {
        let of_key = name.split('.').next().unwrap_or_default();
        if of_key != section {
            section = of_key;
            let _ = write!(page, "\n## {section}\n\n| key | meaning | presets |\n|---|---|---|\n");
        }
        let _ = writeln!(page, "| `{name}` | {meaning} | {} |", values(name, &trees));
    }
    page
}

/// What the presets say of a key: one value if they agree, else each with the presets that have it.
fn values(name: &str, trees: &[Tree]) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (tree, preset) in trees.iter().zip(Preset::ALL) {
        let Ok(value) = tree.get(name) else { continue };
        let value = match value {
            serde_json::Value::Null => "none".into(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, presets)) => presets.push(preset.name()),
            None => groups.push((value, vec![preset.name()])),
        }
    }
    match &groups[..] {
        [(value, _)] => format!("`{value}`"),
        groups => {
            let each = groups.iter().map(|(value, presets)| format!("`{value}` ({})", presets.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_that_exists_is_explained_and_every_key_that_is_explained_exists() {
        let exist: BTreeSet<String> =
            Preset::ALL.into_iter().flat_map(|preset| Tree::of(&preset.config()).keys()).collect();
        let explained: BTreeSet<String> = KEYS.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(explained, exist);
        assert_eq!(explained.len(), KEYS.len(), "each once");
    }

    #[test]
    fn the_reference_page_is_the_one_that_the_code_makes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("KTIED_WRITE_DOCS").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == reference(),
            "docs/configuration.md is old: run KTIED_WRITE_DOCS=1 cargo test --workspace --lib config"
        );
    }
}
