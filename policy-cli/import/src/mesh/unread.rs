//! Objects of the files that an import does not read.

use super::policies::MeshPolicies;
use super::workloads::is_workload;
use crate::file::{ImportFile, SourceNode};

/// Adds a row for each object that is neither a workload, nor a Namespace, nor a part of the source.
pub(crate) fn note_unread(
    files: &[ImportFile],
    is_source: impl Fn(&SourceNode<'_>) -> bool,
    policies: &mut MeshPolicies,
) {
    for object in files.iter().flat_map(ImportFile::objects) {
        let kind = object.get("kind").and_then(|it| it.scalar()).unwrap_or_default();
        if is_source(&object) || is_workload(&object) || kind == "Namespace" {
            continue;
        }
        let name = object.get("metadata").and_then(|it| it.get("name")?.scalar());
        let subject = match (kind.is_empty(), name) {
            (false, Some(name)) => format!("{kind} {name}"),
            (false, None) => kind,
            (true, _) => "an object without kind".to_owned(),
        };
        policies.omit(object.place(), &subject, "objects of this kind are not read");
    }
}
