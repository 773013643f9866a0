//! Errors of identities and their sources.

use super::state::FailureKind;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Error of credentials.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is no root, or one is not a certificate.
    #[error("trust roots: {0}")]
    Roots(String),
    /// The name for SNI is not a DNS name.
    #[error("server name `{0}` is not a DNS name")]
    ServerName(Arc<str>),
    /// Certificate and key do not match, or one is not usable.
    #[error("certificate: {0}")]
    Certificate(#[from] rustls::Error),
}

/// Error of an identity source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is malformed.
    #[error("`{place}`: {message}")]
    Pem {
        /// The file or setting.
        place: String,
        /// The error.
        message: String,
    },
    /// The parts do not make an identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The private key or the certificate request cannot be created.
    #[error("{0}")]
    Request(String),
}

impl SourceError {
    /// Returns the kind for metrics.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::Identity(IdentityError::Roots(_)) => FailureKind::Roots,
            Self::Read { .. } | Self::Pem { .. } | Self::Identity(_) | Self::Request(_) => {
                FailureKind::Files
            }
        }
    }
}

/// Error of an attempt to get an identity.
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
