//! One document of a text, or why it cannot be read.

use super::locate::Spans;
use super::location::Location;
use serde_json::Value;

/// Values in one text, aliases counted as often as they are used and by the length of their texts.
pub const MAX_VALUES: usize = 1_000_000;

/// Collections inside collections.
pub const MAX_DEPTH: usize = 100;

/// One document of a text.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its value; `null` for a document without content.
    pub value: Result<Value, SyntaxError>,
    /// Where the document begins.
    pub location: Location,
    pub(super) spans: Spans,
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", .location.line, .location.column)]
pub struct SyntaxError {
    /// Where.
    pub location: Location,
    /// What is wrong. Lower case, no full stop.
    pub message: String,
}

impl Document {
    /// Where `field` is, a path such as `spec.rules[0].path`; if there is no such field, where its
    /// nearest existing parent is. `None` if the document could not be read.
    pub fn locate(&self, field: &str) -> Option<Location> {
        self.value.as_ref().ok()?;
        Some(self.spans.locate(field))
    }
}

/// A document that cannot be read.
pub(super) fn failed(error: SyntaxError) -> Document {
    let location = error.location.clone();
    Document { value: Err(error), location, spans: Spans::default() }
}
