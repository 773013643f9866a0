//! The mesh's roots, read repeatedly: a removed root must not stay trusted.

use super::contents::contents;
use super::error::SourceError;
use super::pem::certificates;
use super::signed::{SignedRoots, Trust};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The mesh's roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A PEM file, read again when it changes.
    File(PathBuf),
    /// PEM text from the environment, fixed for the life of the process.
    Text(String),
}

/// Maximum size of the roots, in bytes of PEM; more than any mesh has.
const MAX_BYTES: u64 = 1 << 20;

impl Roots {
    /// Reads the current roots. At least one is required.
    ///
    /// # Errors
    /// The file that cannot be read, or the text that is malformed.
    pub(super) async fn read(&self) -> Result<Vec<CertificateDer<'static>>, SourceError> {
        let (place, text) = match self {
            Self::File(path) => (path.display().to_string(), contents(path, MAX_BYTES).await?),
            Self::Text(text) => {
                ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS".to_owned(), text.clone().into_bytes())
            }
        };
        let roots = certificates(&text).map_err(|message| SourceError::Pem { place, message })?;
        Ok(roots)
    }
}

/// Source of the roots of an issuer's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustAnchors {
    /// Roots from a place that only trusted parties can write.
    Trusted(Roots),
    /// `begin` is trusted from the start. Roots of a document that others may write are trusted if
    /// the current roots verify their proof ([`SignedRoots`]).
    Followed {
        /// The initial roots, DER.
        begin: Vec<CertificateDer<'static>>,
        /// The path of the document.
        document: PathBuf,
    },
}

/// Reads the roots repeatedly.
#[derive(Debug)]
pub(super) enum RootsReader {
    Trusted(Roots),
    Followed { trust: Trust, document: PathBuf },
}

/// The current roots.
pub(super) struct RootsSnapshot {
    pub(super) roots: Vec<CertificateDer<'static>>,
    /// The reason why newer roots, if there are any, are not in force.
    pub(super) error: Option<SourceError>,
}

impl RootsReader {
    pub(super) fn new(anchors: TrustAnchors) -> Self {
        match anchors {
            TrustAnchors::Trusted(roots) => Self::Trusted(roots),
            TrustAnchors::Followed { begin, document } => {
                Self::Followed { trust: Trust::new(begin), document }
            }
        }
    }

    /// Reads the current roots. At least one is required.
    ///
    /// # Errors
    /// As [`Roots::read`].
    pub(super) async fn read(&mut self) -> Result<RootsSnapshot, SourceError> {
        match self {
            Self::Trusted(roots) => Ok(RootsSnapshot { roots: roots.read().await?, error: None }),
            Self::Followed { trust, document } => {
                let error = match follow(trust, document).await {
                    Ok(reached) => {
                        *trust = reached;
                        None
                    }
                    Err(error) => Some(error),
                };
                Ok(RootsSnapshot { roots: trust.roots().to_vec(), error })
            }
        }
    }
}

async fn follow(trust: &Trust, document: &Path) -> Result<Trust, SourceError> {
    let text = contents(document, MAX_BYTES).await?;
    let read = SignedRoots::read(&text);
    let reached = read.and_then(|signed| trust.after(&signed, SystemTime::now()));
    let place = document.display().to_string();
    reached.map_err(|message| SourceError::Pem { place, message })
}
