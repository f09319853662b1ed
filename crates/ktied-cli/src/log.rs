//! `events.jsonl` as it is read: whatever its lines hold, and what of them cannot be read.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use ktied::files;
use ktied::train::MAX_LOG_BYTES;
use serde_json::Value;

use crate::exit::Failure;

/// Longest document about a run that is read: an evaluation, a compression, a pruning.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// The name of the log in a run's folder.
pub(crate) const FILE: &str = "events.jsonl";

/// The lines of a log, in the order of their steps.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: Vec<Value>,
    /// Numbers of the lines that are no JSON objects with a step, from 1.
    pub(crate) unreadable: Vec<usize>,
    /// Whether there is no such file.
    pub(crate) is_missing: bool,
}

impl Log {
    /// Reads the log of a run's folder; one that is not there is empty.
    ///
    /// # Errors
    /// If the file system refuses.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let failed = |error: std::io::Error| Failure::from(ktied::Error::read(&path, &error));
        let file = match files::open_within(&path, MAX_LOG_BYTES) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { is_missing: true, ..Self::default() });
            }
            Err(error) => return Err(failed(error)),
        };
        let mut log = Self::default();
        for (number, line) in (1..).zip(BufReader::new(file).split(b'\n')) {
            let line = line.map_err(failed)?;
            match serde_json::from_slice::<Value>(&line) {
                Ok(event) if event.get("step").is_some_and(Value::is_u64) => log.events.push(event),
                _ if line.iter().all(u8::is_ascii_whitespace) => {}
                _ => log.unreadable.push(number),
            }
        }
        log.events.sort_by_key(step);
        Ok(log)
    }

    /// All events.
    pub(crate) fn events(&self) -> &[Value] {
        &self.events
    }

    /// The events of one kind.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event.get("event").and_then(Value::as_str) == Some(kind))
    }

    /// A number of each event of a kind that has it, over steps; NaN where it was not finite, which JSON writes as null.
    pub(crate) fn series(&self, kind: &str, pointer: &str) -> Vec<(f64, f64)> {
        let of = |event: &Value| Some((step(event) as f64, number(event.pointer(pointer)?)));
        self.of(kind).filter_map(of).collect()
    }

    /// Seconds of training, from the speed that each line notes; none if no line does.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let (mut sum, mut before) = (0.0, 0);
        let mut is_known = false;
        for event in self.of("train") {
            let speed = event.get("steps_per_second").map_or(f64::NAN, number);
            if speed > 0.0 && speed.is_finite() {
                sum += step(event).saturating_sub(before) as f64 / speed;
                is_known = true;
            }
            before = step(event);
        }
        is_known.then_some(sum)
    }

    /// The last step that any event names.
    pub(crate) fn last_step(&self) -> Option<u64> {
        self.events.last().map(step)
    }

    /// Steps of an epoch, from a line that has both.
    pub(crate) fn steps_per_epoch(&self) -> Option<u64> {
        let of = |event: &Value| {
            let epoch = number(event.get("epoch")?);
            (epoch > 0.0).then(|| (step(event) as f64 / epoch).round() as u64)
        };
        self.of("train").find_map(of)
    }
}

/// The step of an event.
pub(crate) fn step(event: &Value) -> u64 {
    event.get("step").and_then(Value::as_u64).unwrap_or(0)
}

/// A number, or NaN.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, text: &str) -> Log {
        let folder = std::env::temp_dir().join(format!("ktied-log-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(FILE), text).expect("a file");
        let log = Log::read(&folder).expect("can be read");
        std::fs::remove_dir_all(folder).expect("removed");
        log
    }

    #[test]
    fn lines_that_are_no_events_are_counted_and_the_others_read() {
        let text = "{\"event\":\"train\",\"step\":2,\"nll\":null,\"steps_per_second\":4}\n\n{\"step\": NaN}\nnonsense\n\
                    {\"event\":\"train\",\"step\":1,\"nll\":0.5,\"steps_per_second\":0.5}\n{\"event\":\"tr";
        let log = log("odd", text);
        assert_eq!(log.unreadable, [3, 4, 6]);
        let nll = log.series("train", "/nll");
        assert!(nll.len() == 2 && nll[0] == (1.0, 0.5) && nll[1].0 == 2.0 && nll[1].1.is_nan(), "{nll:?}");
        assert_eq!(log.seconds(), Some(2.0 + 0.25));
        assert_eq!(log.last_step(), Some(2));
    }

    #[test]
    fn a_log_that_is_not_there_is_empty() {
        let log = Log::read(Path::new("no such folder")).expect("no failure");
        assert!(log.is_missing && log.events().is_empty() && log.seconds().is_none());
    }
}
