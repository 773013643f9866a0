//! One document of a text, or why it cannot be read.

use super::locate::Spans;
use super::location::Location;
use serde_json::Value;

/// The most values in one text. Aliases count as often as they are used, and by the length of their
/// texts.
pub const MAX_VALUES: usize = 1_000_000;

/// Collections inside collections.
pub const MAX_DEPTH: usize = 100;

/// One document of a text.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its value; `null` for a document without content.
    pub value: Result<Value, SyntaxError>,
    /// The value of a document that has an error because keys appear twice in a mapping: all that is
    /// certain of it. In place of the value of such a key is a list in a list, which no field may have.
    pub salvaged: Option<Value>,
    /// The location at which the document begins.
    pub location: Location,
    pub(super) spans: Spans,
}

/// Error of a document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", .location.line, .location.column)]
pub struct SyntaxError {
    /// The location of the error.
    pub location: Location,
    /// The message. Lower case, no full stop.
    pub message: String,
}

impl Document {
    /// The location of `field`, a path such as `spec.rules[0].path`; if there is no such field,
    /// that of its nearest existing parent. `None` if the document could not be read.
    pub fn locate(&self, field: &str) -> Option<Location> {
        self.value.as_ref().ok().or(self.salvaged.as_ref())?;
        Some(self.spans.locate(field))
    }
}

/// A document that cannot be read.
pub(super) fn failed(error: SyntaxError) -> Document {
    let location = error.location.clone();
    Document { value: Err(error), salvaged: None, location, spans: Spans::default() }
}

/// The value in place of that of a key that appears twice.
pub(super) fn ambiguous() -> Value {
    Value::Array(vec![Value::Array(Vec::new())])
}

/// True if a part of a value that was salvaged is not certain.
pub fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            matches!(&items[..], [Value::Array(inner)] if inner.is_empty())
                || items.iter().any(is_ambiguous)
        }
        Value::Object(fields) => fields.values().any(is_ambiguous),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
