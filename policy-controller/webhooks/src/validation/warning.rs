//! Formats warnings as the API server forwards them: short and few.

use policy_crds::FieldError;

/// Maximum length of a warning in characters. The API server recommends at most 120 and truncates
/// longer ones if the total is too large.
const MAX_LENGTH: usize = 240;

/// Maximum number of warnings of a response.
const MAX_WARNINGS: usize = 10;

/// Warning of a review that was not checked against the index.
pub(crate) const UNCHECKED: &str =
    "references and selectors were not checked: the controller is still listing objects, or busy";

/// Returns the warnings to send: findings of the index first, then the remarks on other fields.
pub(crate) fn warnings(found: &[FieldError], remarks: &[FieldError], checked: bool) -> Vec<String> {
    let is_new = |remark: &&FieldError| !found.iter().any(|other| other.field == remark.field);
    let mut all: Vec<String> = Vec::new();
    for finding in found.iter().chain(remarks.iter().filter(is_new)) {
        let line = one_line(&finding.to_string());
        if !all.contains(&line) {
            all.push(line);
        }
    }
    let room = MAX_WARNINGS.saturating_sub(usize::from(!checked));
    if all.len() > room {
        let kept = room.saturating_sub(1);
        let left_out = all.len().saturating_sub(kept);
        all.truncate(kept);
        all.push(format!("{left_out} more warnings, which `portcullis check` shows"));
    }
    if !checked {
        all.push(UNCHECKED.to_owned());
    }
    all
}

/// Makes a warning fit for an HTTP header: no control characters, limited length.
fn one_line(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = clean.take(MAX_LENGTH).collect();
    if text.chars().nth(MAX_LENGTH).is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(field: &str, message: &str) -> FieldError {
        FieldError { field: field.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn a_remark_about_what_was_found_already_is_left_out() {
        let found =
            [finding("spec.port", "a"), finding("spec.port", "b"), finding("spec.port", "a")];
        let remarks = [finding("spec.port", "c"), finding("spec", "d")];
        assert_eq!(warnings(&found, &remarks, true), ["spec.port: a", "spec.port: b", "spec: d"]);
    }

    #[test]
    fn warnings_are_few_short_and_of_one_line() {
        let many: Vec<FieldError> =
            (0..30).map(|i| finding(&format!("spec.rules[{i}]"), &"long\n".repeat(100))).collect();
        let shown = warnings(&many, &[], false);
        assert_eq!(shown.len(), 10);
        assert_eq!(shown[8], "22 more warnings, which `portcullis check` shows");
        assert_eq!(shown[9], UNCHECKED);
        for warning in &shown {
            assert!(warning.chars().count() <= MAX_LENGTH && !warning.contains('\n'), "{warning}");
        }
        assert!(shown[0].ends_with('…'));
    }
}
