//! Errors of starting and running a controller.

use crate::args::ArgsError;
use crate::self_policy::LocalPolicyError;
use policy_discovery::KeyError;
use policy_engine::source::SourceError;
use policy_kube::cluster::ClusterError;
use policy_server::TlsError;
use policy_tls::identity::SourceError as IdentitySourceError;
use policy_webhooks::admission::AdmissionError;
use std::io;

/// Error of starting or running a controller.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A flag makes no sense.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The filter of log lines cannot be read.
    #[error("--log-level: `{filter}`: {reason}")]
    LogLevel {
        /// The value of the flag.
        filter: String,
        /// The problem.
        reason: String,
    },
    /// A port cannot be listened on, or the system lacks something else.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The cluster cannot be reached.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The admission webhook cannot be served.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The credentials of the gRPC port cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client of the issuer cannot be set up.
    #[error("--identity=certify: {0}")]
    Identity(#[from] IdentitySourceError),
    /// The local policy cannot be used.
    #[error(transparent)]
    LocalPolicy(#[from] LocalPolicyError),
    /// The keys of viewers' tokens cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Objects cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The authority that was supplied to the issuer cannot be used.
    #[error("--issuer-cert, --issuer-key, --roots: {0}")]
    Authority(String),
    /// A required task has ended.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}
