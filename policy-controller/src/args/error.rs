//! Flags that make no sense.

use super::admission::AdmissionArgsError;
use super::auth_error::AuthArgsError;
use super::beside::NoPort;
use super::guard::GuardArgsError;
use super::injector::InjectorArgsError;
use super::issuer_error::IssuerArgsError;
use super::kubernetes::KubernetesArgsError;
use super::replicas::ReplicaArgsError;
use super::status::StatusArgsError;
use policy_engine::config::ConfigError;

/// A flag whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Not an address.
    #[error("--{flag}: `{value}` is not an address and port (for example `0.0.0.0:8090`)")]
    Address {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
    },
    /// Not a list of networks.
    #[error("--{flag}: `{value}` is not a CIDR or address{also}")]
    Network {
        /// The flag, without dashes.
        flag: &'static str,
        /// The item that is wrong.
        value: String,
        /// What else is allowed, in words; empty: nothing.
        also: &'static str,
    },
    /// Not an identity.
    #[error("--metrics-allow-identities: {why}")]
    Identity {
        /// What was written.
        value: String,
        /// What is wrong with it, which quotes it.
        why: String,
    },
    /// Not a list of ports.
    #[error("--proxy-ports: `{0}` is not a port from 1 to 65535")]
    Port(String),
    /// Not a default policy.
    #[error("--default-policy: `{value}` is not one of {allowed}")]
    DefaultPolicy {
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A bound that nothing could meet.
    #[error("--{flag}: `{value}` is out of range; {allowed}")]
    Range {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
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
    /// A flag about the controller's own ports that makes no sense.
    #[error(transparent)]
    Guard(#[from] GuardArgsError),
    /// A flag of the issuer that makes no sense.
    #[error(transparent)]
    Issuer(#[from] IssuerArgsError),
    /// A flag about replicas that makes no sense.
    #[error(transparent)]
    Replicas(#[from] ReplicaArgsError),
}
