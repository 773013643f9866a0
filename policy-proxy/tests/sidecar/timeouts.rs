//! Bounds on parts of an exchange: slow applications, streams, pauses, and the client's own deadline.

use crate::http2::{Sender, client};
use crate::support::*;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use policy_core::filter::{Filter, FilterKind, Streams, Timeouts};
use policy_core::{SegmentCondition, SegmentOperator, ServerPolicy, Source};
use policy_testkit::http2_client;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::IntervalStream;

/// The bounds of these tests. An exchange that must not be ended goes on for several of them.
const BOUND: Duration = Duration::from_millis(300);
const FEW_BOUNDS: Duration = Duration::from_millis(900);
const LONG: Duration = Duration::from_secs(60);
/// Time within which something that is bounded has surely ended.
const SOON: Duration = Duration::from_secs(10);

fn policy(all: Vec<Timeouts>) -> ServerPolicy {
    let mut policy = server(detect(), everybody());
    let source = Source::Default("test".into());
    policy.effects = all
        .into_iter()
        .map(|timeouts| Filter { source: source.clone(), kind: FilterKind::Timeouts(timeouts) })
        .collect();
    policy
}

fn request_within(bound: Duration, streams: Streams) -> Timeouts {
    Timeouts { request: Some(bound), streams, ..Timeouts::default() }
}

fn response_within(bound: Duration) -> Timeouts {
    Timeouts { response: Some(bound), ..Timeouts::default() }
}

fn idle_for(bound: Duration) -> Timeouts {
    Timeouts { idle: Some(bound), ..Timeouts::default() }
}

async fn setup(all: Vec<Timeouts>) -> (App, Setup) {
    let app = App::start().await;
    let setup = Setup::new(policy(all), app.address).await;
    (app, setup)
}

/// Reads frames until the body ends or `enough` has passed. Returns the trailers if the body has some,
/// and an error if it was broken off.
async fn follow(
    mut body: Incoming,
    enough: Duration,
) -> Result<Option<HeaderMap>, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    while begun.elapsed() < enough {
        let frame = tokio::time::timeout(SOON, body.frame()).await;
        match frame.expect("a frame or an end comes soon") {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(trailers) = frame?.into_trailers() {
                    return Ok(Some(trailers));
                }
            }
        }
    }
    Ok(None)
}

async fn open(setup: &Setup, path: &str) -> Incoming {
    let mut client = Client::new(setup.connect().await).await;
    client.send(request(path, &[])).await.into_body()
}

#[tokio::test]
async fn an_application_that_does_not_answer_is_given_up_at_any_bound() {
    for timeouts in [
        request_within(BOUND, Streams::Bounded),
        request_within(BOUND, Streams::Unbounded),
        response_within(BOUND),
        idle_for(BOUND),
    ] {
        let (_app, setup) =
            setup(vec![request_within(LONG, Streams::Bounded), timeouts.clone()]).await;
        let mut one = Client::new(setup.connect().await).await;
        let begun = Instant::now();
        assert_eq!(one.get("/never").await.status, StatusCode::GATEWAY_TIMEOUT, "{timeouts:?}");
        assert!((BOUND..SOON).contains(&begun.elapsed()), "{timeouts:?}: {:?}", begun.elapsed());
        setup.logged("allow - - GET /never 504").await;
        let mut two = client(&setup).await;
        let never = Request::get("http://web.example/never").body(Full::default()).unwrap();
        let answer = two.send_request(never).await.unwrap();
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT, "{timeouts:?}");
    }
}

#[tokio::test]
async fn a_bounded_stream_ends_with_the_request_timeout_and_an_unbounded_one_goes_on() {
    let (_app, bounded) = setup(vec![request_within(BOUND, Streams::Bounded)]).await;
    let (_app, unbounded) = setup(vec![request_within(BOUND, Streams::Unbounded)]).await;
    assert!(follow(open(&bounded, "/stream").await, SOON).await.is_err(), "broken off");
    follow(open(&unbounded, "/stream").await, FEW_BOUNDS).await.unwrap();
    let stream = || Request::get("http://web.example/stream").body(Full::default()).unwrap();
    let body = client(&bounded).await.send_request(stream()).await.unwrap().into_body();
    assert!(follow(body, SOON).await.is_err(), "reset");
    let mut sender = client(&unbounded).await;
    let body = sender.send_request(stream()).await.unwrap().into_body();
    follow(body, FEW_BOUNDS).await.unwrap();
}

#[tokio::test]
async fn a_response_timeout_does_not_count_the_time_that_the_client_takes() {
    let (_app, setup) = setup(vec![response_within(BOUND)]).await;
    // HTTP/1.
    let mut stream = setup.connect().await;
    stream
        .write_all(b"POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..6 {
        tokio::time::sleep(BOUND / 2).await;
        stream.write_all(b"x").await.unwrap();
    }
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("6 bytes\n"), "{answer}");
    // HTTP/2.
    let mut sender: hyper::client::conn::http2::SendRequest<BoxBody<Bytes, Infallible>> =
        http2_client(setup.connect().await).await;
    let pieces = IntervalStream::new(tokio::time::interval(BOUND / 2)).take(6);
    let pieces = pieces.map(|_| Ok(Frame::data(Bytes::from_static(b"x"))));
    let upload = Request::post("http://web.example/upload")
        .body(BodyExt::boxed(StreamBody::new(pieces)))
        .unwrap();
    let answer = got(sender.send_request(upload).await.unwrap()).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "6 bytes\n"));
    // A response that has begun may take its time.
    follow(open(&setup, "/stream").await, FEW_BOUNDS).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_has_ended_leaves_the_application_the_time_of_the_response() {
    let (_app, setup) = setup(vec![response_within(BOUND)]).await;
    let mut stream = setup.connect().await;
    stream
        .write_all(b"POST /never HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(BOUND * 2).await;
    stream.write_all(b"x").await.unwrap();
    let ended = Instant::now();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(SOON, stream.read(&mut answer)).await.unwrap().unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 504"), "{:?}", &answer[..read]);
    assert!(ended.elapsed() >= BOUND - Duration::from_millis(50), "{:?}", ended.elapsed());
}

#[tokio::test]
async fn an_idle_exchange_ends_and_one_with_a_frame_now_and_then_goes_on() {
    let (_app, setup) = setup(vec![idle_for(BOUND)]).await;
    assert!(follow(open(&setup, "/pause").await, SOON).await.is_err(), "broken off");
    follow(open(&setup, "/stream").await, FEW_BOUNDS).await.unwrap();
    let mut sender = client(&setup).await;
    let mut ask = |path: &str| {
        let uri = format!("http://web.example{path}");
        sender.send_request(Request::get(uri).body(Full::default()).unwrap())
    };
    let (pause, stream) = (ask("/pause"), ask("/stream"));
    let (pause, stream) = (pause.await.unwrap(), stream.await.unwrap());
    let (pause, stream) =
        tokio::join!(follow(pause.into_body(), SOON), follow(stream.into_body(), FEW_BOUNDS));
    assert!(pause.is_err(), "reset");
    stream.unwrap();
}

#[tokio::test]
async fn frames_of_the_request_count_as_much_as_those_of_the_response() {
    let (app, setup) = setup(vec![idle_for(BOUND)]).await;
    let mut stream = setup.connect().await;
    stream
        .write_all(b"POST /upload HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..8 {
        tokio::time::sleep(BOUND / 2).await;
        stream.write_all(b"1\r\nx\r\n").await.unwrap();
    }
    // The rest is missing.
    let stopped = Instant::now();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(SOON, stream.read(&mut answer)).await.unwrap().unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 504"), "{:?}", &answer[..read]);
    assert!(stopped.elapsed() >= BOUND - Duration::from_millis(50), "{:?}", stopped.elapsed());
    assert_eq!(app.requests(), 1);
}

#[tokio::test]
async fn a_client_that_reads_nothing_puts_no_end_off() {
    for timeouts in [request_within(BOUND, Streams::Bounded), idle_for(BOUND)] {
        let (app, setup) = setup(vec![timeouts.clone()]).await;
        let mut stream = setup.connect().await;
        stream.write_all(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        tokio::time::sleep(FEW_BOUNDS * 2).await;
        let rest = async {
            let mut buffer = vec![0; 1 << 16];
            while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
        };
        tokio::time::timeout(SOON, rest).await.expect("the connection has ended");
        let flooded = app.flooded();
        tokio::time::sleep(BOUND).await;
        assert_eq!(app.flooded(), flooded, "{timeouts:?}: nothing more is read");
    }
}

/// The bytes of a response that arrive at a client that begins to read when the bounds are over.
async fn arrives(setup: &Setup, size: usize) -> usize {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(setup.address).await.unwrap();
    let request = format!("GET /sized/{size} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(FEW_BOUNDS * 2).await;
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.unwrap() {
        received.extend_from_slice(&buffer[..read]);
    }
    let head = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    received.len() - head
}

#[tokio::test]
async fn a_response_that_waits_for_its_client_ends_with_its_bound() {
    for timeouts in [request_within(BOUND, Streams::Bounded), idle_for(BOUND)] {
        let (_app, setup) = setup(vec![timeouts.clone()]).await;
        assert_eq!(arrives(&setup, 1024).await, 1024, "sent in time");
        // The sockets between take so much, and the rest waits in the sidecar. Kernels size their buffers
        // anew for each connection, so that the rest is larger each time.
        let mut cut_off = false;
        for attempt in 0..7 {
            if cut_off {
                break;
            }
            let size = arrives(&setup, 64 << 20).await + ((32 * 1024) << attempt);
            cut_off = arrives(&setup, size).await < size;
        }
        assert!(cut_off, "{timeouts:?}: what waits for the client is sent late");
    }
}

#[tokio::test]
async fn bounds_may_depend_on_a_path_parameter_and_the_smallest_counts() {
    let on = |operator, bound| Timeouts {
        when: vec![SegmentCondition::new("id", 1, operator, ["42"])],
        ..request_within(bound, Streams::Bounded)
    };
    let all = vec![on(SegmentOperator::In, BOUND), on(SegmentOperator::NotIn, LONG)];
    let (_app, setup) = setup(all).await;
    assert!(follow(open(&setup, "/stream/42").await, SOON).await.is_err());
    follow(open(&setup, "/stream/43").await, FEW_BOUNDS).await.unwrap();
    follow(open(&setup, "/stream").await, FEW_BOUNDS).await.unwrap();
    let mut both = policy(vec![request_within(LONG, Streams::Bounded)]);
    let kind = FilterKind::Timeout(BOUND);
    both.effects.push(Filter { source: Source::Default("route".into()), kind });
    for _ in 0..2 {
        setup.apply(both.clone()).await;
        assert!(follow(open(&setup, "/stream").await, SOON).await.is_err());
        both.effects.reverse();
    }
}

#[tokio::test]
async fn a_tunnel_ends_when_no_byte_passes_and_by_no_other_bound() {
    let requests = [request_within(BOUND, Streams::Bounded), response_within(BOUND)];
    for (timeouts, ends) in [(requests.to_vec(), false), (vec![idle_for(BOUND)], true)] {
        let (_app, setup) = setup(timeouts).await;
        let mut stream = setup.connect().await;
        stream
            .write_all(
                b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            )
            .await
            .unwrap();
        let mut buffer = vec![0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 101"));
        for _ in 0..6 {
            tokio::time::sleep(BOUND / 2).await;
            stream.write_all(b"ping").await.unwrap();
            let mut echo = [0; 4];
            stream.read_exact(&mut echo).await.unwrap();
            assert_eq!(&echo, b"ping");
        }
        let quiet = tokio::time::timeout(FEW_BOUNDS, stream.read(&mut buffer)).await;
        assert_eq!(matches!(quiet, Ok(Ok(0) | Err(_))), ends);
    }
}

fn call(path: &str, deadline: Option<&str>) -> Request<Full<Bytes>> {
    let mut call = crate::grpc::call(path);
    if let Some(deadline) = deadline {
        call.headers_mut().insert("grpc-timeout", deadline.parse().unwrap());
    }
    call
}

/// The `grpc-status` of a call, in its head or its trailers; none if it goes on.
async fn status(sender: &mut Sender, call: Request<Full<Bytes>>) -> Option<String> {
    let response = tokio::time::timeout(SOON, sender.send_request(call)).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    let of = |fields: &HeaderMap| Some(fields.get("grpc-status")?.to_str().ok()?.to_owned());
    if let Some(status) = of(response.headers()) {
        return Some(status);
    }
    let trailers = follow(response.into_body(), FEW_BOUNDS).await.unwrap();
    trailers.as_ref().and_then(of)
}

#[tokio::test]
async fn a_call_that_exceeds_a_bound_ends_with_deadline_exceeded() {
    let (_app, bounded) = setup(vec![request_within(BOUND, Streams::Bounded)]).await;
    let mut sender = client(&bounded).await;
    for path in ["/pkg.Never/Say", "/pkg.Stream/Follow"] {
        assert_eq!(status(&mut sender, call(path, None)).await.as_deref(), Some("4"), "{path}");
    }
    let (_app, unbounded) = setup(vec![request_within(BOUND, Streams::Unbounded)]).await;
    let mut sender = client(&unbounded).await;
    assert_eq!(status(&mut sender, call("/pkg.Never/Say", None)).await.as_deref(), Some("4"));
    assert_eq!(status(&mut sender, call("/pkg.Stream/Follow", None)).await, None);
    let (_app, idle) = setup(vec![idle_for(BOUND)]).await;
    let mut sender = client(&idle).await;
    assert_eq!(status(&mut sender, call("/pkg.Pause/Follow", None)).await.as_deref(), Some("4"));
    assert_eq!(status(&mut sender, call("/pkg.Stream/Follow", None)).await, None);
}

#[tokio::test]
async fn a_call_in_time_passes_with_its_trailers() {
    let all = Timeouts { response: Some(LONG), idle: Some(LONG), ..Timeouts::default() };
    let (_app, setup) = setup(vec![all, request_within(LONG, Streams::Bounded)]).await;
    let mut sender = client(&setup).await;
    assert_eq!(status(&mut sender, call("/pkg.Echo/Say", None)).await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_grpc_timeout_shortens_a_bound_and_never_lengthens_one() {
    let (_app, long) = setup(vec![request_within(LONG, Streams::Bounded)]).await;
    let mut sender = client(&long).await;
    for path in ["/pkg.Never/Say", "/pkg.Stream/Follow"] {
        let call = call(path, Some("300m"));
        assert_eq!(status(&mut sender, call).await.as_deref(), Some("4"), "{path}");
    }
    // One that cannot be read counts for nothing.
    let bad = call("/pkg.Stream/Follow", Some("300"));
    assert_eq!(status(&mut sender, bad).await, None);
    let (_app, short) = setup(vec![request_within(BOUND, Streams::Bounded)]).await;
    let mut sender = client(&short).await;
    let call_for = |deadline| call("/pkg.Never/Say", Some(deadline));
    let begun = Instant::now();
    assert_eq!(status(&mut sender, call_for("1H")).await.as_deref(), Some("4"));
    assert!((BOUND..SOON).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    // Without a bound of the policy, the deadline is the client's and the application's alone.
    let (_app, none) = setup(Vec::new()).await;
    let mut sender = client(&none).await;
    assert_eq!(status(&mut sender, call("/pkg.Stream/Follow", Some("100m"))).await, None);
}

#[tokio::test]
async fn a_grpc_timeout_is_forwarded_as_it_is() {
    let (_app, setup) = setup(vec![request_within(BOUND, Streams::Bounded)]).await;
    let mut sender = client(&setup).await;
    for deadline in ["10S", "200m", "x"] {
        let echoed = got(sender.send_request(call("/echo", Some(deadline))).await.unwrap()).await;
        assert!(echoed.body.contains(&format!("grpc-timeout: {deadline}\n")), "{}", echoed.body);
    }
}
