//! State that the policy and its follower share.

use super::local::LocalPolicy;
use super::metrics::SelfPolicyMetrics;
use super::settings::OwnPorts;
use ipnet::IpNet;
use policy_core::WorkloadKey;
use policy_enforce::PolicyStore;
use policy_server::DefaultGateways;
use std::sync::atomic::AtomicBool;

/// State of a [`SelfPolicy`](super::SelfPolicy), shared by its clones and its follower.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) workload: WorkloadKey,
    pub(super) ports: OwnPorts,
    pub(super) local: LocalPolicy,
    pub(super) store: PolicyStore,
    pub(super) metrics: SelfPolicyMetrics,
    /// True if there is a pod of ours to follow.
    pub(super) has_pod: bool,
    /// Networks of `node-local` while our node is not known.
    pub(super) node: Vec<IpNet>,
    /// Lookup of the default gateways of our pod.
    pub(super) gateways: DefaultGateways,
    /// True if the addresses of our node are known as other pods' are.
    pub(super) node_known: AtomicBool,
}
