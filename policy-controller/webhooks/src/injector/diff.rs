//! Computes a JSON Patch (RFC 6902) from one value to another.

use serde_json::{Value, json};

/// Returns the operations in order; none if the values are equal.
pub(super) fn diff(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    walk(from, to, &mut String::new(), &mut operations);
    operations
}

fn walk(from: &Value, to: &Value, path: &mut String, operations: &mut Vec<Value>) {
    if from == to {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (from, to) {
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            below(path, key, |path| operations.push(json!({"op": "remove", "path": path})));
        }
        for (key, value) in new {
            below(path, key, |path| match old.get(key) {
                Some(before) => walk(before, value, path, operations),
                None => operations.push(json!({"op": "add", "path": path, "value": value})),
            });
        }
        return;
    }
    if let (Value::Array(old), Value::Array(new)) = (from, to)
        && lists(old, new, path, operations)
    {
        return;
    }
    operations.push(json!({"op": "replace", "path": path, "value": to}));
}

/// Handles lists of equal length and lists with elements inserted in one place; false for any
/// others.
fn lists(old: &[Value], new: &[Value], path: &mut String, operations: &mut Vec<Value>) -> bool {
    if old.len() == new.len() {
        for (at, (before, after)) in old.iter().zip(new).enumerate() {
            below(path, &at.to_string(), |path| walk(before, after, path, operations));
        }
        return true;
    }
    let Some(grown) = new.len().checked_sub(old.len()) else { return false };
    let kept = old.iter().zip(new).take_while(|(before, after)| before == after).count();
    let rest = new.get(kept.saturating_add(grown)..);
    if old.get(kept..) != rest {
        return false;
    }
    let added = new.iter().enumerate().skip(kept).take(grown);
    for (at, value) in added {
        below(path, &at.to_string(), |path| {
            operations.push(json!({"op": "add", "path": path, "value": value}));
        });
    }
    true
}

/// Calls `then` with the path of a field or element (RFC 6901).
fn below(path: &mut String, key: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}
