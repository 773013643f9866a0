//! Configuration of the admin port.

use crate::capture::Capture;
use crate::log::LogFilter;
use crate::tap::Tap;
use policy_enforce::record::Notices;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Configuration of the admin port.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Listening address. The policy of its port decides on requests.
    pub listen: SocketAddr,
    /// Access to `/metrics`.
    pub metrics: MetricsAccess,
    /// True if `POST /shutdown` from loopback drains the proxy.
    pub shutdown: bool,
    /// True if `/proxy-log-level` answers loopback.
    pub log_level: bool,
    /// The log filter that it replaces; absent: none.
    pub log_filter: Option<Arc<LogFilter>>,
    /// The workload's name in answers.
    pub workload: Arc<str>,
    /// Logs denied requests, and has the record of decisions; absent: they are not logged, and nothing
    /// is recorded.
    pub notices: Option<Arc<Notices>>,
    /// The stream of decisions; absent, or unless samples are recorded: none.
    pub tap: Option<Arc<Tap>>,
    /// The only ports that `/probe/tcp/<port>` connects to.
    pub tcp_probe_ports: BTreeSet<NonZeroU16>,
    /// Timeout of such a probe.
    pub tcp_probe_timeout: Duration,
    /// The pod's addresses, for controllers that do not state them.
    pub pod_addresses: Vec<IpAddr>,
    /// Proof that the pod's own connections are redirected, without which the proxy is not ready;
    /// absent: they need not be.
    pub capture: Option<Capture>,
}

impl AdminConfig {
    /// Returns the most restrictive configuration.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            metrics: MetricsAccess::Policy,
            shutdown: false,
            log_level: false,
            log_filter: None,
            workload: Arc::default(),
            notices: None,
            tap: None,
            tcp_probe_ports: BTreeSet::new(),
            tcp_probe_timeout: Duration::from_secs(1),
            pod_addresses: Vec::new(),
            capture: None,
        }
    }
}

/// Access to `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Loopback clients, and those that the policy of the admin port permits.
    Policy,
    /// Loopback clients.
    Local,
    /// Every client that can reach the port.
    All,
}
