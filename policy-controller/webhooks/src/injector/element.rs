//! Accessors for untrusted JSON: a missing field and one of another type are both absent.

use policy_crds::annotation::Annotations;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Returns a map of strings, such as labels and annotations, without values of other types.
pub(super) fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Converts the labels or annotations of an object of the index.
pub(super) fn owned(texts: &Annotations) -> BTreeMap<String, String> {
    texts.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Returns the string in a field.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// Returns the elements of a list in the pod's spec.
pub(super) fn list<'a>(pod: &'a Value, field: &str) -> &'a [Value] {
    let list = pod.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Returns the elements of the list in a field of `value`.
pub(super) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Fields with containers, in the order in which they start.
pub(super) const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// Returns every container with its path, init containers first.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    CONTAINERS.into_iter().flat_map(|field| {
        let numbered = list(pod, field).iter().enumerate();
        numbered.map(move |(at, container)| (format!("spec.{field}[{at}]"), container))
    })
}

/// Returns every container with its path, mutable.
pub(super) fn containers_mut(pod: &mut Value) -> Vec<(String, &mut Value)> {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Vec::new() };
    let mut all = Vec::new();
    for (field, list) in spec {
        let Some(list) = list.as_array_mut() else { continue };
        if CONTAINERS.contains(&field.as_str()) {
            let numbered = list.iter_mut().enumerate();
            all.extend(numbered.map(|(at, c)| (format!("spec.{field}[{at}]"), c)));
        }
    }
    all
}

/// Edits a list in a field, which is created if it is missing.
pub(super) fn edit_list(value: &mut Value, field: &str, edit: impl FnOnce(&mut Vec<Value>)) {
    let Some(map) = value.as_object_mut() else { return };
    let mut list = Vec::new();
    if let Some(Value::Array(held)) = map.remove(field) {
        list = held;
    }
    edit(&mut list);
    map.insert(field.to_owned(), Value::Array(list));
}

/// Edits a map in a field, which is created if it is missing.
pub(super) fn edit_map(value: &mut Value, field: &str, edit: impl FnOnce(&mut Map<String, Value>)) {
    let Some(map) = value.as_object_mut() else { return };
    let mut inner = Map::new();
    if let Some(Value::Object(held)) = map.remove(field) {
        inner = held;
    }
    edit(&mut inner);
    map.insert(field.to_owned(), Value::Object(inner));
}
