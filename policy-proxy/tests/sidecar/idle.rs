//! Idle connections, and connections in use.

use crate::support::*;
use policy_core::Protocol;
use policy_tls::identity::IdentityHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Detecting a client that vanished needs a second machine; this only sets the options.
#[tokio::test]
async fn every_setting_of_sockets_and_http_2_is_accepted_by_the_system() {
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        let seconds = Duration::from_secs(20);
        config.sockets.backlog = 5;
        config.sockets.accept_keepalive = seconds;
        config.sockets.accept_user_timeout = Some(seconds);
        config.sockets.connect_keepalive = Some(seconds);
        config.sockets.connect_user_timeout = Some(seconds);
        config.limits.http2_adaptive_window = true;
        config.limits.http2_frame = Some(16_777_215);
        config.limits.http2_send_buffer = Some(1);
        config.limits.http2_upstream_windows = (1, 0x7fff_ffff);
        config.timeouts.http2_ping_answer = seconds;
    })
    .await;
    let mut client = Client::new(setup.connect().await).await;
    assert_eq!(client.get("/").await.status, 200);
    let mut sender = crate::http2::client(&setup).await;
    let mut asked = request("http://web.example/", &[]);
    asked.headers_mut().remove("host");
    let got = got(sender.send_request(asked).await.unwrap()).await;
    assert_eq!((got.status.as_u16(), got.body.as_str()), (200, "GET http://web.example/\n"));
}

#[tokio::test]
async fn an_opaque_connection_without_bytes_ends_after_its_bound_and_one_with_bytes_does_not() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Opaque, everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.opaque_idle = Some(Duration::from_secs(2));
    })
    .await;
    let mut idle = setup.connect().await;
    let mut busy = setup.connect().await;
    busy.write_all(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    // The idle connection is reset, by its timeout alone.
    let mut byte = [0; 1];
    let ended = tokio::time::timeout(Duration::from_secs(60), idle.read(&mut byte)).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    // The busy connection has been open for as long, and goes on.
    for _ in 0..3 {
        let mut bytes = [0; 200];
        busy.read_exact(&mut bytes).await.unwrap();
    }
    let lines = setup.log.lines();
    assert_eq!(lines.len(), 2, "one line for each connection: {lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("allow")), "nothing was revoked: {lines:?}");
}

#[tokio::test]
async fn an_http_connection_without_requests_ends_after_its_bound_and_one_with_a_request_does_not()
{
    let app = App::start().await;
    let policy = Some(server(detect(), everybody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.idle = Duration::from_secs(2);
    })
    .await;
    let mut idle = setup.connect().await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut streaming = setup.connect().await;
    streaming.write_all(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = idle.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "answered, then closed");
    for _ in 0..3 {
        let mut bytes = [0; 100];
        streaming.read_exact(&mut bytes).await.unwrap();
    }
}

#[tokio::test]
async fn who_never_takes_the_last_of_its_answers_is_ended() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Http1, nobody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.idle = Duration::from_secs(1);
        config.timeouts.request_head = Duration::from_secs(1);
    })
    .await;
    let mut client = setup.connect().await;
    let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    // The client reads nothing: responses fill the system's buffers, then requests are not read
    // either.
    let write = async { while client.write_all(&requests).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(60), write).await.unwrap();
}

#[tokio::test]
async fn who_goes_on_sending_what_was_refused_is_ended_after_the_time_for_a_head() {
    let app = App::start().await;
    let policy = Some(server(Protocol::Http1, nobody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), |config| {
        config.timeouts.request_head = Duration::from_secs(1);
    })
    .await;
    let mut client = setup.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n").await.unwrap();
    let write = async {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), write).await.unwrap();
}
