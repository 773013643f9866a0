//! Heads whose values two parsers could read differently, and heads of many fields.

use crate::direct::Mesh;
use crate::http2::client;
use crate::support::*;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::filter::HeaderChange;
use policy_core::matching::{HeaderMatch, ValueMatch};
use policy_core::{Filter, FilterKind, ServerPolicy, Source};
use policy_proto::transport::Session;
use policy_proxy::SidecarConfig;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// A policy: requests with this header are for `vip` alone, all others for every client.
fn tiered(name: &'static str, value: &str) -> ServerPolicy {
    let value = ValueMatch::Exact(value.as_bytes().into());
    let header = HeaderMatch { name: HeaderName::from_static(name), value };
    let guarded = prefix("/").with_headers(vec![header]);
    let routes = vec![route(guarded, identities(&["vip"])), route(prefix("/"), everybody())];
    with_routes(server(detect(), nobody()), routes)
}

fn with_lines(name: &str, values: &[&[u8]]) -> Request<Full<Bytes>> {
    let mut request = Request::get("http://web.example/").body(Full::default()).unwrap();
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    for value in values {
        request.headers_mut().append(&name, HeaderValue::from_bytes(value).unwrap());
    }
    request
}

#[tokio::test]
async fn a_value_of_http2_that_http1_would_read_without_its_blanks_is_refused() {
    let mesh = Mesh::new(tiered("x-tier", "premium")).await;
    let io = TokioIo::new(mesh.open("bot", PORT, Some(Session::Http2)).await);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
    let (carrying, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let plain = client(&mesh.setup).await;
    for mut sender in [carrying, plain] {
        for value in [" premium", "premium ", "\tpremium", "premium\t", " ", "\t"] {
            for name in ["x-tier", "x-other"] {
                let mut request = with_lines(name, &[value.as_bytes()]);
                let version = HeaderValue::from_static("HTTP/1.1");
                request.headers_mut().insert("l5d-orig-proto", version);
                let got = got(sender.send_request(request).await.unwrap()).await;
                let seen = (got.status.as_u16(), got.body.as_str());
                assert_eq!(seen, (400, "header_outer_blanks"), "{name}: {value:?}");
            }
        }
        let denied = got(sender.send_request(with_lines("x-tier", &[b"premium"])).await.unwrap());
        assert_eq!(denied.await.status, 403);
        let other = got(sender.send_request(with_lines("x-tier", &[b"a premium"])).await.unwrap());
        assert_eq!(other.await.status, 200);
    }
    assert_eq!(mesh.app.requests(), 2);
}

#[tokio::test]
async fn a_value_of_http1_is_judged_without_its_blanks() {
    let app = App::start().await;
    let setup = Setup::new(tiered("x-tier", "premium"), app.address).await;
    for line in ["x-tier:  premium", "x-tier: premium \t", "x-tier:premium", "X-Tier:\tpremium "] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}\r\n\r\n");
        let answer = raw(setup.address, request.as_bytes(), false).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{line}: {answer}");
    }
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx-tier:  basic \t\r\n\r\n";
    let answer = raw(setup.address, request, false).await;
    assert!(answer.contains("\nx-tier: basic\n"), "{answer}");
}

#[tokio::test]
async fn cookies_are_judged_and_forwarded_as_the_one_line_that_applications_read() {
    let app = App::start().await;
    let setup = Setup::new(tiered("cookie", "role=admin; a=1"), app.address).await;
    let mut http2 = client(&setup).await;
    let mut http1 = Client::new(setup.connect().await).await;
    let mut ask = async |crumbs: &[&str]| {
        let values: Vec<&[u8]> = crumbs.iter().map(|crumb| crumb.as_bytes()).collect();
        let two = got(http2.send_request(with_lines("cookie", &values)).await.unwrap()).await;
        let lines: Vec<_> = crumbs.iter().map(|crumb| ("cookie", *crumb)).collect();
        let one = http1.ask("/", &lines).await;
        assert_eq!(one.status, two.status, "{crumbs:?}");
        let cookies = |got: &Got| -> Vec<String> {
            got.body.lines().filter(|l| l.starts_with("cookie")).map(str::to_owned).collect()
        };
        assert_eq!(cookies(&one), cookies(&two), "{crumbs:?}");
        (one.status.as_u16(), cookies(&one))
    };
    for crumbs in [&["role=admin; a=1"][..], &["role=admin", "a=1"], &["", "role=admin", "", "a=1"]]
    {
        assert_eq!(ask(crumbs).await, (403, vec![]), "{crumbs:?}");
    }
    let joined = "cookie: a=1; role=admin; b=2".to_owned();
    assert_eq!(ask(&["a=1", "role=admin; b=2"]).await, (200, vec![joined]));
}

#[tokio::test]
async fn a_line_that_ends_in_lf_alone_is_refused() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let head = "GET / HTTP/1.1\r\nHost: a\r\nx-a: b\r\nConnection: close\r\n\r\n";
    for (at, _) in head.match_indices("\r\n") {
        let mut lone = head.to_owned();
        lone.remove(at);
        let answer = raw(setup.address, lone.as_bytes(), false).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lone:?}: {answer}");
    }
    assert_eq!(app.requests(), 0);
    let answer = raw(setup.address, format!("\r\n{head}").as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_carried_whatever_the_method() {
    let mesh = Mesh::new(server(detect(), everybody())).await;
    let io = mesh.open("bot", PORT, Some(Session::Http2)).await;
    let (sender, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    for method in ["GET", "DELETE", "OPTIONS", "POST"] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            let request = Request::builder().method(method).uri("http://web.example/upload");
            let request = request.header("l5d-orig-proto", version).body(()).unwrap();
            let (response, mut stream) = sender.send_request(request, false).unwrap();
            // So that the body's length is unknown when its head is forwarded.
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.send_data(Bytes::from_static(b"12345"), false).unwrap();
            stream.send_data(Bytes::from_static(b"6789"), true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let data = body.data().await.unwrap().unwrap();
            assert_eq!(&data[..], b"9 bytes\n", "{method} {version}");
        }
    }
}

/// Some applications read no body of these methods, and would answer it as a request.
#[tokio::test]
async fn what_carried_a_body_of_a_method_that_needs_none_carries_nothing_else() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let sized = "Content-Length: 5\r\n\r\nhello";
    for (method, body, want) in [
        ("GET", chunks, 3),
        ("HEAD", chunks, 3),
        ("GET", sized, 3),
        ("DELETE", sized, 3),
        ("OPTIONS", sized, 3),
        ("POST", chunks, 1),
        ("PUT", sized, 1),
    ] {
        let before = app.connections();
        let mut client = setup.connect().await;
        let end = if method == "HEAD" { &b"\r\n\r\n"[..] } else { b"5 bytes\n" };
        for _ in 0..3 {
            let request = format!("{method} /upload HTTP/1.1\r\nHost: a\r\n{body}");
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(end) {
                let read = client.read_buf(&mut answer).await.unwrap();
                assert!(read > 0, "{method}: {}", answer.escape_ascii());
            }
        }
        assert_eq!(app.connections() - before, want, "{method} {body:?}");
    }
}

/// A sidecar with a limit of `bytes` for heads.
async fn taking(bytes: u32, policy: ServerPolicy, app: SocketAddr) -> Setup {
    let change = |config: &mut SidecarConfig| {
        config.limits.request_head = bytes;
        config.limits.response_head = bytes;
    };
    Setup::with(Some(policy), app, policy_tls::identity::IdentityHandle::empty(), change).await
}

fn names(count: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for n in 0..count {
        let name = HeaderName::try_from(format!("x{n}")).unwrap();
        headers.append(name, HeaderValue::from_static(""));
    }
    headers
}

/// Status of an HTTP/2 request with these headers and trailers; `None` if the stream was reset.
async fn status(setup: &Setup, headers: HeaderMap, trailers: Option<HeaderMap>) -> Option<u16> {
    let (sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let mut request = Request::post("http://web.example/upload").body(()).unwrap();
    *request.headers_mut() = headers;
    let (response, mut stream) = sender.send_request(request, trailers.is_none()).unwrap();
    if let Some(trailers) = trailers {
        stream.send_trailers(trailers).unwrap();
    }
    response.await.ok().map(|response| response.status().as_u16())
}

#[tokio::test]
async fn a_head_of_as_many_names_as_a_map_can_hold_is_refused_and_the_sidecar_lives() {
    let app = App::start().await;
    for bytes in [1_048_576, 16_777_216] {
        let policy = informing(server(detect(), everybody()));
        let setup = taking(bytes, policy, app.address).await;
        for count in [101, 24_573, 24_574, 24_575, 24_576] {
            assert_eq!(status(&setup, names(count), None).await, Some(431), "{count} of {bytes}");
            assert_eq!(status(&setup, names(3), None).await, Some(200), "{count} of {bytes}");
        }
        setup.counted("inbound_http_errors_total{error=\"request_head_too_large\"", 5).await;
        assert_eq!(status(&setup, names(100), None).await, Some(200));
        let _ = status(&setup, HeaderMap::new(), Some(names(24_575))).await;
        assert_eq!(status(&setup, names(3), Some(names(3))).await, Some(200));
    }
}

#[tokio::test]
async fn crumbs_of_a_cookie_are_one_field() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut headers = HeaderMap::new();
    for n in 0..500 {
        headers.append("cookie", HeaderValue::try_from(format!("c{n}=1")).unwrap());
    }
    assert_eq!(status(&setup, headers.clone(), None).await, Some(200));
    headers.extend(names(100));
    assert_eq!(status(&setup, headers, None).await, Some(431));
}

/// Names with nearly the same place in a header map, by its first hash (FNV-1a of the eight bytes
/// that mark a non-standard name, and of the name).
fn colliding(count: usize) -> Vec<String> {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let seed = 1_u64.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step);
    let all = (0_u32..).map(|n| format!("y{n}"));
    all.filter(|name| name.bytes().fold(seed, step) & 0x7fff < 64).take(count).collect()
}

#[tokio::test]
async fn names_that_collide_are_refused_and_the_sidecar_lives() {
    let app = App::start().await;
    let change = |config: &mut SidecarConfig| {
        config.limits.request_head = 16_777_216;
        config.limits.headers = 16_384;
    };
    let identity = policy_tls::identity::IdentityHandle::empty();
    let policy = informing(server(detect(), everybody()));
    let setup = Setup::with(Some(policy), app.address, identity, change).await;
    let mut names: Vec<String> = (0..12_300).map(|n| format!("x{n}")).collect();
    names.extend(colliding(1_500));
    // Checked against the map itself, so that the names are known to collide.
    let mut map: HeaderMap = HeaderMap::try_with_capacity(names.len()).unwrap();
    let value = HeaderValue::from_static("");
    let mut add =
        |name: &String| map.try_append(HeaderName::try_from(name).unwrap(), value.clone());
    assert!(names.iter().any(|name| add(name).is_err()), "a map has room for all of them");
    let lines: String = names.iter().map(|name| format!("{name}:\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n");
    let answer = raw(setup.address, request.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/").await.status, 200);
}

/// An HTTP/2 application whose responses have so many headers, or trailers.
async fn verbose(headers: usize, trailers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let mut response = Response::new(());
                    *response.headers_mut() = names(headers);
                    let mut stream = respond.send_response(response, trailers == 0).unwrap();
                    if trailers > 0 {
                        stream.send_trailers(names(trailers)).unwrap();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn answers_of_as_many_names_as_a_map_can_hold_break_nothing() {
    let (name, value) = (HeaderName::from_static("x-own"), HeaderValue::from_static("1"));
    let change = HeaderChange { add: vec![(name, value)], ..HeaderChange::default() };
    let kind = FilterKind::ResponseHeaders(change);
    let effect = Filter { source: Source::Default("filter".into()), kind };
    for (headers, trailers, want) in
        [(24_575, 0, 502), (4_097, 0, 502), (4_000, 0, 200), (1, 24_575, 200)]
    {
        let app = verbose(headers, trailers).await;
        let mut policy = server(detect(), everybody());
        policy.effects = vec![effect.clone()];
        let setup = taking(16_777_216, policy, app).await;
        for _ in 0..2 {
            let seen = status(&setup, HeaderMap::new(), None).await;
            assert_eq!(seen, Some(want), "{headers} headers, {trailers} trailers");
        }
    }
}

/// Bound: 16 MiB of what is larger than 8 KiB of a connection.
#[tokio::test]
async fn heads_that_do_not_come_whole_have_a_bound_in_all_and_the_client_that_holds_most_loses_first()
 {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let connect = async |from: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(setup.address).await.unwrap()
    };
    let part =
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}", "x".repeat(60_000));
    let mut other = connect([127, 0, 6, 1]).await;
    other.write_all(part.as_bytes()).await.unwrap();
    let mut held = Vec::new();
    for number in (0..250_u8).chain(0..250) {
        let mut stream = connect([127, 0, 5, 1 + number % 4]).await;
        // One that is at the bound is ended.
        let _ = stream.write_all(part.as_bytes()).await;
        held.push(stream);
    }
    let error = "inbound_http_errors_total{error=\"too_many_requests\"";
    let begun = std::time::Instant::now();
    while !setup.metrics().contains(error) {
        assert!(begun.elapsed() < Duration::from_secs(9), "all of them are held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.write_all(b"\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
}
