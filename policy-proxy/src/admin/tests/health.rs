//! Tests of `/live` and `/ready`.

use super::*;
use crate::capture::Capture;

/// The redirection is proven by a connection that arrives here, and by the canary.
#[tokio::test]
async fn the_captured_port_answers_health_alone_and_fails_until_the_canary_was_received() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let canary = listener.local_addr().unwrap();
    let capture = Capture::new(canary, NonZeroU16::new(4192).unwrap());
    let mut admin = admin(MetricsAccess::All, true);
    let state = Arc::get_mut(&mut admin.shared).unwrap();
    state.config.capture = Some(capture.clone());
    apply(&admin, usual());
    let node = plain("10.9.0.1");
    let ask = |method: Method, peer: &Peer, path: &str| {
        let request =
            Request::builder().method(method).uri(path).header("host", "pod").body(()).unwrap();
        admin.answer_captured(peer, &request).status().as_u16()
    };
    let get = |peer: &Peer, path: &str| ask(Method::GET, peer, path);
    assert_eq!([get(&node, "/live"), get(&node, "/ready")], [503, 503]);
    assert_eq!(super::get(&admin, &node, "/ready").0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(super::get(&admin, &node, "/live").0, StatusCode::OK, "the proxy runs");
    tokio::spawn(capture.clone().run());
    let (stream, _) = listener.accept().await.unwrap();
    capture.receive(stream).await;
    assert_eq!([get(&node, "/live"), get(&node, "/ready")], [200, 200]);
    assert_eq!(super::get(&admin, &node, "/ready").0, StatusCode::OK);
    assert_eq!(get(&plain("10.1.2.3"), "/ready"), 403, "as on the admin port");
    for path in ["/metrics", "/shutdown", "/probe/tcp/80", "/", "/live/"] {
        assert_eq!(get(&node, path), 404, "{path}");
    }
    assert_eq!(ask(Method::POST, &node, "/live"), 405);
}

#[test]
fn readiness_names_what_is_missing_and_live_answers_always() {
    let mut missing = admin(MetricsAccess::Policy, false);
    Arc::get_mut(&mut missing.shared).unwrap().status = Some(IdentityStatus::default());
    let node = plain("10.9.0.1");
    assert_eq!(get(&missing, &node, "/live"), (StatusCode::OK, "live\n".to_owned()));
    let (status, body) = get(&missing, &node, "/ready");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, "not ready, missing:\n  identity: no certificate yet\n  port 4191: policy\n");
    let ready = admin(MetricsAccess::Policy, false);
    apply(&ready, usual());
    assert_eq!(get(&ready, &node, "/ready"), (StatusCode::OK, "ready\n".to_owned()));
    ready.shared.drain.cancel();
    let (status, body) = get(&ready, &node, "/ready");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("draining"), "{body}");
}
