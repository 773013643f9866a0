//! Remarks on valid manifests whose meaning may surprise the author.

use super::finding::Finding;
use policy_engine::Compiled;
use policy_webhooks::injector::namespace_remarks;
use std::collections::BTreeSet;

/// Returns the remarks on fields that are not reported yet.
pub(super) fn findings(compiled: &Compiled, reported: &[Finding]) -> Vec<Finding> {
    let all = compiled.objects.iter().flat_map(|object| {
        let about = |error: policy_crds::FieldError| {
            Finding::warning(&object.meta.key, error.field, error.message)
        };
        object.remarks().into_iter().chain(namespace_remarks(object)).map(about)
    });
    // Omitting the networks is the usual way to select the cluster's.
    let unusual = all.filter(|finding| finding.field != "spec.client.networks");
    let known: BTreeSet<_> = reported.iter().map(|old| (&old.object, &*old.field)).collect();
    unusual.filter(|new| !known.contains(&(&new.object, &*new.field))).collect()
}
