//! Tests of what only loopback may ask, and of the bound on connections.

use super::*;
use crate::tap::Tap;
use policy_enforce::record::Notices;
use tokio::io::duplex;

async fn ask_local(admin: &Admin, peer: &Peer, path: &str) -> StatusCode {
    let request = Request::get(path).header("host", "localhost:4191");
    let request = request.header("portcullis-admin", "1").body(()).unwrap();
    admin.answer_local(peer, &request, Arc::new(())).await.unwrap().status()
}

#[tokio::test]
async fn decisions_explanations_policy_and_the_tap_answer_no_peer_but_loopback() {
    let admin = recording(DecisionMode::Full);
    apply(&admin, usual());
    let meshed = from("10.1.2.3", PeerTls::Terminated(Some(Identity::Dns("prometheus".into()))));
    let paths = ["/decisions", "/explain?port=4191&client=10.1.2.3&tls=none", "/policy?port=4191"];
    for path in paths.into_iter().chain(["/tap"]) {
        for other in [plain("10.1.2.3"), plain("10.9.0.1"), meshed.clone()] {
            assert_eq!(ask_local(&admin, &other, path).await, StatusCode::FORBIDDEN, "{path}");
        }
        for own in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(ask_local(&admin, &plain(own), path).await, StatusCode::OK, "{path} {own}");
        }
    }
}

fn recording(mode: DecisionMode) -> Admin {
    let mut admin = admin(MetricsAccess::Policy, false);
    let decisions = Arc::new(Decisions::new(mode, "uid", SystemTime::now()));
    let notices = Notices::new("web", Notices::INTERVAL).with_decisions(decisions);
    let config = &mut Arc::get_mut(&mut admin.shared).unwrap().config;
    config.notices = Some(Arc::new(notices));
    config.tap = Some(Arc::new(Tap::default()));
    admin
}

#[tokio::test]
async fn nothing_is_streamed_where_samples_are_not_recorded() {
    for (mode, status) in [
        (DecisionMode::Off, StatusCode::NOT_FOUND),
        (DecisionMode::Counts, StatusCode::NOT_FOUND),
        (DecisionMode::Full, StatusCode::OK),
    ] {
        let admin = recording(mode);
        assert_eq!(ask_local(&admin, &plain("127.0.0.1"), "/tap").await, status, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_has_its_turn_or_is_refused() {
    let admin = recording(DecisionMode::Full);
    let local = plain("127.0.0.1");
    let turn = admin.shared.questions.acquire().await.unwrap();
    for path in ["/decisions", "/explain?port=1", "/policy?port=1"] {
        assert_eq!(ask_local(&admin, &local, path).await, StatusCode::TOO_MANY_REQUESTS, "{path}");
    }
    assert_eq!(ask_local(&admin, &local, "/tap").await, StatusCode::OK);
    drop(turn);
    assert_eq!(ask_local(&admin, &local, "/decisions").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_in_time_though_a_request_is_not_answered() {
    let (full, _waiting) = full_listener();
    let mut admin = probing(&[full.port()], "127.0.0.1");
    let config = &mut Arc::get_mut(&mut admin.shared).unwrap().config;
    config.tcp_probe_timeout = CONNECTION * 100;
    let (mut client, server) = duplex(1024);
    let request = format!("GET /probe/tcp/{} HTTP/1.1\r\nhost: x\r\n\r\n", full.port());
    client.write_all(request.as_bytes()).await.unwrap();
    let served = timeout(CONNECTION * 2, admin.serve_connection(server, plain("10.9.0.1"))).await;
    assert_eq!(served.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
}
