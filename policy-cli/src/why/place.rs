//! The place of an object: its file and line, or its name for `kubectl`.

use crate::inventory::Inventory;
use policy_crds::ObjectKey;
use serde_json::Value;

/// Returns the file and line of an object or of one of its fields; of an object of a cluster, how
/// `kubectl` names it. `None`: it was not read.
pub(super) fn place(inventory: &Inventory, object: &ObjectKey, field: &str) -> Option<String> {
    let Some(at) = inventory.locations.get(object) else {
        let kind = object.kind.as_str().to_ascii_lowercase();
        let kind = match object.kind.group() {
            "" => kind,
            group => format!("{kind}.{group}"),
        };
        let namespace = match object.namespace.is_empty() {
            true => String::new(),
            false => format!("-n {} ", object.namespace),
        };
        inventory.values.get(object)?;
        return Some(format!("kubectl {namespace}get {kind}/{}", object.name));
    };
    let line = inventory
        .files
        .get(&at.file)
        .into_iter()
        .flat_map(|file| &file.documents)
        .find(|document| {
            // To read each document of a file whole takes seconds where there are thousands.
            let is_named = |value: &&Value| {
                value.pointer("/metadata/name").and_then(Value::as_str) == Some(&*at.declared.name)
            };
            let value = document.value.as_ref().ok().filter(is_named);
            let parsed = value.and_then(|value| policy_crds::parse_written(value).ok());
            parsed.is_some_and(|parsed| parsed.meta.key == at.declared)
        })
        .and_then(|document| document.locate(field))
        .map_or(at.location.line, |location| location.line);
    Some(format!("{}:{line}", at.file))
}

/// Returns the same of an object of a kind that no policy is made of.
pub(super) fn place_of_other(
    inventory: &Inventory,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<String> {
    if inventory.cluster.is_some() {
        let kind = kind.to_ascii_lowercase();
        return Some(format!("kubectl -n {namespace} get {kind}/{name}"));
    }
    inventory.files.iter().find_map(|(file, found)| {
        let document = found.documents.iter().find(|document| {
            let Ok(value) = &document.value else { return false };
            let text = |pointer| value.pointer(pointer).and_then(Value::as_str);
            text("/kind") == Some(kind)
                && text("/metadata/name") == Some(name)
                && text("/metadata/namespace").unwrap_or("default") == namespace
        })?;
        Some(format!("{file}:{}", document.locate("kind")?.line))
    })
}
