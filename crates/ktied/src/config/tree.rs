//! Changes to a configuration by dotted names, from files and from the command line.

use serde_json::{Map, Value};

use super::Config;
use crate::nearest::nearest;

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// A name that does not exist.
    #[error("there is no key `{key}`; did you mean `{nearest}`?")]
    Unknown {
        /// The name.
        key: String,
        /// The one that is written most like it.
        nearest: String,
    },
    /// A table where a value belongs, or the other way round.
    #[error("`{key}` must be {expected}, got {found}")]
    Kind {
        /// The name.
        key: String,
        /// What belongs there.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// A value that cannot be.
    #[error("{key}: {reason}")]
    Value {
        /// The name.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More than one key.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<KeyError>),
}

/// A configuration as a tree of names.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree(Value);

impl Tree {
    /// The tree of a configuration.
    pub fn of(config: &Config) -> Self {
        Self(serde_json::to_value(config).unwrap_or_default())
    }

    /// The configuration of the tree.
    ///
    /// # Errors
    /// [`KeyError::Value`] if the values do not make one.
    pub fn config(&self) -> Result<Config, KeyError> {
        serde_json::from_value(self.0.clone())
            .map_err(|error| KeyError::Value { key: "configuration".into(), reason: error.to_string() })
    }

    /// Puts the values of a file in; what it does not name stays.
    ///
    /// # Errors
    /// If it names keys that do not exist, or gives some values that cannot be: all of them at once
    /// ([`KeyError::Several`]), and nothing is changed then.
    pub fn overlay(&mut self, file: &toml::Table) -> Result<(), KeyError> {
        let mut changed = self.clone();
        // The kind of model decides which keys there are, so it goes first.
        if let Some(toml::Value::String(kind)) = file.get("model").and_then(|model| model.get("kind")) {
            changed.set("model.kind", kind)?;
        }
        let mut faults = vec![];
        file.iter().for_each(|(name, value)| changed.put_all(name, value, &mut faults));
        match <[KeyError; 1]>::try_from(faults) {
            Ok([fault]) => Err(fault),
            Err(faults) if faults.is_empty() => {
                *self = changed;
                Ok(())
            }
            Err(faults) => Err(KeyError::Several(faults)),
        }
    }

    /// Puts one value in, given as text: a number, `true` or `false`, a list (`784,400,10`), `none`, or a text.
    ///
    /// # Errors
    /// As [`overlay`](Self::overlay).
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), KeyError> {
        let old = self.place(key)?.clone();
        if old.is_object() {
            return Err(KeyError::Kind { key: key.into(), expected: "one value", found: "a table".into() });
        }
        self.put(key, parse(text, &old))
    }

    /// The dotted names of all values.
    pub fn keys(&self) -> Vec<String> {
        keys(&self.0)
    }

    /// The value of a name, as JSON writes it.
    ///
    /// # Errors
    /// If there is no such name.
    pub fn get(&self, key: &str) -> Result<&Value, KeyError> {
        let pointer = pointer(key);
        self.0.pointer(&pointer).ok_or_else(|| self.unknown(key))
    }

    /// Puts in what can be, and notes what cannot.
    fn put_all(&mut self, key: &str, value: &toml::Value, faults: &mut Vec<KeyError>) {
        let is_table = self.place(key).is_ok_and(|place| place.is_object());
        if let (toml::Value::Table(entries), true) = (value, is_table) {
            return entries.iter().for_each(|(name, value)| self.put_all(&format!("{key}.{name}"), value, faults));
        }
        faults.extend(self.put_toml(key, value).err());
    }

    fn put_toml(&mut self, key: &str, value: &toml::Value) -> Result<(), KeyError> {
        let is_table = self.place(key)?.is_object();
        match (value, is_table) {
            (_, true) => Err(KeyError::Kind { key: key.into(), expected: "a table", found: value.to_string() }),
            (toml::Value::Table(_), false) => {
                Err(KeyError::Kind { key: key.into(), expected: "one value", found: "a table".into() })
            }
            (toml::Value::String(text), false) if text == "none" => self.put(key, Value::Null),
            // JSON has no such numbers, and would leave the key unset.
            (value, false) if !is_finite(value) => {
                Err(KeyError::Kind { key: key.into(), expected: "finite", found: value.to_string() })
            }
            (value, false) => self.put(key, serde_json::to_value(value).unwrap_or_default()),
        }
    }

    /// Replaces one value and sees whether the whole can still be.
    fn put(&mut self, key: &str, value: Value) -> Result<(), KeyError> {
        let mut changed = self.clone();
        if key == "model.kind" && *changed.get(key)? != value {
            // Another model has other keys: it begins with its own defaults.
            *changed.place("model")? = Value::Object(Map::from_iter([("kind".to_owned(), value)]));
        } else {
            *changed.place(key)? = value;
        }
        let config = serde_json::from_value::<Config>(changed.0);
        let config = config.map_err(|error| KeyError::Value { key: key.into(), reason: error.to_string() })?;
        *self = Self::of(&config);
        Ok(())
    }

    fn place(&mut self, key: &str) -> Result<&mut Value, KeyError> {
        let unknown = self.unknown(key);
        self.0.pointer_mut(&pointer(key)).ok_or(unknown)
    }

    fn unknown(&self, key: &str) -> KeyError {
        let known = self.keys();
        let nearest = nearest(key, known.iter().map(String::as_str)).unwrap_or_default().into();
        KeyError::Unknown { key: key.into(), nearest }
    }
}

/// Whether there is no `nan` or `inf` in it.
fn is_finite(value: &toml::Value) -> bool {
    match value {
        toml::Value::Float(number) => number.is_finite(),
        toml::Value::Array(items) => items.iter().all(is_finite),
        _ => true,
    }
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

fn keys(tree: &Value) -> Vec<String> {
    let Value::Object(entries) = tree else { return Vec::new() };
    let names = entries.iter().flat_map(|(name, entry)| match entry {
        Value::Object(_) => keys(entry).into_iter().map(|rest| format!("{name}.{rest}")).collect(),
        _ => vec![name.clone()],
    });
    names.collect()
}

/// `text` as the kind of value that `old` is; where there is none, as the first kind that it can be.
fn parse(text: &str, old: &Value) -> Value {
    let text = text.trim();
    let number = || {
        let whole = text.parse::<u64>().map(Value::from);
        whole.or_else(|_| text.parse::<f64>().map(Value::from)).ok().filter(|value| !value.is_null())
    };
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match (old, text) {
        (_, "none") => Value::Null,
        (Value::Array(_), _) => {
            let items = inner.unwrap_or(text).split(',').filter(|item| !item.trim().is_empty());
            Value::Array(items.map(|item| parse(item, &Value::Null)).collect())
        }
        (Value::String(_), _) => Value::from(text),
        (_, "true") => Value::from(true),
        (_, "false") => Value::from(false),
        _ => number().unwrap_or_else(|| Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;
    use crate::models::ModelSpec;
    use crate::posterior::PosteriorKind;

    fn tree() -> Tree {
        Tree::of(&Preset::MlpMnist.config())
    }

    fn overlay(text: &str) -> Result<Config, KeyError> {
        let mut tree = tree();
        tree.overlay(&toml::from_str(text).unwrap())?;
        tree.config()
    }

    #[test]
    fn texts_take_the_kind_of_the_value_that_they_replace() {
        let mut tree = tree();
        for (key, text) in [
            ("optim.lr", "3e-4"),
            ("optim.clip", "5"),
            ("model.sizes", "784, 10"),
            ("posterior.kind", "k-tied:2"),
            ("posterior.cap", "0.2"),
            ("posterior.conv", "none"),
            ("train.snr", "true"),
            ("train.steps", "12"),
            ("anneal.per_batch", "none"),
            ("data.set", "7"),
        ] {
            tree.set(key, text).unwrap();
        }
        let config = tree.config().unwrap();
        assert_eq!((config.optim.lr, config.optim.clip), (3e-4, Some(5.0)));
        assert!(matches!(config.model, ModelSpec::Mlp(spec) if spec.sizes == [784, 10]));
        assert_eq!((config.posterior.kind, config.posterior.cap), (PosteriorKind::KTied { rank: 2 }, Some(0.2)));
        assert_eq!((config.train.snr, config.train.steps, config.anneal.per_batch), (true, Some(12), None));
        assert_eq!(config.data.set, "7");
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let config =
            overlay("[posterior]\nkind = 'k-tied:3'\n[train]\nepochs = 7\n[anneal]\nper_batch = 'none'").unwrap();
        let mut expected = Preset::MlpMnist.config();
        (expected.posterior.kind, expected.train.epochs) = (PosteriorKind::KTied { rank: 3 }, 7);
        expected.anneal.per_batch = None;
        assert_eq!(config, expected);
    }

    #[test]
    fn another_kind_of_model_begins_with_its_own_defaults() {
        let config = overlay("[model]\nkernel = 3\nkind = 'lenet'\n").unwrap();
        assert!(matches!(config.model, ModelSpec::LeNet(spec) if spec.kernel == 3 && spec.dense == 512));
    }

    #[test]
    fn a_wrong_key_is_answered_with_the_nearest_right_one() {
        let unknown = |key: &str, nearest: &str| Err(KeyError::Unknown { key: key.into(), nearest: nearest.into() });
        assert_eq!(tree().set("optim.learning_rate", "1"), unknown("optim.learning_rate", "optim.lr"));
        assert_eq!(overlay("[trian]\nepochs = 1").map(drop), unknown("trian", "train.snr"));
        assert_eq!(overlay("[train]\nepoch = 1").map(drop), unknown("train.epoch", "train.epochs"));
    }

    #[test]
    fn a_wrong_value_is_answered_with_its_key() {
        let sentence = |result: Result<(), KeyError>| result.unwrap_err().to_string();
        let lr = sentence(tree().set("optim.lr", "fast"));
        assert!(lr.starts_with("optim.lr: invalid type: string \"fast\", expected f64"), "{lr}");
        let kind = sentence(tree().set("posterior.kind", "k-tied"));
        assert!(kind.starts_with("posterior.kind: posterior `k-tied` is unknown"), "{kind}");
        let steps = sentence(tree().set("train.epochs", "-3"));
        assert!(steps.starts_with("train.epochs: invalid"), "{steps}");
        assert_eq!(sentence(tree().set("train", "3")), "`train` must be one value, got a table");
        assert_eq!(overlay("train = 3").unwrap_err().to_string(), "`train` must be a table, got 3");
        let before = tree();
        let mut after = before.clone();
        assert!(after.overlay(&toml::from_str("[train]\nbatch = 3\nepochs = 'many'").unwrap()).is_err());
        assert_eq!(after, before, "a refused file changes nothing");
    }

    #[test]
    fn a_number_that_is_none_in_a_file_does_not_leave_its_key_unset() {
        for (text, found) in [("optim.clip = nan", "nan"), ("posterior.cap = inf", "inf"), ("optim.lr = -inf", "-inf")]
        {
            let sentence = overlay(text).unwrap_err().to_string();
            assert!(sentence.ends_with(&format!("must be finite, got {found}")), "{sentence}");
        }
        assert!(overlay("model.sizes = [784, nan]").unwrap_err().to_string().contains("must be finite"));
    }

    #[test]
    fn a_configuration_written_as_toml_reads_back_the_same() {
        for preset in Preset::ALL {
            let mut config = preset.config();
            for per_batch in [Some(1e-5), None] {
                config.anneal.per_batch = per_batch;
                let text = config.to_toml();
                assert_eq!(Config::from_toml(&text).as_ref(), Ok(&config), "{preset}\n{text}");
            }
        }
        assert!(Config::from_toml("[train]\nepochs = 3").is_err(), "a part is no whole");
    }
}
