//! Open requests and tunnels end within a second once their permission is lost; bystanders stay.

use crate::support::*;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_core::{HeaderMatch, PathPattern, RequestMatch, ValueMatch};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn routes(stream: bool) -> policy_core::ServerPolicy {
    let streams = if stream { everybody() } else { nobody() };
    let routes = vec![route(prefix("/stream"), streams), route(prefix("/"), everybody())];
    with_routes(server(detect(), nobody()), routes)
}

/// How long the body goes on from now; `None`: longer than a second.
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
    setup.logged("deny revoked - connection").await;
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
    let mut matched = prefix("/");
    matched.headers = vec![HeaderMatch {
        name: http::HeaderName::from_static("x-role"),
        value: ValueMatch::Exact(role.as_bytes().into()),
    }];
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
