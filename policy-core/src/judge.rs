//! What one predicate says about one request: yes, no, or that it cannot be told.
//!
//! The evaluators share the words. How answers are joined is the fast one's; the naive one joins them
//! itself.

/// The answer of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It matches.
    Matches,
    /// It does not.
    Differs,
    /// Some lines of a repeated header or parameter match and some do not, or a value cannot be
    /// read. Denies.
    CannotTell,
}

impl Judgement {
    /// Joins two conditions that must both match: a plain no outweighs what cannot be told.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differs, _) | (_, Self::Differs) => Self::Differs,
            (Self::CannotTell, _) | (_, Self::CannotTell) => Self::CannotTell,
            (Self::Matches, Self::Matches) => Self::Matches,
        }
    }

    /// `Matches` or `Differs`.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Matches } else { Self::Differs }
    }

    /// Joins the answers of the lines of one header: all, none, or mixed. No lines: `Differs`.
    pub fn over_lines(lines: impl Iterator<Item = Self>) -> Self {
        let mut joined = None;
        for line in lines {
            joined = match joined {
                None => Some(line),
                Some(before) if before == line => joined,
                Some(_) => Some(Self::CannotTell),
            };
        }
        joined.unwrap_or(Self::Differs)
    }
}

/// Whether a header value has bytes outside visible ASCII, space and tab (`obs-text` and controls,
/// RFC 9110 section 5.5). Such a value has no agreed reading as text.
pub fn has_ambiguous_bytes(value: &[u8]) -> bool {
    value.iter().any(|byte| !matches!(byte, b'\t' | 0x20..=0x7e))
}
