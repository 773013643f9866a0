//! Keep-alive of HTTP/1: requests in turn, and the bytes between them.

use crate::support::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn setup(authorizations: policy_core::AuthorizationSet) -> (App, Setup) {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), authorizations), app.address).await;
    (app, setup)
}

/// Reads until `text` has arrived.
async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(text) {
            let read = stream.read_buf(&mut seen).await.unwrap();
            assert!(read > 0, "ended after {:?}", String::from_utf8_lossy(&seen));
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(read.is_ok(), "`{text}` is not in {seen:?}");
    seen
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut seen)).await;
    // A reset after the last byte ends it as well.
    assert!(read.is_ok(), "still open");
    String::from_utf8_lossy(&seen).into_owned()
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let (_app, setup) = setup(everybody()).await;
    let mut all = String::new();
    for number in 0..40 {
        all += &format!(
            "POST /upload?{number} HTTP/1.1\r\nHost: a\r\nContent-Length: {number}\r\n\r\n{}",
            "x".repeat(number)
        );
    }
    all += "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /none HTTP/1.1\r\n\r\n";
    let mut stream = setup.connect().await;
    stream.write_all(all.as_bytes()).await.unwrap();
    let answers = rest(&mut stream).await;
    let bodies: Vec<&str> = answers.lines().filter(|line| line.ends_with(" bytes")).collect();
    let want: Vec<String> = (0..40).map(|number| format!("{number} bytes")).collect();
    assert_eq!(bodies, want, "{answers}");
    assert!(answers.ends_with("GET /last\nhost: a\n"), "{answers}");
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_its_body_is_told_to_go_on_unless_it_is_refused() {
    let head =
        b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    let (_app, allowed) = setup(everybody()).await;
    let mut stream = allowed.connect().await;
    stream.write_all(head).await.unwrap();
    assert_eq!(until(&mut stream, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").await.unwrap();
    let answer = until(&mut stream, "4 bytes\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (app, refused) = setup(nobody()).await;
    let mut stream = refused.connect().await;
    stream.write_all(head).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(app.requests(), 0);
}

#[tokio::test]
async fn a_body_that_nobody_wants_is_passed_over_if_it_is_there_and_else_ends_the_connection() {
    let (app, setup) = setup(nobody()).await;
    let mut stream = setup.connect().await;
    let one = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let two =
        "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let three = "POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nGET /d HTTP/1.1\r\n";
    stream.write_all([one, two, three].concat().as_bytes()).await.unwrap();
    let answers = rest(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 403").count(), 3, "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
    for path in ["/a", "/b", "/c"] {
        setup.logged(&format!("deny unauthorized - POST {path} 403")).await;
    }
    assert_eq!((app.requests(), setup.log.lines().len()), (0, 3));
}

#[tokio::test]
async fn an_old_client_keeps_its_connection_only_if_it_asks_to() {
    let (_app, setup) = setup(everybody()).await;
    let mut stream = setup.connect().await;
    let head = b"GET /a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let answer = until(&mut stream, "GET /a\nhost: a\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: keep-alive\r\n"), "{answer}");
    stream.write_all(b"GET /b HTTP/1.0\r\nHost: a\r\n\r\n").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("GET /b\nhost: a\n"), "{answer}");
}

#[tokio::test]
async fn a_head_is_answered_without_a_body_and_the_next_request_is_served() {
    let (_app, setup) = setup(everybody()).await;
    let mut stream = setup.connect().await;
    let heads = b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(heads).await.unwrap();
    let answers = rest(&mut stream).await;
    let (first, second) = answers.split_once("\r\n\r\n").unwrap();
    assert!(first.contains("\ncontent-length: 16"), "{first}");
    assert!(second.starts_with("HTTP/1.1 200 OK\r\n"), "{second}");
    assert!(second.ends_with("\r\n\r\nGET /b\nhost: a\n"), "{second}");
}

#[tokio::test]
async fn what_follows_an_upgrade_at_once_is_carried() {
    let (_app, setup) = setup(everybody()).await;
    let mut stream = setup.connect().await;
    let head =
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = until(&mut stream, "hello").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    stream.write_all(b"again").await.unwrap();
    until(&mut stream, "again").await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_answered_takes_its_request_with_it() {
    let (app, setup) = setup(everybody()).await;
    let mut stream = setup.connect().await;
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    while app.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    setup.counted("inbound_http_errors_total{error=\"io\",", 1).await;
}

#[tokio::test]
async fn a_drain_lets_the_answer_in_progress_say_that_it_is_the_last() {
    let (app, setup) = setup(everybody()).await;
    let mut stream = setup.connect().await;
    let head = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
    stream.write_all(head).await.unwrap();
    while app.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    setup.sidecar.drain();
    stream.write_all(b"body").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("4 bytes\n"), "{answer}");
}
