//! Why handshakes fail, as operators tell it apart.

use rustls::{CertificateError, PeerIncompatible};

/// Why a handshake of ours as a server failed, as operators tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The client speaks no TLS 1.3.
    Version,
    /// The client's certificate is not valid now.
    Expired,
    /// The client's certificate is of nobody we trust.
    Untrusted,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// What the error that a handshake ended with means.
    pub fn of(error: &std::io::Error) -> Self {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let version = [
            PeerIncompatible::SupportedVersionsExtensionRequired,
            PeerIncompatible::Tls12NotOfferedOrEnabled,
            PeerIncompatible::Tls13RequiredForQuic,
        ];
        if let Some(rustls::Error::PeerIncompatible(what)) = cause {
            if version.contains(what) { Self::Version } else { Self::Other }
        } else if let Some(rustls::Error::InvalidCertificate(what)) = cause {
            let now = matches!(
                what,
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            );
            if now { Self::Expired } else { Self::Untrusted }
        } else {
            Self::Other
        }
    }
}
