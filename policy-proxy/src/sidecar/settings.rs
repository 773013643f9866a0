//! Configuration of a sidecar: its listeners, limits and identity in records.

use super::limits::{Limits, SocketOptions, Timeouts};
use crate::admin::Admin;
use crate::capture::Capture;
use crate::outbound::Destinations;
use crate::outbound::settings::OutboundSettings;
use crate::outbound::table::{Demand, TableSettings};
use policy_enforce::record::Notices;
use policy_enforce::respond::RefusalDetail;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;

/// Configuration of a sidecar.
#[derive(Clone)]
pub struct SidecarConfig {
    /// The workload's name in records.
    pub workload: Arc<str>,
    /// The addresses that it listens on.
    pub listeners: Vec<Listener>,
    /// Threads that serve connections, each with listeners of its own.
    pub workers: NonZeroUsize,
    /// The pod's addresses, in addition to those that the controller states. A redirected
    /// connection to any other address is refused; if none are stated, to any address but the
    /// socket's own.
    pub pod_addresses: Vec<IpAddr>,
    /// The proxy's own admin port, which meshed clients may reach through the direct path; absent: it
    /// is a port like any other.
    pub admin: Option<Admin>,
    /// Proof that the pod's connections are redirected: the admin server answers redirected
    /// connections to its port; absent: that is a port like any other.
    pub capture: Option<Capture>,
    /// Maps a client's address before policy, rate limits and records; absent: unchanged.
    pub client_address: Option<ClientAddress>,
    /// Logs denied and audited requests.
    pub notices: Arc<Notices>,
    /// What refusals tell meshed clients besides their status.
    pub refusal_detail: RefusalDetail,
    /// Timeouts of connections and requests.
    pub timeouts: Timeouts,
    /// Limits on size and number.
    pub limits: Limits,
    /// Socket options.
    pub sockets: SocketOptions,
    /// The workload's own connections.
    pub outbound: OutboundSettings,
    /// The controller's answers about their destinations.
    pub destinations: Destinations,
}

/// Maps a client's address to the one that policy, rate limits and records use.
pub type ClientAddress = Arc<dyn Fn(IpAddr) -> IpAddr + Send + Sync>;

/// One address that a sidecar listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address; with port 0 the system picks a free port.
    pub address: SocketAddr,
    /// Destination of its connections.
    pub target: Target,
}

/// Destination of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The original destination, before netfilter redirected them. Connections to an address that
    /// is not the pod's, or to loopback, are refused. Those to the listener itself are handled as
    /// under [`Target::Direct`].
    Original,
    /// The destination in a transport header that the client sends over mutual TLS: a port of the
    /// workload, whose policy decides (docs/spec/proxy.md 1.6). It is forwarded to the upstream of a
    /// [`Target::Fixed`] listener of that port; without one, to the port at the address that the
    /// client connected to if a listener is [`Target::Original`], else it is refused.
    Direct,
    /// The original destination of the workload's own connections, before netfilter redirected them.
    Outbound,
    /// The destination of the workload's own connections, whatever they dialled: where nothing is
    /// redirected.
    OutboundTo(SocketAddr),
    /// Always to `upstream`, under the policy of `port`.
    Fixed {
        /// The workload's port, whose policy decides.
        port: NonZeroU16,
        /// The application.
        upstream: SocketAddr,
    },
}

impl Target {
    /// True for the workload's own connections.
    pub(super) fn is_outbound(self) -> bool {
        match self {
            Self::Outbound | Self::OutboundTo(_) => true,
            Self::Original | Self::Direct | Self::Fixed { .. } => false,
        }
    }
}

impl SidecarConfig {
    /// One worker's part of [`Limits::heads`].
    pub(super) fn most_heads(&self) -> usize {
        self.limits.heads.checked_div(self.workers.get()).unwrap_or_default()
    }

    /// A sidecar without listeners, with one worker and the default limits.
    pub fn new(workload: &str) -> Self {
        Self {
            workload: workload.into(),
            listeners: Vec::new(),
            workers: NonZeroUsize::MIN,
            pod_addresses: Vec::new(),
            admin: None,
            capture: None,
            client_address: None,
            notices: Arc::new(Notices::new(workload, Notices::INTERVAL)),
            refusal_detail: RefusalDetail::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            sockets: SocketOptions::default(),
            outbound: OutboundSettings::default(),
            destinations: Destinations::new(TableSettings::default()),
        }
    }
}

impl SidecarConfig {
    /// Returns the questions and answers of the client of discovery; `None` without an outbound listener.
    pub fn demand(&self) -> Option<Arc<dyn Demand>> {
        let is_outbound = self.listeners.iter().any(|own| own.target.is_outbound());
        is_outbound.then(|| Arc::new(self.destinations.clone()) as Arc<dyn Demand>)
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
