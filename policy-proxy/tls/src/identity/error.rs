//! Why there is no identity, or no newer one.

use super::state::FailureKind;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No root, or one that is not a certificate.
    #[error("trust roots: {0}")]
    Roots(String),
    /// The name for SNI is not a DNS name.
    #[error("server name `{0}` is not a DNS name")]
    ServerName(Arc<str>),
    /// Certificate and key do not fit, or neither is usable.
    #[error("certificate: {0}")]
    Certificate(#[from] rustls::Error),
}

/// Why an identity cannot be made of what there is.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file does not hold what it should.
    #[error("`{place}`: {message}")]
    Pem {
        /// The file or setting.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// The parts do not make an identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The private key or the request for a certificate cannot be made.
    #[error("{0}")]
    Request(String),
}

impl SourceError {
    /// Where it belongs in metrics.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::Identity(IdentityError::Roots(_)) => FailureKind::Roots,
            Self::Read { .. } | Self::Pem { .. } | Self::Identity(_) | Self::Request(_) => {
                FailureKind::Files
            }
        }
    }
}

/// An attempt that went wrong.
#[derive(Debug)]
pub(super) struct AttemptError {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

impl AttemptError {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
