//! Connections that came with a transport header, by what it asks for.

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

/// Counts transport headers. A client may name any port: beyond [`MOST_SERIES`], port and client are
/// left empty.
#[derive(Debug, Default)]
pub(super) struct Headers {
    counted: Family<Labels, Counter>,
    known: Mutex<HashMap<Key, Counter>>,
}

/// Protocol, port and client; without the last two: all that found no room.
type Key = (&'static str, Option<(NonZeroU16, Caller)>);

impl Headers {
    pub(super) fn register(&self, registry: &mut Registry) {
        let Metric { name, help, .. } = names::TRANSPORT_HEADERS;
        registry.register(name, help, self.counted.clone());
    }

    /// Once per connection. `client`: the name of a client that is not known here yet, if it has one.
    pub(super) fn count(
        &self,
        protocol: &'static str,
        port: NonZeroU16,
        caller: Caller,
        client: impl FnOnce() -> Option<Arc<str>>,
    ) {
        let mut known = self.known.lock();
        let mut key: Key = (protocol, Some((port, caller)));
        if known.len() >= MOST_SERIES && !known.contains_key(&key) {
            key = (protocol, None);
        }
        known.entry(key).or_insert_with(|| self.made(key, client)).inc();
    }

    fn made(&self, key: Key, client: impl FnOnce() -> Option<Arc<str>>) -> Counter {
        let (protocol, known) = key;
        let client = known.and_then(|_| client());
        let mut labels = Labels::default();
        labels.push("session_protocol", protocol);
        labels.push("target_port", known.map_or_else(String::new, |(port, _)| port.to_string()));
        // Names are for gateways, which refuse here and are counted as errors.
        labels.push("target_name", "");
        labels.push("client_id", client.as_deref().unwrap_or_default());
        self.counted.get_or_create_owned(&labels)
    }
}

const MOST_SERIES: usize = 512;

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
        assert_eq!(text.matches(&format!("{name}{{")).count(), MOST_SERIES + 1);
        let counted = |port: &str, count: u32| {
            let labels = format!("session_protocol=\"http/1\",target_port=\"{port}\"");
            text.contains(&format!("{name}{{{labels},target_name=\"\",client_id=\"\"}} {count}\n"))
        };
        assert!(counted("1", 2) && counted("512", 2) && counted("", 976), "{text}");
    }
}
