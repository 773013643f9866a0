//! Looking into JSON that anybody may have written: what is not there, or is something else, is
//! absent.

use policy_crds::annotation::Annotations;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A mapping of texts, such as labels and annotations; what is no text is left out.
pub(super) fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// StringMap of an object of the index, as the injector looks at them.
pub(super) fn owned(texts: &Annotations) -> BTreeMap<String, String> {
    texts.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The text of a field.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// The elements of a list of the pod's spec.
pub(super) fn list<'a>(pod: &'a Value, field: &str) -> &'a [Value] {
    let list = pod.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The items of a list that `value` has in `field`.
pub(super) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Where containers are, in the order in which they start.
pub(super) const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// Every container, init containers first, with its path.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    CONTAINERS.into_iter().flat_map(|field| {
        let numbered = list(pod, field).iter().enumerate();
        numbered.map(move |(at, container)| (format!("spec.{field}[{at}]"), container))
    })
}

/// Every container, to be changed.
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

/// Changes a list of a mapping, which is made where there is none.
pub(super) fn edit_list(value: &mut Value, field: &str, edit: impl FnOnce(&mut Vec<Value>)) {
    let Some(map) = value.as_object_mut() else { return };
    let mut list = Vec::new();
    if let Some(Value::Array(held)) = map.remove(field) {
        list = held;
    }
    edit(&mut list);
    map.insert(field.to_owned(), Value::Array(list));
}

/// Changes a mapping of a mapping, which is made where there is none.
pub(super) fn edit_map(value: &mut Value, field: &str, edit: impl FnOnce(&mut Map<String, Value>)) {
    let Some(map) = value.as_object_mut() else { return };
    let mut inner = Map::new();
    if let Some(Value::Object(held)) = map.remove(field) {
        inner = held;
    }
    edit(&mut inner);
    map.insert(field.to_owned(), Value::Object(inner));
}
