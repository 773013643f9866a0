//! Why an authority cannot be used.

/// Why an authority cannot be used, or did not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A text does not hold what it should.
    #[error("`{place}`: {message}")]
    Text {
        /// The file, or the key of the Secret.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// It may not issue certificates.
    #[error("`{0}`: its first certificate is not one of an authority (basicConstraints CA:TRUE)")]
    NotAnAuthority(String),
    /// The key is of another certificate.
    #[error("`{key}` is not the key of the certificate in `{certificate}`")]
    OtherKey {
        /// Where the key is.
        key: String,
        /// Where the certificate is.
        certificate: String,
    },
    /// No signature of this key is understood by proxies.
    #[error(
        "`{0}`: the key is of a kind that is not used here (allowed: ECDSA P-256 and P-384, Ed25519, RSA)"
    )]
    KeyKind(String),
    /// What it signs is not accepted by whoever has the roots.
    #[error("what `{certificate}` signs is not accepted by whoever trusts `{roots}`: {error}")]
    NotTrusted {
        /// Where the certificate is.
        certificate: String,
        /// Where the roots are.
        roots: String,
        /// What the verifier says.
        error: String,
    },
    /// It is not valid now.
    #[error("the authority is valid from {begins} to {ends}, and it is {now}")]
    Time {
        /// Since when.
        begins: jiff::Timestamp,
        /// Until when.
        ends: jiff::Timestamp,
        /// Now, by this machine's clock.
        now: jiff::Timestamp,
    },
    /// The cryptographic library failed.
    #[error("signing failed")]
    Signing,
    /// Proxies trust another authority, which has not vouched for this one's roots.
    #[error(
        "`{certificate}` leads to no root that proxies trust, so that they would not follow it: \
         nothing is published or issued; supply the former authority and the roots of both first; \
         if its key is lost, delete the ConfigMap of the roots beside the issuer and restart the \
         workloads"
    )]
    Unvouched {
        /// Where the certificate is.
        certificate: String,
    },
}
