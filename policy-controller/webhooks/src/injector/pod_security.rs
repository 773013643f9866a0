//! Pod Security admission, which refuses the capabilities that injection adds.

use super::opt_in::NamespaceContext;
use policy_crds::FieldError;

/// The label with the level that a namespace enforces.
pub const ENFORCE_LABEL: &str = "pod-security.kubernetes.io/enforce";

/// Levels that forbid NET_ADMIN and NET_RAW
/// (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).
const REFUSING: [&str; 2] = ["baseline", "restricted"];

/// Returns why Pod Security refuses every pod of a namespace that has a sidecar, at the label that says so.
pub fn pod_security_refusal(context: &NamespaceContext) -> Option<FieldError> {
    let level = context.labels.get(ENFORCE_LABEL).filter(|it| REFUSING.contains(&it.as_str()))?;
    let message = format!(
        "namespace {} enforces Pod Security `{level}`, which refuses every injected pod: its init \
         container needs NET_ADMIN and NET_RAW",
        context.namespace
    );
    Some(FieldError { field: format!("metadata.labels[\"{ENFORCE_LABEL}\"]"), message })
}

/// Returns the same with what mends it.
pub fn pod_security_error(context: &NamespaceContext) -> Option<FieldError> {
    let FieldError { field, message } = pod_security_refusal(context)?;
    let message = format!("{message}; `{ENFORCE_LABEL}: privileged` admits it");
    Some(FieldError { field, message })
}
