//! Reasons of failed handshakes, for operators.

use rustls::{CertificateError, PeerIncompatible};

/// Reason of a failed server handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The client does not support TLS 1.3.
    Version,
    /// The client's certificate is not valid now.
    Expired,
    /// The client's certificate does not chain to a trusted root.
    Untrusted,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// Returns the reason of a handshake's error.
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
