//! Errors of an embedded check.

use policy_core::evaluator::BuildError;
use std::io;

/// Error of setting up an embedded check.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The manifests cannot be read.
    #[error("manifests: {0}")]
    Manifests(String),
    /// The manifests have no such workload, so that nothing says what its ports are.
    #[error("the manifests have no workload `{0}`")]
    NoWorkload(String),
    /// A port is 0.
    #[error("0 is not a port")]
    Port,
    /// The certificate, its key or the roots cannot be used.
    #[error("mesh TLS: {0}")]
    Tls(String),
    /// The policy that holds before there is one cannot be built.
    #[error("policy: {0}")]
    Policy(#[from] BuildError),
    /// The system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
}
