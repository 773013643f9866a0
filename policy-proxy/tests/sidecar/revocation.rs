//! Open requests and tunnels end within a second once their permission is lost; bystanders stay.

use crate::support::*;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::{
    HeaderMatch, HostPattern, PathPattern, Protocol, QueryMatch, RequestMatch, ValueMatch,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn routes(stream: bool) -> policy_core::ServerPolicy {
    let streams = if stream { everybody() } else { nobody() };
    let routes = vec![route(prefix("/stream"), streams), route(prefix("/"), everybody())];
    with_routes(server(detect(), nobody()), routes)
}

/// Time until the body ends; `None`: longer than a second.
async fn ends(body: &mut Incoming) -> Option<Duration> {
    let begun = Instant::now();
    let read = async { while matches!(body.frame().await, Some(Ok(_))) {} };
    tokio::time::timeout(Duration::from_secs(1), read).await.ok().map(|()| begun.elapsed())
}

#[tokio::test]
async fn an_open_response_that_lost_its_permission_breaks_off_and_another_goes_on() {
    let app = App::start().await;
    let setup = Setup::new(routes(true), app.address).await;
    let mut first = Client::new(setup.connect().await).await;
    let mut body = first.send(request("/stream/a", &[])).await.into_body();
    body.frame().await.unwrap().unwrap();
    setup.apply(routes(true)).await;
    assert_eq!(ends(&mut body).await, None, "an equal policy changes nothing");
    // A second stream, under a path that stays permitted.
    let more = {
        let exact = RequestMatch::path(PathPattern::exact("/stream/b"));
        let routes = vec![route(exact, everybody()), route(prefix("/stream"), nobody())];
        with_routes(server(detect(), nobody()), routes)
    };
    let mut second = Client::new(setup.connect().await).await;
    let mut bystander = second.send(request("/stream/b", &[])).await.into_body();
    setup.apply(more).await;
    assert!(ends(&mut body).await.is_some(), "revoked within a second");
    assert_eq!(ends(&mut bystander).await, None, "still permitted");
    setup.logged("deny revoked - GET /stream/a 200").await;
}

#[tokio::test]
async fn a_websocket_that_lost_its_permission_ends() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut stream = setup.connect().await;
    let head = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 1024];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    stream.write_all(b"ping").await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), 4);
    setup.apply(server(detect(), nobody())).await;
    let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut buffer)).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
}

#[tokio::test]
async fn a_policy_that_looks_at_a_header_nobody_kept_ends_the_request() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let mut body = client.send(request("/stream", &[("x-role", "admin")])).await.into_body();
    body.frame().await.unwrap().unwrap();
    setup.apply(by_role("admin")).await;
    assert!(ends(&mut body).await.is_some());
}

/// All inputs of a decision are kept with the request; otherwise a review would decide by less.
#[tokio::test]
async fn an_open_request_is_decided_again_by_all_that_it_said() {
    let app = App::start().await;
    let said = ["GET", "web.example", "/stream", "1", "admin"];
    for changed in [None, Some(0), Some(1), Some(2), Some(3), Some(4)] {
        let setup = Setup::new(asking(said), app.address).await;
        let mut client = Client::new(setup.connect().await).await;
        let headers = [("x-role", "admin"), ("host", "web.example")];
        let response = client.send(request("/stream?q=1", &headers)).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
        let mut other = said;
        if let Some(fact) = changed {
            other[fact] = ["POST", "other.example", "/other", "2", "root"][fact];
        }
        let mut policy = asking(other);
        policy.paths = policy_core::PathHandling::Raw;
        setup.apply(policy).await;
        assert_eq!(ends(&mut body).await.is_none(), changed.is_none(), "{other:?}");
    }
}

/// A policy for requests with this method, host, path, query parameter and header.
fn asking([method, host, path, query, role]: [&'static str; 5]) -> policy_core::ServerPolicy {
    let exact = |text: &str| ValueMatch::Exact(text.as_bytes().into());
    let matched = RequestMatch::new(
        PathPattern::exact(path),
        Some(method.parse().unwrap()),
        vec![HeaderMatch { name: http::HeaderName::from_static("x-role"), value: exact(role) }],
        vec![QueryMatch { name: "q".into(), value: exact(query) }],
    );
    let mut only = route(matched, everybody());
    Arc::make_mut(&mut only).hosts = [HostPattern::parse(host)].into();
    with_routes(server(detect(), nobody()), vec![only])
}

#[tokio::test]
async fn headers_that_the_policy_looks_at_are_kept_and_judged_again() {
    let app = App::start().await;
    let setup = Setup::new(by_role("admin"), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let response = client.send(request("/stream", &[("x-role", "admin")])).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut again = by_role("admin");
    again.paths = policy_core::PathHandling::Raw;
    setup.apply(again).await;
    assert_eq!(ends(&mut body).await, None);
    setup.apply(by_role("root")).await;
    assert!(ends(&mut body).await.is_some());
}

fn by_role(role: &str) -> policy_core::ServerPolicy {
    let matched = prefix("/").with_headers(vec![HeaderMatch {
        name: http::HeaderName::from_static("x-role"),
        value: ValueMatch::Exact(role.as_bytes().into()),
    }]);
    with_routes(server(detect(), nobody()), vec![route(matched, everybody())])
}

#[tokio::test]
async fn the_next_request_on_a_connection_is_decided_by_the_new_policy() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.status, 200);
        setup.apply(server(detect(), nobody())).await;
        assert_eq!(client.get("/").await.status, 403);
        setup.apply(server(detect(), everybody())).await;
    }
    assert_eq!(app.connections(), 1, "no connection was dropped");
}

/// Sends chunks until the proxy reads no more, and returns the time that it took.
async fn send_on(stream: &mut tokio::net::TcpStream) -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        if stream.write_all(b"4\r\nmore\r\n").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

/// Bound: nothing after the revocation; the connection ends within three seconds of it.
#[tokio::test]
async fn a_client_that_takes_no_response_cannot_send_on_once_its_permission_is_lost() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut stream = setup.connect().await;
    let head =
        b"POST /swallow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n";
    stream.write_all(head).await.unwrap();
    // Until the application's data has filled every buffer on the way.
    tokio::time::sleep(Duration::from_millis(500)).await;
    stream.write_all(b"4\r\nmore\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(app.swallowed(), 8);
    setup.apply(server(detect(), nobody())).await;
    let took = send_on(&mut stream).await;
    assert_eq!(app.swallowed(), 8, "not a byte more");
    assert!(took < Duration::from_secs(4), "{took:?}");
    setup.logged("deny revoked - POST /swallow 200").await;
}

#[tokio::test]
async fn an_upload_is_watched_after_its_response_is_complete() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut stream = setup.connect().await;
    let head =
        b"POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n";
    stream.write_all(head).await.unwrap();
    let mut buffer = vec![0; 1024];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    stream.write_all(b"4\r\nmore\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(app.swallowed(), 8);
    setup.apply(server(detect(), nobody())).await;
    send_on(&mut stream).await;
    assert_eq!(app.swallowed(), 8, "not a byte more");
}

#[tokio::test]
async fn a_stream_whose_window_is_shut_cannot_send_on_once_its_permission_is_lost() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let io = TokioIo::new(setup.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let (frames, body) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let body = StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(body));
    let some = || Ok(Frame::data(Bytes::from_static(b"some")));
    frames.send(some()).await.unwrap();
    let upload = Request::post("http://web.example/swallow").body(body).unwrap();
    // Its body is never read.
    let response = sender.send_request(upload).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    frames.send(some()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(app.swallowed(), 8);
    setup.apply(server(detect(), nobody())).await;
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(20), frames.send(some())).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(app.swallowed(), 8, "not a byte more");
    drop(response);
}

#[tokio::test]
async fn a_request_that_is_refused_while_it_waits_is_recorded_once_with_its_path() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let asked = tokio::spawn(async move { client.get("/never").await.status });
    while app.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    setup.apply(server(detect(), nobody())).await;
    assert_eq!(asked.await.unwrap(), 403);
    assert_eq!(setup.log.lines(), ["deny revoked - GET /never 403"]);
}

/// Otherwise a port whose policy changes often would hold as many policies as it has long streams.
#[tokio::test]
async fn a_stream_that_stays_permitted_does_not_keep_an_old_policy_alive() {
    let app = App::start().await;
    let setup = Setup::new(by_role("admin"), app.address).await;
    let old = Arc::downgrade(setup.store.port(PORT).live().in_force().unwrap());
    let mut client = Client::new(setup.connect().await).await;
    let response = client.send(request("/stream", &[("x-role", "admin")])).await;
    assert_eq!(response.status(), 200);
    let mut again = by_role("admin");
    again.paths = policy_core::PathHandling::Raw;
    setup.apply(again).await;
    // The thread that receives policy frees replaced ones as time passes.
    setup.store.sweep();
    assert!(old.upgrade().is_none());
    setup.apply(by_role("root")).await;
    assert!(ends(&mut response.into_body()).await.is_some(), "and is judged on");
}

#[tokio::test]
async fn a_stream_that_lost_its_permission_ends_though_its_client_opens_no_window() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), app.address).await;
    let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://web.example/flood").body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut taken = 0;
    while taken < 65_535 {
        // The window is never extended.
        taken += body.data().await.unwrap().unwrap().len();
    }
    setup.apply(server(Protocol::Http2, nobody())).await;
    let next = tokio::time::timeout(Duration::from_secs(60), body.data()).await.unwrap();
    assert_eq!(next.unwrap().unwrap_err().reason(), Some(h2::Reason::CANCEL));
}
