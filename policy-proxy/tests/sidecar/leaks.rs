//! No leaks: whatever clients and applications do to each other in HTTP/1, nothing stays open
//! behind them.

use crate::support::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Beginnings of requests; another request follows, or its end.
const REQUESTS: [&str; 12] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /refused HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nnot all",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nall",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nnot all",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nall\r\n0\r\nX: y\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
];

/// Responses of the application to a head.
const ANSWERS: [&str; 15] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot all",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nno chunk",
    "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nother",
    "no HTTP at all\r\n\r\n",
    "",
];

/// Random choice of the next action.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

async fn pause(dice: &mut Dice) {
    tokio::time::sleep(Duration::from_millis(u64::try_from(dice.below(6)).unwrap())).await;
}

/// Answers each head with one of the answers, and waits for the end of the connection, or ends it.
async fn answer(mut stream: TcpStream, mut dice: Dice) {
    let mut seen = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut seen).await {
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            pause(&mut dice).await;
            let answer = ANSWERS[dice.below(ANSWERS.len())];
            if stream.write_all(answer.as_bytes()).await.is_err() || dice.below(6) == 0 {
                return;
            }
        }
    }
}

/// Sends some requests, whole or in pieces, and closes in one way or another.
async fn ask(address: SocketAddr, mut dice: Dice) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut buffer = vec![0; 4096];
    for _ in 0..=dice.below(3) {
        let request = REQUESTS[dice.below(REQUESTS.len())].as_bytes();
        let (first, second) = request.split_at(dice.below(3) * request.len() / 2);
        for part in [first, second] {
            if stream.write_all(part).await.is_err() {
                return;
            }
            pause(&mut dice).await;
        }
        if dice.below(3) > 0 {
            let read = stream.read(&mut buffer);
            let _ = tokio::time::timeout(Duration::from_millis(50), read).await;
        }
    }
    if dice.below(2) == 0 {
        let _ = stream.shutdown().await;
        let read = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
        let _ = tokio::time::timeout(Duration::from_millis(50), read).await;
    }
}

#[tokio::test]
async fn nothing_stays_open_behind_clients_that_are_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    tokio::spawn(async move {
        for seed in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                answer(stream, Dice(seed)).await;
                counted.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    let routes = vec![route(prefix("/refused"), nobody()), route(prefix("/"), everybody())];
    let setup = Setup::new(with_routes(server(detect(), nobody()), routes), address).await;
    for round in 0..40 {
        let clients = (0..25).map(|n| ask(setup.address, Dice(round * 1000 + n)));
        futures_util::future::join_all(clients).await;
    }
    let begun = Instant::now();
    while open.load(Ordering::Relaxed) > 0 {
        assert!(begun.elapsed().as_secs() < 60, "{} stay open", open.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Every worker still serves.
    assert!(raw(setup.address, b"GET /refused HTTP/1.0\r\n\r\n", false).await.contains(" 403 "));
}
