//! What else is in the folder of a run: its log, its evaluation, its configuration.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::case::{Case, Expect, Use, case, flipped, truncated};

const LOG: &str = "run/events.jsonl";
const EVALUATION: &str = "run/evaluation/test.json";
const CONFIG: &str = "run/config.toml";

/// What a number may be replaced by.
fn lies() -> Vec<Value> {
    let numbers = [json!(0), json!(-1), json!(u64::MAX), json!(f64::MAX), json!(-f64::MAX), json!(5e-324), json!(0.3)];
    let others = [json!(null), json!(true), json!("</script><b>"), json!([]), json!([[[0]]]), json!({"value": []})];
    numbers.into_iter().chain(others).collect()
}

/// Where in a document there is something.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found))
        }
        // The items of a list are alike.
        Value::Array(items) => {
            items.iter().take(2).enumerate().for_each(|(i, value)| places(value, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

/// The document with each place replaced by each lie.
fn changed(document: &Value) -> Vec<(String, Value)> {
    let mut found = vec![];
    places(document, "", &mut found);
    let with = |place: &String, lie: Value| {
        let mut changed = document.clone();
        let name = format!("{place} := {lie}");
        *changed.pointer_mut(place).expect("a place") = lie;
        (name, changed)
    };
    found.iter().flat_map(|place| lies().into_iter().map(move |lie| with(place, lie))).collect()
}

pub fn logs(trained: &str) -> Vec<Case> {
    let good = fs::read_to_string(Path::new(trained).join("events.jsonl")).expect("a log");
    let accepted = |name: &str, text: String| case(format!("log {name}"), LOG, text.into_bytes(), Expect::Accepted);
    let step = |step| format!("{{\"event\":\"train\",\"step\":{step},\"epoch\":{step},\"nll\":1e{}}}\n", step % 300);
    let mut cases = vec![accepted("whole", good.clone())];
    cases.extend(truncated(LOG, good.as_bytes(), Expect::Accepted).into_iter().step_by(11));
    cases.extend(flipped(LOG, good.as_bytes(), good.len(), Expect::Accepted).into_iter().step_by(31));
    for (number, line) in good.lines().enumerate() {
        let event: Value = serde_json::from_str(line).expect("an event");
        for (place, changed) in changed(&event) {
            let lines = good.lines().enumerate();
            let text: String =
                lines.map(|(i, line)| if i == number { format!("{changed}\n") } else { format!("{line}\n") }).collect();
            cases.push(accepted(&format!("line {number} {place}"), text));
        }
    }
    cases.extend([
        accepted("of nothing", String::new()),
        accepted("of NUL", "\0".repeat(1 << 20)),
        accepted("in an abyss", "[".repeat(1 << 20)),
        accepted("of steps that go back", good.lines().rev().map(|line| format!("{line}\n")).collect()),
        accepted("of twenty thousand steps", (0..20_000).map(step).collect()),
        case("log of no UTF-8", LOG, vec![0xff; 300], Expect::Accepted),
        case("log of a terabyte", LOG, good.into_bytes(), Expect::Refused(2, "2147483648")).with_len(1 << 40),
    ]);
    read_by_both(cases)
}

pub fn evaluations(evaluated: &str) -> Vec<Case> {
    let good = fs::read_to_string(Path::new(evaluated).join("evaluation/test.json")).expect("an evaluation");
    let document: Value = serde_json::from_str(&good).expect("JSON");
    let either = Expect::Either(2);
    let text = |name: &str, text: String| case(format!("evaluation {name}"), EVALUATION, text.into_bytes(), either);
    let mut cases = vec![case("evaluation whole", EVALUATION, good.clone().into_bytes(), Expect::Accepted)];
    cases.extend(truncated(EVALUATION, good.as_bytes(), either).into_iter().step_by(101));
    cases.extend(flipped(EVALUATION, good.as_bytes(), good.len(), either).into_iter().step_by(307));
    cases.extend(changed(&document).into_iter().map(|(place, changed)| text(&place, changed.to_string())));
    let mut many = document;
    [0, 1].into_iter().for_each(|bin| many["curves"]["reliability"][bin]["count"] = json!(u64::MAX));
    cases.extend([
        text("of counts that overflow", many.to_string()),
        text("of nothing", String::new()),
        text("in an abyss", "[".repeat(1 << 20)),
        case("evaluation of no UTF-8", EVALUATION, vec![0xff; 300], either),
        case("evaluation of a terabyte", EVALUATION, good.into_bytes(), either).with_len(1 << 40),
    ]);
    read_by_both(cases)
}

pub fn configurations(trained: &str) -> Vec<Case> {
    let good = fs::read(Path::new(trained).join("config.toml")).expect("a configuration");
    let mut cases = vec![case("configuration of a run whole", CONFIG, good.clone(), Expect::Accepted)];
    cases.extend(truncated(CONFIG, &good, Expect::Either(2)).into_iter().step_by(7));
    cases.extend(flipped(CONFIG, &good, good.len(), Expect::Either(2)).into_iter().step_by(13));
    cases.push(
        case("configuration of a run of a terabyte", CONFIG, good, Expect::Refused(2, "1048576")).with_len(1 << 40),
    );
    let inspected = |case: Case| case.used(Use::Inspect);
    cases.into_iter().map(inspected).collect()
}

/// All of them by `report`, and by `export`.
fn read_by_both(cases: Vec<Case>) -> Vec<Case> {
    let by = |used| cases.iter().cloned().map(move |case| case.used(used));
    by(Use::Report).chain(by(Use::Export)).collect()
}
