//! Conditions in an object's status.

use super::condition::{Condition, ConditionSource};
use serde_json::Value;

/// Returns the conditions of the object, and for routes those of each parent with the name of the
/// controller that wrote them.
pub(crate) fn conditions(object: &Value, generation: Option<i64>) -> Vec<Condition> {
    let Some(status) = object.get("status") else { return Vec::new() };
    let mut found = list(status, generation, None, None);
    let parents = status.get("parents").and_then(Value::as_array);
    for entry in parents.into_iter().flatten() {
        let writer = text(entry, "controllerName");
        found.extend(list(entry, generation, entry.get("parentRef"), Some(writer)));
    }
    found
}

fn list(
    holder: &Value,
    generation: Option<i64>,
    parent: Option<&Value>,
    writer: Option<String>,
) -> Vec<Condition> {
    let conditions = holder.get("conditions").and_then(Value::as_array);
    let condition = |value: &Value| {
        let observed = value.get("observedGeneration").and_then(Value::as_i64);
        Condition {
            r#type: text(value, "type"),
            status: text(value, "status"),
            reason: text(value, "reason"),
            message: text(value, "message"),
            parent: parent.map(name),
            section: parent.map(|p| text(p, "sectionName")).filter(|section| !section.is_empty()),
            source: ConditionSource::Object,
            writer: writer.clone(),
            outdated: matches!((observed, generation), (Some(o), Some(g)) if o < g),
        }
    };
    conditions.into_iter().flatten().map(condition).collect()
}

/// `Kind namespace/name`.
fn name(parent: &Value) -> String {
    let (kind, namespace, name) =
        (text(parent, "kind"), text(parent, "namespace"), text(parent, "name"));
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}
