//! Names of objects of SMI.

use crate::file::SourceNode;
use policy_crds::quote;

/// The namespace of an object, or the one of objects without, and its name.
///
/// # Errors
/// It has no name.
pub(super) fn named(
    object: &SourceNode<'_>,
    namespace: Option<&str>,
) -> Result<(Option<String>, String), String> {
    let metadata = object.require("metadata")?;
    let name = metadata.text_of("name")?.to_owned();
    let own = metadata.get("namespace").map(|it| it.text()).transpose()?;
    Ok((own.or(namespace).map(str::to_owned), name))
}

/// The subject of a row.
pub(super) fn subject(kind: &str, name: &str) -> String {
    format!("{kind} {}", quote(name).trim_matches('`'))
}
