//! Log of the sidecars' decisions.

use crate::verdict::{DecisionSummary, Verdict};
use policy_core::Origin;
use policy_enforce::record::{Record, Recorder, Verdict as RecordedVerdict};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use tokio::sync::mpsc;

/// Capacity of the queue of decisions.
const CAPACITY: usize = 4096;

/// A decision.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRecord {
    /// Time at which the request or connection arrived.
    pub(crate) at: SystemTime,
    /// The client's real address.
    pub(crate) client: SocketAddr,
    /// The identity that it proved.
    pub(crate) identity: Option<String>,
    /// The requested workload.
    pub(crate) workload: String,
    /// Its port.
    pub(crate) port: NonZeroU16,
    /// Method, target and status; none for a connection.
    pub(crate) request: Option<(String, String, u16)>,
    /// The decision.
    pub(crate) found: DecisionSummary,
    /// The route's name among those of its object, such as `/books/:id`.
    pub(crate) http_route: Option<String>,
    /// The path that InboundRoutes delegated to the route, with the objects that it passed through.
    pub(crate) delegated: Option<String>,
}

/// Receives decisions from sidecars and queues them.
#[derive(Debug)]
pub(crate) struct DecisionSink {
    entries: mpsc::Sender<DecisionRecord>,
    lost: AtomicU64,
}

impl DecisionSink {
    /// Creates a sink and the receiver of its decisions.
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<DecisionRecord>) {
        let (entries, receiver) = mpsc::channel(CAPACITY);
        (Arc::new(Self { entries, lost: AtomicU64::new(0) }), receiver)
    }

    /// Returns the number of decisions dropped since the last call, and resets it.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Recorder for DecisionSink {
    fn record(&self, record: &Record<'_>) {
        let entry = DecisionRecord {
            at: record.at,
            client: record.client(),
            identity: record.client_id().map(str::to_owned),
            workload: record.workload.to_owned(),
            port: record.port,
            request: record.request.as_ref().map(|request| {
                let status = request.status.as_u16();
                (request.method.to_string(), request.target.to_owned(), status)
            }),
            found: found(record),
            http_route: record.http_route.map(str::to_owned),
            delegated: record.route.and_then(Origin::delegated_path).map(ToString::to_string),
        };
        // A worker thread must not block on a slow reader.
        if self.entries.try_send(entry).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn found(record: &Record<'_>) -> DecisionSummary {
    let (decision, reason) = match record.verdict {
        RecordedVerdict::Allowed if record.audited => (Verdict::Audit, None),
        RecordedVerdict::Allowed => (Verdict::Allow, None),
        RecordedVerdict::Denied(reason) => (Verdict::Deny, Some(reason.as_str().to_owned())),
    };
    DecisionSummary {
        decision,
        reason,
        route: record.route.map(ToString::to_string),
        authorization: record.authorization.map(ToString::to_string),
    }
}
