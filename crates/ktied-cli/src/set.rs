//! `--set key=value`: replaces one value of a configuration by its dotted name.

use ktied::nearest::nearest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::Failure;

/// `config` with each `key=value` put in, in their order.
///
/// A value is read as the kind of the one that it replaces: a whole number, a list of them (`784,400,10`), or a text.
/// The `fixed` keys may be named, but keep their value.
///
/// # Errors
/// [`Failure::Usage`], naming the key, what was expected and what was found.
pub(crate) fn apply<C>(config: &C, assignments: &[String], fixed: &[&str]) -> Result<C, Failure>
where
    C: Serialize + DeserializeOwned,
{
    let mut tree = serde_json::to_value(config).map_err(|error| Failure::Usage(error.to_string()))?;
    for assignment in assignments {
        let (key, text) = split(assignment)?;
        let known = keys(&tree);
        let place = tree.pointer_mut(&pointer(key)).filter(|_| known.iter().any(|name| name == key));
        let place = place.ok_or_else(|| unknown(key, &known))?;
        let value = parse(key, text, place)?;
        if fixed.contains(&key) && value != *place {
            return Err(bad(key, &format!("{place} (it cannot be changed)"), text));
        }
        *place = value;
        // Now and not at the end, so that the message can name the key.
        C::deserialize(&tree).map_err(|error| Failure::Usage(format!("--set {assignment}: {error}")))?;
    }
    C::deserialize(&tree).map_err(|error| Failure::Usage(error.to_string()))
}

fn split(assignment: &str) -> Result<(&str, &str), Failure> {
    let split = assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    split.ok_or_else(|| Failure::Usage(format!("--set expected key=value, found `{assignment}`")))
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

/// The dotted names of all values, at any depth.
fn keys(tree: &Value) -> Vec<String> {
    let Value::Object(entries) = tree else { return Vec::new() };
    let names = entries.iter().flat_map(|(name, entry)| match entry {
        Value::Object(_) => keys(entry).into_iter().map(|rest| format!("{name}.{rest}")).collect(),
        _ => vec![name.clone()],
    });
    names.collect()
}

/// `text` as the kind of value that `old` is.
fn parse(key: &str, text: &str, old: &Value) -> Result<Value, Failure> {
    let whole = |text: &str| text.trim().parse::<u64>().map(Value::from);
    match old {
        Value::Number(_) => whole(text).map_err(|_| bad(key, "a whole number", text)),
        Value::Array(_) => {
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
            let values = inner.split(',').map(whole).collect::<Result<_, _>>().map(Value::Array);
            values.map_err(|_| bad(key, "whole numbers with commas between them", text))
        }
        _ => Ok(Value::from(text)),
    }
}

fn bad(key: &str, expected: &str, found: &str) -> Failure {
    Failure::Usage(format!("--set {key}: expected {expected}, found `{found}`"))
}

fn unknown(key: &str, known: &[String]) -> Failure {
    let nearest = nearest(key, known.iter().map(String::as_str)).unwrap_or_default();
    let known = known.join(", ");
    Failure::Usage(format!("--set {key}: there is no such key; did you mean `{nearest}`? There are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(assignments: &[&str]) -> Result<Value, String> {
        let config = json!({ "model": { "kind": "mlp", "kernel": 5, "sizes": [2, 3] }, "posterior": { "conv": null } });
        let assignments: Vec<String> = assignments.iter().map(|text| (*text).into()).collect();
        apply(&config, &assignments, &["model.kind"]).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_value_takes_the_kind_of_the_one_it_replaces_and_the_last_one_counts() {
        let tree = set(&["model.kernel=7", "model.sizes=4, 5,6", "posterior.conv=k-tied:2", "model.kernel=3"]).unwrap();
        assert_eq!(tree["model"], json!({ "kind": "mlp", "kernel": 3, "sizes": [4, 5, 6] }));
        assert_eq!(tree["posterior"]["conv"], "k-tied:2");
        assert_eq!(set(&["model.sizes=[8]", "model.kind=mlp"]).unwrap()["model"]["sizes"], json!([8]));
    }

    #[test]
    fn a_mistake_is_answered_with_the_key_what_was_expected_and_what_was_found() {
        for (assignment, message) in [
            ("model.kernel", "--set expected key=value, found `model.kernel`"),
            ("model.kernel=-1", "--set model.kernel: expected a whole number, found `-1`"),
            ("model.sizes=2,,3", "--set model.sizes: expected whole numbers with commas between them, found `2,,3`"),
            ("model.kind=lenet", "--set model.kind: expected \"mlp\" (it cannot be changed), found `lenet`"),
        ] {
            assert_eq!(set(&[assignment]), Err(message.into()));
        }
        for key in ["kernel", "model.kernal", "model/kernel", "model.kernel.size"] {
            let error = set(&[&format!("{key}=3")]).unwrap_err();
            assert!(error.contains("there is no such key; did you mean `model.kernel`?"), "{error}");
        }
        assert!(set(&["model=3"]).unwrap_err().contains("there is no such key"));
    }
}
