//! Converts the counters of one policy to metrics.

use super::counters::{Counters, DetectionResult};
use super::families::Totals;
use super::key::{CounterKey, CounterKind, Detail};
use super::series::SeriesTable;
use super::table::Table;
use super::{exchange, labels, names};
use crate::error::ErrorKind;
use policy_core::Denied;
use policy_tls::metric::{Labels, Metric};
use std::sync::Arc;

impl Counters {
    /// Adds the counts to `totals`. `clients` are the identities that callers refer to.
    pub(super) fn total(&self, totals: &mut Totals, clients: &[Arc<str>]) {
        for (packed, count) in self.tables.iter().flat_map(Table::entries) {
            let Some(key) = CounterKey::unpack(packed) else { continue };
            if let Some((metric, labels)) = self.metric(&key, clients) {
                totals.count(metric, labels, count);
            }
        }
        for (packed, series) in self.series.iter().flat_map(SeriesTable::entries) {
            let key = packed.and_then(CounterKey::unpack);
            exchange::total(self, key.as_ref(), series, clients, totals);
        }
        let mut labels = Labels::default();
        labels::server(&mut labels, &self.policy.owner, self.port);
        totals.histogram(names::DETECT_SECONDS, labels, self.detection.snapshot());
    }

    /// Returns the metric and the labels of a counter.
    fn metric(&self, key: &CounterKey, clients: &[Arc<str>]) -> Option<(Metric, Labels)> {
        let mut labels = Labels::default();
        match key.kind {
            CounterKind::Exchange => return None,
            CounterKind::Detect => {
                labels.push("result", self.number(key, DetectionResult::name));
                labels::server(&mut labels, &self.policy.owner, self.port);
                return Some((names::DETECTED, labels));
            }
            CounterKind::HttpError => {
                labels.push("error", self.number(key, error_name));
                labels::target(&mut labels, &self.address, self.port);
                labels::server(&mut labels, &self.policy.owner, self.port);
                return Some((names::HTTP_ERRORS, labels));
            }
            CounterKind::HttpAllow
            | CounterKind::HttpDeny
            | CounterKind::RouteNotFound
            | CounterKind::RateLimited
            | CounterKind::TcpAllow
            | CounterKind::TcpDeny
            | CounterKind::TcpTerminate => labels::target(&mut labels, &self.address, self.port),
        }
        let metric = self.detail_labels(&mut labels, key)?;
        labels::server(&mut labels, &self.policy.owner, self.port);
        labels::tls(&mut labels, key.caller, self.policy.protocol, clients);
        Some((metric, labels))
    }

    fn detail_labels(&self, labels: &mut Labels, key: &CounterKey) -> Option<Metric> {
        Some(match key.kind {
            CounterKind::HttpAllow => {
                self.route_labels(labels, key);
                labels::authorization(labels, self.authorization(key));
                names::HTTP_ALLOW
            }
            CounterKind::HttpDeny => {
                self.route_labels(labels, key);
                labels.push("reason", self.number(key, reason_name));
                names::HTTP_DENY
            }
            CounterKind::RateLimited => {
                labels::rate_limit(labels, self.policy.rate_limit.as_ref());
                labels.push("ratelimit_scope", self.number(key, scope_name));
                labels.push("reason", Denied::RateLimited.as_str());
                names::RATE_LIMITED
            }
            CounterKind::TcpAllow => {
                labels::authorization(labels, self.authorization(key));
                names::TCP_ALLOW
            }
            CounterKind::TcpDeny => {
                labels.push("reason", self.number(key, reason_name));
                names::TCP_DENY
            }
            CounterKind::RouteNotFound => {
                labels.push("reason", self.number(key, reason_name));
                names::ROUTE_NOT_FOUND
            }
            CounterKind::TcpTerminate => {
                labels.push("reason", self.number(key, reason_name));
                names::TCP_TERMINATE
            }
            CounterKind::Detect | CounterKind::HttpError | CounterKind::Exchange => return None,
        })
    }

    fn number(&self, key: &CounterKey, name: impl Fn(u32) -> String) -> String {
        match key.detail {
            Detail::Number(number) => name(number),
            Detail::Server(_) | Detail::Route(_) | Detail::Exemption(_) => String::new(),
        }
    }
}

fn reason_name(number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(|at| Denied::all().nth(at));
    known.map_or("", Denied::as_str).to_owned()
}

fn error_name(number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(|at| ErrorKind::ALL.get(at));
    known.map_or("", |kind| kind.as_str()).to_owned()
}

fn scope_name(number: u32) -> String {
    if number == 0 { "total" } else { "identity" }.to_owned()
}
