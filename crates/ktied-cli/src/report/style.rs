//! Style and script of the page, and the policy that lets these and nothing else in.

use crate::picture::{base64, rules};

/// What the page can do: say values, hide runs, open everything for the printer.
pub(super) const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The whole style: our own, then the colours of pictures.
pub(super) fn style() -> String {
    format!("{STYLE}{}", rules())
}

/// A content-security policy under which the page can ask nobody for anything: this style and this script, by their
/// digests, and images that are in the page itself.
pub(super) fn policy(style: &str) -> String {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(style),
        digest(SCRIPT)
    )
}

/// `sha256-` and the digest in base 64.
fn digest(text: &str) -> String {
    let hex = ktied::data::digest::sha256(text.as_bytes());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("0"), 16).unwrap_or(0);
    let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(byte).collect();
    format!("sha256-{}", base64(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification, Content Security Policy Level 3, section 8.3 has the same form; the value is
    /// what `printf "alert('Hello, world.');" | openssl dgst -sha256 -binary | base64` says.
    #[test]
    fn digests_are_those_that_browsers_compute() {
        assert_eq!(digest("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
    }

    #[test]
    fn the_policy_lets_nothing_in_but_the_page_itself() {
        let policy = policy("a{}");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe") && !policy.contains("http"));
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</script"), "names stay text");
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains("</style"));
    }

    /// Contrast of text and of lines against every background that they stand on (WCAG 2.2, 1.4.3 and 1.4.11).
    #[test]
    fn colours_have_the_contrast_that_people_need() {
        for scheme in ["light", "dark"] {
            let colour = |name: &str| variable(scheme, name);
            for ground in ["ground", "raised"] {
                for text in ["text", "quiet", "link", "good", "bad"] {
                    let found = contrast(colour(text), colour(ground));
                    assert!(found >= 4.5, "{scheme}: --{text} on --{ground} has {found:.2}");
                }
                for index in 0..7 {
                    let found = contrast(colour(&format!("series-{index}")), colour(ground));
                    assert!(found >= 3.0, "{scheme}: --series-{index} on --{ground} has {found:.2}");
                }
            }
        }
    }

    /// The value of a custom property in the first (light) or second (dark) block that sets it.
    fn variable(scheme: &str, name: &str) -> [f64; 3] {
        let place = if scheme == "light" { 0 } else { 1 };
        let value = STYLE.split(&format!("--{name}:")).nth(place + 1).unwrap_or_else(|| panic!("--{name}, {scheme}"));
        let hex = value.trim().strip_prefix('#').expect("a colour");
        [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")) / 255.0)
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        let light = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }
}
