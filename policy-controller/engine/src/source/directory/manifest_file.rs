//! A manifest file with its documents.

use policy_crds::document::{self, Document};

/// A manifest file, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct ManifestFile {
    /// Content, without a byte order mark.
    pub text: String,
    /// Its documents.
    pub documents: Vec<Document>,
}

impl ManifestFile {
    /// Reads the documents of a file.
    pub fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        Self { text, documents: document::read_bytes(bytes) }
    }
}
