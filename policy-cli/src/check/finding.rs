//! What is found, and what cannot be said.

use policy_crds::ObjectKey;
use policy_engine::source::Severity;

/// Something that cannot be said of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The object.
    pub object: ObjectKey,
    /// What cannot be said, and why.
    pub message: String,
}

/// A finding before its place has been looked up.
pub(super) struct Finding {
    pub(super) object: ObjectKey,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) severity: Severity,
}

impl Finding {
    pub(super) fn warning(object: &ObjectKey, field: String, message: String) -> Self {
        Self { object: object.clone(), field, message, severity: Severity::Warning }
    }
}
