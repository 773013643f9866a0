//! The schema of conditions.

use super::schema::{integer, list, object, one_of, text, time};
use serde_json::{Value, json};

/// A status of conditions alone.
pub(crate) fn conditions_status() -> Value {
    object("What became of this object.", &[("conditions", conditions(true))], &[])
}

/// Conditions, one of each type. `generation`: whether they say which generation they are about.
pub(crate) fn conditions(generation: bool) -> Value {
    let mut fields = vec![
        ("type", text("What is stated.")),
        ("status", one_of("Whether it is so.", &["True", "False", "Unknown"])),
        ("reason", text("Why, in one word for programs.")),
        ("message", text("Why, in words for people.")),
        ("lastTransitionTime", time("Since when it is so.")),
    ];
    if generation {
        let about = "The generation of the object that this is about.";
        fields.push(("observedGeneration", integer(about, "int64", Some(0), None)));
    }
    let condition = object("One statement about the object.", &fields, &["type", "status"]);
    let mut conditions = list("Statements about the object.", condition);
    if let Some(map) = conditions.as_object_mut() {
        map.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        map.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    }
    conditions
}
