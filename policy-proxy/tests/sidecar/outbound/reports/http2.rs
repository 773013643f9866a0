//! Reports of HTTP/2 and gRPC: one exchange each, directly, through the inbound half, and through both
//! halves. What both ends observe of heads, bodies, trailers and resets is compared.

#![allow(clippy::too_many_lines, clippy::wildcard_enum_match_arm, reason = "tests")]

use super::super::traffic::{Path, Way, path};
use super::super::*;
use ::bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version};
use std::sync::Mutex;

/// Names and values; those that begin with a colon are pseudo-headers.
type Fields = &'static [(&'static str, &'static str)];

/// A step of one end of an exchange.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Sends the head. True: it is all.
    Head(Fields, bool),
    /// Sends an interim response.
    Interim(Fields),
    /// Sends data. True: it is the last.
    Data(&'static [u8], bool),
    /// Sends trailers.
    Trailers(Fields),
    /// Resets the stream.
    Reset(Reason),
    /// Waits for the response's head; the application has the request's already.
    Answer,
    /// Reads this many bytes.
    Take(usize),
    /// Reads to the end: bytes, trailers, or a reset.
    Rest,
    /// Waits for a reset.
    Stopped,
    /// Waits for milliseconds.
    Pause(u64),
}
use Part::{Answer, Data, Head, Interim, Pause, Rest, Stopped, Take, Trailers};

/// The observations of an end, in their order.
type Seen = Vec<String>;

/// Fields in order, without what every sidecar adds and the time.
fn shown(fields: &HeaderMap) -> String {
    let own = ["date", "forwarded", "l5d-client-id", "l5d-connection-secure"];
    let mut lines: Vec<String> = fields
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    lines.sort();
    lines.join("|")
}

fn map(fields: Fields) -> HeaderMap {
    let own = fields.iter().filter(|(name, _)| !name.starts_with(':'));
    own.map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        (HeaderName::from_static(name), value)
    })
    .collect()
}

fn pseudo(fields: Fields, name: &str) -> Option<&'static str> {
    fields.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
}

/// One end of an exchange.
struct End {
    send: Option<SendStream<Bytes>>,
    receive: Option<RecvStream>,
    seen: Seen,
}

impl End {
    fn reset(&mut self, error: &h2::Error) {
        self.seen.push(match error.reason() {
            Some(reason) => format!("reset {reason:?}"),
            None => "lost".to_owned(),
        });
    }

    /// Runs a step that both ends have.
    async fn step(&mut self, part: Part) {
        match part {
            Data(bytes, last) => {
                let sent = self.send.as_mut().unwrap().send_data(Bytes::from_static(bytes), last);
                sent.unwrap();
            }
            Trailers(fields) => self.send.as_mut().unwrap().send_trailers(map(fields)).unwrap(),
            Part::Reset(reason) => self.send.as_mut().unwrap().send_reset(reason),
            Take(count) => {
                let mut got = Vec::new();
                while got.len() < count {
                    match self.data().await {
                        Some(Ok(piece)) => got.extend(piece),
                        Some(Err(error)) => return self.reset(&error),
                        None => break,
                    }
                }
                self.seen.push(String::from_utf8_lossy(&got).into_owned());
            }
            Rest => {
                let mut got = Vec::new();
                while let Some(piece) = self.data().await {
                    match piece {
                        Ok(piece) => got.extend(piece),
                        Err(error) => {
                            self.seen.push(String::from_utf8_lossy(&got).into_owned());
                            return self.reset(&error);
                        }
                    }
                }
                self.seen.push(String::from_utf8_lossy(&got).into_owned());
                match self.receive.as_mut().unwrap().trailers().await {
                    Ok(trailers) => {
                        self.seen.push(format!("end {}", shown(&trailers.unwrap_or_default())))
                    }
                    Err(error) => self.reset(&error),
                }
            }
            Stopped => {
                let send = self.send.as_mut().unwrap();
                let reset = std::future::poll_fn(|cx| send.poll_reset(cx));
                match within(reset).await {
                    Ok(reason) => self.seen.push(format!("reset {reason:?}")),
                    Err(error) => self.reset(&error),
                }
            }
            Pause(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            Head(..) | Interim(_) | Answer => unreachable!("a step of one end"),
        }
    }

    async fn data(&mut self) -> Option<Result<Bytes, h2::Error>> {
        let receive = self.receive.as_mut().unwrap();
        let piece = within(receive.data()).await?;
        if let Ok(piece) = &piece {
            let _ = receive.flow_control().release_capacity(piece.len());
        }
        Some(piece)
    }
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("still waiting")
}

/// Runs the client's steps.
async fn ask(mut sender: SendRequest<Bytes>, parts: &[Part]) -> Seen {
    let mut end = End { send: None, receive: None, seen: Seen::new() };
    let mut answer = None;
    for part in parts {
        match part {
            Head(fields, last) => {
                let uri = http::Uri::builder()
                    .scheme(pseudo(fields, ":scheme").unwrap_or("http"))
                    .authority(pseudo(fields, ":authority").unwrap_or("a"))
                    .path_and_query(pseudo(fields, ":path").unwrap_or("/a"));
                let mut request = Request::new(());
                *request.method_mut() = pseudo(fields, ":method").unwrap_or("GET").parse().unwrap();
                *request.uri_mut() = uri.build().unwrap();
                *request.headers_mut() = map(fields);
                *request.version_mut() = Version::HTTP_2;
                let (response, send) = sender.send_request(request, *last).unwrap();
                (answer, end.send) = (Some(response), Some(send));
            }
            Answer => {
                let mut response = answer.take().unwrap();
                let mut interim = Vec::new();
                let head = within(std::future::poll_fn(|cx| {
                    while let std::task::Poll::Ready(Some(Ok(own))) =
                        response.poll_informational(cx)
                    {
                        interim.push(format!("{} {}", own.status().as_u16(), shown(own.headers())));
                    }
                    std::pin::Pin::new(&mut response).poll(cx)
                }))
                .await;
                end.seen.append(&mut interim);
                match head {
                    Ok(head) => {
                        let (head, body) = head.into_parts();
                        let all = if body.is_end_stream() { " all" } else { "" };
                        let text = shown(&head.headers);
                        end.seen.push(format!("{} {text}{all}", head.status.as_u16()));
                        end.receive = Some(body);
                    }
                    Err(error) => {
                        end.reset(&error);
                        return end.seen;
                    }
                }
            }
            other => end.step(*other).await,
        }
    }
    end.seen
}

/// Runs the application's steps.
async fn answer(
    request: Request<RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    parts: &[Part],
) -> Seen {
    let (head, body) = request.into_parts();
    let all = if body.is_end_stream() { " all" } else { "" };
    let text = shown(&head.headers);
    let mut end = End { send: None, receive: Some(body), seen: Seen::new() };
    end.seen.push(format!("{} {} {text}{all}", head.method, head.uri));
    for part in parts {
        match part {
            Head(fields, last) => {
                let mut response = Response::new(());
                *response.status_mut() =
                    pseudo(fields, ":status").unwrap_or("200").parse().unwrap();
                *response.headers_mut() = map(fields);
                end.send = Some(respond.send_response(response, *last).unwrap());
            }
            Interim(fields) => {
                let mut response = Response::new(());
                *response.status_mut() = pseudo(fields, ":status").unwrap().parse().unwrap();
                *response.headers_mut() = map(fields);
                respond.send_informational(response).unwrap();
            }
            Part::Reset(reason) if end.send.is_none() => respond.send_reset(*reason),
            other => end.step(*other).await,
        }
    }
    end.seen
}

/// An application of HTTP/2 that runs these steps on each stream; and what it has observed.
async fn application(parts: &'static [Part]) -> (SocketAddr, Arc<Mutex<Vec<Seen>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Seen>>>::default());
    let all = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let all = Arc::clone(&all);
                    tokio::spawn(async move {
                        let own = answer(request, respond, parts).await;
                        all.lock().unwrap().push(own);
                    });
                }
            });
        }
    });
    (address, seen)
}

async fn sender(path: &Path) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(path.address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// Runs an exchange one way; returns what the client and the application observed.
async fn observed(way: Way, client: &[Part], parts: &'static [Part]) -> (Seen, Vec<Seen>) {
    let (address, all) = application(parts).await;
    let path = path(way, server(detect(), everybody()), address).await;
    let seen = ask(sender(&path).await, client).await;
    let begun = Instant::now();
    while all.lock().unwrap().is_empty() && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all = all.lock().unwrap().clone();
    assert!(!all.is_empty(), "the application has not ended: {seen:?}");
    (seen, all)
}

/// A case: its name, and the steps of the client and of the application.
type Case = (&'static str, &'static [Part], &'static [Part]);

async fn all_same(cases: &[Case]) {
    let mut differ = Vec::new();
    for (name, client, parts) in cases {
        let direct = observed(Way::Direct, client, parts).await;
        for way in [Way::Inbound, Way::BothHalves] {
            let seen = observed(way, client, parts).await;
            if seen != direct {
                differ.push(format!("{name}, {way:?}:\n{seen:?}\nwithout:\n{direct:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n\n"));
}

const GRPC: Fields = &[
    (":method", "POST"),
    (":path", "/a.B/C"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];
const POST: Fields = &[(":method", "POST"), ("content-type", "text/plain")];
const MESSAGE: &[u8] = b"\0\0\0\0\x02hi";
const GRPC_OK: Fields = &[("content-type", "application/grpc")];
const STATUS: Fields = &[("grpc-status", "0"), ("grpc-message", "")];

#[tokio::test]
async fn calls_of_grpc_of_every_form_are_as_they_were_sent() {
    all_same(&[
        (
            "unary",
            &[Head(GRPC, false), Data(MESSAGE, true), Answer, Rest],
            &[Rest, Head(GRPC_OK, false), Data(MESSAGE, false), Trailers(STATUS)],
        ),
        (
            "trailers only",
            &[Head(GRPC, false), Data(MESSAGE, true), Answer],
            &[
                Rest,
                Head(
                    &[
                        ("content-type", "application/grpc"),
                        ("grpc-status", "5"),
                        ("grpc-message", "none%20such"),
                        ("grpc-status-details-bin", "CAU"),
                    ],
                    true,
                ),
            ],
        ),
        (
            "no message",
            &[Head(GRPC, false), Data(MESSAGE, true), Answer, Rest],
            &[Rest, Head(GRPC_OK, false), Trailers(STATUS)],
        ),
        (
            "a head that comes long before the rest",
            &[Head(GRPC, false), Data(MESSAGE, true), Answer, Take(7), Rest],
            &[
                Rest,
                Head(GRPC_OK, false),
                Pause(150),
                Data(MESSAGE, false),
                Pause(150),
                Trailers(STATUS),
            ],
        ),
        (
            "a stream of the client",
            &[
                Head(GRPC, false),
                Data(MESSAGE, false),
                Pause(50),
                Data(MESSAGE, false),
                Data(b"", true),
                Answer,
                Rest,
            ],
            &[Rest, Head(GRPC_OK, false), Data(MESSAGE, false), Trailers(STATUS)],
        ),
        (
            "both ways",
            &[
                Head(GRPC, false),
                Answer,
                Data(MESSAGE, false),
                Take(7),
                Data(MESSAGE, false),
                Take(7),
                Data(b"", true),
                Rest,
            ],
            &[
                Head(GRPC_OK, false),
                Take(7),
                Data(MESSAGE, false),
                Take(7),
                Data(MESSAGE, false),
                Rest,
                Trailers(STATUS),
            ],
        ),
        (
            "an error before the request ends",
            &[Head(GRPC, false), Data(MESSAGE, false), Answer, Stopped],
            &[
                Take(7),
                Head(&[("content-type", "application/grpc"), ("grpc-status", "8")], true),
                Part::Reset(Reason::NO_ERROR),
            ],
        ),
        (
            "an error in trailers before the request ends",
            &[Head(GRPC, false), Data(MESSAGE, false), Answer, Rest, Stopped],
            &[
                Take(7),
                Head(GRPC_OK, false),
                Trailers(&[("grpc-status", "8")]),
                Part::Reset(Reason::NO_ERROR),
            ],
        ),
        (
            "metadata",
            &[
                Head(
                    &[
                        (":method", "POST"),
                        (":path", "/a.B/C"),
                        ("content-type", "application/grpc+proto"),
                        ("te", "trailers"),
                        ("grpc-timeout", "10S"),
                        ("grpc-encoding", "gzip"),
                        ("grpc-accept-encoding", "identity,gzip"),
                        ("a-bin", "AAEC,Aw=="),
                        ("a-bin", "BA"),
                        ("user-agent", "grpc-x/1"),
                    ],
                    false,
                ),
                Data(MESSAGE, true),
                Answer,
                Rest,
            ],
            &[
                Rest,
                Head(
                    &[
                        ("content-type", "application/grpc+proto"),
                        ("grpc-encoding", "gzip"),
                        ("b-bin", "BQ"),
                    ],
                    false,
                ),
                Data(b"\x01\0\0\0\x02hi", false),
                Trailers(&[("grpc-status", "0"), ("c", "1"), ("c", "2"), ("c-bin", "Bg")]),
            ],
        ),
        (
            "cancelled while it waits",
            &[Head(GRPC, false), Data(MESSAGE, false), Pause(100), Part::Reset(Reason::CANCEL)],
            &[Take(7), Rest],
        ),
        (
            "cancelled within the answer",
            &[
                Head(GRPC, false),
                Data(MESSAGE, false),
                Answer,
                Take(7),
                Part::Reset(Reason::CANCEL),
            ],
            &[Take(7), Head(GRPC_OK, false), Data(MESSAGE, false), Stopped],
        ),
    ])
    .await;
}

#[tokio::test]
async fn requests_of_http_2_are_as_they_were_sent() {
    const ALL: &[Part] = &[Rest, Head(&[], true)];
    all_same(&[
        ("get", &[Head(&[], true), Answer], ALL),
        ("post of nothing", &[Head(POST, true), Answer], ALL),
        (
            "a length",
            &[
                Head(&[(":method", "PUT"), ("content-length", "4")], false),
                Data(b"bo", false),
                Data(b"dy", true),
                Answer,
            ],
            ALL,
        ),
        (
            "trailers",
            &[
                Head(POST, false),
                Data(b"body", false),
                Trailers(&[("x-sum", "1"), ("x-sum", "2")]),
                Answer,
            ],
            ALL,
        ),
        ("trailers behind nothing", &[Head(POST, false), Trailers(&[("x-sum", "1")]), Answer], ALL),
        (
            "https, told by a terminator",
            &[Head(&[(":scheme", "https"), (":authority", "a.example:8443")], true), Answer],
            ALL,
        ),
        (
            "of other proxies",
            &[
                Head(
                    &[
                        ("x-forwarded-for", "1.2.3.4"),
                        ("x-forwarded-proto", "https"),
                        ("via", "2 x"),
                        ("x-request-id", "7"),
                        ("priority", "u=1"),
                        ("traceparent", "00-1-2-01"),
                    ],
                    true,
                ),
                Answer,
            ],
            ALL,
        ),
        (
            "repeated and empty",
            &[
                Head(
                    &[("x-a", "1"), ("x-b", ""), ("x-a", "2"), ("accept", "a"), ("accept", "b")],
                    true,
                ),
                Answer,
            ],
            ALL,
        ),
        ("utf-8", &[Head(&[("x-a", "hä 日"), ("x_b", "1"), ("x.c", "2")], true), Answer], ALL),
        ("a query", &[Head(&[(":path", "/a/b:c?d=%2f&e[]=1&f={}|^&g=//../")], true), Answer], ALL),
        ("rare methods", &[Head(&[(":method", "PROPFIND"), ("depth", "1")], true), Answer], ALL),
        (
            "expectation",
            &[
                Head(
                    &[(":method", "POST"), ("expect", "100-continue"), ("content-length", "4")],
                    false,
                ),
                Pause(50),
                Data(b"body", true),
                Answer,
            ],
            &[Interim(&[(":status", "100")]), Rest, Head(&[], true)],
        ),
        ("a cookie", &[Head(&[("cookie", "a={\"b\":1}; c=d")], true), Answer], ALL),
        (
            "head",
            &[Head(&[(":method", "HEAD")], true), Answer],
            &[Head(&[("content-length", "12345")], true)],
        ),
        (
            "reset within the request",
            &[
                Head(POST, false),
                Data(b"bo", false),
                Pause(100),
                Part::Reset(Reason::INTERNAL_ERROR),
            ],
            &[Take(2), Rest],
        ),
        (
            "get with a body",
            &[Head(&[(":method", "GET")], false), Data(b"body", true), Answer],
            ALL,
        ),
    ])
    .await;
}

#[tokio::test]
async fn answers_of_http_2_are_as_they_were_sent() {
    const GET: &[Part] = &[Head(&[], true), Answer, Rest];
    all_same(&[
        ("a head alone", GET, &[Head(&[(":status", "404")], true)]),
        ("a length", GET, &[Head(&[("content-length", "4")], false), Data(b"body", true)]),
        ("no length", GET, &[Head(&[], false), Data(b"bo", false), Pause(50), Data(b"dy", true)]),
        ("an empty last frame", GET, &[Head(&[], false), Data(b"body", false), Data(b"", true)]),
        ("an empty body", GET, &[Head(&[], false), Data(b"", true)]),
        ("304", GET, &[Head(&[(":status", "304"), ("etag", "a"), ("content-length", "9")], true)]),
        ("204", GET, &[Head(&[(":status", "204"), ("x-a", "b")], true)]),
        ("205", GET, &[Head(&[(":status", "205")], true)]),
        (
            "hints",
            GET,
            &[
                Interim(&[(":status", "103"), ("link", "</a>; rel=preload")]),
                Pause(50),
                Interim(&[(":status", "103"), ("link", "</b>")]),
                Head(&[("content-length", "2")], false),
                Data(b"ok", true),
            ],
        ),
        ("processing", GET, &[Interim(&[(":status", "102")]), Head(&[], true)]),
        (
            "trailers",
            GET,
            &[
                Head(&[], false),
                Data(b"body", false),
                Trailers(&[("x-sum", "1"), ("server-timing", "a;dur=1")]),
            ],
        ),
        (
            "who serves",
            GET,
            &[Head(
                &[
                    ("server", "x"),
                    ("via", "2 y"),
                    ("alt-svc", "h3=\":443\""),
                    ("set-cookie", "a=b"),
                    ("set-cookie", "c=d"),
                    ("vary", "a"),
                    ("vary", "b"),
                ],
                true,
            )],
        ),
        ("rare statuses", GET, &[Head(&[(":status", "599")], true)]),
        ("421", GET, &[Head(&[(":status", "421")], false), Data(b"no", true)]),
        ("reset at once", GET, &[Part::Reset(Reason::HTTP_1_1_REQUIRED)]),
        ("reset, internal", GET, &[Part::Reset(Reason::INTERNAL_ERROR)]),
        ("reset, inadequate", GET, &[Part::Reset(Reason::INADEQUATE_SECURITY)]),
        (
            "reset within",
            &[Head(&[], true), Answer, Take(2), Rest],
            &[
                Head(&[], false),
                Data(b"bo", false),
                Pause(100),
                Part::Reset(Reason::INTERNAL_ERROR),
            ],
        ),
        (
            "answered early, and the rest is unwanted",
            &[Head(POST, false), Data(b"bo", false), Answer, Rest, Stopped],
            &[
                Take(2),
                Head(&[(":status", "413")], false),
                Data(b"no", true),
                Part::Reset(Reason::NO_ERROR),
            ],
        ),
        (
            "answered early, and the rest is read",
            &[Head(POST, false), Data(b"bo", false), Answer, Rest, Data(b"dy", true)],
            &[Take(2), Head(&[(":status", "413")], false), Data(b"no", true), Rest],
        ),
    ])
    .await;
}

/// Many calls that are given up in one piece, as clients do whose own caller is gone.
#[tokio::test]
async fn a_burst_of_cancelled_streams_ends_nothing_else() {
    for way in [Way::Direct, Way::Inbound, Way::BothHalves] {
        let (address, _all) = application(&[Rest, Pause(400), Head(&[], true)]).await;
        let path = path(way, server(detect(), everybody()), address).await;
        let mut sender = sender(&path).await;
        let kept = sender.clone();
        let kept = tokio::spawn(async move { ask(kept, &[Head(&[], true), Answer]).await });
        tokio::task::yield_now().await;
        let mut all = Vec::new();
        for _ in 0..90 {
            let request = Request::get("http://a/b").body(()).unwrap();
            sender = sender.ready().await.unwrap();
            all.push(sender.send_request(request, true).unwrap());
        }
        // The application has them.
        tokio::time::sleep(Duration::from_millis(100)).await;
        for (_, send) in &mut all {
            send.send_reset(Reason::CANCEL);
        }
        assert_eq!(kept.await.unwrap(), ["200  all"], "{way:?}");
        assert_eq!(
            ask(sender.ready().await.unwrap(), &[Head(&[], true), Answer]).await,
            ["200  all"]
        );
    }
}
