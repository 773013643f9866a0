//! The mesh's roots, read again and again: one that was taken out must not be trusted any longer.

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

/// Where the client of an issuer has its roots from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustAnchors {
    /// There, and nobody else may write it.
    Trusted(Roots),
    /// `begin` counts from the start. What a file with a document says of later ones counts if
    /// whoever is trusted already vouches for it ([`SignedRoots`]), because others may write the file.
    Followed {
        /// The roots to begin with, DER.
        begin: Vec<CertificateDer<'static>>,
        /// The document.
        document: PathBuf,
    },
}

/// Reads roots again and again.
#[derive(Debug)]
pub(super) enum RootsReader {
    Trusted(Roots),
    Followed { trust: Trust, document: PathBuf },
}

/// The roots that are in force.
pub(super) struct RootsSnapshot {
    pub(super) roots: Vec<CertificateDer<'static>>,
    /// Why newer ones that there may be are not.
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

    /// The roots as they are now, of which there is at least one.
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
    let text = contents(document, MOST).await?;
    let read = SignedRoots::read(&text);
    let reached = read.and_then(|signed| trust.after(&signed, SystemTime::now()));
    let place = document.display().to_string();
    reached.map_err(|message| SourceError::Pem { place, message })
}
