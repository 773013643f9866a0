//! The mesh's roots, read again and again: one that was taken out must not be trusted any longer.

use super::contents::contents;
use super::error::SourceError;
use super::pem::certificates;
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;

/// The mesh's roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A PEM file, read again when it changes.
    File(PathBuf),
    /// PEM text from the environment, fixed for the life of the process.
    Text(String),
}

/// More than any mesh has roots, in bytes of PEM.
const MOST: u64 = 1 << 20;

impl Roots {
    /// The roots as they are now, of which there is at least one.
    ///
    /// # Errors
    /// The file that cannot be read, or what does not hold what it should.
    pub(super) async fn read(&self) -> Result<Vec<CertificateDer<'static>>, SourceError> {
        let (place, text) = match self {
            Self::File(path) => (path.display().to_string(), contents(path, MOST).await?),
            Self::Text(text) => {
                ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS".to_owned(), text.clone().into_bytes())
            }
        };
        let roots = certificates(&text).map_err(|message| SourceError::Pem { place, message })?;
        Ok(roots)
    }
}
