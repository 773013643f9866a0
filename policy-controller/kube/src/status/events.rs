//! Kubernetes Events: for kinds without a status, and for what concerns no policy object.

use super::api::{StatusApi, StatusApiError};
use super::message::bounded;
use super::metrics::EventMetrics;
use super::queue::backoff;
use foldhash::fast::FixedState;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_server::Limiter;
use serde_json::{Value, json};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Capacity of the queue; further events are dropped.
const QUEUE_CAPACITY: usize = 256;
/// Rate of creation, with a burst of five times as many.
const EVENTS_PER_SECOND: u32 = 5;
/// Number of attempts per event.
const MAX_ATTEMPTS: u32 = 4;
/// Time limit of one attempt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// The object that it regards.
    pub(crate) regarding: ObjectReference,
    /// `Warning`, else `Normal`.
    pub(crate) warning: bool,
    /// The reason.
    pub(crate) reason: Arc<str>,
    /// The note.
    pub(crate) note: Arc<str>,
}

/// Records Events. Never blocks: events beyond the capacity are dropped and counted.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Event>,
    metrics: EventMetrics,
}

impl EventRecorder {
    /// Creates the recorder, and the writer of its events. `instance` names this replica.
    pub fn new(client: Client, controller: Arc<str>, instance: Arc<str>) -> (Self, EventWriter) {
        let (queue, events) = mpsc::channel(QUEUE_CAPACITY);
        let metrics = EventMetrics::default();
        let api = StatusApi::new(client, REQUEST_TIMEOUT);
        let reporter = Reporter { controller, instance };
        let writer = EventWriter { api, reporter, events, metrics: metrics.clone() };
        (Self { queue, metrics }, writer)
    }

    /// Records a `Warning`. The same warning about the same object is one event for as long as the
    /// API server keeps it (an hour by default). `reason` is one word.
    pub fn warn(&self, regarding: ObjectReference, reason: &str, note: &str) {
        self.put(regarding, true, reason, note);
    }

    /// Records an event of type `Normal`.
    pub fn normal(&self, regarding: ObjectReference, reason: &str, note: &str) {
        self.put(regarding, false, reason, note);
    }

    fn put(&self, regarding: ObjectReference, warning: bool, reason: &str, note: &str) {
        let event = Event { regarding, warning, reason: reason.into(), note: bounded(note) };
        if self.queue.try_send(event).is_err() {
            self.metrics.dropped.inc();
        }
    }

    /// Handles on its metrics.
    pub fn metrics(&self) -> EventMetrics {
        self.metrics.clone()
    }
}

/// Creates the events of an [`EventRecorder`].
pub struct EventWriter {
    api: StatusApi,
    reporter: Reporter,
    events: mpsc::Receiver<Event>,
    metrics: EventMetrics,
}

impl EventWriter {
    /// Creates events until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut limiter = Limiter::new(EVENTS_PER_SECOND, EVENTS_PER_SECOND.saturating_mul(5));
        loop {
            let next = shutdown.run_until_cancelled(self.events.recv()).await;
            let Some(Some(event)) = next else { return };
            while let Err(when) = limiter.take(Instant::now()) {
                tokio::time::sleep_until(when.into()).await;
            }
            if shutdown.run_until_cancelled(self.create(&event)).await.is_none() {
                return;
            }
        }
    }

    async fn create(&self, event: &Event) {
        for attempt in 1..=MAX_ATTEMPTS {
            match create(&self.api, &self.reporter, event).await {
                Ok(true) => {
                    self.metrics.created.inc();
                    return;
                }
                Ok(false) => return,
                Err(failure) if failure.is_overload() && attempt < MAX_ATTEMPTS => {
                    let (first, most) = (Duration::from_secs(1), Duration::from_secs(10));
                    tokio::time::sleep(backoff(attempt, first, most, 0)).await;
                }
                Err(failure) => {
                    tracing::warn!(%failure, note = %event.note, "cannot create an Event");
                    break;
                }
            }
        }
        self.metrics.dropped.inc();
    }
}

/// The reporting controller and instance of events.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    /// The controller's name.
    pub(crate) controller: Arc<str>,
    /// This replica.
    pub(crate) instance: Arc<str>,
}

/// Creates an event; false if the API server has it already.
pub(crate) async fn create(
    api: &StatusApi,
    reporter: &Reporter,
    event: &Event,
) -> Result<bool, StatusApiError> {
    let (namespace, body) = event_object(reporter, event, Timestamp::now());
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    match api.create(&path, &body).await {
        Ok(()) => Ok(true),
        Err(failure) if failure.code() == 409 => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The event object and its namespace. Its name is a hash of its content, so that the API server
/// rejects a repetition by this replica or another as a duplicate.
fn event_object(reporter: &Reporter, event: &Event, now: Timestamp) -> (String, Value) {
    let mut regarding = event.regarding.clone();
    let namespace = match (&regarding.namespace, &regarding.kind, &regarding.name) {
        (Some(namespace), _, _) if !namespace.is_empty() => namespace.clone(),
        // In that namespace its owners see it.
        (_, Some(kind), Some(name)) if kind == "Namespace" => name.clone(),
        // The namespace that Kubernetes uses for objects without one.
        _ => "default".to_owned(),
    };
    if regarding.kind.as_deref() == Some("Namespace") {
        regarding.namespace = Some(namespace.clone());
    }
    let kind = if event.warning { "Warning" } else { "Normal" };
    let content = (&regarding.kind, &regarding.uid, kind, &event.reason, &event.note);
    let hash = FixedState::default().hash_one(content);
    let about = regarding.name.as_deref().unwrap_or("policy");
    let about = about.get(..about.floor_char_boundary(200)).unwrap_or_default();
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": format!("{about}.{hash:016x}"), "namespace": namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "reportingController": &*reporter.controller,
        "reportingInstance": truncated(&reporter.instance),
        "action": "Evaluate",
        "reason": truncated(&event.reason),
        "regarding": regarding,
        "note": &*event.note,
        "type": kind,
    });
    (namespace, body)
}

/// Truncates to the 128 characters that the API server accepts.
fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(128)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(kind: &str, namespace: Option<&str>, note: &str) -> (String, Value) {
        let regarding = ObjectReference {
            kind: Some(kind.to_owned()),
            name: Some("one".to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectReference::default()
        };
        let reporter = Reporter { controller: "c/d".into(), instance: "i".into() };
        let event = Event { regarding, warning: true, reason: "Late".into(), note: note.into() };
        event_object(&reporter, &event, "2026-11-21T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn an_event_is_where_its_object_is() {
        assert_eq!(about("Server", Some("ns"), "x").0, "ns");
        assert_eq!(about("Node", None, "x").0, "default");
        let (namespace, body) = about("Namespace", None, "x");
        assert_eq!((&*namespace, &body["regarding"]["namespace"]), ("one", &json!("one")));
        assert_eq!(body["eventTime"], json!("2026-11-21T12:00:00.000000Z"));
    }

    #[test]
    fn the_same_words_about_the_same_object_are_the_same_event() {
        let name = |note| about("Server", Some("ns"), note).1["metadata"]["name"].clone();
        assert_eq!(name("x"), name("x"));
        assert_ne!(name("x"), name("y"));
    }
}
