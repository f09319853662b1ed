//! Numbers in JSON without loss: a double as a string, `inf` and `NaN` included.
//!
//! serde_json reads decimal fractions of 16 and more digits to within one unit in the last place only, and JSON has no
//! infinity. A loop that keeps numbers of its own in [`Header::state`](super::Header::state) and wants them back bit for
//! bit marks them:
//!
//! ```
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct LoopState {
//!     #[serde(with = "ktied::checkpoint::exact")]
//!     best: f64,
//! }
//! let text = serde_json::to_string(&LoopState { best: f64::INFINITY })?;
//! assert_eq!(text, r#"{"best":"inf"}"#);
//! assert_eq!(serde_json::from_str::<LoopState>(&text)?.best, f64::INFINITY);
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes the shortest decimal that reads back as the same number.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads what [`serialize`] wrote.
///
/// # Errors
/// If it is not a string that holds a number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| de::Error::custom(format!("`{text}` is not a number")))
}

#[cfg(test)]
mod tests {
    use serde_json::Deserializer;

    #[test]
    fn every_double_comes_back_bit_for_bit() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..10_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits);
            let mut text = Vec::new();
            super::serialize(&value, &mut serde_json::Serializer::new(&mut text)).unwrap();
            let back = super::deserialize(&mut Deserializer::from_slice(&text)).unwrap();
            assert!(back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan()), "{value}");
        }
    }
}
