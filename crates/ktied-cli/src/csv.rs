//! Comma-separated values, as everybody reads them (RFC 4180).

use serde_json::Value;

/// A table that is being written.
#[derive(Debug)]
pub(crate) struct Csv {
    text: String,
}

impl Csv {
    pub(crate) fn new(heading: &[&str]) -> Self {
        let mut csv = Self { text: String::new() };
        csv.row(&heading.iter().map(|name| Value::from(*name)).collect::<Vec<_>>());
        csv
    }

    pub(crate) fn row(&mut self, cells: &[Value]) {
        let cells: Vec<String> = cells.iter().map(cell).collect();
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// A cell, quoted where it must be; what is not a number is empty.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut csv = Csv::new(&["name", "x"]);
        csv.row(&[json!("a,\"b\"\nc"), json!(0.1)]);
        csv.row(&[json!("plain"), json!(f64::NAN)]);
        assert_eq!(csv.finish(), "name,x\n\"a,\"\"b\"\"\nc\",0.1\nplain,\n");
    }
}
