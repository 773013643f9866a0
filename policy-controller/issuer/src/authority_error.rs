//! Errors of an authority that cannot be used.

/// Error of an authority that cannot be used or did not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A file or Secret key has the wrong content.
    #[error("`{place}`: {message}")]
    Text {
        /// The file, or the key of the Secret.
        place: String,
        /// Description of the problem.
        message: String,
    },
    /// The certificate may not issue certificates.
    #[error("`{0}`: its first certificate is not a CA certificate (basicConstraints CA:TRUE)")]
    NotAnAuthority(String),
    /// The key belongs to another certificate.
    #[error("`{key}` is not the key of the certificate in `{certificate}`")]
    OtherKey {
        /// File or Secret key of the private key.
        key: String,
        /// File or Secret key of the certificate.
        certificate: String,
    },
    /// Proxies support no signature algorithm of this key.
    #[error("`{0}`: unsupported key type (allowed: ECDSA P-256 and P-384, Ed25519, RSA)")]
    KeyKind(String),
    /// A certificate that it signs does not verify against the roots.
    #[error("certificates signed by `{certificate}` do not verify against `{roots}`: {error}")]
    NotTrusted {
        /// File or Secret key of the certificate.
        certificate: String,
        /// File or Secret key of the roots.
        roots: String,
        /// The error of the verifier.
        error: String,
    },
    /// It is not valid now.
    #[error("the authority is valid from {not_before} to {not_after}, and the time is {now}")]
    Time {
        /// Begin of its validity.
        not_before: jiff::Timestamp,
        /// End of its validity.
        not_after: jiff::Timestamp,
        /// Now, by this machine's clock.
        now: jiff::Timestamp,
    },
    /// The cryptographic library failed.
    #[error("signing failed")]
    Signing,
    /// Proxies trust another authority, which has not endorsed the roots of this one.
    #[error(
        "`{certificate}` leads to no root that proxies trust, so they would reject it: \
         nothing is published or issued; supply the former authority and the roots of both first; \
         if its key is lost, delete the ConfigMap of the roots beside the issuer and restart the \
         workloads"
    )]
    NotEndorsed {
        /// File or Secret key of the certificate.
        certificate: String,
    },
}
