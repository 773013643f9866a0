//! Flags that make no sense.

use super::admission::AdmissionArgsError;
use super::auth_error::AuthArgsError;
use super::beside::NoPort;
use super::injector::InjectorArgsError;
use super::issuer_error::IssuerArgsError;
use super::kubernetes::KubernetesArgsError;
use super::replicas::ReplicaArgsError;
use super::status::StatusArgsError;
use policy_engine::config::ConfigError;

/// A flag whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Linkerd's controller cannot be reached by what is written.
    #[error("--linkerd-policy-addr, --linkerd-policy-name: {0}")]
    Outbound(#[from] policy_tls::control::AddressError),
    /// A name of nobody.
    #[error("--linkerd-policy-addr: must be given, because --linkerd-policy-name is")]
    NoOutbound,
    /// A setting of the controller that makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A flag about the cluster that makes no sense.
    #[error(transparent)]
    Kubernetes(#[from] KubernetesArgsError),
    /// A flag about callers that makes no sense.
    #[error(transparent)]
    Auth(#[from] AuthArgsError),
    /// A flag about admission that makes no sense.
    #[error(transparent)]
    Admission(#[from] AdmissionArgsError),
    /// The webhook for Linkerd's proxies cannot be served.
    #[error(transparent)]
    Beside(#[from] NoPort),
    /// A flag about injection that makes no sense.
    #[error(transparent)]
    Injector(#[from] InjectorArgsError),
    /// A flag about status or leadership that makes no sense.
    #[error(transparent)]
    Status(#[from] StatusArgsError),
    /// A flag of the issuer that makes no sense.
    #[error(transparent)]
    Issuer(#[from] IssuerArgsError),
    /// A flag about replicas that makes no sense.
    #[error(transparent)]
    Replicas(#[from] ReplicaArgsError),
}
