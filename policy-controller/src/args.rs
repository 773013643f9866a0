//! The command line of `policy-controller`, in two stages: [`RunArgs`] has the flags as written, each
//! value parsed by clap (`value`); [`Settings`] has their meaning, validated together.
//!
//! Flags that Linkerd's policy controller has too keep their names, and their defaults except
//! `--grpc-addr` (on loopback), `--cluster-networks` (IPv6 is part of them),
//! `--probe-networks` and `--log-level` (docs/spec/controller.md 6.1).

mod admission;
mod auth;
mod behaviour;
mod choice;
mod cli;
mod connection;
mod destinations;
mod error;
mod injector;
mod issuer;
mod issuer_settings;
mod kubernetes;
mod linkerd_redirect;
mod metrics;
mod outbound;
mod own_identity;
mod replicas;
mod run;
mod self_policy;
mod serve;
mod serve_auth;
mod settings;
mod status;
mod value;

pub use admission::AdmissionArgs;
pub use auth::{AUDIENCE, ServeAuthArgs};
pub use behaviour::BehaviourArgs;
pub use choice::{
    GrantsArg, KubeletArg, LogFormat, ProbeRoutesArg, SidecarArg, Toggle, UndeclaredArg,
};
pub use cli::{Cli, Command};
pub use connection::ClusterArgs;
pub use destinations::DestinationArgs;
pub use error::ArgsError;
pub use injector::InjectorArgs;
pub use issuer::IssuerArgs;
pub use issuer_settings::IssuerSettings;
pub use kubernetes::KubernetesArgs;
pub use linkerd_redirect::LinkerdRedirectArgs;
pub use metrics::MetricsArgs;
pub use outbound::OutboundArgs;
pub use own_identity::{OwnIdentity, OwnIdentityArgs};
pub use replicas::{PeerDiscovery, ReplicaArgs, ReplicaSettings};
pub use run::RunArgs;
pub use self_policy::SelfPolicyArgs;
pub use serve::ServeArgs;
pub use serve_auth::{OwnCertificate, ServeAuth, ViewerTokens};
pub use settings::{ClusterSettings, Settings, SourceSettings};
pub use status::StatusArgs;

#[cfg(test)]
mod tests;
