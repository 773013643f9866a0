//! Every field of an object taken away, and given values that it may not have.

use serde_json::{Value, json};

/// An object with one change.
pub(crate) struct Case {
    /// The kind, its version and the field.
    pub(crate) field: String,
    /// New value; `-`: the field was removed.
    pub(crate) value: String,
    /// The object.
    pub(crate) object: Value,
}

/// The changes of every field of the specification.
pub(crate) fn of(object: &Value) -> Vec<Case> {
    let mut pointers = vec!["/spec".to_owned()];
    below(&object["spec"], "/spec", &mut pointers);
    let version = object["apiVersion"].as_str().unwrap().split_once('/').unwrap().1;
    let kind = format!("{} {version}", object["kind"].as_str().unwrap());
    let mut cases = Vec::new();
    for pointer in pointers {
        let field = format!("{kind} {}", pointer.trim_start_matches('/').replace('/', "."));
        let changed = |object: Value, value: String| Case { field: field.clone(), value, object };
        for value in values(object.pointer(&pointer).unwrap()) {
            let mut other = object.clone();
            *other.pointer_mut(&pointer).unwrap() = value.clone();
            if other != *object {
                cases.push(changed(other, shown(&value)));
            }
        }
        cases.push(changed(without(object, &pointer), "-".to_owned()));
    }
    cases
}

/// The fields below a value; of a list, those of its first item.
fn below(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let mut add = |name: &str, child: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        let pointer = format!("{pointer}/{name}");
        found.push(pointer.clone());
        below(child, &pointer, found);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(name, child)| add(name, child)),
        Value::Array(items) => items.iter().take(1).for_each(|item| add("0", item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn values(current: &Value) -> Vec<Value> {
    let mut values = vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(70_000),
        json!(1.5),
        json!(""),
        json!("!"),
        json!("a b"),
        json!("é"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
    ];
    if let Some(map) = current.as_object() {
        let mut more = map.clone();
        more.insert("other".to_owned(), json!(1));
        values.push(Value::Object(more));
    }
    if let Some(items) = current.as_array() {
        let once = items.first().cloned().unwrap_or_default();
        values.push(Value::Array(vec![once; 100]));
        values.push(json!([null]));
    }
    values
}

fn without(object: &Value, pointer: &str) -> Value {
    let mut object = object.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent).unwrap() {
        Value::Object(map) => {
            map.remove(&name);
        }
        Value::Array(items) => {
            items.remove(name.parse().unwrap());
        }
        other => panic!("{other} has no fields"),
    }
    object
}

/// Short enough to be told from others.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match value {
        Value::Array(items) if items.len() > 1 => format!("[{} items]", items.len()),
        Value::Object(map) if map.contains_key("other") => "{...,other}".to_owned(),
        Value::String(text) if text.len() > 100 => format!("[{} letters]", text.len()),
        _ => text.replace(' ', "_"),
    }
}
