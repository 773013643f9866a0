//! HTTP/1: permitted, refused, forwarded as decided on.

use crate::support::*;
use http::StatusCode;
use policy_core::{Protocol, RateLimit, Source};
use policy_tls::identity::IdentityHandle;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn an_allowed_request_reaches_the_application_unchanged() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let got = client.ask("/a/b?c=d", &[("x-y", "z")]).await;
    assert_eq!(got.status, StatusCode::OK);
    assert_eq!(got.body, "GET /a/b?c=d\nhost: web.example\nx-y: z\n");
    assert_eq!(got.headers["x-app"], "yes");
    assert!(!got.headers.contains_key("l5d-proxy-error"), "not for an application to say");
    setup.logged("allow - - GET /a/b?c=d 200").await;
    assert!(setup.metrics().contains("inbound_http_authz_allow_total"));
}

#[tokio::test]
async fn a_refused_request_does_not_reach_the_application() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http1, nobody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let got = client.get("/").await;
    assert_eq!((got.status, got.body.as_str()), (StatusCode::FORBIDDEN, ""));
    assert!(!got.headers.contains_key("l5d-proxy-error"), "a stranger is told nothing");
    assert_eq!(client.get("/again").await.status, StatusCode::FORBIDDEN, "the connection stays");
    assert_eq!((app.requests(), app.connections()), (0, 0));
    setup.logged("deny unauthorized - GET /again 403").await;
}

#[tokio::test]
async fn routes_decide_and_what_no_route_matches_is_not_found() {
    let app = App::start().await;
    let routes = vec![route(prefix("/open"), everybody()), route(prefix("/shut"), nobody())];
    let policy = with_routes(server(detect(), nobody()), routes);
    let setup = Setup::new(policy, app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/open/x").await.status, StatusCode::OK);
    assert_eq!(client.get("/shut").await.status, StatusCode::FORBIDDEN);
    assert_eq!(client.get("/openx").await.status, StatusCode::NOT_FOUND);
    assert_eq!(app.requests(), 1);
}

#[tokio::test]
async fn one_client_connection_uses_one_application_connection_and_shares_it_with_nobody() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut first = Client::new(setup.connect().await).await;
    let mut second = Client::new(setup.connect().await).await;
    for _ in 0..10 {
        first.get("/").await;
        second.get("/").await;
    }
    assert_eq!((app.requests(), app.connections()), (20, 2));
}

#[tokio::test]
async fn the_canonical_form_is_judged_logged_and_forwarded() {
    let app = App::start().await;
    let policy =
        with_routes(server(detect(), nobody()), vec![route(prefix("/admin"), everybody())]);
    let setup = Setup::new(policy, app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let got = client.ask("/%61dmin/%c3%a4?q=%61", &[("host", "WEB.Example.:80")]).await;
    assert_eq!(got.body, "GET /admin/%C3%A4?q=%61\nhost: web.example\n");
    setup.logged("GET /admin/%C3%A4?q=%61 200").await;
}

#[tokio::test]
async fn absolute_form_is_forwarded_in_origin_form() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    for (target, path) in [("/a?b", "/a?b"), ("?b", "/?b"), ("", "/")] {
        let head = format!(
            "GET http://web.example{target} HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(setup.address, head.as_bytes(), false).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("GET {path}\nhost: web.example\n")), "{answer}");
        setup.logged(&format!("GET {path} 200")).await;
    }
}

#[tokio::test]
async fn what_a_client_says_of_itself_is_taken_out() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let headers = [
        ("l5d-client-id", "root"),
        ("l5d_client_id", "root"),
        ("connection", "x-secret, l5d-client-id"),
        ("x-secret", "1"),
    ];
    let got = client.ask("/", &headers).await;
    assert_eq!(got.body, "GET /\nhost: web.example\n");
}

#[tokio::test]
async fn a_websocket_is_carried_both_ways() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut stream = setup.connect().await;
    let head = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 1024];
    let n = stream.read(&mut buffer).await.unwrap();
    let answer = String::from_utf8_lossy(&buffer[..n]).to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("upgrade: websocket"), "{answer}");
    stream.write_all(b"hello").await.unwrap();
    let n = stream.read(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..n], b"hello");
}

#[tokio::test]
async fn an_upgrade_to_h2c_is_ignored() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let head = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
                Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
    let answer = raw(setup.address, head.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("GET /a\nhost: a\n"), "{answer}");
}

#[tokio::test]
async fn a_target_with_a_fragment_is_refused() {
    let app = App::start().await;
    let policy = with_routes(server(detect(), nobody()), vec![route(prefix("/a"), everybody())]);
    let setup = Setup::new(policy, app.address).await;
    for target in ["/a#/b", "/a?b#c", "http://a/a#b"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = raw(setup.address, head.as_bytes(), false).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{target}: {answer}");
    }
    assert_eq!(app.requests(), 0);
}

#[tokio::test]
async fn a_large_upload_passes() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let mut upload = request("/upload", &[]);
    *upload.method_mut() = http::Method::POST;
    *upload.body_mut() = vec![7; 3_000_000].into();
    assert_eq!(got(client.send(upload).await).await.body, "3000000 bytes\n");
}

#[tokio::test]
async fn who_uploads_much_before_it_reads_still_gets_the_refusal() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http1, nobody()), app.address).await;
    for head in ["Content-Length: 8388608", "Transfer-Encoding: gzip"] {
        let mut client = setup.connect().await;
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&vec![b'x'; 8 << 20]).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let status = if head.contains("gzip") { "400" } else { "403" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }
    assert_eq!(app.connections(), 0);
}

#[tokio::test]
async fn a_rate_limit_refuses_and_is_kept_across_updates() {
    let app = App::start().await;
    let mut policy = server(detect(), everybody());
    policy.rate_limit = Some(RateLimit {
        source: Source::Default("limit".into()),
        total: NonZeroU32::new(3),
        identity: None,
        overrides: Vec::new(),
        refuses: false,
    });
    let setup = Setup::new(policy.clone(), app.address).await;
    let mut client = Client::new(setup.connect().await).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(client.get("/").await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    // Another policy with the same rate limit keeps its spent tokens.
    policy.effects.clear();
    policy.paths = policy_core::PathHandling::Raw;
    setup.apply(policy).await;
    assert_eq!(client.get("/").await.status.as_u16(), 429);
    setup.logged("deny rate_limited - GET / 429").await;
}

#[tokio::test]
async fn an_application_that_does_not_listen_is_a_bad_gateway() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let setup = Setup::new(server(detect(), everybody()), gone).await;
    let mut client = Client::new(setup.connect().await).await;
    let got = client.get("/").await;
    assert_eq!(got.status, StatusCode::BAD_GATEWAY);
    assert_eq!(got.headers["connection"], "close");
    assert!(setup.metrics().contains("inbound_http_errors_total{error=\"connect\","));
}

#[tokio::test]
async fn an_application_that_restarted_is_connected_to_again() {
    let app = App::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = Setup::new(server(detect(), everybody()), listener.local_addr().unwrap()).await;
    // Closes each connection after one request, without saying so.
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(app.address).await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let n = near.read(&mut buffer).await.unwrap();
                far.write_all(&buffer[..n]).await.unwrap();
                let n = far.read(&mut buffer).await.unwrap();
                near.write_all(&buffer[..n]).await.unwrap();
            });
        }
    });
    let mut client = Client::new(setup.connect().await).await;
    for _ in 0..5 {
        assert_eq!(client.get("/").await.status, StatusCode::OK);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn without_a_policy_a_request_waits_and_is_then_refused_as_pending() {
    let app = App::start().await;
    let setup = Setup::with(None, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.pending_policy = Duration::from_millis(100);
    })
    .await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/").await.status, StatusCode::SERVICE_UNAVAILABLE);
    setup.logged("deny policy_pending - GET / 503").await;
    // The same connection is served once there is a policy.
    setup.apply(server(detect(), everybody())).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_policy_that_arrives_in_time_decides() {
    let app = App::start().await;
    let setup = Setup::with(None, app.address, IdentityHandle::empty(), |_| {}).await;
    let stream = setup.connect().await;
    let waiting = tokio::spawn(async move { Client::new(stream).await.get("/").await.status });
    tokio::time::sleep(Duration::from_millis(100)).await;
    setup.apply(server(detect(), everybody())).await;
    assert_eq!(waiting.await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn several_workers_listen_on_one_address_and_decide_alike() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.workers = std::num::NonZeroUsize::new(3).unwrap();
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(Client::new(setup.connect().await).await);
    }
    for status in [200, 403] {
        for client in &mut clients {
            assert_eq!(client.get("/").await.status.as_u16(), status);
        }
        setup.apply(server(detect(), nobody())).await;
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    for workers in [1, 2] {
        let telemetry = std::sync::Arc::new(policy_enforce::Telemetry::new(1));
        let store = policy_enforce::PolicyStore::new(Default::default(), telemetry).unwrap();
        let mut config = policy_proxy::SidecarConfig::new("ns/web-0");
        config.workers = std::num::NonZeroUsize::new(workers).unwrap();
        let target = policy_proxy::sidecar::Target::Original;
        config.listeners = vec![policy_proxy::sidecar::Listener { address, target }];
        let identity = IdentityHandle::empty();
        let error = policy_proxy::Sidecar::start(config, store, identity, None).unwrap_err();
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}

#[tokio::test]
async fn draining_ends_idle_connections_and_lets_open_requests_finish() {
    let app = App::start().await;
    let mut setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut idle = setup.connect().await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut buffer = vec![0; 4096];
    assert!(idle.read(&mut buffer).await.unwrap() > 0);
    setup.sidecar.drain();
    let ended = tokio::time::timeout(Duration::from_secs(2), idle.read(&mut buffer)).await;
    assert_eq!(ended.unwrap().unwrap(), 0);
    tokio::time::timeout(Duration::from_secs(2), setup.sidecar.ended()).await.unwrap();
    assert!(tokio::net::TcpStream::connect(setup.address).await.is_err());
}

mod effects {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use policy_core::filter::{Failure, HeaderChange, Redirect};
    use policy_core::{Filter, FilterKind, ServerPolicy};
    use std::time::Instant;

    fn with(kind: FilterKind) -> ServerPolicy {
        let mut policy = server(detect(), everybody());
        policy.effects = vec![Filter { source: Source::Default("filter".into()), kind }];
        policy
    }

    async fn client(kind: FilterKind) -> (App, Setup, Client) {
        let app = App::start().await;
        let setup = Setup::new(with(kind), app.address).await;
        let client = Client::new(setup.connect().await).await;
        (app, setup, client)
    }

    fn change(name: &'static str, value: &'static str) -> HeaderChange {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        HeaderChange { set: vec![(name, value)], ..HeaderChange::default() }
    }

    #[tokio::test]
    async fn headers_of_request_and_response_are_changed() {
        let (_app, _setup, mut client) =
            client(FilterKind::RequestHeaders(change("x-added", "1"))).await;
        assert_eq!(client.get("/").await.body, "GET /\nhost: web.example\nx-added: 1\n");
        let (_app, _setup, mut client) =
            super::effects::client(FilterKind::ResponseHeaders(change("x-app", "changed"))).await;
        assert_eq!(client.get("/").await.headers["x-app"], "changed");
    }

    #[tokio::test]
    async fn a_redirect_answers_in_the_applications_place() {
        let redirect = Redirect {
            scheme: Some("https".into()),
            host: None,
            port: None,
            path: None,
            status: 301,
        };
        let (app, _setup, mut client) = client(FilterKind::Redirect(redirect)).await;
        let got = client.get("/a?b").await;
        assert_eq!(got.status.as_u16(), 301);
        assert_eq!(got.headers["location"], "https://web.example/a?b");
        assert_eq!(app.requests(), 0);
    }

    #[tokio::test]
    async fn an_injected_failure_has_the_status_that_was_configured() {
        let failure = Failure {
            status: 418,
            grpc_status: 10,
            message: "later".into(),
            numerator: 1,
            denominator: 1,
            required: false,
        };
        let (app, setup, mut client) = client(FilterKind::Failure(failure)).await;
        assert_eq!(client.get("/").await.status.as_u16(), 418);
        assert_eq!(app.requests(), 0);
        setup.logged("allow - - GET / 418").await;
    }

    #[tokio::test]
    async fn a_timeout_bounds_the_whole_response() {
        let timeout = FilterKind::Timeout(Duration::from_millis(200));
        let (_app, _setup, mut client) = client(timeout.clone()).await;
        let begun = Instant::now();
        let body = client.send(request("/stream", &[])).await.into_body();
        assert!(http_body_util::BodyExt::collect(body).await.is_err(), "breaks off");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        // An application that accepts a connection and sends nothing.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let setup = Setup::new(with(timeout), silent.local_addr().unwrap()).await;
        let mut client = Client::new(setup.connect().await).await;
        assert_eq!(client.get("/").await.status, StatusCode::GATEWAY_TIMEOUT);
    }
}
