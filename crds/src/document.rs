//! Parses text into values that know the location of each field: YAML of several documents, JSON,
//! and streams of JSON. The only module that uses the YAML library.
//!
//! Plain scalars have the same value as for `kubectl` (YAML 1.1: `yes` is true, `0644` is octal),
//! so that a manifest is read here as the cluster would store it.

mod build;
mod definition;
mod json_stream;
mod locate;
mod location;
mod scalar;

pub use definition::{Document, MAX_DEPTH, MAX_VALUES, SyntaxError, is_ambiguous};
pub use location::Location;

use definition::failed;

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
