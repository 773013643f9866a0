//! Result of a check.

use super::check::Check;
use super::fetch::FetchError;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckOutcome {
    /// It works.
    Pass,
    /// It works, perhaps not for long or not as intended.
    Warn,
    /// It does not work.
    Fail,
    /// It could not be checked.
    Unknown,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckResult {
    /// The check.
    pub(crate) check: Check,
    /// Its outcome.
    pub(crate) outcome: CheckOutcome,
    /// Details.
    pub(crate) message: String,
    /// Hint for mending it.
    pub(crate) hint: Option<String>,
}

impl CheckResult {
    /// A passed check.
    pub(crate) fn pass(check: Check, message: impl Into<String>) -> Self {
        Self { check, outcome: CheckOutcome::Pass, message: message.into(), hint: None }
    }

    /// A warning.
    pub(crate) fn warn(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (message.into(), Some(hint.into()));
        Self { check, outcome: CheckOutcome::Warn, message, hint }
    }

    /// A failure.
    pub(crate) fn fail(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Fail, ..Self::warn(check, message, hint) }
    }

    /// A check that could not run.
    pub(crate) fn unknown(check: Check, error: &FetchError) -> Self {
        Self {
            check,
            outcome: CheckOutcome::Unknown,
            message: format!("not known: {}", error.message()),
            hint: error.hint(),
        }
    }
}

/// The first names of a list, and the number of the others.
pub(crate) fn abbreviated(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Outcomes and messages for comparison.
    pub(crate) fn summaries(findings: &[CheckResult]) -> Vec<(CheckOutcome, &str)> {
        findings.iter().map(|finding| (finding.outcome, finding.message.as_str())).collect()
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        assert_eq!(abbreviated(&names), "0, 1, 2, 3, 4 and 2 more");
        assert_eq!(abbreviated(&names[..2]), "0, 1");
    }
}
