//! Text to values that remember where each field is: YAML of several documents, and JSON. The only
//! module that knows the YAML library.
//!
//! Plain scalars mean what they mean to `kubectl` (YAML 1.1: `yes` is true, `0644` is octal), so
//! that a manifest is read here as the cluster would store it.

mod build;
mod locate;
mod scalar;

use serde_json::Value;
use std::ops::Range;

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
    spans: locate::Spans,
}

/// Where something is in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The bytes it covers. Empty: a point.
    pub bytes: Range<usize>,
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

/// Reads every document of `text`. A document that cannot be read does not hide those after it.
pub fn read(text: &str) -> Vec<Document> {
    build::documents(text)
}

/// Reads every document of `bytes`, which must be UTF-8; a byte order mark is allowed.
pub fn read_bytes(bytes: &[u8]) -> Vec<Document> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => {
            let (good, bad) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, &[]));
            let byte = bad.first().copied().unwrap_or_default();
            let good = String::from_utf8_lossy(good);
            let message = format!("byte 0x{byte:02X} is not valid UTF-8");
            let location = locate::position(&good, good.len());
            vec![failed(SyntaxError { location, message })]
        }
    }
}

fn failed(error: SyntaxError) -> Document {
    let location = error.location.clone();
    Document { value: Err(error), location, spans: locate::Spans::default() }
}
