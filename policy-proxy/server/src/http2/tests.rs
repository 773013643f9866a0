//! A connection as clients use it, and as hostile ones do.

use super::*;
use crate::listener::ListenerStream;
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const WINDOW: u32 = 64 * 1024;

fn settings() -> Http2Settings {
    Http2Settings {
        window_bytes: WINDOW,
        streams: 1024,
        head_bytes: 16 * 1024,
        send_buffer: 4096,
        ping_after: Duration::from_secs(30),
        ping_timeout: Duration::from_secs(20),
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}

/// The length of a body; of one at `/unread`, nothing ever.
async fn length(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/unread" {
        std::future::pending::<()>().await;
    }
    let body = request.into_body().collect().await;
    let text = body.map_or("broken".to_owned(), |body| body.to_bytes().len().to_string());
    Ok(Response::new(Full::new(text.into())))
}

type Served = JoinHandle<Result<(), Http2Error>>;

async fn connected(
    settings: Http2Settings,
) -> (SendRequest<Bytes>, Served, JoinHandle<Option<h2::Error>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let service = tower::service_fn(length);
    let connection = Http2Connection::new(ListenerStream::Plain(server), &settings, service);
    let served = tokio::spawn(connection);
    let (requests, connection) = h2::client::handshake(client).await.unwrap();
    let driven = tokio::spawn(async move { connection.await.err() });
    (requests.ready().await.unwrap(), served, driven)
}

fn post(path: &str) -> Request<()> {
    Request::post(format!("http://a{path}")).body(()).unwrap()
}

/// The answer to a request whose body comes in frames of one byte.
async fn ask(requests: &mut SendRequest<Bytes>, bytes: usize) -> String {
    let (answer, mut body) = requests.send_request(post("/read"), bytes == 0).unwrap();
    for sent in 1..=bytes {
        body.send_data(Bytes::from_static(b"a"), sent == bytes).unwrap();
    }
    let mut answer = soon(answer).await.unwrap().into_body();
    let data = soon(answer.data()).await.unwrap().unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

/// h2 ends such a connection with ENHANCE_YOUR_CALM.
#[tokio::test]
async fn small_frames_that_nobody_reads_end_no_connection() {
    let (mut requests, _served, driven) = connected(settings()).await;
    let mut open = Vec::new();
    for _ in 0..1000 {
        requests = soon(requests.ready()).await.unwrap();
        let (answer, mut body) = requests.send_request(post("/unread"), false).unwrap();
        for _ in 0..20 {
            body.send_data(Bytes::from_static(b"a"), false).unwrap();
        }
        open.push((answer, body));
    }
    assert_eq!(ask(&mut requests, 0).await, "0");
    assert_eq!(ask(&mut requests, 4_000).await, "4000");
    assert!(!driven.is_finished());
}

#[tokio::test]
async fn a_connection_holds_no_more_unread_than_its_window() {
    let (mut requests, _served, driven) = connected(settings()).await;
    let window = usize::try_from(WINDOW).unwrap();
    let (_answer, mut body) = requests.send_request(post("/unread"), false).unwrap();
    let mut sent = 0;
    while sent < window {
        body.reserve_capacity(window - sent);
        let some = soon(poll_fn(|cx| body.poll_capacity(cx))).await.unwrap().unwrap();
        sent += some;
        body.send_data(Bytes::from(vec![0; some]), false).unwrap();
    }
    body.reserve_capacity(1);
    let more =
        tokio::time::timeout(Duration::from_millis(200), poll_fn(|cx| body.poll_capacity(cx)));
    assert!(more.await.is_err(), "the window is closed");
    // Who gives up gives it back.
    body.send_reset(h2::Reason::CANCEL);
    assert_eq!(ask(&mut requests, 1_000).await, "1000");
    assert!(!driven.is_finished());
}

/// A header that is counted while somebody has it.
struct Counted(Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &[b'a'; 4000]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// h2 keeps every answer that its client does not take, of as many streams as a connection may have.
#[tokio::test]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of streams are small")]
async fn a_client_that_does_not_take_its_answers_is_not_read() {
    const REQUESTS: usize = 6000;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let (kept, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (kept.clone(), served.clone());
    let service = tower::service_fn(move |_: Request<RequestBody>| {
        let (kept, served) = counters.clone();
        kept.fetch_add(1, Ordering::Relaxed);
        served.fetch_add(1, Ordering::Relaxed);
        let value = HeaderValue::from_maybe_shared(Bytes::from_owner(Counted(kept)));
        let mut value = value.unwrap();
        // So that no table of HPACK has it.
        value.set_sensitive(true);
        let answer = Response::builder().header("x", value).body(Full::default());
        std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
    });
    let settings = settings();
    let connection = Http2Connection::new(ListenerStream::Plain(server), &settings, service);
    let _served = tokio::spawn(connection);
    let (mut reading, mut writing) = client.into_split();
    let sending = tokio::spawn(async move {
        writing.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        for number in 0..u32::try_from(REQUESTS).unwrap() {
            // GET http://a/
            let mut head = vec![0, 0, 6, 1, 5];
            head.extend((2 * number + 1).to_be_bytes());
            head.extend([0x82, 0x86, 0x84, 0x01, 0x01, b'a']);
            writing.write_all(&head).await.unwrap();
        }
        writing
    });
    // Until nothing more is read.
    let mut last = usize::MAX;
    while last != served.load(Ordering::Relaxed) {
        last = served.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(last < REQUESTS, "everything was read");
    let kept = kept.load(Ordering::Relaxed);
    assert!(kept < 100, "{kept} answers are kept");
    let (mut other, _served, _driven) = connected(settings).await;
    assert_eq!(ask(&mut other, 1_000).await, "1000", "another client is served");
    let taking = tokio::spawn(async move {
        let mut taken = vec![0; 64 * 1024];
        while reading.read(&mut taken).await.is_ok_and(|read| read > 0) {}
    });
    let all = async {
        while served.load(Ordering::Relaxed) < REQUESTS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(all).await;
    taking.abort();
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn streams_that_are_given_up_all_at_once_end_no_connection() {
    let (mut requests, _served, driven) = connected(settings()).await;
    for _ in 0..3 {
        let mut open = Vec::new();
        for _ in 0..500 {
            requests = soon(requests.ready()).await.unwrap();
            open.push(requests.send_request(post("/unread"), false).unwrap());
        }
        drop(open);
        assert_eq!(ask(&mut requests, 10).await, "10");
    }
    assert!(!driven.is_finished());
}

#[tokio::test]
async fn a_client_that_shows_no_life_is_let_go() {
    let times = [Duration::from_millis(50), Duration::from_millis(50)];
    let [ping_after, ping_timeout] = times;
    let short = Http2Settings { ping_after, ping_timeout, ..settings() };
    let (mut requests, served, driven) = connected(short.clone()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ask(&mut requests, 1).await, "1", "it answers pings");
    assert!(!served.is_finished());
    driven.abort();
    drop(requests);
    // Whether its socket is closed or not.
    assert!(!matches!(soon(served).await.unwrap(), Err(Http2Error::Silent)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let service = tower::service_fn(length);
    let connection = Http2Connection::new(ListenerStream::Plain(server), &short, service);
    assert!(matches!(soon(connection).await, Err(Http2Error::Silent)));
}

#[tokio::test]
async fn a_connection_ends_after_the_streams_that_are_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let service = tower::service_fn(length);
    let mut connection = Http2Connection::new(ListenerStream::Plain(server), &settings(), service);
    let (end, ending) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(async move {
        tokio::select! {
            ended = &mut connection => return ended,
            _ = ending => connection.end_gracefully(),
        }
        connection.await
    });
    let (requests, connection) = h2::client::handshake(client).await.unwrap();
    tokio::spawn(connection);
    let mut requests = requests.ready().await.unwrap();
    let (answer, mut body) = requests.send_request(post("/read"), false).unwrap();
    body.send_data(Bytes::from_static(b"a"), false).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    end.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    body.send_data(Bytes::from_static(b"b"), true).unwrap();
    let data = soon(soon(answer).await.unwrap().into_body().data()).await.unwrap().unwrap();
    assert_eq!(&data[..], b"2");
    soon(served).await.unwrap().unwrap();
}
