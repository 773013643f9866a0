//! What the guard and its follower share.

use super::local::LocalPolicy;
use super::metrics::SelfPolicyMetrics;
use super::settings::OwnPorts;
use ipnet::IpNet;
use policy_core::WorkloadKey;
use policy_enforce::PolicyStore;
use policy_server::DefaultGateways;
use std::sync::atomic::AtomicBool;

/// The state of a guard, which its clones and its follower share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) workload: WorkloadKey,
    pub(super) ports: OwnPorts,
    pub(super) local: LocalPolicy,
    pub(super) store: PolicyStore,
    pub(super) metrics: SelfPolicyMetrics,
    /// Whether there is a pod of ours to be followed.
    pub(super) has_pod: bool,
    /// What `node-local` stands for while our node is not known.
    pub(super) node: Vec<IpNet>,
    /// Where the default gateways of our pod are looked up.
    pub(super) gateways: DefaultGateways,
    /// Whether the addresses of our node are known as other pods' are.
    pub(super) node_known: AtomicBool,
}
