//! The names of fields, and their bounds.

/// The fields of the spec.
pub(super) const SPEC: &[&str] = &["targetRef", "rules", "failure"];
/// The fields of a rule.
pub(super) const RULE: &[&str] = &["match", "clear", "set", "add"];
/// The fields of a rule that change something.
pub(super) const CHANGES: &[&str] = &["clear", "set", "add"];

/// The most rules, and headers in one field of a rule.
pub(super) const MAX_RULES: usize = 16;
pub(super) const MAX_HEADERS: usize = 16;
