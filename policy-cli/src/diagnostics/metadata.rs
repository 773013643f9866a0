//! Fields of objects as the API server returns them.

use serde_json::Value;

/// String in an object by its JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The namespace of an object.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// A label of an object.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Elements of a list in an object.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
