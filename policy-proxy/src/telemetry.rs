//! What is counted and how it is shown: the one place for names of metrics and labels.
//!
//! Decisions are counted under the policy that made them ([`Counters`]); everything else is a field
//! of [`Telemetry`]. Names and labels are Linkerd's where Linkerd has them (proxy-semantics 4).
//!
//! **Invariant.** Nothing a client sends can add a label value without bound: client identities are
//! counted by name up to a bound, addresses and names of a stranger's choice never.

mod counters;
mod direct;
mod identity;
mod key;
mod labels;
mod ports;
mod table;

pub use counters::{Counters, Detected};
pub use identity::IdentityMetrics;
pub use key::Caller;
pub use ports::PortStatus;

use counters::Totals;
use foldhash::HashMap;
use key::{Kind, TlsClass, reason_number};
use labels::Labels;
use parking_lot::Mutex;
use policy_core::{Denied, Facts, ServerPolicy, Tls};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;
use std::sync::Arc;

/// All metrics of one proxy.
#[derive(Debug)]
pub struct Telemetry {
    registry: Registry,
    shared: Arc<Shared>,
    workers: usize,
    /// Messages from the controller.
    pub discovery: Discovery,
    /// Connections.
    pub transport: Transport,
    /// Our own certificate.
    pub identity: IdentityMetrics,
    http_errors: Family<Labels, Counter>,
    tcp_errors: Family<Labels, Counter>,
    refused: Vec<Counter>,
    ports_refused: Counter,
    headers: direct::Headers,
}

/// What is counted about the stream from the controller.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Attempts to open a stream.
    pub attempts: Counter,
    /// Streams that ended, by this side or the other.
    pub ended: Counter,
    /// Updates put in force.
    pub applied: Counter,
    /// Updates acknowledged after every worker decided by them.
    pub acknowledged: Counter,
    /// Updates refused; the last good policy stayed.
    pub rejected: Counter,
    /// Streams open now.
    pub streams: Gauge,
    /// Updates put in force that some worker does not decide by yet.
    pub unacknowledged: Gauge,
    /// The newest generation put in force; see [`Telemetry::generations`].
    published: Gauge,
    /// The newest generation that every worker decides by.
    reached: Gauge,
}

/// What is counted about connections.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Connections accepted.
    pub opened: Counter,
    /// Connections closed.
    pub closed: Counter,
    /// Connections open now.
    pub open: Gauge,
    /// Bytes from clients.
    pub read: Counter,
    /// Bytes to clients.
    pub written: Counter,
    /// Seconds it took to tell whether a connection is HTTP.
    pub detect_seconds: Histogram,
}

/// What outlives any one policy: the counts of those that were replaced, and the known clients.
#[derive(Debug, Default)]
struct Shared {
    tallies: Mutex<Tallies>,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Tallies {
    live: Vec<Arc<Counters>>,
    retired: Totals,
    retired_overflow: u64,
}

#[derive(Debug, Default)]
struct Clients {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u8>,
}

/// The most series kept for policies that were replaced.
const MOST_RETIRED: usize = 8192;
/// The longest identity that is shown by name.
const LONGEST_CLIENT: usize = 512;

impl Caller {
    /// Nobody in particular.
    pub(crate) const NONE: Self = Self { tls: TlsClass::Absent, client: 0 };
}

impl Telemetry {
    /// Metrics for a proxy with this many workers.
    pub fn new(workers: usize) -> Self {
        let mut registry = Registry::default();
        let shared = Arc::new(Shared::default());
        let discovery = Discovery::default();
        let transport = Transport::default();
        discovery.register(&mut registry);
        transport.register(&mut registry);
        let identity = IdentityMetrics::default();
        identity.register(&mut registry);
        let refused = Family::<Labels, Counter>::default();
        let named =
            |reason: Denied| refused.get_or_create_owned(&labelled("reason", reason.as_str()));
        let by_reason = Denied::all().map(named).collect();
        let (http_errors, tcp_errors) = (Family::default(), Family::default());
        let ports_refused = Counter::default();
        registry.register(
            "policy_refused",
            "Refused without a policy to decide by, by reason",
            refused.clone(),
        );
        registry.register("inbound_http_errors", "Requests that failed", http_errors.clone());
        registry.register("inbound_tcp_errors", "Connections that failed", tcp_errors.clone());
        registry.register(
            "policy_ports_refused",
            "Uses of undeclared ports beyond the bound",
            ports_refused.clone(),
        );
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("proxy_build", "The proxy's build", build);
        let headers = direct::Headers::default();
        headers.register(&mut registry);
        registry.register_collector(Box::new(ByPolicy(Arc::clone(&shared))));
        Self {
            registry,
            shared,
            workers,
            discovery,
            transport,
            identity,
            http_errors,
            tcp_errors,
            refused: by_reason,
            ports_refused,
            headers,
        }
    }

    /// Counters for a policy of `port`. What was counted under policies that nobody holds any more
    /// is kept in sums.
    pub fn counters(
        &self,
        port: NonZeroU16,
        policy: &Arc<ServerPolicy>,
        facts: &Facts,
    ) -> Arc<Counters> {
        let address = facts.pod_addresses.first().map(ToString::to_string).unwrap_or_default();
        let counters =
            Arc::new(Counters::new(port, address.into(), Arc::clone(policy), self.workers));
        let clients = self.shared.clients.lock().names.clone();
        let mut tallies = self.shared.tallies.lock();
        tallies.retire(&clients);
        tallies.live.push(Arc::clone(&counters));
        counters
    }

    /// How counters show a client. Takes a lock: once per connection.
    pub fn caller(&self, tls: &Tls<'_>) -> Caller {
        let client = match tls {
            Tls::Terminated(Some(identity)) => self.shared.clients.lock().number(identity.as_str()),
            Tls::Terminated(None) | Tls::Passthrough | Tls::Absent => 0,
        };
        Caller { tls: TlsClass::of(tls), client }
    }

    /// A connection or request was refused because there was no policy to decide by.
    pub fn refused(&self, reason: Denied) {
        let counter =
            usize::try_from(reason_number(reason)).ok().and_then(|at| self.refused.get(at));
        if let Some(counter) = counter {
            counter.inc();
        }
    }

    /// A request failed; `error` is one of the closed set of kinds that the code names.
    pub fn http_error(&self, error: &'static str) {
        self.http_errors.get_or_create_owned(&labelled("error", error)).inc();
    }

    /// A connection failed; `error` is one of the closed set of kinds that the code names.
    pub fn tcp_error(&self, error: &'static str) {
        self.tcp_errors.get_or_create_owned(&labelled("error", error)).inc();
    }

    /// A transport header was read; `session_protocol`: `http/1`, `http/2` or empty.
    pub fn transport_header(
        &self,
        session_protocol: &'static str,
        port: NonZeroU16,
        caller: Caller,
    ) {
        let names = self.shared.clients.lock().names.clone();
        self.headers.count(session_protocol, port, caller, &names);
    }

    /// States how far the workers are: a difference that stays is a worker that hangs.
    pub fn generations(&self, published: u64, reached: u64) {
        let shown = |generation| i64::try_from(generation).unwrap_or(i64::MAX);
        self.discovery.published.set(shown(published));
        self.discovery.reached.set(shown(reached));
    }

    /// The OpenMetrics text of everything, with the state of each port.
    pub fn encode(&self, ports: &[PortStatus]) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &ports::registry(ports))?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    pub(crate) fn port_refused(&self) {
        self.ports_refused.inc();
    }
}

impl Discovery {
    fn register(&self, registry: &mut Registry) {
        let rows = [
            ("policy_stream_attempts", "Attempts to open a policy stream", &self.attempts),
            ("policy_streams_ended", "Policy streams that ended", &self.ended),
            ("policy_updates_applied", "Policies put in force", &self.applied),
            (
                "policy_updates_acknowledged",
                "Policies that every worker decides by",
                &self.acknowledged,
            ),
            ("policy_updates_rejected", "Policies that could not be applied", &self.rejected),
        ];
        for (name, help, counter) in rows {
            registry.register(name, help, counter.clone());
        }
        let rows = [
            ("policy_streams_open", "Policy streams open now", &self.streams),
            (
                "policy_updates_unacknowledged",
                "Policies that wait for a worker",
                &self.unacknowledged,
            ),
            (
                "policy_generation_published",
                "Number of the newest change put in force",
                &self.published,
            ),
            (
                "policy_generation_reached",
                "Number of the newest change that every worker decides by",
                &self.reached,
            ),
        ];
        for (name, help, gauge) in rows {
            registry.register(name, help, gauge.clone());
        }
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            opened: Counter::default(),
            closed: Counter::default(),
            open: Gauge::default(),
            read: Counter::default(),
            written: Counter::default(),
            // Linkerd's own two buckets: at once, and within a tenth of a second.
            detect_seconds: Histogram::new([0.001, 0.1]),
        }
    }
}

impl Transport {
    fn register(&self, registry: &mut Registry) {
        let rows = [
            ("tcp_open", "Connections accepted", &self.opened),
            ("tcp_close", "Connections closed", &self.closed),
            ("tcp_read_bytes", "Bytes from clients", &self.read),
            ("tcp_write_bytes", "Bytes to clients", &self.written),
        ];
        for (name, help, counter) in rows {
            registry.register(name, help, counter.clone());
        }
        registry.register("tcp_open_connections", "Connections open now", self.open.clone());
        registry.register(
            "inbound_tcp_detect_http_duration_seconds",
            "How long it took to tell whether a connection is HTTP",
            self.detect_seconds.clone(),
        );
    }
}

impl Tallies {
    /// Adds up and forgets the counters that only this list still holds.
    fn retire(&mut self, clients: &[Arc<str>]) {
        let (ended, live) = std::mem::take(&mut self.live)
            .into_iter()
            .partition::<Vec<_>, _>(|counters| Arc::strong_count(counters) == 1);
        self.live = live;
        for counters in ended {
            counters.total(&mut self.retired, clients);
            self.retired_overflow = self.retired_overflow.saturating_add(counters.overflow());
        }
        if self.retired.len() > MOST_RETIRED {
            // A series that a living policy goes on with must not start again.
            let mut current = Totals::new();
            self.live.iter().for_each(|counters| counters.total(&mut current, clients));
            self.retired.retain(|key, _| current.contains_key(key));
        }
    }

    fn totals(&mut self, clients: &[Arc<str>]) -> (Totals, u64) {
        self.retire(clients);
        let mut totals = self.retired.clone();
        let mut overflow = self.retired_overflow;
        for counters in &self.live {
            counters.total(&mut totals, clients);
            overflow = overflow.saturating_add(counters.overflow());
        }
        (totals, overflow)
    }
}

impl Clients {
    /// The number of a client, given on first sight while there are any; 0: none left.
    fn number(&mut self, name: &str) -> u8 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let next = u8::try_from(self.names.len().saturating_add(1)).unwrap_or(0);
        if next == 0 || name.len() > LONGEST_CLIENT {
            return 0;
        }
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, next);
        next
    }
}

/// Shows what the policies' own counters say.
#[derive(Debug)]
struct ByPolicy(Arc<Shared>);

impl Collector for ByPolicy {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let clients = self.0.clients.lock().names.clone();
        let (totals, overflow) = self.0.tallies.lock().totals(&clients);
        for kind in Kind::ALL {
            let (name, help) = kind.describe();
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let series = totals.iter().filter(|((of, _), _)| *of == kind);
            for ((_, labels), count) in series {
                metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        let help = "Decisions counted without labels of their own";
        encoder
            .encode_descriptor("policy_uncounted", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&overflow, None)
    }
}

fn labelled(name: &'static str, value: &str) -> Labels {
    let mut labels = Labels::default();
    labels.push(name, value);
    labels
}

#[cfg(test)]
mod tests;
