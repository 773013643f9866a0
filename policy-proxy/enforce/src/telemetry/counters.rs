//! The counters of one policy, allocated when it is put in force; counting is one atomic add.

use super::buckets::Buckets;
use super::key::{Caller, CounterKey, CounterKind, Detail, reason_number};
use super::labels;
use super::route_labels::RouteLabels;
use super::series::{Series, SeriesId, SeriesTable};
use super::table::Table;
use crate::error::ErrorKind;
use crate::limiter::Scope;
use policy_core::decision::AuthorizationId;
use policy_core::{Authorization, Denial, Denied, Permit, Route, ServerPolicy};
use policy_tls::metric::Labels;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Counters of decisions by one policy. `worker` is [`crate::store::Worker::index`]; any number is
/// safe, equal ones share a table.
#[derive(Debug)]
pub struct Counters {
    pub(super) port: NonZeroU16,
    pub(super) address: Arc<str>,
    pub(super) policy: Arc<ServerPolicy>,
    pub(super) labels: RouteLabels,
    pub(super) tables: Box<[Table]>,
    pub(super) series: Box<[SeriesTable]>,
    /// Duration of protocol detection.
    pub(super) detection: Buckets<2>,
}

/// Result of detecting HTTP (docs/spec/proxy.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectionResult {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Another protocol.
    NotHttp,
    /// The client sent too little in time.
    Timeout,
    /// The connection failed.
    Error,
}

/// Maximum number of counters of a policy per worker.
const MAX_COUNTERS: usize = 4096;
/// Minimum number of counters.
const MIN_COUNTERS: usize = 64;
/// Linkerd's two bounds (at once, and within a tenth of a second), in microseconds.
const DETECTION: [u64; 2] = [1_000, 100_000];

impl Counters {
    pub(super) fn new(
        port: NonZeroU16,
        address: Arc<str>,
        policy: Arc<ServerPolicy>,
        workers: usize,
    ) -> Self {
        // Four times the number of distinguishable parts keeps probing short.
        let own: usize = policy.routes.routes.iter().map(|route| route.authorizations.len()).sum();
        let parts = own
            .saturating_add(policy.routes.routes.len())
            .saturating_add(policy.authorizations.len())
            .saturating_add(policy.exemptions.len());
        let room = parts.saturating_mul(4).clamp(MIN_COUNTERS, MAX_COUNTERS);
        let tables = (0..workers.max(1)).map(|_| Table::new(room)).collect();
        let series = (0..workers.max(1)).map(|_| SeriesTable::new(room)).collect();
        let labels = RouteLabels::of(&policy.routes.routes);
        let detection = Buckets::new(&DETECTION);
        Self { port, address, policy, labels, tables, series, detection }
    }

    /// Counts a permitted request.
    pub fn http_permitted(&self, worker: usize, caller: Caller, permit: &Permit) {
        let (route, detail) = grant(permit);
        self.add(worker, CounterKey { kind: CounterKind::HttpAllow, caller, route, detail });
    }

    /// Counts a denied request. Without a matching route it counts as route not found.
    pub fn http_denied(&self, worker: usize, caller: Caller, denial: &Denial) {
        let kind = if denial.reason == Denied::NoRoute {
            CounterKind::RouteNotFound
        } else {
            CounterKind::HttpDeny
        };
        let detail = Detail::Number(reason_number(denial.reason));
        self.add(
            worker,
            CounterKey { kind, caller, route: denial.route.map(|id| id.route), detail },
        );
    }

    /// Counts a rate-limited request.
    pub fn rate_limited(&self, worker: usize, caller: Caller, scope: Scope) {
        let detail = Detail::Number(match scope {
            Scope::Total => 0,
            Scope::Identity | Scope::Override => 1,
        });
        self.add(
            worker,
            CounterKey { kind: CounterKind::RateLimited, caller, route: None, detail },
        );
    }

    /// Returns the series of requests of `caller` with `permit`. Computes a hash: a connection
    /// keeps the series while its requests get the same permit.
    pub fn series_of(&self, worker: usize, caller: Caller, permit: &Permit) -> SeriesId {
        let (route, detail) = grant(permit);
        let key = CounterKey { kind: CounterKind::Exchange, caller, route, detail };
        let table = self.table_of(&self.series, worker);
        let found = table.zip(key.pack()).map(|(table, key)| table.find(key));
        found.unwrap_or(SeriesId::SHARED)
    }

    /// Returns a series.
    pub fn series(&self, worker: usize, id: SeriesId) -> Option<&Series> {
        self.table_of(&self.series, worker).map(|table| table.get(id))
    }

    /// Counts a request, or its connection, that failed for another reason than policy.
    pub fn http_error(&self, worker: usize, kind: ErrorKind) {
        let detail = Detail::Number(kind.number());
        self.add(
            worker,
            CounterKey { kind: CounterKind::HttpError, caller: Caller::NONE, route: None, detail },
        );
    }

    /// Counts a permitted connection.
    pub fn tcp_permitted(&self, worker: usize, caller: Caller, permit: &Permit) {
        let (route, detail) = grant(permit);
        self.add(worker, CounterKey { kind: CounterKind::TcpAllow, caller, route, detail });
    }

    /// Counts a denied connection.
    pub fn tcp_denied(&self, worker: usize, caller: Caller, reason: Denied) {
        let detail = Detail::Number(reason_number(reason));
        self.add(worker, CounterKey { kind: CounterKind::TcpDeny, caller, route: None, detail });
    }

    /// Counts a connection that was ended because its permission was revoked.
    pub fn tcp_terminated(&self, worker: usize, caller: Caller) {
        let detail = Detail::Number(reason_number(Denied::Revoked));
        self.add(
            worker,
            CounterKey { kind: CounterKind::TcpTerminate, caller, route: None, detail },
        );
    }

    /// Counts a protocol detection and its duration.
    pub fn detected(&self, worker: usize, result: DetectionResult, took: Duration) {
        self.detection.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let detail = Detail::Number(result.number());
        self.add(
            worker,
            CounterKey { kind: CounterKind::Detect, caller: Caller::NONE, route: None, detail },
        );
    }

    /// Returns the number of counts without a counter of their own.
    pub(super) fn overflow(&self) -> u64 {
        self.tables.iter().fold(0, |sum, table| sum.saturating_add(table.overflow()))
    }

    fn add(&self, worker: usize, key: CounterKey) {
        if let (Some(table), Some(packed)) = (self.table_of(&self.tables, worker), key.pack()) {
            table.increment(packed);
        }
    }

    fn table_of<'a, T>(&self, tables: &'a [T], worker: usize) -> Option<&'a T> {
        tables.get(worker.checked_rem(tables.len()).unwrap_or(0))
    }

    fn route(&self, key: &CounterKey) -> Option<&Route> {
        let index = usize::try_from(key.route?).ok()?;
        self.policy.routes.routes.get(index).map(Arc::as_ref)
    }

    /// Adds the labels of the route of `key`.
    pub(super) fn route_labels(&self, labels: &mut Labels, key: &CounterKey) {
        let route = self.route(key);
        let is_exempt = matches!(key.detail, Detail::Exemption(_));
        let exempt = self.authorization(key).filter(|_| is_exempt);
        labels::route(labels, route, exempt.map(|authorization| &authorization.source));
        labels.push("http_route", self.labels.text(route));
    }

    pub(super) fn authorization(&self, key: &CounterKey) -> Option<&Authorization> {
        let at = |index: u32| usize::try_from(index).ok();
        match key.detail {
            Detail::Number(_) => None,
            Detail::Server(index) => self.policy.authorizations.get(at(index)?).map(Arc::as_ref),
            Detail::Route(index) => {
                self.route(key)?.authorizations.get(at(index)?).map(Arc::as_ref)
            }
            Detail::Exemption(index) => self
                .policy
                .exemptions
                .get(at(index)?)
                .map(|exemption| exemption.authorization.as_ref()),
        }
    }
}

impl DetectionResult {
    const ALL: [Self; 5] = [Self::Http1, Self::Http2, Self::NotHttp, Self::Timeout, Self::Error];

    /// Returns the result as the metric writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http/1",
            Self::Http2 => "http/2",
            Self::NotHttp => "not_http",
            Self::Timeout => "read_timeout",
            Self::Error => "error",
        }
    }

    fn number(self) -> u32 {
        let position = Self::ALL.iter().position(|known| *known == self);
        position.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
    }

    pub(super) fn name(number: u32) -> String {
        let known = usize::try_from(number).ok().and_then(|at| Self::ALL.get(at));
        known.map_or("", |result| result.as_str()).to_owned()
    }
}

/// Returns the route and the grant of a permit. A route's own grant names its route.
fn grant(permit: &Permit) -> (Option<u32>, Detail) {
    let (route, detail) = Detail::of(AuthorizationId::clone(&permit.authorization()));
    (permit.route().map(|id| id.route).or(route), detail)
}
