//! Further reports of HTTP/1: requests and answers that are rare, and how they end.

use super::*;

/// A case of which the client's observation alone is compared, because the sidecar's own connections to
/// the application may be others.
async fn all_same_to_clients(cases: Vec<Case<'_>>) {
    let mut differ = Vec::new();
    for (name, client, scripts) in &cases {
        let scripts: Vec<&[Step]> = scripts.iter().map(Vec::as_slice).collect();
        let direct = observed_by_client(Way::Direct, client, &scripts).await;
        for way in [Way::Inbound, Way::BothHalves] {
            let seen = observed_by_client(way, client, &scripts).await;
            if seen != direct {
                differ.push(format!("{name}, {way:?}:\n{seen:?}\nwithout:\n{direct:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n\n"));
}

/// A request with a body and its answer, on a connection that is used again.
fn upload<'a>(name: &'a str, request: &'static [u8], end: &'static str) -> Case<'a> {
    let client = vec![Send(request), Until("ok"), Send(GET), Until("ok"), Close];
    (name, client, vec![vec![Until(end), Send(OK), Until(END), Send(OK), Rest]])
}

/// An answer to a GET, on a connection that is used again.
fn answered<'a>(name: &'a str, answer: &'static [u8], last: &'static str) -> Case<'a> {
    exchange(name, GET, answer, last)
}

#[tokio::test]
async fn rare_methods_and_fields_are_as_they_were_sent() {
    all_same(vec![
        upload("webdav, propfind", b"PROPFIND /dav HTTP/1.1\r\nHost: a\r\nDepth: infinity\r\nContent-Type: application/xml\r\nContent-Length: 4\r\n\r\n<a/>", "<a/>"),
        upload("caldav, report", b"REPORT /cal HTTP/1.1\r\nHost: a\r\nDepth: 1\r\nContent-Length: 4\r\n\r\n<a/>", "<a/>"),
        exchange("webdav, move", b"MOVE /a HTTP/1.1\r\nHost: a\r\nDestination: http://a/b\r\nOverwrite: F\r\n\r\n", OK, "ok"),
        upload("webdav, lock", b"LOCK /a HTTP/1.1\r\nHost: a\r\nTimeout: Infinite\r\nIf: (<urn:uuid:1>)\r\nContent-Length: 4\r\n\r\n<a/>", "<a/>"),
        upload("query", b"QUERY /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", "{}"),
        exchange("a long method", b"VERSION-CONTROL-UPDATEREDIRECTREF /a HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        upload("patch", b"PATCH /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json-patch+json\r\nContent-Length: 2\r\n\r\n[]", "[]"),
        upload("gzip", b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b12", "12"),
        exchange("ranges", b"GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,3-4\r\nIf-Range: \"a\"\r\nAccept-Encoding: gzip, br;q=0.5\r\n\r\n", b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nok", "ok"),
        exchange("latin-1", b"GET /a HTTP/1.1\r\nHost: a\r\nX-Name: J\xe9r\xf4me\r\n\r\n", OK, "ok"),
        exchange("length of nothing", b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", OK, "ok"),
        exchange("delete, length of nothing", b"DELETE /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", OK, "ok"),
        exchange("a browser's", b"GET /a HTTP/1.1\r\nHost: a\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Mode: navigate\r\nSec-CH-UA: \"A\";v=\"1\"\r\nPriority: u=0, i\r\nDNT: 1\r\n\r\n", OK, "ok"),
        exchange("of other proxies", b"GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 1.2.3.4\r\nX-Request-Id: 7\r\nX-Envoy-Attempt-Count: 1\r\nTraceparent: 00-1-2-01\r\nB3: 0\r\n\r\n", OK, "ok"),
        exchange("port of the host", b"GET /a HTTP/1.1\r\nHost: a:8080\r\n\r\n", OK, "ok"),
        exchange("address with a port", b"GET /a HTTP/1.1\r\nHost: [fd00::1]:8080\r\n\r\n", OK, "ok"),
        exchange("a segment's characters", b"GET /v1/a:cancel/B(1)/@c!$&'*+,=~-_. HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("encoded", b"GET /a%20b%2Bc%3D%40%E2%82%AC?d=%2f&e=a+b%20c HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("odata", b"GET /Products(1)/Name?$filter=a%20gt%205&$top=1 HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        exchange("brackets of a query", b"GET /a?b[]=1&b[]=2&c={d}|e^f\\g`h HTTP/1.1\r\nHost: a\r\n\r\n", OK, "ok"),
        upload("empty chunks", b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "\r\n\r\n0\r\n\r\n"),
        upload("form", b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=\"-- x\"\r\nContent-Length: 20\r\n\r\n---- x\r\n\r\n\0\xff\r\n---- x", "---- x\r\n\r\n\0"),
    ])
    .await;
}

#[tokio::test]
async fn rare_answers_are_as_the_application_sent_them() {
    all_same(vec![
        answered("who serves", b"HTTP/1.1 200 OK\r\nServer: own/1\r\nVia: 1.1 x\r\nX-Powered-By: y\r\nX-Cache: MISS\r\nAge: 3\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("301, relative", b"HTTP/1.1 301 Moved Permanently\r\nLocation: ../b?c#d\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("302, utf-8 and a blank", "HTTP/1.1 302 Found\r\nLocation: http://b:81/ä c\r\nContent-Length: 2\r\n\r\nok".as_bytes(), "ok"),
        answered("417", b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("421", b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("426", b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("503, retry", b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("206, parts", b"HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=a\r\nContent-Length: 7\r\n\r\n--a--ok", "ok"),
        answered("latin-1", b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"\xe9.txt\"\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("of browsers", b"HTTP/1.1 200 OK\r\nAlt-Svc: h3=\":443\"\r\nStrict-Transport-Security: max-age=1 ; x\r\nRefresh: 1; url=/b\r\nLink: </a>; rel=preload, </b>\r\nP3P: CP=\"a b\"\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("cookies of any kind", b"HTTP/1.1 200 OK\r\nSet-Cookie: a=\"b, c\"; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\nSet-Cookie: d={\"e\":1}\r\nSet-Cookie: f\r\nSet-Cookie: =g\r\nContent-Length: 2\r\n\r\nok", "\r\n\r\nok"),
        answered("300 fields", bytes(&[b"HTTP/1.1 200 OK\r\n", &b"Set-Cookie: a=b; Path=/\r\n".repeat(300), b"Content-Length: 2\r\n\r\nok"]), "\r\n\r\nok"),
        answered("gzip", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nETag: W/\"1\"\r\nContent-Length: 4\r\n\r\n\x1f\x8bok", "ok"),
        answered("compressed chunks", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x1f\x8bok\r\n0\r\n\r\n", "0\r\n\r\n"),
        answered("no type, no date", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("an empty field", b"HTTP/1.1 200 OK\r\nX-Empty:\r\nX-Json: {\"a\":[1,2]}\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("an odd name", b"HTTP/1.1 200 OK\r\nX_Under.dot~!#: 1\r\nContent-Length: 2\r\n\r\nok", "ok"),
        answered("nothing", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", END),
        answered("grpc-web", b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web+proto\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\x80\0\0\0\0\r\n0\r\n\r\n", "0\r\n\r\n"),
        exchange("head, nothing of a length", b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\nETag: a\r\n\r\n", END),
        exchange("head, 404", b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n", END),
    ])
    .await;
}

/// Rows of docs/proxy.md have the parts that are left out, or written another way.
#[tokio::test]
async fn answers_that_other_proxies_refuse_reach_the_client() {
    for (answer, last, want) in [
        // Neither a reason nor the blank in front of it.
        (&b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"[..], "ok", "HTTP/1.1 200 \ncontent-length: 2\nok"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", END, "HTTP/1.1 204 No Content\n"),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", END, "HTTP/1.1 304 Not Modified\n"),
        (b"HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok", "ok", "HTTP/1.1 200 OK\ncontent-length: 2\nok"),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", "HTTP/1.1 200 OK\ncontent-length: 2\nok"),
        // More than was announced. It is no part of the next answer.
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n", "ok", "HTTP/1.1 200 OK\ncontent-length: 2\nok"),
        (b"HTTP/1.1 204 No Content\r\n\r\nbody", END, "HTTP/1.1 204 No Content\n"),
    ] {
        let client = [Send(GET), Until(last), Quiet(50), Send(GET), Until("ok"), Close];
        let scripts: [&[Step]; 2] = [
            &[Until(END), Send(answer), Until(END), Send(OK), Rest],
            &[Until(END), Send(OK), Rest],
        ];
        for way in [Way::Inbound, Way::BothHalves] {
            let seen = observed_by_client(way, &client, &scripts).await;
            assert_eq!(seen, [want, "quiet", "HTTP/1.1 200 OK\ncontent-length: 2\nok"], "{way:?}");
        }
    }
}

/// An application that ends idle connections may say so before it does; that is no answer.
#[tokio::test]
async fn what_an_application_says_on_an_idle_connection_is_no_answer_to_the_next_request() {
    const TIMEOUT: &[u8] =
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let client = [Send(GET), Until("ok"), Quiet(300), Send(GET), Until("ok"), Close];
    let scripts: [&[Step]; 2] =
        [&[Until(END), Send(OK), Quiet(100), Send(TIMEOUT), Close], &[Until(END), Send(OK), Rest]];
    for way in [Way::Inbound, Way::BothHalves] {
        let seen = observed_by_client(way, &client, &scripts).await;
        let ok = "HTTP/1.1 200 OK\ncontent-length: 2\nok";
        assert_eq!(seen, [ok, "quiet", ok], "{way:?}");
    }
}

#[tokio::test]
async fn clients_that_other_proxies_refuse_are_answered() {
    let kept = |answer: &'static [u8]| {
        vec![
            vec![Until(END), Send(answer), Until(END), Send(OK), Rest],
            vec![Until(END), Send(OK), Rest],
        ]
    };
    all_same_to_clients(vec![
        ("a blank line first", vec![Send(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Until("ok"), Close], kept(OK)),
        ("a line behind the body", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody\r\n"), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![Until("body"), Send(OK), Until(END), Send(OK), Rest]]),
        ("get with a body", vec![Send(b"GET /_search HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![Until("body"), Send(OK), Until(END), Send(OK), Rest], vec![Until(END), Send(OK), Rest]]),
        ("delete with chunks", vec![Send(b"DELETE /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![Until("0\r\n\r\n"), Send(OK), Until(END), Send(OK), Rest], vec![Until(END), Send(OK), Rest]]),
        ("target in absolute form", vec![Send(b"GET http://a:8080/b?c HTTP/1.1\r\nHost: a:8080\r\n\r\n"), Until("ok"), Close], kept(OK)),
        ("of https", vec![Send(b"GET https://a/b HTTP/1.1\r\nHost: a\r\n\r\n"), Until("ok"), Close], kept(OK)),
        ("a chunk's extension", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\nab\r\n0\r\n\r\n"), Until("ok"), Close],
            vec![vec![Until("0\r\n\r\n"), Send(OK), Rest]]),
        ("chunked in capitals", vec![Send(b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![Until("0\r\n\r\n"), Send(OK), Until(END), Send(OK), Rest]]),
        ("ipp asks for tls", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n"), Until("ok"), Send(GET), Until("ok"), Close], kept(OK)),
        ("java asks for http/2", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n\r\n"), Until("ok"), Send(GET), Until("ok"), Close], kept(OK)),
        ("java asks for http/2 with a body", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nContent-Length: 4\r\n\r\nbody"), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![Until("body"), Send(OK), Until(END), Send(OK), Rest]]),
        ("te of more", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers, deflate;q=0.5\r\nConnection: TE, close\r\n\r\n"), Until("ok"), Close], kept(OK)),
        ("connections of proxies", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 300\r\nConnection: keep-alive\r\n\r\n"), Until("ok"), Send(GET), Until("ok"), Close], kept(OK)),
        ("many in a row", vec![Send(bytes(&[&GET.repeat(40)])), Until("ok"), Close],
            vec![vec![Until(END), Send(OK), Rest]]),
    ])
    .await;
}

#[tokio::test]
async fn clients_of_http_1_0_are_answered_as_long_as_they_like() {
    let old = b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let kept = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
    let ok = "HTTP/1.0 200 OK\ncontent-length: 2\nok";
    behind(
        &[Send(old), Until("ok"), Send(old), Until("ok"), Close],
        &[&[Until(END), Send(kept), Until(END), Send(kept), Rest]],
        &[ok, ok],
    )
    .await;
    behind(
        &[Send(b"POST /a HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody"), Rest],
        &[&[Until("body"), Send(OK), Rest]],
        &["HTTP/1.0 200 OK\ncontent-length: 2\nokclosed"],
    )
    .await;
    // A body that ends with the connection, of chunks and of none.
    for answer in [
        &b"HTTP/1.0 200 OK\r\nContent-Type: a\r\n\r\nok"[..],
        b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        behind(
            &[Send(b"GET http://a/b HTTP/1.0\r\n\r\n"), Rest],
            &[&[Until(END), Send(answer), Close]],
            &["HTTP/1.0 200 OK\ncontent-type: a\nokclosed"],
        )
        .await;
    }
}

#[tokio::test]
async fn exchanges_of_several_steps_are_seen_step_by_step() {
    let ntlm = |token: &str| {
        bytes(&[
            b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: NTLM ",
            token.as_bytes(),
            b"\r\n\r\n",
        ])
    };
    let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    all_same(vec![
        ("a login of the connection", vec![Send(GET), Until("no"), Send(ntlm("a")), Until("no"), Send(ntlm("c")), Until("ok"), Send(GET), Until("ok"), Close],
            vec![vec![
                Until(END), Send(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\nContent-Length: 2\r\n\r\nno"),
                Until(END), Send(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM b\r\nContent-Length: 2\r\n\r\nno"),
                Until(END), Send(OK), Until(END), Send(OK), Rest,
            ]]),
        ("the last chunk comes late", vec![Send(GET), Until("ok\r\n"), Quiet(100), Until("0\r\n\r\n"), Send(GET), Until("ok"), Close],
            vec![vec![Until(END), Send(chunks), Send(b"2\r\nok\r\n"), Quiet(250), Send(b"0\r\n\r\n"), Until(END), Send(OK), Rest]]),
        ("the head comes first", vec![Send(GET), Until(END), Quiet(100), Until("ok"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), Quiet(250), Send(b"ok"), Rest]]),
        ("an expected body in chunks", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n"), Until(END), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 100 Continue\r\n\r\n"), Rest]]),
        ("an expectation that fails", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"), Until("no"), Rest],
            vec![vec![Until(END), Send(b"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"), Close]]),
        ("a request that trickles", vec![Send(b"G"), Quiet(20), Send(b"ET"), Quiet(20), Send(b" /"), Quiet(20), Send(b"a HTTP/1.1\r"), Quiet(20), Send(b"\nHost: a\r\n"), Quiet(20), Send(b"\r"), Quiet(20), Send(b"\n"), Until("ok"), Close],
            vec![vec![Until(END), Send(OK), Rest]]),
        ("an answer of much", vec![Send(GET), Until("ok"), Close],
            vec![vec![Until(END), Send(bytes(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5000002\r\n\r\n", &[b'x'; 5_000_000], b"ok"])), Rest]]),
        ("a body of much", vec![Send(bytes(&[b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000002\r\n\r\n", &[b'x'; 5_000_000], b"ab"])), Until("ok"), Close],
            vec![vec![Until("ab"), Send(OK), Rest]]),
        ("more than 32 bits of it, given up", vec![Send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000000\r\n\r\nab"), Quiet(100), Close],
            vec![vec![Until("ab"), Rest]]),
        ("an answer of more than 32 bits, given up", vec![Send(GET), Until("ab"), Rest],
            vec![vec![Until(END), Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\nab"), Quiet(100), Close]]),
    ])
    .await;
}

#[tokio::test]
async fn a_switch_of_protocols_happens_where_it_was_agreed_and_nowhere_else() {
    let ask = |line: &str| {
        bytes(&[line.as_bytes(), b" HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n"])
    };
    const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n";
    let much = bytes(&[&[b'x'; 1_000_000], b"end"]);
    all_same(vec![
        ("on a connection that was used", vec![Send(GET), Until("ok"), Send(ask("GET /ws")), Until(END), Send(b"ping"), Until("pong"), Close],
            vec![vec![Until(END), Send(OK), Until(END), Send(SWITCH), Until("ping"), Send(b"pong"), Rest]]),
        ("much, both ways", vec![Send(ask("GET /ws")), Until(END), Send(much), Until("end"), Close],
            vec![vec![Until(END), Send(SWITCH), Until("end"), Send(much), Rest]]),
        ("silent for a while", vec![Send(ask("GET /ws")), Until(END), Quiet(700), Send(b"ping"), Until("pong"), Close],
            vec![vec![Until(END), Send(SWITCH), Until("ping"), Send(b"pong"), Rest]]),
        ("of another protocol, by POST", vec![Send(b"POST /ts2021 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: tailscale-control-protocol\r\nX-Tailscale-Handshake: a\r\nContent-Length: 0\r\n\r\n"), Until(END), Send(b"raw"), Until("RAW"), Close],
            vec![vec![Until(END), Send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tailscale-control-protocol\r\nConnection: upgrade\r\n\r\n"), Until("raw"), Send(b"RAW"), Rest]]),
        ("named twice", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket,websocket\r\n\r\n"), Until(END), Send(b"raw"), Until("RAW"), Close],
            vec![vec![Until(END), Send(SWITCH), Until("raw"), Send(b"RAW"), Rest]]),
        ("in two fields", vec![Send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n"), Until(END), Send(b"raw"), Until("RAW"), Close],
            vec![vec![Until(END), Send(SWITCH), Until("raw"), Send(b"RAW"), Rest]]),
        ("not taken up, and asked again", vec![Send(ask("GET /no")), Until("ok"), Send(ask("GET /ws")), Until(END), Send(b"raw"), Until("RAW"), Close],
            vec![vec![Until(END), Send(OK), Until(END), Send(SWITCH), Until("raw"), Send(b"RAW"), Rest]]),
        ("ended by a reset of the application", vec![Send(ask("GET /ws")), Until(END), Send(b"raw"), Rest],
            vec![vec![Until(END), Send(SWITCH), Until("raw"), Reset]]),
        ("ended by the client at once", vec![Send(ask("GET /ws")), Until(END), Send(b"raw"), Close],
            vec![vec![Until(END), Send(SWITCH), Until("raw"), Rest]]),
    ])
    .await;
}
