//! Applies operations of a JSON Patch (RFC 6902), those that [`super::diff`] makes.

use serde_json::Value;

/// Applies one operation; `None` if its path leads nowhere.
pub(super) fn apply(value: &mut Value, operation: &Value) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let (op, path) = (text("op")?, text("path")?);
    let given = operation.get("value").cloned();
    let Some((parent, last)) = path.rsplit_once('/') else {
        *value = given.filter(|_| path.is_empty() && op == "replace")?;
        return Some(());
    };
    let key = last.replace("~1", "/").replace("~0", "~");
    match (value.pointer_mut(parent)?, op) {
        (Value::Object(map), "remove") => map.remove(&key).map(|_| ()),
        (Value::Object(map), "add" | "replace") => {
            map.insert(key, given?);
            Some(())
        }
        (Value::Array(list), "add") => {
            let at = key.parse().ok().filter(|at| *at <= list.len())?;
            list.insert(at, given?);
            Some(())
        }
        (Value::Array(list), "replace") => {
            *list.get_mut(key.parse::<usize>().ok()?)? = given?;
            Some(())
        }
        (Value::Array(list), "remove") => {
            let at = key.parse().ok().filter(|at| *at < list.len())?;
            list.remove(at);
            Some(())
        }
        _ => None,
    }
}
