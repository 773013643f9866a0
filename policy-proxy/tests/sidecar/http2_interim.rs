//! Interim responses (1xx) to clients of HTTP/2 that read their connections and do not look at them. What a
//! client counts for that reads nothing is tested where heads are queued.

use crate::support::*;
use http::{Request, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A timeout for every step, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// An application that sends hints to requests for `/hints`, and its answer when it is permitted to.
async fn hinting() -> (SocketAddr, Arc<Semaphore>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, permits) = (listener.local_addr().unwrap(), Arc::new(Semaphore::new(0)));
    let all = Arc::clone(&permits);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let all = Arc::clone(&all);
                    tokio::spawn(async move {
                        if request.uri().path() == "/hints" {
                            for number in 0..60 {
                                let hint = Response::builder()
                                    .status(103)
                                    .header("link", format!("{number:~<1000}"));
                                let _ = respond.send_informational(hint.body(()).unwrap());
                            }
                            let _permit = all.acquire().await.unwrap();
                        }
                        let _ = respond.send_response(Response::new(()), true);
                    });
                }
            });
        }
    });
    (address, permits)
}

#[tokio::test]
#[allow(clippy::async_yields_async, reason = "answers are awaited later")]
async fn interim_responses_that_are_not_looked_at_hold_no_other_stream_back() {
    let (address, permits) = hinting().await;
    let setup = Setup::new(server(detect(), everybody()), address).await;
    let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |path: &str| {
        sender = sender.clone().ready().await.unwrap();
        let request = Request::get(format!("http://web.example{path}")).body(()).unwrap();
        sender.send_request(request, true).unwrap().0
    };
    let mut hinted = Vec::new();
    for _ in 0..50 {
        hinted.push(ask("/hints").await);
    }
    let other = tokio::time::timeout(PATIENCE, ask("/other").await).await.unwrap().unwrap();
    assert_eq!(other.status(), 200);
    permits.add_permits(50);
    for answer in hinted {
        assert_eq!(tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap().status(), 200);
    }
}
