//! Public reports about other sidecars and reverse proxies, as cases that run directly, through the
//! inbound half, and through both halves: the exchange fails there and not here.

mod bytes;
mod http1;
mod http2;

use super::traffic::*;

/// A case: its name, the steps of the client, and those of each connection of the application.
type Case<'a> = (&'a str, Vec<Step>, Vec<Vec<Step>>);

/// Asserts that both ends of each case observe the same on every way.
async fn all_same(cases: Vec<Case<'_>>) {
    let mut differ = Vec::new();
    for (name, client, scripts) in &cases {
        let scripts: Vec<&[Step]> = scripts.iter().map(Vec::as_slice).collect();
        let direct = observed(Way::Direct, client, &scripts).await;
        for way in [Way::Inbound, Way::BothHalves] {
            let seen = observed(way, client, &scripts).await;
            if seen != direct {
                differ.push(format!("{name}, {way:?}:\n{seen:?}\nwithout:\n{direct:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n\n"));
}

const END: &str = "\r\n\r\n";

/// A request of one piece and its answer, on a connection that is used again.
fn exchange<'a>(
    name: &'a str,
    request: &'static [u8],
    answer: &'static [u8],
    last: &'static str,
) -> Case<'a> {
    let client = vec![Send(request), Until(last), Send(GET), Until("ok"), Close];
    (name, client, vec![vec![Until(END), Send(answer), Until(END), Send(OK), Rest]])
}

/// The same for an answer behind which the application closes.
fn last<'a>(name: &'a str, answer: &'static [u8]) -> Case<'a> {
    (name, vec![Send(GET), Rest], vec![vec![Until(END), Send(answer), Close]])
}

fn bytes(parts: &[&[u8]]) -> &'static [u8] {
    parts.concat().leak()
}

#[tokio::test]
async fn a_request_is_as_it_was_sent_however_unusual_it_is() {
    let long = bytes(&[b"GET /", &[b'a'; 50_000], b" HTTP/1.1\r\nHost: a\r\n\r\n"]);
    all_same(vec![
        exchange("long target", long, OK, "ok"),
        exchange("proxy-authorization", b"GET / HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic YQ==\r\nVia: 1.1 x\r\nMax-Forwards: 3\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", OK, "ok"),
        exchange("trace", b"TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", OK, "ok"),
        exchange("te", b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n", OK, "ok"),
        exchange("characters in a path", b"GET /a{b}|c^d[e]\"f' HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("utf-8 in a query", "GET /?q=hä HTTP/1.1\r\nHost: a\r\n\r\n".as_bytes(), OK, "ok"),
        exchange("percent in a query", b"GET /?q=%&r=%zz&s=%00&t=%2F..%5C HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("question marks", b"GET /a??b?c=//;../ HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("empty query", b"GET /a? HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("url in a query", b"GET /a?u=http://b/../c HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("host with underscore", b"GET / HTTP/1.1\r\nHost: my_svc\r\n\r\n", OK, "ok"),
        exchange("lower method", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("own method", b"M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("purge", b"PURGE /x HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("empty value", b"GET / HTTP/1.1\r\nHost: a\r\nX-A:\r\nX-B:   \r\nAccept:\r\n\r\n", OK, "ok"),
        exchange("repeated fields", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\nAccept: a\r\nAccept: b\r\n\r\n", OK, "ok"),
        exchange("json cookie", b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a={\"b\":\"c, d\"}; e=\"f\";g=h\r\n\r\n", OK, "ok"),
        exchange("cookie semicolon at the end", b"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b;\r\n\r\n", OK, "ok"),
        exchange("utf-8 field", "GET / HTTP/1.1\r\nHost: a\r\nX-A: hä 日\r\n\r\n".as_bytes(), OK, "ok"),
        exchange("tab in field", b"GET / HTTP/1.1\r\nHost: a\r\nX-A: a\tb\r\nX_B: c\r\nX.C: d\r\n\r\n", OK, "ok"),
        exchange("large field", bytes(&[b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ", &[b'x'; 40_000], b"\r\n\r\n"]), OK, "ok"),
        exchange("90 fields", bytes(&[b"GET / HTTP/1.1\r\nHost: a\r\n", &b"X-A: b\r\n".repeat(90), b"\r\n"]), OK, "ok"),
        exchange("put length 0", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", OK, "ok"),
        exchange("post without a length", b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("options star", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("expect of another kind", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", OK, "ok"),
    ])
    .await;
}

#[tokio::test]
async fn an_answer_is_as_the_application_sent_it_however_unusual_it_is() {
    all_same(vec![
        exchange("205", GET, b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", END),
        exchange("999", GET, b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok", "ok"),
        exchange("600", GET, b"HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\nok", "ok"),
        exchange("utf-8 value", GET, "HTTP/1.1 200 OK\r\nX-A: häß 日\r\nContent-Length: 2\r\n\r\nok".as_bytes(), "ok"),
        exchange("many cookies", GET, bytes(&[b"HTTP/1.1 200 OK\r\n", &b"Set-Cookie: a=b; Path=/\r\n".repeat(90), b"Content-Length: 2\r\n\r\nok"]), "\r\n\r\nok"),
        exchange("90 fields of 500", GET, bytes(&[b"HTTP/1.1 200 OK\r\n", &[&b"X-A: "[..], &[b'x'; 500], b"\r\n"].concat().repeat(90), b"Content-Length: 2\r\n\r\nok"]), "ok"),
        exchange("proxy-authenticate", GET, b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok", "ok"),
        last("chunked and close", b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    ])
    .await;
}

/// Refusals of a request whose body is not sent, and the end of the connection behind it.
#[tokio::test]
async fn an_upload_that_is_refused_early_ends_when_the_application_ends_it() {
    let sized: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345";
    let chunked: &[u8] =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";
    let closing: &[u8] =
        b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    let silent: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
    let mut cases = Vec::new();
    for (name, (request, read), answer) in [
        ("sized", (sized, "12345"), closing),
        // Nothing is left unread, which would be a reset.
        ("chunked", (chunked, "12345\r\n"), closing),
        ("unannounced", (sized, "12345"), silent),
    ] {
        let client = vec![Send(request), Until("no"), Rest];
        cases.push((name, client, vec![vec![Until(read), Send(answer), Close]]));
    }
    all_same(cases).await;
    // Directly, a client that sends more than the application takes may lose the answer by a reset.
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    let much = bytes(&[head, &[b'x'; 1_000_000]]);
    behind(
        &[Send(much), Rest],
        &[&[Until(END), Send(closing), Close]],
        &["HTTP/1.1 413 Too Large\ncontent-length: 2\nnoclosed"],
    )
    .await;
}

#[tokio::test]
async fn bodies_go_both_ways_at_once_and_connections_end_as_the_application_ends_them() {
    all_same(vec![
        ("pipelined, close last", vec![Send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), Rest],
            vec![vec![Until(END), Send(OK), Until(END), Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"), Close]]),
        ("pipelined and half closed", vec![Send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), Half, Rest],
            vec![vec![Until(END), Send(OK), Until(END), Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"), Close]]),
        ("both directions at once", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"), Until("1\r\nA\r\n"), Send(b"1\r\nb\r\n"), Until("1\r\nB\r\n"), Send(b"0\r\n\r\n"), Until("0\r\n\r\n"), Close],
            vec![vec![Until("1\r\na\r\n"), Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n"), Until("1\r\nb\r\n"), Send(b"1\r\nB\r\n"), Until("0\r\n\r\n"), Send(b"0\r\n\r\n"), Rest]]),
        ("refused early, the rest is read", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345"), Until("no"), Send(b"67890"), Rest],
            vec![vec![Until("12345"), Send(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"), Until("67890"), Close]]),
        ("refused early, the connection is kept", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345"), Until("no"), Send(b"67890"), Send(GET), Until("ok"), Close],
            vec![vec![Until("12345"), Send(b"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno"), Until("67890"), Until(END), Send(OK), Rest]]),
        ("events", vec![Send(GET), Until("data: 1\n\n\r\n"), Quiet(100), Until("data: 2\n\n\r\n"), Until("0\r\n\r\n"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"), Quiet(250), Send(b"9\r\ndata: 2\n\n\r\n"), Send(b"0\r\n\r\n"), Rest]]),
        ("head and body in pieces", vec![Send(b"POST /a HTT"), Quiet(50), Send(b"P/1.1\r\nHost: a\r\nContent-Le"), Quiet(50), Send(b"ngth: 4\r\n\r\nbo"), Quiet(50), Send(b"dy"), Until("ok"), Close],
            vec![vec![Until("body"), Send(b"HTTP/1.1 20"), Quiet(50), Send(b"0 OK\r\nContent-Length: 2\r"), Quiet(50), Send(b"\n\r\nok"), Rest]]),
    ])
    .await;
}

#[tokio::test]
async fn a_switch_of_protocols_is_carried_whatever_the_protocol() {
    all_same(vec![
        exchange("websocket refused", b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nok", "ok"),
        ("websocket with frames behind the answer", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), Until("first"), Send(b"\x81\x05again"), Half, Until("bye"), Rest],
            vec![vec![Until(END), Send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: b\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n\x81\x05first"), Until("again"), Rest, Send(b"\x81\x03bye"), Close]]),
        ("websocket, the application ends first", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), Until(END), Rest, Send(b"late"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nab"), Half, Rest]]),
        ("docker exec", vec![Send(b"POST /exec/1/start HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), Until(END), Send(b"raw"), Until("RAW"), Half, Rest],
            vec![vec![Until("{}"), Send(b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"), Until("raw"), Send(b"RAW"), Rest]]),
        ("bytes behind a request for a switch", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nearly"), Until(END), Until("EARLY"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), Until("early"), Send(b"EARLY"), Rest]]),
        ("spdy", vec![Send(b"POST /exec?a=b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\nX-Stream-Protocol-Version: v4\r\nX-Stream-Protocol-Version: v3\r\n\r\n"), Until(END), Send(b"raw"), Until("RAW"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4\r\n\r\n"), Until("raw"), Send(b"RAW"), Rest]]),
    ])
    .await;
}

#[tokio::test]
async fn bytes_of_other_protocols_are_not_looked_at() {
    all_same(vec![
        (
            "redis",
            vec![
                Send(b"*1\r\n$4\r\nPING\r\n"),
                Until("+PONG\r\n"),
                Send(b"PING\r\n"),
                Until("+PONG\r\n"),
                Close,
            ],
            vec![vec![
                Until("PING\r\n"),
                Send(b"+PONG\r\n"),
                Until("PING\r\n"),
                Send(b"+PONG\r\n"),
                Rest,
            ]],
        ),
        (
            "redis inline",
            vec![Send(b"PING\r\n"), Until("+PONG\r\n"), Close],
            vec![vec![Until("PING\r\n"), Send(b"+PONG\r\n"), Rest]],
        ),
        (
            "smtp",
            vec![
                Until("220 a\r\n"),
                Send(b"EHLO b\r\n"),
                Until("250 ok\r\n"),
                Send(b"QUIT\r\n"),
                Rest,
            ],
            vec![vec![
                Send(b"220 a\r\n"),
                Until("EHLO b\r\n"),
                Send(b"250 ok\r\n"),
                Until("QUIT\r\n"),
                Close,
            ]],
        ),
        (
            "memcached",
            vec![
                Send(b"set a 0 0 1\r\nb\r\n"),
                Until("STORED\r\n"),
                Send(b"get a\r\n"),
                Until("END\r\n"),
                Close,
            ],
            vec![vec![
                Until("b\r\n"),
                Send(b"STORED\r\n"),
                Until("get a\r\n"),
                Send(b"END\r\n"),
                Rest,
            ]],
        ),
    ])
    .await;
}

#[tokio::test]
async fn bytes_of_further_protocols_and_of_tls_are_not_looked_at() {
    all_same(vec![
        (
            "nats",
            vec![Until("INFO {}\r\n"), Send(b"CONNECT {}\r\nPING\r\n"), Until("PONG\r\n"), Close],
            vec![vec![Send(b"INFO {}\r\n"), Until("PING\r\n"), Send(b"PONG\r\n"), Rest]],
        ),
        (
            "mongo",
            vec![Send(b"\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0"), Until("!"), Close],
            vec![vec![Until("\x01\0"), Send(b"!"), Rest]],
        ),
        (
            "stomp",
            vec![Send(b"CONNECT\naccept-version:1.2\nhost:a\n\n\0"), Until("CONNECTED\n\n"), Close],
            vec![vec![Until("\0"), Send(b"CONNECTED\n\n"), Rest]],
        ),
        (
            "irc",
            vec![Send(b"NICK a\r\nUSER a 0 * :b\r\n"), Until(":s 001 a\r\n"), Close],
            vec![vec![Until("b\r\n"), Send(b":s 001 a\r\n"), Rest]],
        ),
        (
            "tls, passed through",
            vec![Send(b"\x16\x03\x01\0\x04abcd"), Until("x"), Close],
            vec![vec![Until("abcd"), Send(b"x"), Rest]],
        ),
        (
            "an application that closes unanswered",
            vec![Send(b"\x01"), Rest],
            vec![vec![Until("\x01"), Close]],
        ),
    ])
    .await;
}

/// Answers with faults that clients forgive: each passes, with one framing, and the next one is in step.
#[tokio::test]
async fn an_answer_whose_faults_clients_forgive_has_one_framing() {
    const CHUNKS: &str = "HTTP/1.1 200 OK\ntransfer-encoding: chunked\n2\n0\nok\n";
    const SIZED: &str = "HTTP/1.1 200 OK\ncontent-length: 2\nok";
    let ok = "Content-Length: 2\r\n\r\nok";
    let chunks = "2\r\nok\r\n0\r\n\r\n";
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let end = "0\r\n\r\n";
    for (answer, last, want) in [
        (format!("HTTP/1.1 200 OK\r\n{twice}\r\n\r\n{chunks}"), end, CHUNKS),
        (
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n{chunks}"),
            end,
            CHUNKS,
        ),
        (format!("{chunked}2;a=b\r\nok\r\n0;c\r\n\r\n"), end, CHUNKS),
        (format!("{chunked}002  \r\nok\r\n0  \r\n\r\n"), end, CHUNKS),
        (format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n{ok}"), "ok", SIZED),
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{ok}"), "ok", SIZED),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok".into(), "ok", SIZED),
        ("HTTP/1.1 200 OK\r\nContent-Length: 002\r\n\r\nok".into(), "ok", SIZED),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok".into(), "ok", SIZED),
        (format!("\r\nHTTP/1.1 200 OK\r\n{ok}"), "ok", SIZED),
        (
            format!("HTTP/1.1 200 OK\r\nX-A: a\r\n\tb\r\n{ok}"),
            "ok",
            "HTTP/1.1 200 OK\ncontent-length: 2\nx-a: a  \tb\nok",
        ),
        (
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
            END,
            "HTTP/1.1 204 No Content\n",
        ),
    ] {
        let answer: &[u8] = answer.into_bytes().leak();
        let client = [Send(GET), Until(last), Send(GET), Until("ok"), Close];
        let script: &[Step] = &[Until(END), Send(answer), Until(END), Send(OK), Rest];
        behind(&client, &[script], &[want, SIZED]).await;
    }
}

/// Answers that clients do not read alike are failures of the application.
#[tokio::test]
async fn an_answer_that_clients_do_not_read_alike_is_a_bad_gateway() {
    for field in [": a", "X A: a", "X(A): a", "Nonsense", "X-A: a\x01b", "Content-Length: +2"] {
        let answer = message("HTTP/1.1 200 OK", format!("{field}\r\n\r\nok").as_bytes());
        for way in [Way::Inbound, Way::BothHalves] {
            let script: &[Step] = &[Until(END), Send(answer), Rest];
            let seen = observed(way, &[Send(GET), Rest], &[script]).await.0;
            assert!(seen[0].starts_with("HTTP/1.1 502 Bad Gateway"), "{field}, {way:?}: {seen:?}");
        }
    }
}
