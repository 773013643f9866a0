//! Remarks on valid manifests whose meaning may surprise the author.

use super::finding::Finding;
use policy_engine::Compiled;
use policy_webhooks::injector::namespace_remarks;

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
    let is_new = |new: &Finding| {
        !reported.iter().any(|old| old.object == new.object && old.field == new.field)
    };
    unusual.filter(is_new).collect()
}
