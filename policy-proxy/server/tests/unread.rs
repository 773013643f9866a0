//! The memory of what clients send and nobody reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

use allocation_counter::measure;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use policy_server::{Http2Connection, Http2Settings, ListenerStream, RequestBody};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

const WINDOW: u32 = 64 * 1024;

/// Connections of one client, of 128 that it may have.
const CONNECTIONS: usize = 8;

/// The part of 16 MiB that these may take, without the 4 MiB of unfinished messages (policy-discovery).
const MOST: u64 = 12 * 1024 * 1024 / 128 * CONNECTIONS as u64;

const SETTINGS: Http2Settings = Http2Settings {
    window_bytes: WINDOW,
    streams: 1024,
    head_bytes: 16 * 1024,
    send_buffer: 4096,
    ping_after: Duration::from_secs(60),
    ping_timeout: Duration::from_secs(60),
};

/// Never answers, nor reads.
async fn keep(request: Request<RequestBody>) -> Result<Response<Empty<Bytes>>, Infallible> {
    std::future::pending::<()>().await;
    drop(request);
    Ok(Response::new(Empty::new()))
}

/// Opens connections, fills their windows with frames of one byte when it is told to, and says when it has
/// done each.
async fn fill(server: SocketAddr, done: mpsc::Sender<()>, mut told: mpsc::Receiver<()>) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let tcp = TcpStream::connect(server).await.unwrap();
        let (requests, mut connection) = h2::client::handshake(tcp).await.unwrap();
        let mut ping = connection.ping_pong().unwrap();
        tokio::spawn(connection);
        ping.ping(h2::Ping::opaque()).await.unwrap();
        open.push(requests.ready().await.unwrap());
    }
    done.send(()).await.unwrap();
    told.recv().await.unwrap();
    let mut bodies = Vec::new();
    for requests in &mut open {
        let request = Request::post("http://a/").body(()).unwrap();
        let (answer, mut body) = requests.send_request(request, false).unwrap();
        // About as much as the window permits.
        for _ in 0..60_000 {
            body.send_data(Bytes::from_static(b"a"), false).unwrap();
        }
        bodies.push((answer, body));
    }
    // Until all of it is written.
    tokio::time::sleep(Duration::from_secs(3)).await;
    done.send(()).await.unwrap();
    _ = told.recv().await;
}

/// Serves what arrives until the client has done what it was told.
async fn serve(listener: &TcpListener, done: &mut mpsc::Receiver<()>) {
    loop {
        let (tcp, _) = tokio::select! {
            accepted = listener.accept() => accepted.unwrap(),
            () = async { done.recv().await.unwrap() } => return,
        };
        let service = tower::service_fn(keep);
        tokio::spawn(Http2Connection::new(ListenerStream::Plain(tcp), &SETTINGS, service));
    }
}

#[test]
fn what_a_client_leaves_unread_takes_no_more_than_16_mib_however_small_its_frames_are() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let server = listener.local_addr().unwrap();
    let (done, mut is_done) = mpsc::channel(1);
    let (tell, told) = mpsc::channel(1);
    let client = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fill(server, done, told));
    });
    // Of this thread alone, so that the client's memory does not count.
    let mut measured = || measure(|| runtime.block_on(serve(&listener, &mut is_done)));
    let idle = measured();
    runtime.block_on(tell.send(())).unwrap();
    let taken = measured();
    println!(
        "{} bytes idle, then {} more, {} at most",
        idle.bytes_current, taken.bytes_current, taken.bytes_max
    );
    let held = i64::from(WINDOW) * CONNECTIONS as i64;
    assert!(taken.bytes_current > held / 2, "it is held: {taken:?}");
    assert!(taken.bytes_max < MOST, "{taken:?}");
    drop(tell);
    client.join().unwrap();
}
