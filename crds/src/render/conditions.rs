//! The schema of conditions.

use super::schema::{integer, list, object, one_of, text, time};
use serde_json::{Value, json};

/// A status of conditions alone.
pub(crate) fn conditions_status() -> Value {
    object("Status of this object.", &[("conditions", conditions(true))], &[])
}

/// Conditions, one of each type. `generation`: whether they say which generation they are about.
pub(crate) fn conditions(generation: bool) -> Value {
    let mut fields = vec![
        ("type", text("Type of the condition.")),
        ("status", one_of("Status of the condition.", &["True", "False", "Unknown"])),
        ("reason", text("Reason, in one word for programs.")),
        ("message", text("Message for people.")),
        ("lastTransitionTime", time("Time of the last change of the status.")),
    ];
    if generation {
        let about = "The generation of the object that the condition is about.";
        fields.push(("observedGeneration", integer(about, "int64", Some(0), None)));
    }
    let condition = object("A condition of the object.", &fields, &["type", "status"]);
    let mut conditions = list("Conditions of the object.", condition);
    if let Some(map) = conditions.as_object_mut() {
        map.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        map.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    }
    conditions
}
