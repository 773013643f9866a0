//! Parses text into values that know the location of each field: YAML of several documents, JSON,
//! and streams of JSON. The only module that uses the YAML library.
//!
//! Plain scalars have the same value as for `kubectl` (YAML 1.1: `yes` is true, `0644` is octal),
//! so that a manifest is read here as the cluster would store it.

mod build;
mod definition;
mod hint;
mod json_stream;
mod locate;
mod location;
mod scalar;

pub use definition::{Document, MAX_DEPTH, MAX_VALUES, SyntaxError, is_ambiguous};
pub use location::Location;

use definition::failed;

/// Reads every document of `text`. A document that cannot be read does not hide those after it.
pub fn read(text: &str) -> Vec<Document> {
    let mut documents = build::documents(text);
    for document in &mut documents {
        if let Err(error) = &mut document.value {
            hint::add(text, error);
        }
    }
    documents
}

/// Reads every document of `bytes`, which must be UTF-8; a byte order mark is allowed.
pub fn read_bytes(bytes: &[u8]) -> Vec<Document> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => {
            let (good, bad) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, &[]));
            let byte = bad.first().copied().unwrap_or_default();
            let good = String::from_utf8_lossy(good);
            let message = match bytes {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                    "this is UTF-16, as PowerShell's `>` writes it, and UTF-8 is read".to_owned()
                }
                _ => format!("byte 0x{byte:02X} is not valid UTF-8"),
            };
            let location = locate::position(&good, good.len());
            vec![failed(SyntaxError { location, message })]
        }
    }
}
