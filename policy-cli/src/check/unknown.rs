//! Unknown fields of objects that a cluster has stored with them. For manifests, the file reader reports
//! them.

use super::context::CheckContext;
use super::finding::Finding;
use super::locations::Locations;
use crate::unknown_fields::findings_in_cluster;
use policy_crds::Body;
use policy_engine::source::directory::Remark;

/// Returns the unknown fields of valid objects. Those of invalid ones are among their errors.
pub(super) fn findings(context: &CheckContext<'_>, locations: &mut Locations) -> Vec<Finding> {
    let valid = context.compiled.objects.iter().filter(|it| matches!(it.body, Body::Valid(_)));
    let of_object = |key: &policy_crds::ObjectKey| {
        let remarks = locations.value(key).map(findings_in_cluster).unwrap_or_default();
        let finding = |Remark { about, severity }: Remark| Finding {
            severity,
            explains: false,
            ..Finding::warning(key, about.field, about.message)
        };
        remarks.into_iter().map(finding).collect::<Vec<_>>()
    };
    valid.map(|object| &object.meta.key).flat_map(of_object).collect()
}
