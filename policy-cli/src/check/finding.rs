//! Findings, and questions left open.

use policy_crds::ObjectKey;
use policy_engine::source::Severity;

/// A question about an object that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undetermined {
    /// The object.
    pub object: ObjectKey,
    /// The question, and why it is open.
    pub message: String,
    /// True if it leaves open whether the object takes effect.
    pub(super) decides: bool,
}

/// A finding whose location has not been resolved.
pub(super) struct Finding {
    pub(super) object: ObjectKey,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) severity: Severity,
    /// True if it explains why an object takes part in no policy.
    pub(super) explains: bool,
}

impl Finding {
    pub(super) fn warning(object: &ObjectKey, field: String, message: String) -> Self {
        Self { object: object.clone(), field, message, severity: Severity::Warning, explains: true }
    }
}
