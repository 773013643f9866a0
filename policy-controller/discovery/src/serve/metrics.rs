//! Metrics of the policy server. The `grpc_server_` family has Linkerd's names
//! (docs/spec/controller.md 6.4); the `policy_watch_` family is ours.

use super::authz_metrics::AuthzMetrics;
use policy_core::Owner;
use policy_proto::Unsupported;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::time::{Duration, Instant};
use tonic::Code;

/// A gRPC method as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Method {
    grpc_service: &'static str,
    grpc_method: &'static str,
    grpc_type: &'static str,
}

impl Method {
    /// `InboundServerPolicies.GetPort`.
    pub(crate) const GET_PORT: Self = Self {
        grpc_service: "io.linkerd.proxy.inbound.InboundServerPolicies",
        grpc_method: "GetPort",
        grpc_type: "unary",
    };
    /// `InboundServerPolicies.WatchPort`.
    pub(crate) const WATCH_PORT: Self = Self {
        grpc_service: "io.linkerd.proxy.inbound.InboundServerPolicies",
        grpc_method: "WatchPort",
        grpc_type: "server_stream",
    };
    /// `PolicyDiscovery.Watch`.
    pub(crate) const WATCH: Self = Self {
        grpc_service: "portcullis.policy.v1.PolicyDiscovery",
        grpc_method: "Watch",
        grpc_type: "bidi_stream",
    };
    /// `Destination.Get`.
    pub(crate) const DESTINATION_GET: Self = Self {
        grpc_service: "io.linkerd.proxy.destination.Destination",
        grpc_method: "Get",
        grpc_type: "server_stream",
    };
    /// `Destination.GetProfile`.
    pub(crate) const DESTINATION_PROFILE: Self = Self {
        grpc_service: "io.linkerd.proxy.destination.Destination",
        grpc_method: "GetProfile",
        grpc_type: "server_stream",
    };
    /// `DestinationDiscovery.Watch`.
    pub(crate) const DESTINATIONS: Self = Self {
        grpc_service: "portcullis.policy.v1.DestinationDiscovery",
        grpc_method: "Watch",
        grpc_type: "bidi_stream",
    };
    /// `OutboundPolicies.Get`.
    pub(crate) const OUTBOUND_GET: Self = Self {
        grpc_service: "io.linkerd.proxy.outbound.OutboundPolicies",
        grpc_method: "Get",
        grpc_type: "unary",
    };
    /// `OutboundPolicies.Watch`, and every other method of that service where it is forwarded.
    pub(crate) const OUTBOUND_WATCH: Self = Self {
        grpc_service: "io.linkerd.proxy.outbound.OutboundPolicies",
        grpc_method: "Watch",
        grpc_type: "server_stream",
    };
    /// `PolicyReport.InForce`.
    pub(crate) const IN_FORCE: Self = Self {
        grpc_service: "portcullis.policy.v1.PolicyReport",
        grpc_method: "InForce",
        grpc_type: "server_stream",
    };
    /// `PolicyReport.Objects`.
    pub(crate) const OBJECTS: Self = Self {
        grpc_service: "portcullis.policy.v1.PolicyReport",
        grpc_method: "Objects",
        grpc_type: "unary",
    };

    /// `PolicyReport.Denied`.
    pub(crate) const DENIED: Self = Self {
        grpc_service: "portcullis.policy.v1.PolicyReport",
        grpc_method: "Denied",
        grpc_type: "unary",
    };

    /// The method of `OutboundPolicies` that a request's path names.
    pub(crate) fn of_outbound(path: &str) -> Self {
        if path.ends_with("/Get") { Self::OUTBOUND_GET } else { Self::OUTBOUND_WATCH }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandledLabels {
    grpc_service: &'static str,
    grpc_method: &'static str,
    grpc_type: &'static str,
    grpc_code: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Api {
    api: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageKind {
    message: &'static str,
}

policy_core::metrics! {
    /// Handles on the policy server's metrics; clones share them.
    #[derive(Clone, Debug)]
    pub struct ServeMetrics {
        started: Family<Method, Counter> = "grpc_server_started", "RPCs started";
        received: Family<Method, Counter> = "grpc_server_msg_received", "Messages received";
        sent: Family<Method, Counter> = "grpc_server_msg_sent", "Messages sent on streams";
        handled: Family<HandledLabels, Counter> = "grpc_server_handled",
            "RPCs completed, by status code";
        seconds: Family<Method, Histogram, fn() -> Histogram> = "grpc_server_handling_seconds",
            "Time from the start of an RPC to its end"
            => Family::new_with_constructor(|| Histogram::new([0.1, 1.0, 300.0, 3600.0]));
        open: Family<Method, Gauge> = "policy_watch_open_streams", "RPCs in progress";
        connections: Gauge = "policy_watch_open_connections", "Connections of clients";
        refused: Family<Refusal, Counter> = "policy_watch_refused",
            "Connections and RPCs over a bound";
        encodings: Family<Api, Counter> = "policy_watch_encodings",
            "Policies and destinations encoded";
        shared: Family<Api, Counter> = "policy_watch_encodings_shared",
            "Policies and destinations sent from an encoding that existed";
        too_large: Family<Api, Counter> = "policy_watch_too_large",
            "Policies sent in part, or as a denial, because they were too large for the client";
        replaced: Family<Api, Counter> = "policy_watch_encodings_replaced",
            "Encodings that leave out parts of the policy that the client cannot enforce";
        ack_seconds: Histogram = "policy_watch_ack_seconds",
            "Time from publishing a policy to a client's acknowledgement"
            => Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]);
        nacks: Family<Refusal, Counter> = "policy_watch_nacks", "Updates that clients refused";
        unmatched: Family<MessageKind, Counter> = "policy_watch_unmatched",
            "Acks, Nacks and Resyncs of what the client was not sent, or that were superseded long ago";
        holding: Gauge = "policy_watch_held_streams",
            "Streams held because this replica lags behind the state that their client has";
        lookups: Gauge = "policy_watch_open_lookups", "Destinations that clients follow";
    }
    with { pub access: AuthzMetrics; }
}

impl ServeMetrics {
    pub(crate) fn open_connection(&self) -> GaugeGuard {
        GaugeGuard::new(self.connections.clone())
    }

    pub(crate) fn hold(&self) -> GaugeGuard {
        GaugeGuard::new(self.holding.clone())
    }

    pub(crate) fn lookup(&self) -> GaugeGuard {
        GaugeGuard::new(self.lookups.clone())
    }

    /// Counts a refused lookup by the bound that it is over.
    pub(crate) fn refused_lookup(&self, reason: &'static str) {
        self.refused.get_or_create(&Refusal { reason }).inc();
    }

    pub(crate) fn refused_connection(&self) {
        self.refused.get_or_create(&Refusal { reason: "connections_per_peer" }).inc();
    }

    pub(crate) fn refused_handshake(&self) {
        self.refused.get_or_create(&Refusal { reason: "handshakes" }).inc();
    }

    pub(crate) fn refused_stream(&self) {
        self.refused.get_or_create(&Refusal { reason: "streams_per_peer" }).inc();
    }

    /// Counts a message about nothing that the client was sent.
    pub(crate) fn unmatched(&self, message: &'static str) {
        self.unmatched.get_or_create(&MessageKind { message }).inc();
    }

    pub(crate) fn refused_message(&self) {
        self.refused.get_or_create(&Refusal { reason: "unfinished_messages" }).inc();
    }

    pub(crate) fn refused_ports(&self) {
        self.refused.get_or_create(&Refusal { reason: "ports_per_stream" }).inc();
    }

    pub(crate) fn encoded(&self, api: &'static str) {
        self.encodings.get_or_create(&Api { api }).inc();
    }

    pub(crate) fn shared(&self, api: &'static str) {
        self.shared.get_or_create(&Api { api }).inc();
    }

    pub(crate) fn too_large(&self, api: &'static str) {
        self.too_large.get_or_create(&Api { api }).inc();
    }

    /// Counts an encoding that leaves out parts of its policy, and logs them.
    pub(crate) fn replaced(&self, api: &'static str, owner: &Owner, replaced: &[Unsupported]) {
        if replaced.is_empty() {
            return;
        }
        self.replaced.get_or_create(&Api { api }).inc();
        for replacement in replaced {
            tracing::debug!(api, ?owner, %replacement, "encoded with less than the policy says");
        }
    }

    pub(crate) fn acked(&self, after: Duration) {
        self.ack_seconds.observe(after.as_secs_f64());
    }

    pub(crate) fn nacked(&self, reason: &'static str) {
        self.nacks.get_or_create(&Refusal { reason }).inc();
    }

    /// Returns the number of client refusals counted for `reason`.
    #[cfg(test)]
    pub(crate) fn refused(&self, reason: &'static str) -> u64 {
        self.nacks.get_or_create(&Refusal { reason }).get()
    }

    /// Returns the number of messages about nothing that a client was sent.
    #[cfg(test)]
    pub(crate) fn unmatched_of(&self, message: &'static str) -> u64 {
        self.unmatched.get_or_create(&MessageKind { message }).get()
    }

    /// Returns the number of encodings made and reused, of all APIs. For tests.
    #[doc(hidden)]
    pub fn encodings(&self) -> (u64, u64) {
        let sum = |family: &Family<Api, Counter>| {
            ["compatible", "native", "destinations"]
                .into_iter()
                .fold(0u64, |sum, api| sum.saturating_add(family.get_or_create(&Api { api }).get()))
        };
        (sum(&self.encodings), sum(&self.shared))
    }

    /// Starts the record of one RPC.
    pub(crate) fn call(&self, method: Method) -> Call {
        self.started.get_or_create(&method).inc();
        Call {
            method,
            began: Instant::now(),
            code: None,
            received: self.received.get_or_create(&method).clone(),
            sent: self.sent.get_or_create(&method).clone(),
            handled: self.handled.clone(),
            seconds: self.seconds.get_or_create(&method).clone(),
            _open: GaugeGuard::new(self.open.get_or_create(&method).clone()),
        }
    }
}

/// Raises a gauge by one until dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// An RPC in progress. Dropped without [`Call::end`], it counts as cancelled by the client.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    began: Instant,
    code: Option<Code>,
    received: Counter,
    sent: Counter,
    handled: Family<HandledLabels, Counter>,
    seconds: Histogram,
    _open: GaugeGuard,
}

impl Call {
    /// Counts a message from the client.
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    /// Counts a message to the client.
    pub(crate) fn sent(&self) {
        self.sent.inc();
    }

    /// Sets the status that the RPC ends with; the first one counts.
    pub(crate) fn end(&mut self, code: Code) {
        self.code.get_or_insert(code);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let grpc_code = code_name(self.code.unwrap_or(Code::Cancelled));
        let Method { grpc_service, grpc_method, grpc_type } = self.method;
        let labels = HandledLabels { grpc_service, grpc_method, grpc_type, grpc_code };
        self.handled.get_or_create(&labels).inc();
        self.seconds.observe(self.began.elapsed().as_secs_f64());
    }
}

/// The names that gRPC metrics use in most languages.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    fn text(metrics: &ServeMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_call_is_counted_by_its_code_and_a_dropped_one_as_cancelled() {
        let metrics = ServeMetrics::default();
        let mut call = metrics.call(Method::GET_PORT);
        assert!(text(&metrics).contains("policy_watch_open_streams{grpc_service=\"io.linkerd.proxy.inbound.InboundServerPolicies\",grpc_method=\"GetPort\",grpc_type=\"unary\"} 1"));
        call.end(Code::NotFound);
        call.end(Code::Ok);
        drop(call);
        drop(metrics.call(Method::WATCH));
        let text = text(&metrics);
        assert!(
            text.contains("grpc_method=\"GetPort\",grpc_type=\"unary\",grpc_code=\"NotFound\"} 1"),
            "{text}"
        );
        assert!(
            text.contains(
                "grpc_method=\"Watch\",grpc_type=\"bidi_stream\",grpc_code=\"Canceled\"} 1"
            ),
            "{text}"
        );
        assert!(text.contains("grpc_server_handling_seconds_count"), "{text}");
        assert!(!text.contains("grpc_code=\"OK\""), "{text}");
    }
}
