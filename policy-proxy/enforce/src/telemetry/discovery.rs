//! Metrics of the stream from the controller.

use super::names;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the stream from the controller.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Number of attempts to open a stream.
    pub attempts: Counter,
    /// Number of streams that ended, by either side.
    pub ended: Counter,
    /// Number of updates put in force.
    pub applied: Counter,
    /// Number of updates acknowledged after every worker reached them.
    pub acknowledged: Counter,
    /// Number of updates rejected; the last good policy stayed.
    pub rejected: Counter,
    /// Number of open streams.
    pub streams: Gauge,
    /// Number of updates in force that some worker has not reached yet.
    pub unacknowledged: Gauge,
    /// The newest generation in force; see [`super::Telemetry::generations`].
    pub(super) published: Gauge,
    /// The newest generation that every worker has reached.
    pub(super) reached: Gauge,
    requests: Family<Labels, Counter>,
    responses: Family<Labels, Counter>,
}

impl Discovery {
    /// Counts an RPC to the controller at `address`, of which there is one.
    pub fn rpc_begun(&self, address: &str) {
        let mut labels = Labels::default();
        labels.push("addr", address);
        self.requests.get_or_create_owned(&labels).inc();
    }

    /// Counts the end of an RPC, with its gRPC status if it had one. An end by the proxy is no
    /// failure.
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
