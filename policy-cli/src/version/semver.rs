//! Comparison of versions.

use std::cmp::Ordering;

/// Numeric version, and whether it is a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SemanticVersion {
    numbers: [u64; 3],
    /// True for a release, which sorts after its pre-releases (Semantic Versioning, section 11).
    released: bool,
}

/// Compares two versions. Returns `None` if one of them is not numeric, or if they differ only in
/// parts without an order.
pub(super) fn compare(one: &str, other: &str) -> Option<Ordering> {
    if one == other {
        return Some(Ordering::Equal);
    }
    let order = read(one)?.cmp(&read(other)?);
    (order != Ordering::Equal).then_some(order)
}

fn read(text: &str) -> Option<SemanticVersion> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split_once('+').map_or(text, |(version, _build)| version);
    let (numbers, released) = match text.split_once('-') {
        Some((numbers, _before)) => (numbers, false),
        None => (text, true),
    };
    let mut parts = numbers.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(SemanticVersion { numbers, released })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers_and_words_are_not() {
        for (one, other, order) in [
            ("0.1.0", "0.1.0", Some(Ordering::Equal)),
            ("0.9.0", "0.10.0", Some(Ordering::Less)),
            ("v1.2.3", "1.2.2", Some(Ordering::Greater)),
            ("1.0.0-rc1", "1.0.0", Some(Ordering::Less)),
            ("1.0.0-rc1", "1.0.0-rc2", None),
            ("main", "main", Some(Ordering::Equal)),
            ("main", "0.1.0", None),
            ("1.0", "1.0.0", None),
            ("1.0.0.1", "1.0.0", None),
        ] {
            assert_eq!(compare(one, other), order, "{one} {other}");
        }
    }
}
