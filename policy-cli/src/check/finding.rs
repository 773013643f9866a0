//! What is found, and what cannot be said.

use policy_crds::ObjectKey;
use policy_engine::source::Severity;

/// Something that cannot be said of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undetermined {
    /// The object.
    pub object: ObjectKey,
    /// What cannot be said, and why.
    pub message: String,
    /// Whether it leaves open what the object has in force.
    pub(super) decides: bool,
}

/// A finding before its place has been looked up.
pub(super) struct Finding {
    pub(super) object: ObjectKey,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) severity: Severity,
    /// Whether it explains why an object would take part in nothing.
    pub(super) explains: bool,
}

impl Finding {
    pub(super) fn warning(object: &ObjectKey, field: String, message: String) -> Self {
        Self { object: object.clone(), field, message, severity: Severity::Warning, explains: true }
    }
}
