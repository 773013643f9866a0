//! Outbound policy of Linkerd's kinds that has no effect.

use super::finding::Finding;
use crate::diagnostics::outbound_policy::OutboundPolicy;
use policy_crds::{Body, Object};
use policy_engine::source::Severity;

/// Returns one warning for each object that states outbound policy. Invalid objects have more important
/// errors.
pub(super) fn findings<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<Finding> {
    let valid = objects.filter(|object| matches!(object.body, Body::Valid(_)));
    let findings = valid.filter_map(|object| {
        let policy = OutboundPolicy::of(object)?;
        Some(Finding {
            object: object.meta.key.clone(),
            message: policy.message(),
            field: policy.field,
            severity: Severity::Warning,
            explains: false,
        })
    });
    findings.collect()
}
