//! Annotations whose values are no text. An API server refuses their object, and nothing reads them.

use super::names::is_about_injection;
use policy_crds::{FieldError, annotation};
use serde_json::Value;

/// Returns an error for every annotation about injection or policy of an object whose value is no text:
/// `true` and `25` are none in YAML, though they are meant as such.
pub fn not_text(object: &Value) -> Vec<FieldError> {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let strange = annotations.into_iter().flatten();
    // An API server reads `null` as empty text.
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let strange = strange.filter(|(name, value)| !is_text(value) && is_about_injection(name));
    let error = |(name, value): (&String, &Value)| {
        let message = format!("expected text, found `{value}`: put it in quotes");
        FieldError { field: annotation::field(name), message }
    };
    strange.map(error).collect()
}
