//! What a guard is told: which ports, which policy, whose pod.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use policy_server::DefaultGateways;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::path::PathBuf;

/// What our pod is called where nobody says otherwise, and the value of its label.
pub(crate) const NAME: &str = "policy-controller";

/// The ports that are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPorts {
    /// Where policies are served.
    pub grpc: NonZeroU16,
    /// Where the API server asks about objects, if it does.
    pub admission: Option<NonZeroU16>,
    /// Where /live, /ready and /metrics are served.
    pub admin: NonZeroU16,
}

/// How the controller's own ports are guarded.
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
    /// What `node-local` stands for until our Node has been read; loopback is part of it.
    pub node: Vec<IpNet>,
    /// Where the default gateways of our own pod are looked up.
    pub gateways: DefaultGateways,
}

/// Where nobody but our own machine is.
pub(crate) fn loopback() -> [IpNet; 2] {
    let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
    [v4.into(), Ipv6Net::from(Ipv6Addr::LOCALHOST).into()]
}
