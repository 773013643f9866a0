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
        self.value.as_ref().ok()?;
        Some(self.spans.locate(field))
    }
}

/// A document that cannot be read.
pub(super) fn failed(error: SyntaxError) -> Document {
    let location = error.location.clone();
    Document { value: Err(error), location, spans: Spans::default() }
}
