//! Enforces policies on the controller's own ports, as a proxy in front of it would.
//!
//! ```text
//! control-plane.yaml, or --local-policy ──▶ compile ──▶ PolicyStore ◀── follow ── Policies
//!                                                           │            (Servers of the cluster)
//!                    gRPC port ◀── layer ───────────────────┼── check ──▶ admin port
//!                    admission port ◀── connection ─────────┘
//! ```
//! The local policy holds from the first connection, because the controller cannot wait for itself. Once
//! objects have been listed, a Server of the cluster that selects the controller's own port takes the
//! local policy's place on that port, be it wider, narrower or invalid; the *default* policy of pod,
//! namespace or cluster never does: default deny must not keep proxies from their policy.
//!
//! **Invariants.** No policy here can grant a stream: watches are authorized by the service behind
//! it (`serve::authz`), and without TLS only loopback clients get there. What is decided here is
//! decided by the evaluator that decides for every workload.

mod admin;
mod follow;
mod handle;
mod local;
mod metrics;
mod settings;
mod shared;

pub use admin::Refusal;
pub use handle::SelfPolicy;
pub use local::LocalPolicyError;
pub use metrics::SelfPolicyMetrics;
pub(crate) use settings::{NAME, loopback};
pub use settings::{OwnPorts, SelfPolicySettings};

/// Policies for tests of the ports.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::args::SelfPolicyArgs;
    use policy_engine::config::ControllerConfig;
    use std::num::NonZeroU16;

    /// The built-in policy on a node of these addresses.
    pub(crate) fn on_node(network: &str) -> SelfPolicy {
        let mut settings = SelfPolicyArgs::default().settings(None, "ns");
        settings.node = vec![network.parse().unwrap()];
        let port = |number| NonZeroU16::new(number).unwrap();
        let ports = OwnPorts { grpc: port(8090), admission: Some(port(9443)), admin: port(8080) };
        SelfPolicy::new(&settings, ports, &ControllerConfig::default()).unwrap()
    }
}

#[cfg(test)]
mod grpc_tests;
#[cfg(test)]
mod tests;
