//! The known name that a mistyped one probably meant.

/// The name with the fewest insertions, deletions and replacements from `found`; the first of equals.
///
/// ```
/// use ktied::nearest::nearest;
/// assert_eq!(nearest("model.kernal", ["model.kind", "model.kernel"]), Some("model.kernel"));
/// ```
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by_key(|name| distance(found, name))
}

/// Levenshtein's distance, one row of his table at a time.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut left = i + 1;
        let mut diagonal = std::mem::replace(&mut row[0], left);
        for (above, b) in row.iter_mut().skip(1).zip(&to) {
            left = (diagonal + usize::from(a != *b)).min(*above + 1).min(left + 1);
            diagonal = std::mem::replace(above, left);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_the_known_ones() {
        for (from, to, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("µσ", "μσ", 1),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
            assert_eq!(distance(to, from), edits, "{to} {from}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
