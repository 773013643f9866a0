//! Hostile clients. Each limit is stated with its test.

use crate::support::*;
use crate::tls::{Mesh as _, hello_for};
use http::StatusCode;
use http_body_util::BodyExt;
use policy_core::Protocol;
use policy_testkit::Authority;
use policy_tls::identity::IdentityHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

async fn setup() -> (App, Setup) {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    (app, setup)
}

/// Asserts that the head is answered 400 and does not reach the application.
async fn refused(head: &[u8]) -> String {
    let (app, setup) = setup().await;
    let answer = raw(setup.address, head, false).await;
    let shown = String::from_utf8_lossy(head).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400"), "{shown:?} got {answer:?}");
    assert_eq!(app.requests(), 0, "{shown:?}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "one answer, then the connection is closed");
    answer
}

#[tokio::test]
async fn two_lengths_are_refused() {
    refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde")
        .await;
    for coding in [
        "chunked, gzip",
        "gzip",
        "chunked, chunked",
        "chunked,",
        "chunked\r\nTransfer-Encoding: gzip",
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n");
        refused(head.as_bytes()).await;
    }
    refused(b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").await;
}

/// RFC 9112 section 6.3: a request smuggling attempt.
#[tokio::test]
async fn a_length_beside_chunks_is_refused_by_name_and_ends_the_connection() {
    let (first, second) = ("Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n");
    for [one, two] in [[first, second], [second, first]] {
        let answer = refused(
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{one}{two}\r\n0\r\n\r\n\
                 GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
            )
            .as_bytes(),
        )
        .await;
        assert!(answer.ends_with("target_malformed"), "{answer}");
    }
}

#[tokio::test]
async fn host_faults_are_refused_by_name() {
    assert!(
        refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await.ends_with("host_duplicate")
    );
    assert!(refused(b"GET / HTTP/1.1\r\n\r\n").await.ends_with("host_missing"));
    assert!(refused(b"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n").await.ends_with("host_mismatch"));
    assert!(refused(b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n").await.ends_with("host_invalid"));
}

#[tokio::test]
async fn ambiguous_paths_are_refused_by_name() {
    let rows = [
        ("/a/../b", "target_dot_segment"),
        ("/a/%2e%2E/b", "target_dot_segment"),
        ("//a", "target_empty_segment"),
        ("/a%2fb", "target_encoded_slash"),
        ("/a%5cb", "target_backslash"),
        ("/a%00", "target_control"),
        ("/a;b/c", "target_path_parameter"),
        ("/a%zz", "target_bad_encoding"),
        ("/a<b", "target_less_than"),
        ("/a>b", "target_greater_than"),
        ("/a`b<", "target_grave_accent"),
        ("http://a/b<", "target_less_than"),
    ];
    for (path, reason) in rows {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = refused(head.as_bytes()).await;
        assert!(answer.ends_with(reason), "{path}: {answer}");
    }
}

#[tokio::test]
async fn stray_line_ends_never_split_a_head_in_two() {
    let (app, setup) = setup().await;
    for head in [
        &b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rGET /smuggled HTTP/1.1\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\n\rb\r\n\r\n",
        b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX\x00: a\r\n\r\n",
    ] {
        let answer = raw(setup.address, head, true).await;
        assert!(!answer.contains(" 200 "), "{:?}: {answer}", String::from_utf8_lossy(head));
    }
    assert_eq!(app.requests(), 0);
    assert!(setup.metrics().contains("inbound_http_errors_total{error=\"bad_request_head\","));
}

#[tokio::test]
async fn a_connect_is_refused() {
    let (app, setup) = setup().await;
    let head = b"CONNECT evil.example:22 HTTP/1.1\r\nHost: evil.example:22\r\n\r\n";
    let answer = raw(setup.address, head, false).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(app.connections(), 0);
}

#[tokio::test]
async fn one_byte_at_a_time_is_served_like_any_other() {
    let (_app, setup) = setup().await;
    let mut stream = setup.connect().await;
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("GET /slow\n"), "{answer}");
}

/// Half a request line, then nothing, must not be forwarded as opaque bytes.
#[tokio::test]
async fn half_a_request_line_does_not_turn_into_opaque_bytes() {
    let (app, setup) = setup().await;
    let mut stream = setup.connect().await;
    stream.write_all(b"GET ").await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    stream.write_all(b"/a/../b HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 1024];
    let n = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(app.requests(), 0);
}

/// Bound: two seconds after `request_head` (here one second).
#[tokio::test]
async fn slow_headers_end_the_connection() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.request_head = Duration::from_secs(1);
    })
    .await;
    let mut stream = setup.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < Duration::from_secs(8) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sent += 1;
        if stream.write_all(b"X: y\r\n").await.is_err() {
            break;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{sent} headers in {:?}", begun.elapsed());
    assert_eq!(app.requests(), 0);
}

/// Bound: two seconds after `detect` and `handshake` (here one second each).
#[tokio::test]
async fn who_never_says_what_it_speaks_or_ends_no_handshake_is_let_go_and_another_is_served() {
    let (app, authority) = (App::start().await, Authority::new());
    let (policy, identity) =
        (server(Protocol::Http1, everybody()), IdentityHandle::new(authority.workload()));
    let setup = Setup::with(Some(policy), app.address, identity, |config| {
        config.timeouts.detect = Duration::from_secs(1);
        config.timeouts.handshake = Duration::from_secs(1);
    })
    .await;
    let hello = hello_for(&name("web"));
    // No byte; half of a ClientHello; one that nothing follows.
    let begun = Instant::now();
    let held = (0..60).map(async |number: usize| {
        let mut stream = setup.connect().await;
        stream.write_all(&hello[..hello.len() * (number % 3) / 2]).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        begun.elapsed()
    });
    let held = futures_util::future::join_all(held);
    let others = async {
        for _ in 0..10 {
            let mut other = Client::new(setup.connect().await).await;
            assert_eq!(other.get("/").await.status, StatusCode::OK);
        }
    };
    let (ended, ()) = tokio::join!(held, others);
    let latest = ended.iter().max().unwrap();
    assert!(*latest < Duration::from_secs(5), "{ended:?}");
    assert_eq!(app.requests(), 10);
}

/// Bound: 64 KiB.
#[tokio::test]
async fn an_oversized_head_is_refused() {
    let (app, setup) = setup().await;
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for n in 0..50 {
        head.extend(format!("X-{n}: {}\r\n", "y".repeat(2000)).bytes());
    }
    head.extend(b"\r\n");
    let answer = raw(setup.address, &head, false).await;
    assert!(!answer.contains(" 200 "), "{answer}");
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n");
    let answer = raw(setup.address, head.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(app.requests(), 0);
}

#[tokio::test]
async fn bytes_that_are_not_the_declared_protocol_are_refused() {
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let app = App::start().await;
        let setup = Setup::new(server(protocol, everybody()), app.address).await;
        assert_eq!(raw(setup.address, b"EHLO a\r\n", false).await, "");
        if protocol != Protocol::Http1 {
            let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            assert_eq!(raw(setup.address, head, false).await, "");
        }
        assert_eq!(app.connections(), 0);
        setup.logged("deny protocol_mismatch - connection").await;
    }
}

#[tokio::test]
async fn too_many_connections_are_closed_at_once() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.limits.connections = 2;
    })
    .await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut client = Client::new(setup.connect().await).await;
        assert_eq!(client.get("/").await.status, 200);
        kept.push(client);
    }
    assert_eq!(raw(setup.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false).await, "");
    drop(kept);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/").await.status, 200, "places are given back");
}

/// Bound: those of the port, of which the client that has most gives some to another.
#[tokio::test]
async fn a_client_that_has_every_connection_of_a_port_makes_room_for_another_and_keeps_what_moves()
{
    const CONNECTIONS: usize = 12;
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.limits.connections = CONNECTIONS;
    })
    .await;
    let connect = async |from: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(setup.address).await.unwrap()
    };
    let mut working = Client::new(connect([127, 0, 9, 1]).await).await;
    let mut moving = working.send(request("/stream", &[])).await.into_body();
    // Silent ones, halves of heads, some that wait for their next request, and one of HTTP/2, from several
    // addresses of a network.
    let mut held = Vec::new();
    for number in 1..CONNECTIONS {
        let mut stream = connect([127, 0, 9, 1 + u8::try_from(number % 3).unwrap()]).await;
        let begin: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\nHost: a\r\nX: ",
            2 => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        };
        stream.write_all(begin).await.unwrap();
        held.push(stream);
    }
    let mut others = Vec::new();
    for network in 10..15 {
        let mut other = Client::new(connect([127, 0, network, 1]).await).await;
        let answer = tokio::time::timeout(Duration::from_secs(10), other.get("/")).await;
        assert_eq!(answer.expect("a place").status, StatusCode::OK, "{network}");
        others.push(other);
    }
    setup.counted("inbound_tcp_errors_total{error=\"too_many_connections\"", 5).await;
    // Neither they nor what moves lost theirs.
    for other in &mut others {
        assert_eq!(other.get("/").await.status, StatusCode::OK);
    }
    for _ in 0..3 {
        let frame = tokio::time::timeout(Duration::from_secs(60), moving.frame()).await.unwrap();
        assert!(frame.unwrap().unwrap().is_data());
    }
    // Who has most gets no more than that.
    let mut more = connect([127, 0, 9, 1]).await;
    let mut byte = [0; 1];
    let read = tokio::time::timeout(Duration::from_secs(10), more.read(&mut byte)).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
}

/// The limit is the sidecar's, whichever workers serve the connections.
#[tokio::test]
async fn connections_of_a_port_are_bounded_across_workers() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.limits.connections = 3;
        config.workers = std::num::NonZeroUsize::new(4).unwrap();
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = Client::new(setup.connect().await).await;
        assert_eq!(client.get("/").await.status, StatusCode::OK);
        open.push(client);
    }
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for _ in 0..8 {
        assert_eq!(raw(setup.address, request, false).await, "");
    }
    assert_eq!(app.requests(), 3);
    // Who came before is served meanwhile.
    for client in &mut open {
        assert_eq!(client.get("/").await.status, StatusCode::OK);
    }
    drop(open);
    // Their permits are released.
    let again =
        async { while !raw(setup.address, request, false).await.starts_with("HTTP/1.1 200") {} };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
}

#[tokio::test]
async fn requests_beyond_what_may_wait_are_answered_at_once_and_others_go_on() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.limits.in_flight = 1;
    })
    .await;
    // A response that has begun does not count as awaited.
    let mut streaming = Client::new(setup.connect().await).await;
    let stream = streaming.send(crate::support::request("/stream", &[])).await;
    let mut stream = stream.into_body();
    let mut waiting = Client::new(setup.connect().await).await;
    let waits = tokio::spawn(async move { waiting.get("/never").await });
    while app.requests() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut third = Client::new(setup.connect().await).await;
    let got = third.get("/").await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(got.headers["connection"], "close");
    let call = crate::grpc::call("/pkg.Echo/Say");
    let refused = crate::http2::client(&setup).await.send_request(call).await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], "14");
    assert_eq!(app.requests(), 2, "neither reached the application");
    for _ in 0..5 {
        let frame = tokio::time::timeout(Duration::from_secs(60), stream.frame()).await.unwrap();
        assert!(frame.unwrap().unwrap().is_data(), "the response that had begun goes on");
    }
    setup.counted("inbound_http_errors_total{error=\"too_many_requests\",", 2).await;
    setup.logged("allow - - GET / 503").await;
    waits.abort();
    let again = async {
        loop {
            let mut client = Client::new(setup.connect().await).await;
            if client.get("/").await.status == StatusCode::OK {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
}
