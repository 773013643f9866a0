//! Version skew: controllers are upgraded first, sidecars after them.

use super::semver::compare;
use serde::Serialize;
use std::cmp::Ordering;

/// Skew of a version against that of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Skew {
    /// The same.
    Same,
    /// Older: features that it cannot enforce are denied to it, not left open.
    Older,
    /// Newer, which reverses the order of an upgrade.
    Newer,
    /// Different, in an unknown order.
    Other,
    /// One of the two is unknown.
    Unknown,
}

impl Skew {
    /// Skew of `version` against the `controller`'s.
    pub(crate) fn of(version: Option<&str>, controller: Option<&str>) -> Self {
        let (Some(version), Some(controller)) = (version, controller) else { return Self::Unknown };
        match compare(version, controller) {
            Some(Ordering::Equal) => Self::Same,
            Some(Ordering::Less) => Self::Older,
            Some(Ordering::Greater) => Self::Newer,
            None => Self::Other,
        }
    }

    /// Words that follow a version; empty if the skew needs no attention.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Same | Self::Unknown => "",
            Self::Older => "older than the controller",
            Self::Newer => "newer than the controller",
            Self::Other => "another than the controller's",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_older_newer_another_or_not_known() {
        let of = |version: &str| Skew::of(Some(version), Some("0.2.0"));
        assert_eq!(of("0.2.0"), Skew::Same);
        assert_eq!(of("0.1.9"), Skew::Older);
        assert_eq!(of("0.10.0"), Skew::Newer);
        assert_eq!(of("main"), Skew::Other);
        assert_eq!(Skew::of(None, Some("0.2.0")), Skew::Unknown);
        assert_eq!(Skew::of(Some("0.2.0"), None), Skew::Unknown);
    }
}
