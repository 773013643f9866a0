//! What is counted about the stream from the controller.

use super::names;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
    /// The newest generation put in force; see [`super::Telemetry::generations`].
    pub(super) published: Gauge,
    /// The newest generation that every worker decides by.
    pub(super) reached: Gauge,
    requests: Family<Labels, Counter>,
    responses: Family<Labels, Counter>,
}

impl Discovery {
    /// An RPC to the controller at `address`, of which there is one, begins.
    pub fn rpc_begun(&self, address: &str) {
        let mut labels = Labels::default();
        labels.push("addr", address);
        self.requests.get_or_create_owned(&labels).inc();
    }

    /// It ended, with this gRPC status if it had one. To be ended by us is no failure.
    pub fn rpc_ended(&self, address: &str, status: Option<i32>, failure: bool) {
        let mut labels = Labels::default();
        labels.push("addr", address);
        labels.push("classification", if failure { "failure" } else { "success" });
        labels.push("grpc_status", status.map(|code| code.to_string()).unwrap_or_default());
        self.responses.get_or_create_owned(&labels).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let rows = [
            (names::STREAM_ATTEMPTS, &self.attempts),
            (names::STREAMS_ENDED, &self.ended),
            (names::APPLIED, &self.applied),
            (names::ACKNOWLEDGED, &self.acknowledged),
            (names::REJECTED, &self.rejected),
        ];
        for (Metric { name, help, .. }, counter) in rows {
            registry.register(name, help, counter.clone());
        }
        let rows = [
            (names::STREAMS_OPEN, &self.streams),
            (names::UNACKNOWLEDGED, &self.unacknowledged),
            (names::PUBLISHED, &self.published),
            (names::REACHED, &self.reached),
        ];
        for (Metric { name, help, .. }, gauge) in rows {
            registry.register(name, help, gauge.clone());
        }
        let rows = [
            (names::CONTROL_REQUESTS, &self.requests),
            (names::CONTROL_RESPONSES, &self.responses),
        ];
        for (Metric { name, help, .. }, family) in rows {
            registry.register(name, help, family.clone());
        }
    }
}
