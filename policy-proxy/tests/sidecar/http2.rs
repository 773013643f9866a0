//! HTTP/2 without gRPC.

use crate::support::*;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use policy_core::Protocol;
use policy_testkit::http2_client;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) type Sender = SendRequest<Full<Bytes>>;

pub(crate) async fn client(setup: &Setup) -> Sender {
    http2_client(setup.connect().await).await
}

fn get(target: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://web.example{target}")).body(Full::default()).unwrap()
}

#[tokio::test]
async fn many_streams_share_one_application_connection() {
    let app = App::start().await;
    for protocol in [detect(), Protocol::Http2] {
        let setup = Setup::new(server(protocol, everybody()), app.address).await;
        let before = app.connections();
        let sender = client(&setup).await;
        let all = (0..50).map(|n| {
            let mut sender = sender.clone();
            async move { got(sender.send_request(get(&format!("/{n}?x"))).await.unwrap()).await }
        });
        for (n, got) in futures_util::future::join_all(all).await.into_iter().enumerate() {
            assert_eq!(got.status, StatusCode::OK);
            assert_eq!(got.body, format!("GET http://web.example/{n}?x\n"));
        }
        assert_eq!(app.connections(), before + 1);
    }
}

#[tokio::test]
async fn each_stream_is_decided_on_its_own() {
    let app = App::start().await;
    let policy = with_routes(server(detect(), nobody()), vec![route(prefix("/a"), everybody())]);
    let setup = Setup::new(policy, app.address).await;
    let mut sender = client(&setup).await;
    for (path, status) in [("/a", 200), ("/b", 404), ("/a/x", 200), ("/a//x", 400)] {
        let got = got(sender.send_request(get(path)).await.unwrap()).await;
        assert_eq!(got.status.as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn the_authority_is_canonical_when_it_is_forwarded() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut sender = client(&setup).await;
    let shouting =
        Request::get("http://WEB.example.:80/%7eme").body(Full::<Bytes>::default()).unwrap();
    let got = got(sender.send_request(shouting).await.unwrap()).await;
    assert_eq!(got.body, "GET http://web.example/~me\n");
}

#[tokio::test]
async fn a_stream_that_lost_its_permission_is_reset_and_its_neighbour_goes_on() {
    let app = App::start().await;
    let routes = |stream| {
        let streams = if stream { everybody() } else { nobody() };
        let routes = vec![route(prefix("/stream/a"), streams), route(prefix("/"), everybody())];
        with_routes(server(detect(), nobody()), routes)
    };
    let setup = Setup::new(routes(true), app.address).await;
    let mut sender = client(&setup).await;
    let mut lost = sender.send_request(get("/stream/a")).await.unwrap().into_body();
    let mut kept = sender.send_request(get("/stream/b")).await.unwrap().into_body();
    lost.frame().await.unwrap().unwrap();
    kept.frame().await.unwrap().unwrap();
    setup.apply(routes(false)).await;
    let begun = Instant::now();
    let error = loop {
        match lost.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error.to_string(),
            None => panic!("a response that was cut off must not look complete"),
        }
    };
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(error.contains("error"), "{error}");
    for _ in 0..10 {
        kept.frame().await.unwrap().unwrap();
    }
}

/// Bound: the connection is closed within a second, after at most a few hundred streams; memory is
/// bounded by `http2_pending_resets`.
#[tokio::test]
async fn rapid_reset_ends_the_connection() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), app.address).await;
    let mut stream = setup.connect().await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .await
        .unwrap();
    // :method GET, :scheme http, :path /, :authority a (literal).
    let block = [0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
    let begun = Instant::now();
    let mut flood = Vec::new();
    for n in 0..20_000_u32 {
        let id = (2 * n + 1).to_be_bytes();
        flood.extend([0, 0, 6, 1, 5, id[0], id[1], id[2], id[3]]);
        flood.extend(block);
        flood.extend([0, 0, 4, 3, 0, id[0], id[1], id[2], id[3], 0, 0, 0, 8]);
    }
    let (mut read, mut write) = stream.split();
    let written = async { while write.write_all(&flood).await.is_ok() {} };
    let ended = async {
        let mut buffer = vec![0; 4096];
        while matches!(read.read(&mut buffer).await, Ok(1..)) {}
    };
    tokio::select! { () = written => {} () = ended => {} }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(app.requests() < 2000, "{} requests got through", app.requests());
    assert_eq!(got(client(&setup).await.send_request(get("/")).await.unwrap()).await.status, 200);
}

#[tokio::test]
async fn a_large_header_list_is_refused() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), app.address).await;
    let mut sender = client(&setup).await;
    let mut request = get("/");
    for n in 0..60 {
        let name = http::HeaderName::try_from(format!("x-{n}")).unwrap();
        request.headers_mut().insert(name, "y".repeat(2000).try_into().unwrap());
    }
    let refused = match sender.send_request(request).await {
        Ok(response) => response.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Err(_) => true,
    };
    assert!(refused);
    assert_eq!(app.requests(), 0);
}

/// Bound: the connection is closed within five seconds; the head is never larger than 64 KiB.
#[tokio::test]
async fn a_continuation_flood_ends_the_connection() {
    let app = App::start().await;
    let setup = Setup::new(server(Protocol::Http2, everybody()), app.address).await;
    let mut stream = setup.connect().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    stream.write_all(preface).await.unwrap();
    // HEADERS without END_HEADERS, then CONTINUATION without end: `a: bb…`, never indexed.
    let field = [&[0x10, 1, b'a', 0x7f, 0x80 | 1, 0x7d][..], &[b'b'; 16_000]].concat();
    let frame = |kind: u8, block: &[u8]| {
        let length = u32::try_from(block.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], block].concat()
    };
    let begun = Instant::now();
    let (mut read, mut write) = stream.split();
    let flood = async {
        if write.write_all(&frame(1, &field)).await.is_err() {
            return;
        }
        while write.write_all(&frame(9, &field)).await.is_ok() {}
    };
    let ended = async {
        let mut buffer = vec![0; 4096];
        while matches!(read.read(&mut buffer).await, Ok(1..)) {}
    };
    let bound = tokio::time::timeout(Duration::from_secs(5), async {
        tokio::select! { () = flood => {} () = ended => {} }
    });
    assert!(bound.await.is_ok(), "{:?}", begun.elapsed());
    assert_eq!(app.requests(), 0);
}

/// Bound: 4 MiB ahead of a client that reads nothing: the windows and the socket buffers between.
#[tokio::test]
async fn a_client_that_opens_no_window_does_not_make_the_proxy_read_ahead() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let mut sender = client(&setup).await;
    let stalled = sender.send_request(get("/flood")).await.unwrap();
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if app.flooded() == last && last > 0 {
            break;
        }
        last = app.flooded();
    }
    assert!(last < 4 * 1024 * 1024, "{last} bytes were taken from the application");
    // Another stream on the same connection is served.
    assert_eq!(got(sender.send_request(get("/")).await.unwrap()).await.status, StatusCode::OK);
    drop(stalled);
}

#[tokio::test]
async fn trailers_say_nothing_that_only_a_head_may_say() {
    let app = App::start().await;
    let role = prefix("/").with_headers(vec![policy_core::HeaderMatch {
        name: http::HeaderName::from_static("x-role"),
        value: policy_core::ValueMatch::Exact(b"user"[..].into()),
    }]);
    let policy = with_routes(server(detect(), nobody()), vec![route(role, everybody())]);
    let setup = Setup::new(policy, app.address).await;
    let mut sender = http2_client(setup.connect().await).await;
    let mut trailers = http::HeaderMap::new();
    for name in ["l5d-client-id", "L5D_client-id", "host", "content-length", "x-role", "x-sum"] {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        trailers.insert(name, http::HeaderValue::from_static("admin"));
    }
    let body = Full::new(Bytes::from_static(b"a"));
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
    let request = Request::post("http://a/trailers").header("x-role", "user").body(body).unwrap();
    let got = got(sender.send_request(request).await.unwrap()).await;
    assert_eq!(got.body, "{\"x-sum\": \"admin\"}");
}

/// Bound: `http2_ping` and `http2_ping_answer` (here a second each), since nothing but the rest of the head may follow, an
/// answer to a PING neither.
#[tokio::test]
async fn a_client_that_stalls_inside_a_head_is_closed() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Http2, everybody()));
    let setup =
        Setup::with(policy, app.address, policy_tls::identity::IdentityHandle::empty(), |config| {
            config.timeouts.http2_ping = Duration::from_secs(1);
            config.timeouts.http2_ping_answer = Duration::from_secs(1);
        })
        .await;
    let settings = &b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"[..];
    // HEADERS without END_HEADERS; and a frame that announces more than ever comes.
    let open = &b"\x00\x00\x03\x01\x01\x00\x00\x00\x01\x82\x86\x84"[..];
    let short = &b"\x00\x10\x00\x01\x05\x00\x00\x00\x01\x82"[..];
    for head in [open, short] {
        let mut stream = setup.connect().await;
        let all = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings, head].concat();
        stream.write_all(&all).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(4), stream.read_to_end(&mut answer));
        assert!(ended.await.is_ok(), "still open");
    }
    assert_eq!(app.requests(), 0);
}
