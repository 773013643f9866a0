//! Settings of the controller's own policy: ports, local policy, pod.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use policy_server::DefaultGateways;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::path::PathBuf;

/// Default name of our pod, and the value of its label.
pub(crate) const NAME: &str = "policy-controller";

/// The ports that are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPorts {
    /// Port of the policy server.
    pub grpc: NonZeroU16,
    /// Port of the admission webhook, if it is served.
    pub admission: Option<NonZeroU16>,
    /// Port of /live, /ready and /metrics.
    pub admin: NonZeroU16,
}

/// Settings of the policy of the controller's own ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfPolicySettings {
    /// The value of the label portcullis.dev/component of our own pod.
    pub component: &'static str,
    /// The local policy; absent: the one that the controller carries.
    pub local_policy: Option<PathBuf>,
    /// Namespace of our own pod.
    pub namespace: String,
    /// Name of our own pod; absent: there is none to be followed.
    pub pod: Option<String>,
    /// Networks of `node-local` until our Node has been read; loopback is part of them.
    pub node: Vec<IpNet>,
    /// Lookup of the default gateways of our own pod.
    pub gateways: DefaultGateways,
}

/// Returns the loopback networks.
pub(crate) fn loopback() -> [IpNet; 2] {
    let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
    [v4.into(), Ipv6Net::from(Ipv6Addr::LOCALHOST).into()]
}
