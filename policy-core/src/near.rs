//! The known name that a mistyped one probably meant.

/// The nearest of `known` to `name`, if it is near enough to be a slip of the hand: without case,
/// at most a third of the letters differ.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
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

/// The nearest of `known` to `name`, if at most `edits` letters differ, without case.
pub fn nearest_within<'k>(name: &str, known: &[&'k str], edits: usize) -> Option<&'k str> {
    let near = nearest(name, known)?;
    let apart = distance(&name.to_ascii_lowercase(), &near.to_ascii_lowercase());
    (apart <= edits).then_some(near)
}

/// Edits (insert, delete, replace, swap of two neighbours) between two texts.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for (j, cb) in b.iter().enumerate() {
            let cost = |row: &[usize], at: usize, more: usize| {
                row.get(at).map_or(usize::MAX, |d| d.saturating_add(more))
            };
            let replaced = cost(&row, j, usize::from(ca != cb));
            let inserted = cost(&next, j, 1);
            let deleted = cost(&row, j.saturating_add(1), 1);
            let (earlier_a, earlier_b) = (i.checked_sub(1), j.checked_sub(1));
            let swapped = earlier_a.and_then(|i| a.get(i)) == Some(cb)
                && earlier_b.and_then(|j| b.get(j)) == Some(ca);
            let swap = earlier_b.filter(|_| swapped).map_or(usize::MAX, |j| cost(&before, j, 1));
            next.push(replaced.min(inserted).min(deleted).min(swap));
        }
        before = std::mem::replace(&mut row, next);
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
        assert_eq!(nearest("prot", &known), Some("port"));
        assert_eq!(nearest("pots", &known), None, "two edits of four letters");
        assert_eq!(nearest("ports", &known), Some("port"));
        assert_eq!(nearest("replicas", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
        assert_eq!(nearest_within("externalWorkSelector", &known, 2), None, "four letters");
        assert_eq!(nearest_within("podselecters", &known, 2), Some("podSelector"));
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("spec", "sepc"), 1);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
