//! Mesh identity: our own certificate, the trusted roots, and the identity that a client's
//! certificate proves.
//!
//! An [`IdentitySource`] keeps an [`IdentityHandle`] current from files, from an issuer (Linkerd's
//! Certify) or from SPIFFE's Workload API, and publishes its status ([`IdentityStatus`]).
//!
//! TLS 1.3 only, no resumption (a ticket would outlive a revoked root). Client certificates are
//! optional; a presented one must chain to the roots and allow clientAuth. Of its names, exactly
//! one `spiffe://` URI decides; without any, exactly one DNS name; anything else proves nothing.

#[cfg(feature = "control-plane")]
mod certify;
mod contents;
mod credentials;
mod error;
mod files;
mod handle;
mod handshake;
mod metrics;
mod name;
mod pem;
mod proof;
mod provider;
mod publish;
mod request;
mod roots;
mod signed;
mod source;
mod state;
mod status;
mod verify;
#[cfg(feature = "control-plane")]
mod workload_api;

pub use crate::x509::validity;
#[cfg(feature = "control-plane")]
pub use certify::CertifyConfig;
pub use credentials::{Credentials, DIRECT_ALPN, TlsIdentity, anonymous_client};
pub use error::{IdentityError, SourceError};
pub use files::IdentityFiles;
pub use handle::IdentityHandle;
pub use handshake::HandshakeFailure;
pub use metrics::IdentityMetrics;
pub use name::{identity_of, is_dns_name, is_spiffe_id};
pub use pem::{certificates, key_pem, pem, readable};
pub use proof::{Proof, ProofError, ProofVerifier};
pub use provider::provider;
pub use request::KeyAndRequest;
pub use roots::{Roots, TrustAnchors};
pub use signed::{MAX_ROOTS, SignedRoots, Statement, Trust, proof_name};
pub use source::{IdentityConfig, IdentitySource};
pub use state::{CertificateState, Failure, FailureKind, IdentityState};
pub use status::IdentityStatus;
#[cfg(feature = "control-plane")]
pub use workload_api::{AgentAddress, SpiffeConfig};
