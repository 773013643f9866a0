//! The result of a predicate over a request: match, no match, or indeterminate.
//!
//! Both evaluators use this type. Only the fast one combines results by its methods; the naive one
//! combines them itself.

/// The result of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// It matches.
    Match,
    /// It does not.
    NoMatch,
    /// Some lines of a repeated header or parameter match and some do not, or a value cannot be
    /// read. Denies.
    Indeterminate,
}

impl MatchResult {
    /// Combines two predicates that must both match: `NoMatch` outweighs `Indeterminate`.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoMatch, _) | (_, Self::NoMatch) => Self::NoMatch,
            (Self::Indeterminate, _) | (_, Self::Indeterminate) => Self::Indeterminate,
            (Self::Match, Self::Match) => Self::Match,
        }
    }

    /// `Match` or `NoMatch`.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Match } else { Self::NoMatch }
    }

    /// Combines the results of the lines of one header: all, none, or mixed. No lines: `NoMatch`.
    pub fn over_lines(lines: impl Iterator<Item = Self>) -> Self {
        let mut joined = None;
        for line in lines {
            joined = match joined {
                None => Some(line),
                Some(before) if before == line => joined,
                Some(_) => Some(Self::Indeterminate),
            };
        }
        joined.unwrap_or(Self::NoMatch)
    }
}

/// Returns true if a header value has bytes outside visible ASCII, space and tab (`obs-text` and
/// controls, RFC 9110 section 5.5). Such a value has no agreed reading as text.
pub fn has_ambiguous_bytes(value: &[u8]) -> bool {
    value.iter().any(|byte| !matches!(byte, b'\t' | 0x20..=0x7e))
}
