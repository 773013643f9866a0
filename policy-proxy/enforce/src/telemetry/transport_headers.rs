//! Connections with a transport header, by its content.

use super::key::Caller;
use super::names;
use foldhash::HashMap;
use parking_lot::Mutex;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Counts transport headers. A client may name any port: beyond [`MAX_SERIES`], port and client
/// are empty.
#[derive(Debug, Default)]
pub(super) struct TransportHeaders {
    counted: Family<Labels, Counter>,
    counters: Mutex<HashMap<HeaderKey, Counter>>,
}

/// Protocol, port and client; without the last two for keys beyond the limit.
type HeaderKey = (&'static str, Option<(NonZeroU16, Caller)>);

impl TransportHeaders {
    pub(super) fn register(&self, registry: &mut Registry) {
        let Metric { name, help, .. } = names::TRANSPORT_HEADERS;
        registry.register(name, help, self.counted.clone());
    }

    /// Counts one connection. `client` returns the name of a client that is new here, if it has
    /// one.
    pub(super) fn count(
        &self,
        protocol: &'static str,
        port: NonZeroU16,
        caller: Caller,
        client: impl FnOnce() -> Option<Arc<str>>,
    ) {
        let mut counters = self.counters.lock();
        let mut key: HeaderKey = (protocol, Some((port, caller)));
        if counters.len() >= MAX_SERIES && !counters.contains_key(&key) {
            key = (protocol, None);
        }
        counters.entry(key).or_insert_with(|| self.counter(key, client)).inc();
    }

    fn counter(&self, key: HeaderKey, client: impl FnOnce() -> Option<Arc<str>>) -> Counter {
        let (protocol, counters) = key;
        let client = counters.and_then(|_| client());
        let mut labels = Labels::default();
        labels.push("session_protocol", protocol);
        labels.push("target_port", counters.map_or_else(String::new, |(port, _)| port.to_string()));
        // Names are for gateways, which are refused here and counted as errors.
        labels.push("target_name", "");
        labels.push("client_id", client.as_deref().unwrap_or_default());
        self.counted.get_or_create_owned(&labels)
    }
}

const MAX_SERIES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    #[test]
    fn ports_beyond_the_bound_are_counted_without_their_number() {
        let telemetry = Telemetry::new(1);
        for port in (1..=1000).filter_map(NonZeroU16::new) {
            telemetry.transport_header("http/1", port, Caller::NONE);
            telemetry.transport_header("http/1", port, Caller::NONE);
        }
        let text = telemetry.encode(&[]).unwrap();
        let name = "inbound_tcp_transport_header_connections_total";
        assert_eq!(text.matches(&format!("{name}{{")).count(), MAX_SERIES + 1);
        let counted = |port: &str, count: u32| {
            let labels = format!("session_protocol=\"http/1\",target_port=\"{port}\"");
            text.contains(&format!("{name}{{{labels},target_name=\"\",client_id=\"\"}} {count}\n"))
        };
        assert!(counted("1", 2) && counted("512", 2) && counted("", 976), "{text}");
    }
}
