//! Validation errors of objects in a cluster. For manifests, the file reader reports them.

use super::context::CheckContext;
use super::finding::Finding;
use policy_crds::{Body, Kind};
use policy_engine::annotation_errors;
use policy_engine::source::Severity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns validation errors, and annotations that cannot be parsed.
pub(super) fn findings(context: &CheckContext<'_>) -> Vec<Finding> {
    let objects = context.compiled.objects.iter().flat_map(|object| {
        let errors = match &object.body {
            Body::Valid(_) => annotation_errors(object),
            Body::Invalid(invalid) => invalid.errors.clone(),
        };
        let finding = |error: policy_crds::FieldError| Finding {
            object: object.meta.key.clone(),
            field: error.field,
            message: error.message,
            severity: Severity::Error,
            explains: true,
        };
        errors.into_iter().map(finding)
    });
    objects.collect()
}

/// Returns the findings, with equal findings on several pods of a namespace merged into one.
pub(super) fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut seen: BTreeMap<(Arc<str>, String, String), usize> = BTreeMap::new();
    let key = |finding: &Finding| {
        (finding.object.namespace.clone(), finding.field.clone(), finding.message.clone())
    };
    let is_pod = |finding: &Finding| finding.object.kind == Kind::Pod;
    for finding in findings.iter().filter(|finding| is_pod(finding)) {
        let count = seen.entry(key(finding)).or_default();
        *count = count.saturating_add(1);
    }
    let mut kept = Vec::new();
    for mut finding in findings {
        if is_pod(&finding) {
            // The first pod removes the entry, so that the others find none.
            let Some(count) = seen.remove(&key(&finding)) else { continue };
            if let more @ 1.. = count.saturating_sub(1) {
                finding.message = format!("{} (and {more} more pods)", finding.message);
            }
        }
        kept.push(finding);
    }
    kept
}
