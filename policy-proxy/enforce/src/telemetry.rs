//! Metrics of the proxy.
//!
//! Decisions and requests are counted under the policy that made them ([`Counters`]), connections
//! by their labels ([`tcp`]); everything else is a field of [`Telemetry`]. Names and labels are
//! listed in [`names`]; they are Linkerd's where Linkerd has them (docs/spec/proxy.md 4).
//!
//! **Invariant.** Clients cannot add label values without bound: identities are labels up to a
//! maximum number, addresses and client-chosen names never. Labels of routes, which authors of
//! policies choose, have a maximum number and length, too.

mod buckets;
mod counters;
mod cumulative;
mod discovery;
mod exchange;
mod families;
mod key;
mod labels;
pub mod names;
mod outbound;
mod ports;
mod route_labels;
mod series;
mod table;
mod tcp;
mod total;
mod transport_headers;

pub use counters::{Counters, DetectionResult};
pub use discovery::Discovery;
pub use key::Caller;
pub use outbound::{OutboundMeter, OutboundSeries, OutboundTarget, OutboundTls};
pub use policy_server::ProcessMetrics;
pub use policy_tls::identity::IdentityMetrics;
pub use ports::PortStatus;
pub use series::{Elapsed, Outcome, Series, SeriesId};
pub use tcp::{Meter, Side, TcpSeries};

use crate::error::ErrorKind;
use key::{TlsClass, reason_number};

use cumulative::{CumulativeState, PolicyCollector};
use parking_lot::Mutex;
use policy_core::{Denied, Facts, ServerPolicy, Tls};
use policy_tls::metric::{Labels, Metric};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcp::{Connections, TcpKey};

/// All metrics of one proxy.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    shared: Arc<CumulativeState>,
    connections: Arc<Connections>,
    outbound: Arc<outbound::Outbound>,
    workers: usize,
    /// The stream from the controller.
    pub discovery: Discovery,
    /// All connections.
    pub transport: Transport,
    /// The proxy's own certificate.
    pub identity: IdentityMetrics,
    tcp_errors: Family<Labels, Counter>,
    refused: Vec<Counter>,
    ports_refused: Counter,
    headers: transport_headers::TransportHeaders,
    address: Mutex<Arc<str>>,
}

/// Metrics of all connections.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections open now.
    pub open: Gauge,
}

/// Default time that a series is shown after its last change; as in Linkerd.
pub const RETAIN_IDLE: Duration = Duration::from_secs(600);

impl Telemetry {
    /// Creates the metrics of a proxy with this many workers.
    pub fn new(workers: usize) -> Self {
        Self::with_retain_idle(workers, RETAIN_IDLE)
    }

    /// Creates metrics whose series are shown for `retain_idle` after their last change.
    pub fn with_retain_idle(workers: usize, retain_idle: Duration) -> Self {
        let shared = CumulativeState {
            cumulative: Mutex::default(),
            clients: Mutex::default(),
            retain_idle,
        };
        let mut telemetry = Self {
            registry: Registry::default(),
            shared: Arc::new(shared),
            connections: Arc::default(),
            outbound: Arc::default(),
            workers,
            discovery: Discovery::default(),
            transport: Transport::default(),
            identity: IdentityMetrics::default(),
            tcp_errors: Family::default(),
            headers: transport_headers::TransportHeaders::default(),
            refused: Vec::new(),
            ports_refused: Counter::default(),
            address: Mutex::new("".into()),
        };
        telemetry.register();
        telemetry
    }

    fn register(&mut self) {
        let refused = Family::<Labels, Counter>::default();
        let named = |reason: Denied| refused.get_or_create_owned(&label("reason", reason.as_str()));
        self.refused = Denied::all().map(named).collect();
        let registry = &mut self.registry;
        self.discovery.register(registry);
        self.headers.register(registry);
        self.identity.register(registry);
        let families = [(names::REFUSED, &refused), (names::TCP_ERRORS, &self.tcp_errors)];
        for (Metric { name, help, .. }, family) in families {
            registry.register(name, help, family.clone());
        }
        let counters = [
            (names::ACCEPTED, &self.transport.accepted),
            (names::PORTS_REFUSED, &self.ports_refused),
        ];
        for (Metric { name, help, .. }, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register(names::OPEN.name, names::OPEN.help, self.transport.open.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register(names::BUILD.name, names::BUILD.help, build);
        registry.register_collector(Box::new(PolicyCollector(Arc::clone(&self.shared))));
        let shared = Arc::clone(&self.shared);
        let (connections, outbound) = (Arc::clone(&self.connections), Arc::clone(&self.outbound));
        let collector = ConnectionCollector { shared, connections, outbound };
        registry.register_collector(Box::new(collector));
        ProcessMetrics.register(registry);
    }

    /// Creates the counters of a policy of `port`. The counts of unreferenced policies are added
    /// up.
    pub fn counters(
        &self,
        port: NonZeroU16,
        policy: &Arc<ServerPolicy>,
        facts: &Facts,
    ) -> Arc<Counters> {
        let address = facts.pod_addresses.first().map(ToString::to_string).unwrap_or_default();
        let address: Arc<str> = address.into();
        self.address.lock().clone_from(&address);
        let counters = Counters::new(port, address, Arc::clone(policy), self.workers);
        let counters = Arc::new(counters);
        let clients = self.shared.clients.lock().names();
        self.shared.cumulative.lock().register(Arc::clone(&counters), &clients);
        counters
    }

    /// Returns the client as counters distinguish it. Takes a lock: call it once per connection.
    pub fn caller(&self, tls: &Tls<'_>) -> Caller {
        let client = match tls {
            Tls::Terminated(Some(identity)) => self.shared.clients.lock().number(identity.as_str()),
            Tls::Terminated(None) | Tls::Passthrough | Tls::Absent => 0,
        };
        Caller { tls: TlsClass::of(tls), client }
    }

    /// Returns the series of connections of `port`. Takes a lock: call it once per connection.
    pub fn tcp(
        &self,
        side: Side,
        port: NonZeroU16,
        caller: Caller,
        policy: Option<&ServerPolicy>,
    ) -> Arc<TcpSeries> {
        let address = Arc::clone(&self.address.lock());
        self.connections.series(TcpKey::of(side, port, address, caller, policy), self.workers)
    }

    /// Opens the meter of an outbound connection. Takes a lock: call it once per connection.
    pub fn outbound(
        &self,
        target: OutboundTarget,
        tls: OutboundTls,
        worker: usize,
    ) -> OutboundMeter {
        OutboundMeter::open(self.outbound.series(target, tls, self.workers), worker)
    }

    /// Counts an outbound connection that was refused; `reason` is one of a closed set.
    pub fn outbound_refused(&self, target: OutboundTarget, reason: &'static str) {
        self.outbound.refused(target, reason);
    }

    /// Counts a failed attempt to reach an endpoint; `reason` is one of a closed set.
    pub fn outbound_failed(&self, target: OutboundTarget, reason: &'static str) {
        self.outbound.failed(target, reason);
    }

    /// Counts a connection or request refused without a policy in force.
    pub fn refused(&self, reason: Denied) {
        let counter =
            usize::try_from(reason_number(reason)).ok().and_then(|at| self.refused.get(at));
        if let Some(counter) = counter {
            counter.inc();
        }
    }

    /// Counts a failed request, or its connection, while no policy is in force. Else [`Counters`]
    /// counts it.
    pub fn http_error(&self, kind: ErrorKind) {
        self.shared
            .cumulative
            .lock()
            .count_without_policy(names::HTTP_ERRORS, label("error", kind.as_str()));
    }

    /// Counts a failed connection; `error` is one of a closed set of kinds.
    pub fn tcp_error(&self, error: &'static str) {
        self.tcp_errors.get_or_create_owned(&label("error", error)).inc();
    }

    /// Counts a transport header; `session_protocol`: `http/1`, `http/2` or empty.
    pub fn transport_header(
        &self,
        session_protocol: &'static str,
        port: NonZeroU16,
        caller: Caller,
    ) {
        let client = || self.shared.clients.lock().name(caller.client);
        self.headers.count(session_protocol, port, caller, client);
    }

    /// Sets the generations of the workers: a difference that stays shows a worker that hangs.
    pub fn generations(&self, published: u64, reached: u64) {
        let shown = |generation| i64::try_from(generation).unwrap_or(i64::MAX);
        self.discovery.published.set(shown(published));
        self.discovery.reached.set(shown(reached));
    }

    /// Returns the OpenMetrics text of all metrics, with the state of each port.
    pub fn encode(&self, ports: &[PortStatus]) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &ports::registry(ports))?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    /// Counts the use of an undeclared port beyond the limit.
    pub fn port_refused(&self) {
        self.ports_refused.inc();
    }
}

/// Collector of the connection metrics.
#[derive(Debug)]
struct ConnectionCollector {
    shared: Arc<CumulativeState>,
    connections: Arc<Connections>,
    outbound: Arc<outbound::Outbound>,
}

impl Collector for ConnectionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (bound, now) = (self.shared.retain_idle, Instant::now());
        self.connections.forget_idle(bound, now);
        self.outbound.forget_idle(bound, now);
        let clients = self.shared.clients.lock().names();
        self.connections.encode(&mut encoder, &clients)?;
        self.outbound.encode(&mut encoder)
    }
}

fn label(name: &'static str, value: &str) -> Labels {
    let mut labels = Labels::default();
    labels.push(name, value);
    labels
}

#[cfg(test)]
mod tests;
