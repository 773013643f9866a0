//! Suggestions ("did you mean") for mistyped names.

use strsim::osa_distance;

/// Returns the nearest of `known` to `name` if it is near enough for a typo: ignoring case, at most
/// a third of the letters differ. An inserted, omitted or replaced letter and a swap of two
/// neighbours count as one difference each.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer names are no typos, and the distance costs the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    known
        .iter()
        .map(|k| (osa_distance(&lower, &k.to_ascii_lowercase()), *k))
        .filter(|(d, k)| d.saturating_mul(3) <= k.chars().count().max(3))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Returns the nearest of `known` to `name` if at most `edits` letters differ, ignoring case.
pub fn nearest_within<'k>(name: &str, known: &[&'k str], edits: usize) -> Option<&'k str> {
    let near = nearest(name, known)?;
    let apart = osa_distance(&name.to_ascii_lowercase(), &near.to_ascii_lowercase());
    (apart <= edits).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["podSelector", "externalWorkloadSelector", "port", "proxyProtocol"];
        assert_eq!(nearest("podSelecter", &known), Some("podSelector"));
        assert_eq!(nearest("PROXYPROTOCOL", &known), Some("proxyProtocol"));
        assert_eq!(nearest("prot", &known), Some("port"), "a swap is one edit");
        assert_eq!(nearest("pot", &known), Some("port"));
        assert_eq!(nearest("porr", &known), Some("port"));
        assert_eq!(nearest("prto", &known), None, "a swap and a move");
        assert_eq!(nearest("pots", &known), None, "two edits of four letters");
        assert_eq!(nearest("ports", &known), Some("port"));
        assert_eq!(nearest("replicas", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
        assert_eq!(nearest_within("externalWorkSelector", &known, 2), None, "four letters");
        assert_eq!(nearest_within("podselecters", &known, 2), Some("podSelector"));
    }
}
