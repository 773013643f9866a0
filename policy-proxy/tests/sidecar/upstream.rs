//! Misbehaving applications must not make one response pass for another, and clients that close
//! must not leave the application waiting.

use crate::support::*;
use policy_core::{Protocol, UpstreamReuse};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers each head with `answer`, and later ones of a connection with `NEXT`. Bodies are read as
/// they arrive.
async fn application(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                let mut heads = 0;
                while let Ok(1..) = stream.read_buf(&mut seen).await {
                    while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                        seen.drain(..end + 4);
                        heads += 1;
                        let answer = if heads == 1 { answer } else { NEXT };
                        let _ = stream.write_all(answer).await;
                    }
                }
            });
        }
    });
    address
}

const NEXT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext";

#[tokio::test]
async fn bytes_behind_an_answer_never_answer_the_next_request() {
    let poison: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    ];
    for answer in poison {
        let address = application(answer).await;
        let setup = Setup::new(server(detect(), everybody()), address).await;
        let mut client = Client::new(setup.connect().await).await;
        for _ in 0..2 {
            assert!(!client.get("/").await.body.contains("poison"));
        }
    }
}

/// The application answers before the request is complete; the rest of the body must not be read as
/// a request, nor the next request as a body.
#[tokio::test]
async fn an_early_answer_leaves_nothing_behind() {
    let address = application(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly").await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let mut stream = setup.connect().await;
    let mut buffer = vec![0; 4096];
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.")
        .await
        .unwrap();
    let n = stream.read(&mut buffer).await.unwrap();
    assert!(buffer[..n].ends_with(b"early"));
    stream.write_all(b"other").await.unwrap();
    stream.write_all(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let n = stream.read(&mut buffer).await.unwrap();
    let answer = String::from_utf8_lossy(&buffer[..n]).into_owned();
    assert!(answer.ends_with("next") || answer.ends_with("early"), "{answer}");
    setup.logged("allow - - GET /second 200").await;
    assert_eq!(setup.log.lines().len(), 2, "{:?}", setup.log.lines());
}

/// The application has begun its response and waits for the rest of the request, which only the
/// proxy can end.
#[tokio::test]
async fn an_upload_that_breaks_off_ends_the_exchange_on_both_sides() {
    for rest in [None, Some(&b"no chunk\r\n"[..])] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let setup = Setup::new(server(detect(), everybody()), listener.local_addr().unwrap()).await;
        let application = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"part\r\n") {
                stream.read_buf(&mut seen).await.unwrap();
            }
            let begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n";
            stream.write_all(begun).await.unwrap();
            // Either closed or reset.
            let _ = stream.read_to_end(&mut seen).await;
            seen
        });
        let mut client = setup.connect().await;
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n";
        client.write_all(head).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"begun\r\n") {
            client.read_buf(&mut answer).await.unwrap();
        }
        match rest {
            Some(rest) => client.write_all(rest).await.unwrap(),
            None => client.shutdown().await.unwrap(),
        }
        let bound = std::time::Duration::from_secs(60);
        let seen = tokio::time::timeout(bound, application).await.unwrap().unwrap();
        assert!(seen.ends_with(b"part\r\n"), "the request does not seem complete");
        let ended = tokio::time::timeout(bound, client.read_to_end(&mut answer)).await;
        assert!(ended.is_ok() && !answer.ends_with(b"0\r\n\r\n"), "nor does the answer");
    }
}

/// An application that answers without reading bodies, keeps its connections unless a request says that it is the
/// last, and takes what is left on one for the next request, as Python's `http.server` does with HTTP/1.1:
/// the request lines that it took.
async fn leaves_bodies() -> (SocketAddr, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taken = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
    let lines = taken.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let lines = lines.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut seen).await {
                    while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                        let head: Vec<u8> = seen.drain(..end + 4).collect();
                        let head = String::from_utf8_lossy(&head).into_owned();
                        lines.lock().unwrap().extend(head.lines().next().map(str::to_owned));
                        let _ = stream.write_all(NEXT).await;
                        if head.contains("connection: close") {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, taken)
}

#[tokio::test]
async fn a_body_that_an_application_leaves_unread_is_no_request_of_its_sender() {
    let smuggled = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    for (method, fields, reuse, is_taken) in [
        ("GET", "", UpstreamReuse::Usual, false),
        ("GET", upgrade, UpstreamReuse::Usual, false),
        ("DELETE", "", UpstreamReuse::Usual, false),
        ("POST", "", UpstreamReuse::WithoutBody, false),
        ("POST", upgrade, UpstreamReuse::WithoutBody, false),
        ("PUT", "", UpstreamReuse::WithoutBody, false),
        // What the annotation is for.
        ("POST", "", UpstreamReuse::Usual, true),
    ] {
        let (address, taken) = leaves_bodies().await;
        let mut policy = server(Protocol::Http1, everybody());
        policy.upstream_reuse = reuse;
        let setup = Setup::new(policy, address).await;
        let mut client = setup.connect().await;
        let first = format!(
            "{method} /first HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n{smuggled}",
            smuggled.len()
        );
        let second = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";
        for request in [first.as_str(), second] {
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"next") {
                assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "{method} {reuse:?}");
            }
        }
        let lines = taken.lock().unwrap().clone();
        let first = format!("{method} /first HTTP/1.1");
        let expected = match is_taken {
            true => vec![first.as_str(), "GET /admin HTTP/1.1"],
            false => vec![first.as_str(), "GET /second HTTP/1.1"],
        };
        assert_eq!(lines[..2], expected, "{method} {reuse:?} {fields}");
    }
}
