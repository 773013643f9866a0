//! Configuration of a sidecar: its listeners, limits and identity in records.

use super::limits::{Limits, SocketOptions, Timeouts};
use crate::admin::Admin;
use crate::capture::Capture;
use crate::outbound::Destinations;
use crate::outbound::settings::OutboundSettings;
use crate::outbound::table::{Demand, TableSettings};
use policy_enforce::record::{DecisionMode, Decisions, Notices};
use policy_enforce::respond::RefusalDetail;
use policy_http::http2::MAX_WINDOW;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::sync::Arc;
use std::time::SystemTime;

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
    /// Logs and records denied and audited requests.
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

    /// One worker's part of the room for what requests hold: at least what two connections may hold within
    /// the windows and the bound of a head. A buffer that doubles as it fills, and the head that is forwarded, are
    /// up to four times its bytes.
    pub(super) fn most_bodies(&self) -> usize {
        let limits = &self.limits;
        let part = MOST_BODIES.checked_div(self.workers.get()).unwrap_or_default();
        let is_adaptive = limits.http2_adaptive_window;
        let client = if is_adaptive { MAX_WINDOW } else { limits.http2_connection_window };
        let windows = [client, limits.http2_upstream_windows.1];
        let windows = windows.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let head = usize::try_from(limits.request_head).unwrap_or(usize::MAX).saturating_mul(4);
        let of_one = windows.into_iter().chain([head]).fold(MOST_QUEUED, usize::saturating_add);
        part.max(of_one.saturating_mul(2))
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
            notices: Arc::new(notices(workload, DecisionMode::default(), workload)),
            refusal_detail: RefusalDetail::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            sockets: SocketOptions::default(),
            outbound: OutboundSettings::default(),
            destinations: Destinations::new(TableSettings::default()),
        }
    }
}

/// Creates the log and the record of the decisions of `workload`; `uid` is that of its pod, or the
/// workload's name where none is known.
pub(crate) fn notices(workload: &str, mode: DecisionMode, uid: &str) -> Notices {
    let decisions = Decisions::new(mode, uid, SystemTime::now());
    Notices::new(workload, Notices::INTERVAL).with_decisions(Arc::new(decisions))
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

/// Bytes of the bodies that one side of a connection of HTTP/2 does not take, over all connections.
const MOST_BODIES: usize = 16 * 1024 * 1024;
/// Bytes of bodies that wait in front of one side of a connection beside the windows.
const MOST_QUEUED: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_for_bodies_is_no_smaller_than_what_two_connections_may_hold() {
        const MIB: usize = 1024 * 1024;
        let mut config = SidecarConfig::new("web");
        assert_eq!(config.most_bodies(), 16 * MIB);
        config.workers = NonZeroUsize::new(16).unwrap();
        config.limits.request_head = 0;
        assert_eq!(config.most_bodies(), 6 * MIB);
        config.limits.http2_connection_window = 8 * 1024 * 1024;
        config.limits.http2_upstream_windows.1 = 4 * 1024 * 1024;
        assert_eq!(config.most_bodies(), 26 * MIB);
        config.limits.http2_adaptive_window = true;
        assert_eq!(config.most_bodies(), 42 * MIB);
        config.limits.request_head = 1024 * 1024;
        assert_eq!(config.most_bodies(), 50 * MIB);
    }
}
