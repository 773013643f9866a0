//! Promises that hold whatever the API server does. A real one does none of this on demand, so its
//! responses are scripted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it cannot go on")]

use crate::source::api::{Api, ApiError, Lines};
use crate::source::decode::{self, KindVersion};
use crate::source::discover::discover;
use crate::source::latest_versions::LatestVersions;
use crate::source::metrics::WatchMetrics;
use crate::source::namespaces::NamespacePoller;
use crate::source::pending_batch::WatchUpdate;
use crate::source::watch::{Watch, WatchContext};
use crate::source::watch_status::WatchStatus;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use parking_lot::Mutex;
use policy_crds::Kind;
use policy_engine::source::{Change, WatchKey, WatchState};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

type Chunks = BoxStream<'static, Result<Frame<Bytes>, io::Error>>;

/// The response of an API server to a request for this path and query.
type Answer = dyn Fn(&str) -> (u16, Chunks) + Send + Sync;

fn once(text: impl Into<Bytes>) -> Chunks {
    stream::iter([Ok(Frame::data(text.into()))]).boxed()
}

/// A response that stays open without further data.
fn open(text: impl Into<Bytes>) -> Chunks {
    once(text).chain(stream::pending()).boxed()
}

/// A watch of Servers, with the requests and updates that it sent.
struct Scripted {
    requests: Arc<Mutex<Vec<String>>>,
    shared: WatchContext,
    updates: mpsc::Receiver<WatchUpdate>,
    refresh: watch::Sender<u64>,
    tasks: JoinSet<()>,
}

impl Scripted {
    fn new(idle_timeout: Duration, answer: Arc<Answer>) -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let log = requests.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let uri = request.uri().to_string();
            let (status, chunks) = answer(&uri);
            log.lock().push(uri);
            let body = StreamBody::new(chunks);
            let response = Response::builder().status(status).body(body).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let api = Api::new(kube::Client::new(service, "default"));
        let watch_status = Arc::new(WatchStatus::new([(servers(), false)]));
        let metrics = WatchMetrics::new(watch_status.subscribe());
        let (sender, updates) = mpsc::channel(64);
        let (refreshes, refresh) = watch::channel(0);
        let latest_versions = Arc::<LatestVersions>::default();
        let shared = WatchContext {
            api,
            watch_status,
            metrics,
            updates: sender,
            refresh,
            page_size: 5,
            idle_timeout,
            latest_versions,
            in_use: Arc::default(),
        };
        Self { requests, shared, updates, refresh: refreshes, tasks: JoinSet::new() }
    }

    /// Starts a watch of Servers.
    fn start(idle_timeout: Duration, answer: Arc<Answer>) -> Self {
        let mut scripted = Self::new(idle_timeout, answer);
        let watch = Watch::new(scripted.shared.clone(), 0, servers(), false);
        scripted.tasks.spawn(watch.run());
        let watch_status = scripted.shared.watch_status.clone();
        scripted.tasks.spawn(async move { watch_status.run().await });
        scripted
    }

    /// Number of requests that contain `part`.
    fn requested(&self, part: &str) -> usize {
        self.requests.lock().iter().filter(|uri| uri.contains(part)).count()
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(done.is_ok(), "{what}: {:?}", self.requests.lock());
    }

    async fn next(&mut self) -> WatchUpdate {
        let update = tokio::time::timeout(Duration::from_secs(20), self.updates.recv()).await;
        update.expect("no update was sent").unwrap()
    }
}

fn servers() -> WatchKey {
    WatchKey { kind: Kind::Server, namespace: None }
}

fn server(version: &str) -> Value {
    json!({"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
           "metadata": {"name": "s", "namespace": "n", "resourceVersion": version},
           "spec": {"podSelector": {}, "port": 80}})
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn list(version: &str, next: &str, items: &[Value]) -> Chunks {
    let metadata = json!({"resourceVersion": version, "continue": next});
    once(json!({"metadata": metadata, "items": items}).to_string())
}

/// Responses of an API server with one Server; `watch` is the body of a watch.
fn answering(watch: impl Fn() -> Chunks + Send + Sync + 'static) -> Arc<Answer> {
    Arc::new(move |uri: &str| match uri {
        uri if uri.contains("watch=true") => (200, watch()),
        uri if uri.contains("limit=") => (200, list("5", "", &[server("3")])),
        _ => (200, once(json!({"resources": [{"name": "servers"}]}).to_string())),
    })
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn bytes_that_say_nothing_are_silence() {
    let drip = || {
        let byte = |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok(Frame::data(Bytes::from_static(b" "))), ()))
        };
        stream::unfold((), byte).boxed()
    };
    let scripted = Scripted::start(Duration::from_millis(500), answering(drip));
    scripted.until("listed again", |s| s.requested("limit=") >= 2).await;
}

#[tokio::test]
async fn who_ends_every_watch_at_once_is_asked_ever_less_often() {
    let bookmark = line("BOOKMARK", &json!({"metadata": {"resourceVersion": "7"}}));
    let gone = line("ERROR", &json!({"kind": "Status", "code": 410, "message": "too old"}));
    for said in [bookmark, gone, "<html>\n".to_owned(), String::new()] {
        let answer = said.clone();
        let scripted = Scripted::start(LONG, answering(move || once(answer.clone())));
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (lists, watches) = (scripted.requested("limit="), scripted.requested("watch=true"));
        assert!((1..=7).contains(&lists) && (2..=7).contains(&watches), "{said} {lists} {watches}");
    }
}

#[tokio::test]
async fn what_is_older_than_what_was_seen_is_not_told() {
    let events = || {
        let old = line("DELETED", &server("8"));
        open(format!("{}{old}", line("MODIFIED", &server("9"))))
    };
    let mut scripted = Scripted::start(LONG, answering(events));
    let update = scripted.next().await;
    assert_eq!((update.version, update.listed, update.changes.len()), (Some(5), Some(0), 1));
    let update = scripted.next().await;
    assert!(matches!(update.changes.as_slice(), [Change::Apply(_)]), "{:?}", update.changes);
    assert_eq!((update.version, update.listed), (Some(9), None));
    // The list that follows is of version 5, which is current only in another epoch.
    for _ in 0..2 {
        let update = scripted.next().await;
        assert!(update.regressed && update.changes.is_empty(), "{update:?}");
        assert_eq!((update.since, update.version, update.listed), (0, None, None));
    }
    scripted.shared.latest_versions.reset(1);
    scripted.refresh.send_replace(1);
    let update = loop {
        let update = scripted.next().await;
        if !update.regressed {
            break update;
        }
    };
    assert!(matches!(update.changes.as_slice(), [Change::Apply(_)]), "{:?}", update.changes);
    assert_eq!((update.version, update.listed, update.since), (Some(5), Some(1), 1));
}

#[tokio::test]
async fn a_list_is_followed_from_the_version_of_its_first_page() {
    let scripted = Scripted::start(
        LONG,
        Arc::new(|uri: &str| match uri {
            uri if uri.contains("watch=true") => (200, open("")),
            uri if uri.contains("continue=") => (200, list("9", "", &[])),
            uri if uri.contains("limit=") => (200, list("5", "more", &[server("3")])),
            _ => (200, once(json!({"resources": [{"name": "servers"}]}).to_string())),
        }),
    );
    scripted.until("followed", |s| s.requested("watch=true") == 1).await;
    assert_eq!(scripted.requested("&resourceVersion=5"), 1);
    assert_eq!(scripted.requested("continue=more"), 1);
}

#[tokio::test]
async fn pages_that_lead_nowhere_end_and_neither_tell_nor_refresh_anything() {
    let mut scripted = Scripted::start(
        LONG,
        Arc::new(|uri: &str| match uri {
            uri if uri.contains("limit=") => (200, list("5", "same", &[server("3")])),
            _ => (200, once(json!({"resources": [{"name": "servers"}]}).to_string())),
        }),
    );
    let before = scripted.shared.watch_status.subscribe().borrow().watches[&servers()].heard;
    let failing = |s: &Scripted| {
        let health = s.shared.watch_status.subscribe().borrow().clone();
        matches!(&health.watches[&servers()].state, WatchState::Failing { error }
            if error.contains("leads to itself"))
    };
    scripted.until("refused", failing).await;
    let health = scripted.shared.watch_status.subscribe().borrow().clone();
    assert_eq!(health.watches[&servers()].heard, before);
    assert!(scripted.updates.try_recv().is_err());
}

#[test]
fn what_is_no_list_does_not_count_as_an_empty_one() {
    let resource = KindVersion { kind: Kind::Server, version: "v1beta3" };
    let page = |value: Value| decode::page(&resource, value.to_string().as_bytes());
    let metadata = json!({"resourceVersion": "5"});
    let failure = page(json!({ "metadata": metadata })).unwrap_err();
    assert!(failure.to_string().contains("missing field `items`"), "{failure}");
    for items in [json!(null), json!([])] {
        assert!(page(json!({"metadata": metadata, "items": items})).unwrap().objects.is_empty());
    }
}

#[tokio::test]
async fn what_does_not_say_which_kinds_there_are_makes_none_absent() {
    let scripted = Scripted::new(LONG, Arc::new(|_: &str| (200, once("{}"))));
    let found = discover(&scripted.shared.api, Kind::GrpcRoute).await;
    assert!(matches!(found, Err(ApiError::Malformed(_))), "{found:?}");
}

#[tokio::test]
async fn a_line_without_end_is_not_kept_for_ever() {
    let megabyte = Bytes::from(vec![b'x'; 1024 * 1024]);
    let endless = stream::repeat_with(move || Ok::<_, io::Error>(Frame::data(megabyte.clone())));
    let mut lines = Lines::new(StreamBody::new(endless.boxed()));
    let mut read = 0;
    let failure = loop {
        match lines.more().await {
            Ok(_) => read += 1,
            Err(failure) => break failure,
        }
        assert!(lines.next().is_none() && read < 100);
    };
    assert!(matches!(failure, ApiError::Malformed(_)), "{failure:?}");
}

#[tokio::test]
async fn a_namespace_that_is_asked_for_has_passed_what_was_seen_before() {
    let there = json!({"apiVersion": "v1", "kind": "Namespace",
                       "metadata": {"name": "a", "resourceVersion": "20"}});
    let missing = json!({"kind": "Status", "code": 404, "message": "not found"});
    for (status, body, before, version) in [
        (200, &there, 0, Some(20)),
        (200, &there, 900, Some(900)),
        (404, &missing, 900, Some(900)),
        (404, &missing, 0, None),
    ] {
        let body = body.to_string();
        let mut scripted =
            Scripted::new(LONG, Arc::new(move |_: &str| (status, once(body.clone()))));
        if before > 0 {
            scripted.shared.latest_versions.record(0, Kind::Server, before);
        }
        // Pods may be numbered by a storage of their own.
        scripted.shared.latest_versions.record(0, Kind::Pod, 5_000);
        scripted.tasks.spawn(NamespacePoller::new(scripted.shared.clone(), 3, "a".into()).run());
        let update = scripted.next().await;
        assert_eq!((update.watch, update.version, update.listed), (3, version, Some(0)));
        let applied = matches!(update.changes.as_slice(), [Change::Apply(_)]);
        let deleted = matches!(update.changes.as_slice(), [Change::Delete(_)]);
        assert_eq!((applied, deleted), (status == 200, status == 404));
    }
}

#[tokio::test]
async fn a_namespace_that_is_older_than_it_was_belongs_to_another_epoch() {
    let version = Arc::new(Mutex::new(20));
    let answered = version.clone();
    let there = move |_: &str| {
        let version = answered.lock().to_string();
        let there = json!({"apiVersion": "v1", "kind": "Namespace",
                           "metadata": {"name": "a", "resourceVersion": version}});
        (200, once(there.to_string()))
    };
    let mut scripted = Scripted::new(LONG, Arc::new(there));
    scripted.tasks.spawn(NamespacePoller::new(scripted.shared.clone(), 3, "a".into()).run());
    assert_eq!(scripted.next().await.version, Some(20));
    *version.lock() = 10;
    scripted.refresh.send_replace(1);
    assert!(scripted.next().await.regressed);
    scripted.shared.latest_versions.reset(2);
    scripted.refresh.send_replace(2);
    let update = scripted.next().await;
    assert_eq!((update.regressed, update.version, update.since), (false, Some(10), 2));
}
