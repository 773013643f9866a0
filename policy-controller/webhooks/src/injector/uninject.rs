//! Takes out of a pod what injection added. Most of it can be told from the pod. What cannot (the name of
//! a probe's port, an annotation that injection replaced) is recorded in an annotation by the command that
//! writes manifests, as the changes that are left to make.

use super::container::put;
use super::diff::diff;
use super::element::{containers_mut, edit_map, text, texts};
use super::names::WRITTEN;
use super::opt_in::INJECT_LABEL;
use super::probe;
use super::record;
use super::sidecar::{INIT, PROXY, RECORD, VOLUMES};
use super::skip_reason::has_injected_pair;
use policy_crds::annotation::PROXY_LABEL;
use serde_json::{Map, Value};

/// A pod without what injection added.
#[derive(Clone, Debug, PartialEq)]
pub struct Uninjected {
    /// The pod.
    pub pod: Box<Value>,
    /// Paths of what could not be restored, because the pod has changed since.
    pub lost: Vec<String>,
}

/// Returns `pod` without what injection added; `None` if nothing was.
pub fn uninject(pod: &Value) -> Option<Uninjected> {
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let record = annotations.get(RECORD);
    if record.is_none() && !has_injected_pair(pod) {
        return None;
    }
    let mut lost = Vec::new();
    let mut restored = without_parts(pod);
    for operation in record.map(|record| operations(record)).unwrap_or_default() {
        if record::restore(&mut restored, &operation).is_none() {
            lost.push(text(&operation, "path").unwrap_or_default().to_owned());
        }
    }
    Some(Uninjected { pod: Box::new(restored), lost })
}

/// Returns `after`, which was made from `before`, with what [`uninject`] needs to restore it.
pub fn recorded(before: &Value, after: Value) -> Value {
    let mut with = after.clone();
    // With the annotation, because without it a map may remain that it alone is in.
    record(&mut with, &[]);
    let without = without_parts(&with);
    let left = record::named(&without, before, diff(&without, before));
    if left.is_empty() {
        return after;
    }
    record(&mut with, &left);
    with
}

/// Returns the pod with the annotation that asks the injector for a sidecar; `None` if it has it.
pub fn asking(pod: &Value) -> Option<Value> {
    let annotations = texts(pod.pointer("/metadata/annotations"));
    if annotations.contains_key(INJECT_LABEL) {
        return None;
    }
    let mut asking = pod.clone();
    edit_map(&mut asking, "metadata", |metadata| {
        put(metadata, "annotations", INJECT_LABEL, "enabled");
    });
    Some(recorded(pod, asking))
}

fn operations(record: &str) -> Vec<Value> {
    serde_json::from_str(record).unwrap_or_default()
}

fn record(pod: &mut Value, operations: &[Value]) {
    let text = Value::from(operations.to_vec()).to_string();
    edit_map(pod, "metadata", |metadata| put(metadata, "annotations", RECORD, &text));
}

/// Returns the pod without what injection always adds in the same way, and without the record.
fn without_parts(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let injected = has_injected_pair(&pod);
    let mut annotations = vec![RECORD];
    if injected {
        annotations.extend(WRITTEN);
        for (field, names) in [
            ("initContainers", &[INIT, PROXY][..]),
            ("containers", &[PROXY][..]),
            ("volumes", &VOLUMES[..]),
        ] {
            remove_named(&mut pod, field, names);
        }
        for (_, container) in containers_mut(&mut pod) {
            probe::restore(container);
        }
    }
    edit_map(&mut pod, "metadata", |metadata| {
        take(metadata, "annotations", &annotations);
        if injected {
            take(metadata, "labels", &[PROXY_LABEL]);
        }
    });
    prune(&mut pod, "metadata");
    pod
}

/// Removes the elements with these names of a list in the spec, and the list if nothing else is in it.
fn remove_named(pod: &mut Value, field: &str, names: &[&str]) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(list)) = spec.get_mut(field) else { return };
    let before = list.len();
    list.retain(|element| text(element, "name").is_none_or(|name| !names.contains(&name)));
    if list.is_empty() && before > 0 {
        spec.remove(field);
    }
}

/// Removes keys of a map in the metadata, and the map if nothing else is in it.
fn take(metadata: &mut Map<String, Value>, field: &str, keys: &[&str]) {
    let Some(Value::Object(texts)) = metadata.get_mut(field) else { return };
    let before = texts.len();
    texts.retain(|key, _| !keys.contains(&key.as_str()));
    if texts.is_empty() && before > 0 {
        metadata.remove(field);
    }
}

/// Removes an empty map.
fn prune(value: &mut Value, field: &str) {
    let Some(map) = value.as_object_mut() else { return };
    if map.get(field).and_then(Value::as_object).is_some_and(Map::is_empty) {
        map.remove(field);
    }
}
