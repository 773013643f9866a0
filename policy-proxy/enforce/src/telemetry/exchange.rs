//! Metric families of requests and responses of a series (docs/spec/proxy.md 4.2 and 4.3).

use super::counters::Counters;
use super::families::Totals;
use super::key::{Caller, CounterKey, CounterKind, Detail};
use super::labels;
use super::names;
use super::series::{Outcome, Series};
use policy_core::Protocol;
use policy_tls::metric::Labels;
use policy_tls::metric::Metric;
use std::sync::Arc;

/// The metrics with names of their own for each protocol.
struct ProtocolMetrics {
    requests: Metric,
    statuses: Metric,
    request_seconds: Metric,
    response_seconds: Metric,
    request_frames: Metric,
    response_frames: Metric,
}

const HTTP: ProtocolMetrics = ProtocolMetrics {
    requests: names::HTTP_REQUESTS,
    statuses: names::HTTP_STATUSES,
    request_seconds: names::HTTP_REQUEST_SECONDS,
    response_seconds: names::HTTP_RESPONSE_SECONDS,
    request_frames: names::HTTP_REQUEST_FRAMES,
    response_frames: names::HTTP_RESPONSE_FRAMES,
};

const GRPC: ProtocolMetrics = ProtocolMetrics {
    requests: names::GRPC_REQUESTS,
    statuses: names::GRPC_STATUSES,
    request_seconds: names::GRPC_REQUEST_SECONDS,
    response_seconds: names::GRPC_RESPONSE_SECONDS,
    request_frames: names::GRPC_REQUEST_FRAMES,
    response_frames: names::GRPC_RESPONSE_FRAMES,
};

/// Adds the counts of `series`. Without a key it is the overflow series, of which only the port is
/// known.
pub(super) fn total(
    counters: &Counters,
    key: Option<&CounterKey>,
    series: &Series,
    clients: &[Arc<str>],
    totals: &mut Totals,
) {
    let unknown = CounterKey {
        kind: CounterKind::Exchange,
        caller: Caller::NONE,
        route: None,
        detail: Detail::Number(0),
    };
    let key = key.unwrap_or(&unknown);
    let full = full(counters, key, clients);
    totals.count(names::REQUESTS, full.clone(), series.requests());
    totals.histogram(names::LATENCY, full.clone(), series.latency.snapshot());

    let grpc = counters.policy.protocol == Protocol::Grpc;
    let own = if grpc { &GRPC } else { &HTTP };
    let mut short = Labels::default();
    labels::parent(&mut short, &counters.policy.owner, counters.port);
    counters.route_labels(&mut short, key);
    totals.count(own.requests, short.clone(), series.requests());
    totals.histogram(own.request_seconds, short.clone(), series.duration.snapshot());
    totals.histogram(own.response_seconds, short.clone(), series.response.snapshot());
    totals.histogram(own.request_frames, short.clone(), series.request_frames.snapshot());
    totals.histogram(own.response_frames, short.clone(), series.response_frames.snapshot());

    for (outcome, count) in series.outcomes() {
        let mut labels = full.clone();
        outcome_labels(&mut labels, outcome);
        totals.count(names::RESPONSES, labels, count);
        let mut labels = short.clone();
        labels.push("status", outcome.map_or_else(|_| OTHER.to_owned(), |o| status(o, grpc)));
        totals.count(own.statuses, labels, count);
    }
}

/// Returns the labels: direction, target, server, route, authorization and TLS.
fn full(counters: &Counters, key: &CounterKey, clients: &[Arc<str>]) -> Labels {
    let mut labels = Labels::default();
    labels.push("direction", "inbound");
    labels::target(&mut labels, &counters.address, counters.port);
    labels::server(&mut labels, &counters.policy.owner, counters.port);
    counters.route_labels(&mut labels, key);
    labels::authorization(&mut labels, counters.authorization(key));
    labels::tls(&mut labels, key.caller, counters.policy.protocol, clients);
    labels
}

fn outcome_labels(labels: &mut Labels, outcome: Result<Outcome, bool>) {
    let failure = outcome.map_or_else(|failure| failure, Outcome::is_failure);
    let class = if failure { "failure" } else { "success" };
    match outcome {
        Err(_) => {
            labels.push("status_code", OTHER);
            labels.push("classification", class);
        }
        Ok(outcome) => {
            labels.push("status_code", outcome.status.to_string());
            labels.push("classification", class);
            if let Some(code) = outcome.grpc {
                labels.push("grpc_status", code.to_string());
            }
            if outcome.broken {
                labels.push("error", "incomplete");
            }
        }
    }
}

/// Returns the status label. A gRPC response without a status is unknown (2).
fn status(outcome: Outcome, grpc: bool) -> String {
    if grpc { outcome.grpc.unwrap_or(2).to_string() } else { outcome.status.to_string() }
}

/// Label of statuses beyond the limit.
const OTHER: &str = "other";
