//! The known name that a mistyped one probably meant.

/// The name with the fewest insertions and deletions from `found`; the first of equals. Another letter is one of each, so that
/// what leaves letters out, or adds some, is nearer than what has others.
///
/// ```
/// use ktied::nearest::nearest;
/// assert_eq!(nearest("model.kernal", ["model.kind", "model.kernel"]), Some("model.kernel"));
/// assert_eq!(nearest("optim.learning_rate", ["optim.drop_after", "optim.lr"]), Some("optim.lr"));
/// ```
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().min_by_key(|name| distance(found, name))
}

/// Letters to take away and to put in, one row of the table of all beginnings at a time.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut left = i + 1;
        let mut diagonal = std::mem::replace(&mut row[0], left);
        for (above, b) in row.iter_mut().skip(1).zip(&to) {
            left = (diagonal + 2 * usize::from(a != *b)).min(*above + 1).min(left + 1);
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
            ("kitten", "sitting", 5),
            ("flaw", "lawn", 2),
            ("µσ", "μσ", 2),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
            assert_eq!(distance(to, from), edits, "{to} {from}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
