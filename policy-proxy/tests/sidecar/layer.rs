//! The layer inside another server, driven poll by poll.

use crate::support::*;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use policy_core::{Denied, Identity, Revision, UndeclaredPorts};
use policy_enforce::middleware::layer::{EndedByPolicy, TunnelGuard};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyLayer, PolicyStore, Telemetry};
use policy_tls::peer::{Peer, PeerTls};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tower_test::mock::{self, Mock, Spawn};

type Body = Full<Bytes>;
type Service = policy_enforce::middleware::PolicyService<Mock<Request<Body>, Response<Body>>>;
type Inner = mock::Handle<Request<Body>, Response<Body>>;

fn store(policy: policy_core::ServerPolicy) -> PolicyStore {
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
    store.declare(&BTreeSet::from([PORT]), UndeclaredPorts::Default);
    store.apply(PORT, Arc::new(policy), Revision::default()).unwrap();
    store
}

fn layered(store: &PolicyStore) -> (Spawn<Service>, Inner) {
    mock::spawn_layer(PolicyLayer::new(store, PORT, "ns/web").whole_service())
}

fn ask(path: &str, peer: Option<PeerTls>) -> Request<Body> {
    let mut request = Request::get(path)
        .header("host", "web.example")
        .header("l5d-client-id", "spoofed")
        .body(Full::default())
        .unwrap();
    if let Some(tls) = peer {
        let peer = Peer::new("10.0.0.1:1".parse().unwrap(), tls);
        request.extensions_mut().insert(Arc::new(peer));
    }
    request
}

#[tokio::test]
async fn a_refused_request_is_never_handed_to_the_server() {
    let (mut service, mut inner) = layered(&store(server(detect(), nobody())));
    inner.allow(1);
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_eq!(assert_ready_ok!(call.poll()).status(), StatusCode::FORBIDDEN);
    let mut asked = task::spawn(inner.next_request());
    assert_pending!(asked.poll());
}

#[tokio::test]
async fn a_request_from_nobody_in_particular_is_refused() {
    let (mut service, mut inner) = layered(&store(server(detect(), everybody())));
    inner.allow(1);
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(ask("/", None)));
    assert_eq!(assert_ready_ok!(call.poll()).status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_server_sees_the_canonical_target_and_the_verified_identity() {
    let policy = informing(server(detect(), identities(&["a.example"])));
    let (mut service, mut inner) = layered(&store(policy));
    inner.allow(1);
    assert_ready_ok!(service.poll_ready());
    let tls = PeerTls::Terminated(Some(Identity::Dns("a.example".into())));
    let mut call = task::spawn(service.call(ask("/%61?b", Some(tls))));
    assert_pending!(call.poll());
    let (request, answer) = inner.next_request().await.unwrap();
    assert_eq!(request.uri(), "/a?b");
    assert_eq!(request.headers()["l5d-client-id"], "a.example");
    assert_eq!(request.headers()["l5d-connection-secure"], "true");
    assert!(!request.headers().contains_key("forwarded"), "the layer is no hop");
    answer.send_response(Response::new(Full::from("hi")));
    let response = assert_ready_ok!(call.poll());
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
}

#[tokio::test]
async fn heads_that_mean_two_things_or_are_too_large_are_refused_in_the_server_too() {
    let refused = |change: fn(&mut Request<Body>)| {
        let policy = informing(server(detect(), everybody()));
        let (mut service, mut inner) = layered(&store(policy));
        inner.allow(1);
        assert_ready_ok!(service.poll_ready());
        let mut request = ask("/", Some(PeerTls::Absent));
        change(&mut request);
        let mut call = task::spawn(service.call(request));
        assert_ready_ok!(call.poll()).status()
    };
    let many = |request: &mut Request<Body>| {
        for n in 0..24_570 {
            let name = http::HeaderName::try_from(format!("x{n}")).unwrap();
            request.headers_mut().insert(name, http::HeaderValue::from_static(""));
        }
    };
    assert_eq!(refused(many), StatusCode::BAD_REQUEST);
    let blank = |request: &mut Request<Body>| {
        *request.version_mut() = http::Version::HTTP_2;
        request.headers_mut().insert("x-a", http::HeaderValue::from_static(" a"));
    };
    assert_eq!(refused(blank), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_open_request_ends_when_its_permission_is_lost() {
    let store = store(server(detect(), everybody()));
    let (mut service, mut inner) = layered(&store);
    inner.allow(2);
    assert_ready_ok!(service.poll_ready());
    let mut waiting = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_ready_ok!(service.poll_ready());
    let mut answered = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_pending!(waiting.poll());
    assert_pending!(answered.poll());
    let (_first, _) = inner.next_request().await.unwrap();
    let (_second, answer) = inner.next_request().await.unwrap();
    answer.send_response(Response::new(Full::from("secret")));
    let response = assert_ready_ok!(answered.poll());
    store.apply(PORT, Arc::new(server(detect(), nobody())), Revision::default()).unwrap();
    assert!(waiting.is_woken());
    assert_eq!(assert_ready_ok!(waiting.poll()).status(), StatusCode::FORBIDDEN);
    let mut body = task::spawn(response.into_body().collect());
    assert!(assert_ready!(body.poll()).is_err(), "broken off, not complete");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_at_the_bound_of_the_policy() {
    use policy_core::filter::{Filter, FilterKind, Streams, Timeouts};
    let mut policy = server(detect(), everybody());
    let request = Some(std::time::Duration::from_millis(100));
    let timeouts = Timeouts { request, streams: Streams::Unbounded, ..Timeouts::default() };
    let source = policy_core::Source::Default("test".into());
    policy.effects = vec![Filter { source, kind: FilterKind::Timeouts(timeouts) }];
    let (mut service, mut inner) = layered(&store(policy));
    inner.allow(1);
    assert_ready_ok!(service.poll_ready());
    let waiting = service.call(ask("/", Some(PeerTls::Absent)));
    let _unanswered = inner.next_request().await.unwrap();
    assert_eq!(waiting.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn every_request_that_the_server_was_asked_is_counted_as_answered() {
    let telemetry = Arc::new(Telemetry::new(1));
    let store = PolicyStore::new(StoreConfig::default(), Arc::clone(&telemetry)).unwrap();
    store.declare(&BTreeSet::from([PORT]), UndeclaredPorts::Default);
    store.apply(PORT, Arc::new(server(detect(), everybody())), Revision::default()).unwrap();
    let (mut service, mut inner) = layered(&store);
    inner.allow(2);
    assert_ready_ok!(service.poll_ready());
    let mut answered = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_ready_ok!(service.poll_ready());
    let mut revoked = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_pending!(answered.poll());
    assert_pending!(revoked.poll());
    let (_first, answer) = inner.next_request().await.unwrap();
    answer.send_response(Response::new(Full::from("hi")));
    assert_ready_ok!(answered.poll());
    store.apply(PORT, Arc::new(server(detect(), nobody())), Revision::default()).unwrap();
    assert_eq!(assert_ready_ok!(revoked.poll()).status(), StatusCode::FORBIDDEN);
    let text = telemetry.encode(&store.status()).unwrap();
    let count = |family: &str, label: &str| {
        let of = |line: &&str| line.starts_with(family) && line.contains(label);
        let lines = text.lines().filter(of);
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    assert_eq!(count("request_total{", "inbound"), 2, "{text}");
    assert_eq!(count("response_total{", "status_code=\"200\""), 1, "{text}");
    assert_eq!(count("response_total{", "status_code=\"403\""), 1, "{text}");
}

#[tokio::test]
async fn a_router_gets_no_other_path_than_the_one_that_was_decided_on() {
    let store = store(server(detect(), everybody()));
    let (mut service, mut inner): (Spawn<Service>, Inner) =
        mock::spawn_layer(PolicyLayer::new(&store, PORT, "ns/web"));
    inner.allow(4);
    let tls = || Some(PeerTls::Terminated(Some(Identity::Dns("a.example".into()))));
    for path in ["/%6fpen/x", "/%6Fpen", "/a/%7e"] {
        assert_ready_ok!(service.poll_ready());
        let mut call = task::spawn(service.call(ask(path, tls())));
        let refused = assert_ready_ok!(call.poll());
        let said = refused.headers()["l5d-proxy-error"].to_str().unwrap().to_owned();
        assert_eq!((refused.status().as_u16(), &*said), (400, "target_not_canonical"), "{path}");
    }
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(ask("/open/x?a=%61", tls())));
    assert_pending!(call.poll());
    let (request, _) = inner.next_request().await.unwrap();
    assert_eq!(request.uri(), "/open/x?a=%61");
}

/// A request to switch protocols, and the answer to it.
fn upgrade() -> Request<Body> {
    let mut request = ask("/", Some(PeerTls::Absent));
    request.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    request
}

fn switched() -> Response<Body> {
    Response::builder().status(101).body(Full::default()).unwrap()
}

#[tokio::test]
async fn protocols_are_switched_only_where_something_ends_the_tunnel() {
    let (mut service, mut inner) = layered(&store(server(detect(), everybody())));
    inner.allow(2);
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(upgrade()));
    assert_pending!(call.poll());
    let (request, answer) = inner.next_request().await.unwrap();
    assert!(request.extensions().get::<TunnelGuard>().is_some());
    answer.send_response(switched());
    assert_eq!(assert_ready_ok!(call.poll()).status(), StatusCode::BAD_GATEWAY);
    // A request that asks for nothing of the kind cannot be answered so.
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(ask("/", Some(PeerTls::Absent))));
    assert_pending!(call.poll());
    let (request, answer) = inner.next_request().await.unwrap();
    assert!(request.extensions().get::<TunnelGuard>().is_none());
    answer.send_response(switched());
    assert_eq!(assert_ready_ok!(call.poll()).status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_tunnel_behind_the_layer_ends_with_its_grant() {
    let store = store(server(detect(), everybody()));
    let (mut service, mut inner) = layered(&store);
    inner.allow(1);
    assert_ready_ok!(service.poll_ready());
    let mut call = task::spawn(service.call(upgrade()));
    assert_pending!(call.poll());
    let (request, answer) = inner.next_request().await.unwrap();
    let guard = request.extensions().get::<TunnelGuard>().unwrap().clone();
    let mut tunnel = task::spawn(guard.ended());
    answer.send_response(switched());
    assert_eq!(assert_ready_ok!(call.poll()).status(), StatusCode::SWITCHING_PROTOCOLS);
    // Another policy that grants it changes nothing.
    store.apply(PORT, Arc::new(server(detect(), everybody())), Revision::default()).unwrap();
    tokio::task::yield_now().await;
    assert_pending!(tunnel.poll());
    store.apply(PORT, Arc::new(server(detect(), nobody())), Revision::default()).unwrap();
    assert_eq!(tunnel.await, EndedByPolicy::Denied(Denied::Revoked));
}
