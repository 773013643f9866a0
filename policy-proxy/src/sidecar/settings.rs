//! How a sidecar listens and what it bounds.

use super::bounds::{Limits, Sockets, Timeouts};
use crate::admin::Admin;
use policy_enforce::record::Notices;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;

/// How a sidecar listens and what it bounds.
#[derive(Clone)]
pub struct SidecarConfig {
    /// The workload's name in records.
    pub workload: Arc<str>,
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Threads that serve connections, each with listeners of its own.
    pub workers: NonZeroUsize,
    /// The pod's addresses, beside those that the controller states. A redirected connection to any
    /// other address is refused; where none is stated, to any but the one it arrived at.
    pub pod_addresses: Vec<IpAddr>,
    /// The proxy's own admin port, which meshed clients may reach through the direct path; absent: it
    /// is a port like any other.
    pub admin: Option<Admin>,
    /// What a client's address stands for; absent: itself. Applied before policy, rate limits and
    /// records see it.
    pub client_address: Option<ClientAddress>,
    /// Tells the log of what is denied or audited.
    pub notices: Arc<Notices>,
    /// Bounds on time.
    pub timeouts: Timeouts,
    /// Bounds on size and number.
    pub limits: Limits,
    /// What the system does for connections.
    pub sockets: Sockets,
}

/// What a client's address stands for.
pub type ClientAddress = Arc<dyn Fn(IpAddr) -> IpAddr + Send + Sync>;

/// One address that a sidecar listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address; port 0 asks for a free one.
    pub address: SocketAddr,
    /// Where its connections go.
    pub target: Target,
}

/// Where the connections of a listener go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Where they were going before netfilter redirected them. Those to an address that is not the
    /// pod's, or to loopback, are refused. Those to the listener itself are as under
    /// [`Target::Direct`].
    Original,
    /// Where the client asks to go: mutual TLS and a transport header that names the workload's port,
    /// whose policy decides (proxy-semantics 1.6). It is forwarded to the upstream of a
    /// [`Target::Fixed`] listener of that port; without one, to the port at the address that the
    /// client connected to if a listener is [`Target::Original`], else it is refused.
    Direct,
    /// Always to `upstream`, under the policy of `port`.
    Fixed {
        /// The workload's port, whose policy decides.
        port: NonZeroU16,
        /// The application.
        upstream: SocketAddr,
    },
}

impl SidecarConfig {
    /// A sidecar without listeners, with one worker and the default bounds.
    pub fn new(workload: &str) -> Self {
        Self {
            workload: workload.into(),
            listeners: Vec::new(),
            workers: NonZeroUsize::MIN,
            pod_addresses: Vec::new(),
            admin: None,
            client_address: None,
            notices: Arc::new(Notices::new(workload, Notices::INTERVAL)),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            sockets: Sockets::default(),
        }
    }
}

impl std::fmt::Debug for SidecarConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SidecarConfig")
            .field("workload", &self.workload)
            .field("listeners", &self.listeners)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
