//! The known name that a mistyped one probably meant.

/// The nearest of `known` to `name`, if it is near enough to be a slip of the hand: without case,
/// at most a third of the letters differ.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer names are no slip, and the distance costs the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    known
        .iter()
        .map(|k| (distance(&lower, &k.to_ascii_lowercase()), *k))
        .filter(|(d, k)| d.saturating_mul(3) <= k.chars().count().max(3))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Edits (insert, delete, replace) between two texts.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (cb, above) in b.iter().zip(row.iter().skip(1)) {
            let replace = diagonal.saturating_add(usize::from(ca != *cb));
            left = replace.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["podSelector", "externalWorkloadSelector", "port", "proxyProtocol"];
        assert_eq!(nearest("podSelecter", &known), Some("podSelector"));
        assert_eq!(nearest("PROXYPROTOCOL", &known), Some("proxyProtocol"));
        assert_eq!(nearest("prot", &known), None, "two edits of four letters");
        assert_eq!(nearest("ports", &known), Some("port"));
        assert_eq!(nearest("replicas", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
