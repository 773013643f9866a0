//! gRPC: trailers pass, refusals are statuses.

use crate::http2::{Sender, client};
use crate::support::*;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use policy_core::{Protocol, RequestMatch};
use std::time::{Duration, Instant};

pub(crate) fn call(path: &str) -> Request<Full<Bytes>> {
    Request::post(format!("http://web.example{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::from("\0\0\0\0\0"))
        .unwrap()
}

/// Head and trailers of an answer.
async fn answer(sender: &mut Sender, path: &str) -> (HeaderMap, Bytes, Option<HeaderMap>) {
    let response = sender.send_request(call(path)).await.unwrap();
    assert_eq!(response.status(), 200);
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (head.headers, body.to_bytes(), trailers)
}

fn policy() -> policy_core::ServerPolicy {
    let allowed = route(RequestMatch::grpc(Some("pkg.Echo"), None), everybody());
    let denied = route(RequestMatch::grpc(Some("pkg.Secret"), None), nobody());
    let stream = route(RequestMatch::grpc(Some("pkg.Stream"), None), everybody());
    with_routes(server(Protocol::Grpc, nobody()), vec![allowed, denied, stream])
}

#[tokio::test]
async fn a_call_passes_with_its_trailers() {
    let app = App::start().await;
    let setup = Setup::new(policy(), app.address).await;
    let mut sender = client(&setup).await;
    let (_, body, trailers) = answer(&mut sender, "/pkg.Echo/Say").await;
    assert_eq!(body.as_ref(), b"\0\0\0\0\0");
    assert_eq!(trailers.unwrap()["grpc-status"], "0");
    let metrics = setup.metrics();
    assert!(metrics.contains("inbound_grpc_statuses_total"), "{metrics}");
}

#[tokio::test]
async fn refusals_are_trailers_only() {
    let app = App::start().await;
    let setup = Setup::new(policy(), app.address).await;
    let mut sender = client(&setup).await;
    for (path, status) in
        [("/pkg.Secret/Tell", "7"), ("/pkg.Unknown/X", "5"), ("/pkg.Echo/a/b", "5")]
    {
        let (head, body, trailers) = answer(&mut sender, path).await;
        assert_eq!(head["grpc-status"], status, "{path}");
        assert_eq!(head["content-type"], "application/grpc");
        assert!(!head.contains_key("grpc-message"), "a stranger is told nothing");
        assert!(body.is_empty() && trailers.is_none());
    }
    assert_eq!(app.requests(), 0);
}

#[tokio::test]
async fn an_open_call_that_lost_its_permission_ends_with_permission_denied() {
    let app = App::start().await;
    let setup = Setup::new(policy(), app.address).await;
    let mut sender = client(&setup).await;
    let mut body = sender.send_request(call("/pkg.Stream/Follow")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    let without = with_routes(server(Protocol::Grpc, nobody()), vec![]);
    setup.apply(without).await;
    let begun = Instant::now();
    let trailers = loop {
        let frame = body.frame().await.unwrap().unwrap();
        if let Ok(trailers) = frame.into_trailers() {
            break trailers;
        }
    };
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(trailers["grpc-status"], "7");
}
