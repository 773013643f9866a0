//! Heads and trailers of HTTP/2 that are too large: each fails alone.

use crate::support::*;
use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Response};
use policy_tls::identity::IdentityHandle;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const GRPC: &str = "application/grpc";
const PLAIN: &str = "text/plain";

async fn client(stream: TcpStream) -> SendRequest<Bytes> {
    let mut builder = h2::client::Builder::new();
    builder.max_header_list_size(16 << 20);
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// What was answered: the status, the `grpc-status` of head or trailers, and the reason of a reset.
#[derive(Debug, PartialEq, Eq)]
struct Seen(Option<u16>, Option<String>, Option<Reason>);

impl Seen {
    fn status(status: u16) -> Self {
        Self(Some(status), None, None)
    }

    /// A call with this status.
    fn call(status: &str) -> Self {
        Self(Some(200), Some(status.to_owned()), None)
    }
}

async fn see(sender: &SendRequest<Bytes>, request: Request<()>) -> Seen {
    let mut sender = sender.clone().ready().await.unwrap();
    let answer = sender.send_request(request, true).unwrap().0;
    let answer = match tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap() {
        Ok(answer) => answer,
        Err(error) => return Seen(None, None, error.reason()),
    };
    let of = |fields: &HeaderMap| {
        fields.get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    };
    let (status, in_head) = (Some(answer.status().as_u16()), of(answer.headers()));
    let mut body = answer.into_body();
    while let Some(piece) = body.data().await {
        if let Err(error) = piece {
            return Seen(status, in_head, error.reason());
        }
    }
    match body.trailers().await {
        Ok(trailers) => Seen(status, in_head.or(trailers.as_ref().and_then(of)), None),
        Err(error) => Seen(status, in_head, error.reason()),
    }
}

fn large(bytes: usize) -> HeaderValue {
    HeaderValue::try_from("x".repeat(bytes)).unwrap()
}

fn ask(path: &str, kind: &str) -> Request<()> {
    let request = Request::post(format!("http://web.example{path}"));
    request.header("content-type", kind).body(()).unwrap()
}

#[tokio::test]
async fn a_head_that_is_too_large_is_answered_in_its_clients_terms_and_fails_alone() {
    let setup = Setup::new(server(detect(), everybody()), wordy().await).await;
    let sender = client(setup.connect().await).await;
    let with = |kind, bytes| {
        let mut request = ask("/trailers/1", kind);
        request.headers_mut().insert("x-metadata", large(bytes));
        request
    };
    for bytes in [70_000, 130_000, 250_000] {
        assert_eq!(see(&sender, with(GRPC, bytes)).await, Seen::call("8"), "{bytes}");
        assert_eq!(see(&sender, with(PLAIN, bytes)).await, Seen::status(431), "{bytes}");
    }
    // Beyond four times the bound the library answers, which does not see whose request it is.
    assert_eq!(see(&sender, with(GRPC, 300_000)).await, Seen::status(431));
    assert_eq!(see(&sender, with(GRPC, 60_000)).await, Seen::call("0"));
    setup.counted("inbound_http_errors_total{error=\"request_head_too_large\"", 6).await;
}

/// `/head/N` has a head of N bytes, `/trailers/N` trailers, `/open` has no end.
async fn wordy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut open = Vec::new();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let mut path = request.uri().path().split('/').skip(1);
                    let (what, bytes) = (path.next().unwrap(), path.next());
                    let bytes = bytes.map_or(0, |bytes| bytes.parse().unwrap());
                    let mut head = Response::new(());
                    let status = ("grpc-status", HeaderValue::from_static("0"));
                    let mut trailers =
                        HeaderMap::from_iter([status].map(|(n, v)| (n.parse().unwrap(), v)));
                    let fields = if what == "head" { head.headers_mut() } else { &mut trailers };
                    fields.insert("x-details", large(bytes));
                    let mut body = respond.send_response(head, false).unwrap();
                    body.send_data(Bytes::from_static(b"data"), false).unwrap();
                    if what == "open" {
                        open.push(body);
                    } else {
                        body.send_trailers(trailers).unwrap();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn large_heads_and_trailers_of_an_answer_fail_alone() {
    let setup = Setup::new(server(detect(), everybody()), wordy().await).await;
    let sender = client(setup.connect().await).await;
    let mut open = sender.clone().ready().await.unwrap();
    let mut open =
        open.send_request(ask("/open", PLAIN), true).unwrap().0.await.unwrap().into_body();
    open.data().await.unwrap().unwrap();
    for what in ["head", "trailers"] {
        let small = format!("/{what}/60000");
        assert_eq!(see(&sender, ask(&small, GRPC)).await, Seen::call("0"), "{small}");
        for bytes in [66_000, 130_000, 250_000] {
            let path = format!("/{what}/{bytes}");
            assert_eq!(see(&sender, ask(&path, GRPC)).await, Seen::call("8"), "{path}");
            let refused = match what {
                "head" => Seen::status(502),
                _ => Seen(Some(200), None, Some(Reason::INTERNAL_ERROR)),
            };
            assert_eq!(see(&sender, ask(&path, PLAIN)).await, refused, "{path}");
        }
    }
    assert!(futures_util::poll!(std::pin::pin!(open.data())).is_pending(), "it was ended, too");
}

#[tokio::test]
async fn trailers_of_a_request_that_are_too_large_are_not_cut_short_and_others_are_served() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    let sender = client(setup.connect().await).await;
    let mut other = Client::new(setup.connect().await).await;
    for (bytes, arrives) in [(60_000, true), (70_000, false), (250_000, false)] {
        let mut sender = sender.clone().ready().await.unwrap();
        let (answer, mut upload) = sender.send_request(ask("/trailers", PLAIN), false).unwrap();
        let fields = [("x-first", large(1)), ("x-details", large(bytes))];
        let trailers = HeaderMap::from_iter(fields.map(|(n, v)| (n.parse().unwrap(), v)));
        upload.send_trailers(trailers).unwrap();
        let served = tokio::time::timeout(Duration::from_secs(5), other.get("/")).await;
        assert_eq!(served.unwrap().status.as_u16(), 200);
        let status = answer.await.ok().map(|answer| answer.status().as_u16());
        assert_eq!(status == Some(200), arrives, "{bytes}: {status:?}");
    }
    // Over HTTP/1 16 KiB.
    let upload = |bytes: usize| {
        let head = "POST /trailers HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
        let field = "x".repeat(bytes);
        format!("{head}Connection: close\r\n\r\n0\r\nX-Details: {field}\r\n\r\n")
    };
    for (bytes, arrives) in [(15_000, true), (20_000, false), (200_000, false)] {
        let sent = upload(bytes);
        let answer = raw(setup.address, sent.as_bytes(), false);
        let (answer, served) = tokio::join!(answer, other.get("/"));
        assert_eq!(served.status.as_u16(), 200);
        assert_eq!(answer.starts_with("HTTP/1.1 200"), arrives, "{bytes}: {answer:.80}");
    }
}

#[tokio::test]
async fn heads_of_one_client_leave_room_for_those_of_another() {
    let (policy, identity) = (Some(server(detect(), everybody())), IdentityHandle::empty());
    let change = |config: &mut policy_proxy::SidecarConfig| config.limits.heads = 200 * 1024;
    let setup = Setup::with(policy, wordy().await, identity, change).await;
    // Each is 58 KiB in memory, and some hundred bytes on the wire of a client that repeats itself.
    let crumbs = |path| {
        let mut request = ask(path, GRPC);
        for n in 0..1000 {
            request
                .headers_mut()
                .append("cookie", HeaderValue::try_from(format!("c{:024}=1", n % 2)).unwrap());
        }
        request
    };
    let sender = client(setup.connect().await).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut sender = sender.clone().ready().await.unwrap();
        held.push(sender.send_request(crumbs("/open"), true).unwrap().0.await.unwrap());
    }
    let mut other = client(setup.connect().await).await;
    assert_eq!(see(&other, crumbs("/trailers/1")).await, Seen::call("14"), "of the same network");
    assert_eq!(see(&other, ask("/trailers/1", GRPC)).await, Seen::call("0"), "small heads pass");
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.77.1:0".parse().unwrap()).unwrap();
    other = client(socket.connect(setup.address).await.unwrap()).await;
    assert_eq!(see(&other, crumbs("/trailers/1")).await, Seen::call("0"), "of another network");
    drop((held, sender));
    let begun = std::time::Instant::now();
    while see(&other, crumbs("/trailers/1")).await != Seen::call("0") {
        assert!(begun.elapsed().as_secs() < 60, "the room is not given back");
    }
    other = client(setup.connect().await).await;
    while see(&other, crumbs("/trailers/1")).await != Seen::call("0") {
        assert!(begun.elapsed().as_secs() < 60, "the room is not given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
