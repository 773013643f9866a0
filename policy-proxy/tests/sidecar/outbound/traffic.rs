//! Traffic as if the sidecar were not there: each case runs directly, through the inbound half, and
//! through both halves in mesh TLS. What both ends observe is compared.

use super::mesh::{Web, client};
use super::*;
use policy_core::ServerPolicy;
use std::fmt::Write as _;
use std::sync::Mutex;

/// A step of one end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Sends bytes.
    Send(&'static [u8]),
    /// Reads until this has arrived, and observes what was read.
    Until(&'static str),
    /// Reads to the end, and observes what was read and how it ended.
    Rest,
    /// Asserts that nothing arrives for this many milliseconds.
    Quiet(u64),
    /// Closes the own side.
    Half,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

pub(super) use Step::{Close, Half, Quiet, Reset, Rest, Send, Until};

/// The way from a client to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Inbound,
    BothHalves,
}

/// The pieces that an end observed, in their order.
pub(super) type Seen = Vec<String>;

/// An application whose connections run these steps, the first one the first script.
struct Scripted {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    async fn start(scripts: &[&[Step]]) -> Self {
        let scripts: Vec<Vec<Step>> = scripts.iter().map(|script| script.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let all = Arc::clone(&seen);
        tokio::spawn(async move {
            for (place, script) in scripts.into_iter().enumerate() {
                let stream = accept(&listener, &script).await;
                let all = Arc::clone(&all);
                all.lock().unwrap().push(Seen::new());
                tokio::spawn(async move {
                    let own = run(stream, &script).await;
                    all.lock().unwrap()[place] = own;
                });
            }
        });
        Self { address, seen }
    }

    /// Returns what each connection observed, once all have ended: the end of the client reaches the
    /// application, whose last step may wait for it.
    async fn ended(&self) -> Vec<Seen> {
        let begun = Instant::now();
        loop {
            let all = self.seen.lock().unwrap().clone();
            if all.iter().all(|own| !own.is_empty()) {
                return all;
            }
            assert!(begun.elapsed() < PATIENCE, "the application has not ended: {all:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Accepts the connection of a script. Where the client speaks first, one that ends before a byte is
/// none: the sidecar dials in advance where a client of a port of unknown protocol is slow to speak.
async fn accept(listener: &TcpListener, script: &[Step]) -> TcpStream {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let waits = matches!(script.first(), Some(Until(_)));
        if !waits || !matches!(stream.peek(&mut [0]).await, Ok(0)) {
            return stream;
        }
    }
}

/// Runs the steps of one end.
async fn run(mut stream: TcpStream, script: &[Step]) -> Seen {
    let (mut seen, mut held) = (Seen::new(), Vec::new());
    for step in script {
        match step {
            Send(bytes) => {
                if let Err(error) = stream.write_all(bytes).await {
                    seen.push(format!("{:?}", error.kind()));
                    return seen;
                }
            }
            Until(text) => {
                let mut searched = 0;
                let end = loop {
                    let found = find(&held[searched..], text.as_bytes());
                    if let Some(at) = found {
                        break searched + at + text.len();
                    }
                    searched = (held.len() + 1).saturating_sub(text.len());
                    if read(&mut stream, &mut held).await != Ok(true) {
                        seen.push(format!("{} and the end", shown(&held)));
                        return seen;
                    }
                };
                let piece: Vec<u8> = held.drain(..end).collect();
                seen.push(shown(&piece));
            }
            Rest => {
                let end = loop {
                    match read(&mut stream, &mut held).await {
                        Ok(true) => {}
                        Ok(false) => break "closed".to_owned(),
                        Err(kind) => break format!("{kind:?}"),
                    }
                };
                seen.push(format!("{}{end}", shown(&held)));
                held.clear();
            }
            Quiet(milliseconds) => {
                let wait = Duration::from_millis(*milliseconds);
                let more = tokio::time::timeout(wait, read(&mut stream, &mut held)).await;
                seen.push(if more.is_err() { "quiet".into() } else { shown(&held) });
            }
            Half => stream.shutdown().await.unwrap(),
            Close => return seen,
            Reset => {
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                return seen;
            }
        }
    }
    seen
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

async fn read(stream: &mut TcpStream, held: &mut Vec<u8>) -> Result<bool, ErrorKind> {
    let read = tokio::time::timeout(PATIENCE, stream.read_buf(held)).await;
    let read = read.unwrap_or_else(|_| panic!("still waiting after {}", shown(held)));
    read.map(|bytes| bytes > 0).map_err(|error| error.kind())
}

/// Text whose heads are comparable: names in lower case and in order, without what every sidecar
/// adds, what concerns one connection, and the time.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut rest = &*text;
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let mut lines = head.split("\r\n");
        writeln!(out, "{}", lines.next().unwrap()).unwrap();
        let mut fields: Vec<String> = lines.map(field).collect();
        fields.retain(|line| {
            !["connection:", "date:", "forwarded:", "l5d-", "portcullis-"]
                .iter()
                .any(|name| line.starts_with(name))
        });
        fields.sort();
        fields.iter().for_each(|line| writeln!(out, "{line}").unwrap());
        rest = after;
    }
    out + rest
}

fn field(line: &str) -> String {
    match line.split_once(':') {
        Some((name, value)) => format!("{}: {}", name.to_ascii_lowercase(), value.trim()),
        None => line.to_owned(),
    }
}

/// A way, until it is dropped.
pub(super) struct Path {
    pub(super) address: SocketAddr,
    _halves: (Option<Setup>, Option<(Web, Outbound)>),
}

pub(super) async fn path(way: Way, policy: ServerPolicy, application: SocketAddr) -> Path {
    match way {
        Way::Direct => Path { address: application, _halves: (None, None) },
        Way::Inbound => {
            let setup = Setup::new(policy, application).await;
            Path { address: setup.address, _halves: (Some(setup), None) }
        }
        Way::BothHalves => {
            let authority = Authority::new();
            let web = Web::new(&authority, policy, application).await;
            let outbound = client(&authority).await;
            outbound.answer(service(&[web.endpoint()]));
            let address = outbound.address;
            Path { address, _halves: (None, Some((web, outbound))) }
        }
    }
}

/// Runs a case one way; returns what the client and each connection of the application observed.
pub(super) async fn observed(way: Way, client: &[Step], scripts: &[&[Step]]) -> (Seen, Vec<Seen>) {
    let application = Scripted::start(scripts).await;
    let path = path(way, server(detect(), everybody()), application.address).await;
    let seen = run(TcpStream::connect(path.address).await.unwrap(), client).await;
    (seen, application.ended().await)
}

/// The same, of the client alone: the application may have more connections, or fewer.
pub(super) async fn observed_by_client(way: Way, client: &[Step], scripts: &[&[Step]]) -> Seen {
    let application = Scripted::start(scripts).await;
    let path = path(way, server(detect(), everybody()), application.address).await;
    run(TcpStream::connect(path.address).await.unwrap(), client).await
}

/// Asserts that both ends observe the same on every way.
pub(super) async fn same(client: &[Step], scripts: &[&[Step]]) {
    let direct = observed(Way::Direct, client, scripts).await;
    for way in [Way::Inbound, Way::BothHalves] {
        assert_eq!(observed(way, client, scripts).await, direct, "{way:?}");
    }
}

/// Asserts what a client observes behind the sidecar, where it differs from a direct connection.
pub(super) async fn behind(client: &[Step], scripts: &[&[Step]], want: &[&str]) {
    for way in [Way::Inbound, Way::BothHalves] {
        assert_eq!(observed(way, client, scripts).await.0, want, "{way:?}");
    }
}

pub(super) const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const EXPECTING: &[u8] =
    b"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

#[tokio::test]
async fn interim_responses_arrive_at_once_and_in_their_order() {
    const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    same(
        &[Send(GET), Until("\r\n\r\n"), Quiet(50), Until("\r\n\r\n"), Until("ok"), Close],
        &[&[
            Until("\r\n\r\n"),
            Send(HINTS),
            Quiet(150),
            Send(b"HTTP/1.1 102 Processing\r\n\r\n"),
            Send(OK),
            Rest,
        ]],
    )
    .await;
    // In one piece.
    same(
        &[Send(GET), Until("\r\n\r\n"), Until("ok"), Close],
        &[&[
            Until("\r\n\r\n"),
            Send(b"HTTP/1.1 103 Own\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            Rest,
        ]],
    )
    .await;
}

#[tokio::test]
async fn continue_is_the_applications_to_say() {
    same(
        &[Send(EXPECTING), Until("\r\n\r\n"), Send(b"body"), Until("ok"), Close],
        &[&[
            Until("\r\n\r\n"),
            Quiet(100),
            Send(b"HTTP/1.1 100 Continue\r\n\r\n"),
            Until("body"),
            Send(OK),
            Rest,
        ]],
    )
    .await;
    // An application that says nothing: the client goes on by itself.
    same(
        &[Send(EXPECTING), Quiet(100), Send(b"body"), Until("ok"), Close],
        &[&[Until("\r\n\r\n"), Until("body"), Send(OK), Rest]],
    )
    .await;
    const DENIED: &[u8] =
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    same(
        &[Send(EXPECTING), Until("no"), Close],
        &[&[Until("\r\n\r\n"), Quiet(50), Send(DENIED), Close]],
    )
    .await;
}

#[tokio::test]
async fn an_old_client_gets_no_interim_response() {
    behind(
        &[Send(b"GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), Rest],
        &[&[
            Until("\r\n\r\n"),
            Send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            Rest,
        ]],
        &["HTTP/1.0 200 OK\ncontent-length: 2\nokclosed"],
    )
    .await;
}

#[tokio::test]
async fn interim_responses_without_end_are_a_failure_of_the_application() {
    const MANY: &[u8] = &{
        let (line, mut all) = (*b"HTTP/1.1 102 P\r\n\r\n", [0; 18 * 300]);
        let mut at = 0;
        while at < all.len() {
            all[at] = line[at % 18];
            at += 1;
        }
        all
    };
    for way in [Way::Inbound, Way::BothHalves] {
        let script = [Until("\r\n\r\n"), Send(MANY), Send(OK), Rest];
        let seen = observed(way, &[Send(GET), Rest], &[&script]).await.0;
        assert_eq!(seen[0].matches("HTTP/1.1 102 P").count(), 256, "{seen:?}");
        assert!(seen[0].contains("HTTP/1.1 502 Bad Gateway"), "{seen:?}");
    }
}

#[tokio::test]
async fn interim_responses_are_bounded_in_bytes_because_a_client_that_reads_nothing_keeps_them_here()
 {
    let hint = format!("HTTP/1.1 103 Hint\r\nLink: {}\r\n\r\n", "x".repeat(1000));
    let many: &[u8] = hint.repeat(200).into_bytes().leak();
    for way in [Way::Inbound, Way::BothHalves] {
        let script = [Until("\r\n\r\n"), Send(many), Rest];
        let seen = observed(way, &[Send(GET), Rest], &[&script]).await.0;
        let passed = seen[0].matches("HTTP/1.1 103 Hint").count();
        assert!((60..=65).contains(&passed), "{passed}");
        assert!(seen[0].contains("HTTP/1.1 502 Bad Gateway"), "{way:?}");
    }
}

#[tokio::test]
async fn an_application_that_says_it_closes_is_heard_by_its_client() {
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    same(&[Send(GET), Rest], &[&[Until("\r\n\r\n"), Send(LAST), Close]]).await;
    // Also while it leaves its own side open.
    let script: &[Step] = &[Until("\r\n\r\n"), Send(LAST), Rest];
    let want = ["HTTP/1.1 200 OK\ncontent-length: 2\nokclosed"];
    behind(&[Send(GET), Rest], &[script], &want).await;
}

#[tokio::test]
async fn a_reason_phrase_is_as_it_was_sent_also_if_it_is_empty() {
    for status in ["200 ", "200 Fine", "299 ", "299 Odd: thing"] {
        let answer = message(&format!("HTTP/1.1 {status}"), b"Content-Length: 2\r\n\r\nok");
        let script: &[Step] = &[Until("\r\n\r\n"), Send(answer), Rest];
        same(&[Send(GET), Until("ok"), Close], &[script]).await;
    }
}

#[tokio::test]
async fn heads_without_a_body_keep_the_length_of_what_they_stand_for() {
    for answer in [
        &b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: a\r\n\r\n"[..],
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
    ] {
        let script = [Until("\r\n\r\n"), Send(answer), Until("\r\n\r\n"), Send(OK), Rest];
        same(&[Send(GET), Until("\r\n\r\n"), Send(GET), Until("ok"), Close], &[&script]).await;
    }
    same(
        &[
            Send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"),
            Until("\r\n\r\n"),
            Send(GET),
            Until("ok"),
            Close,
        ],
        &[&[
            Until("\r\n\r\n"),
            Send(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"),
            Until("\r\n\r\n"),
            Send(OK),
            Rest,
        ]],
    )
    .await;
}

#[tokio::test]
async fn trailers_arrive_whether_they_were_asked_for_or_announced_or_neither() {
    same(
        &[
            Send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nx-sum: 1\r\n\r\n"),
            Until("x-sum: 2\r\n\r\n"),
            Close,
        ],
        &[&[
            Until("\r\n\r\n"),
            Until("\r\n\r\n"),
            Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 2\r\n\r\n"),
            Rest,
        ]],
    )
    .await;
}

#[tokio::test]
async fn an_empty_host_is_a_host() {
    same(
        &[Send(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), Until("ok"), Close],
        &[&[Until("\r\n\r\n"), Send(OK), Rest]],
    )
    .await;
    behind(
        &[Send(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"), Until("\r\n\r\n"), Rest],
        &[],
        &[
            "HTTP/1.1 400 Bad Request\ncontent-length: 12\n\
             content-type: text/plain\n",
            "host_missingclosed",
        ],
    )
    .await;
}

#[tokio::test]
async fn an_idempotent_request_that_meets_the_end_of_a_kept_connection_is_sent_again() {
    let (client, scripts): (&[Step], &[&[Step]]) = (
        &[Send(GET), Until("ok"), Send(GET), Until("ok"), Close],
        &[
            &[Until("\r\n\r\n"), Send(OK), Until("\r\n\r\n"), Close],
            &[Until("\r\n\r\n"), Send(OK), Rest],
        ],
    );
    for way in [Way::Inbound, Way::BothHalves] {
        let (seen, application) = observed(way, client, scripts).await;
        assert_eq!(seen, ["HTTP/1.1 200 OK\ncontent-length: 2\nok"; 2], "{way:?}");
        let request = "GET /a HTTP/1.1\nhost: a\n".to_owned();
        let (first, second) = (vec![request.clone(); 2], vec![request, "closed".into()]);
        assert_eq!(application, [first, second], "{way:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_sent_again_is_never_sent_with_a_later_one() {
    const FIRST: &[u8] = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    const SECOND: &[u8] = b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &[u8] = b"POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let head = |path: &str| format!("GET {path} HTTP/1.1\nhost: a\n");
    let post = "POST /3 HTTP/1.1\ncontent-length: 4\nhost: a\nbody".to_owned();
    let client = [
        Send(GET),
        Until("ok"),
        Send(FIRST),
        Until("ok"),
        Send(POST),
        Until("ok"),
        Send(SECOND),
        Until("ok"),
        Close,
    ];
    let once = [Until("\r\n\r\n"), Send(OK), Until("\r\n\r\n"), Close];
    let again = [Until("\r\n\r\n"), Send(OK), Until("body"), Send(OK), Until("\r\n\r\n"), Close];
    let last = [Until("\r\n\r\n"), Send(OK), Rest];
    for way in [Way::Inbound, Way::BothHalves] {
        let (seen, application) = observed(way, &client, &[&once, &again, &last]).await;
        assert_eq!(seen, ["HTTP/1.1 200 OK\ncontent-length: 2\nok"; 4], "{way:?}");
        let want = [
            vec![head("/a"), head("/1")],
            vec![head("/1"), post.clone(), head("/2")],
            vec![head("/2"), "closed".into()],
        ];
        assert_eq!(application, want, "{way:?}");
    }
}

#[tokio::test]
async fn a_body_that_was_announced_and_answered_unseen_ends_the_connection() {
    const DENIED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";
    // The next request of the client is not taken for the body, on either side.
    behind(
        &[Send(EXPECTING), Until("no"), Send(GET), Rest],
        &[&[Until("\r\n\r\n"), Send(DENIED), Rest]],
        &["HTTP/1.1 401 Unauthorized\ncontent-length: 2\nno", "closed"],
    )
    .await;
}

#[tokio::test]
async fn any_other_request_that_meets_the_end_of_a_kept_connection_is_seen_to_meet_it() {
    const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    same(
        &[Send(GET), Until("ok"), Send(POST), Rest],
        &[&[Until("\r\n\r\n"), Send(OK), Until("body"), Close]],
    )
    .await;
}

#[tokio::test]
async fn a_request_is_sent_twice_at_most() {
    let once = [Until("\r\n\r\n"), Send(OK), Until("\r\n\r\n"), Close];
    let never = [Until("\r\n\r\n"), Close];
    for way in [Way::Inbound, Way::BothHalves] {
        let client = [Send(GET), Until("ok"), Send(GET), Rest];
        let (seen, application) = observed(way, &client, &[&once, &never]).await;
        assert!(seen[1].starts_with("HTTP/1.1 502 Bad Gateway\n"), "{seen:?}");
        assert_eq!(application.len(), 2);
    }
}

#[tokio::test]
async fn a_broken_answer_is_told_to_meshed_callers_with_its_reason() {
    for (answer, reason) in [
        (&b""[..], "the application closed the connection before it answered"),
        (b"HTTP/1.1 200 O", "the application closed the connection within its response's head"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "the head of the application's response is malformed"),
        (
            b"HTTP/1.1 200 OK\r\nx: a\x01\r\n\r\n",
            "the application's response has a malformed header field",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
            "the application's response frames its body ambiguously: content-length or transfer-encoding",
        ),
        (b"HTTP/1.1 101 Own\r\n\r\n", "the application switched protocols unasked"),
    ] {
        let script = [Until("\r\n\r\n"), Send(answer), Close];
        let application = Scripted::start(&[&script]).await;
        let path = path(Way::BothHalves, server(detect(), everybody()), application.address).await;
        let answer = raw(path.address, GET, false).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
        assert!(answer.contains(&format!("l5d-proxy-error: {reason}\r\n")), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_cut_and_counted() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok",
    ] {
        let script = [Until("\r\n\r\n"), Send(answer), Close];
        let application = Scripted::start(&[&script]).await;
        let setup = Setup::new(server(detect(), everybody()), application.address).await;
        let got = raw(setup.address, GET, false).await;
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.contains("ok"), "{got}");
        assert!(!got.ends_with("0\r\n\r\n"), "{got}");
        setup.counted("inbound_http_errors_total{error=\"upstream_truncated\",", 1).await;
    }
}

#[tokio::test]
async fn a_blank_before_a_colon_does_not_fail_a_response() {
    behind(
        &[Send(GET), Until("ok"), Close],
        &[&[
            Until("\r\n\r\n"),
            Send(b"HTTP/1.1 200 OK\r\nX-Old : 1\r\nL5d-Client-Id : me\r\nContent-Length: 2\r\n\r\nok"),
            Rest,
        ]],
        &["HTTP/1.1 200 OK\ncontent-length: 2\nx-old: 1\nok"],
    )
    .await;
}

#[tokio::test]
async fn a_clients_malformed_body_is_the_clients_fault() {
    let application = Scripted::start(&[&[Until("\r\n\r\n"), Rest]]).await;
    let setup = Setup::new(server(detect(), everybody()), application.address).await;
    let request =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnot hexadecimal\r\n";
    let answer = raw(setup.address, request, false).await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    setup.counted("inbound_http_errors_total{error=\"bad_request_body\",", 1).await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_behind_its_request_is_answered() {
    behind(
        &[Send(GET), Half, Rest],
        &[&[Until("\r\n\r\n"), Quiet(500), Send(OK), Rest]],
        &["HTTP/1.1 200 OK\ncontent-length: 2\nokclosed"],
    )
    .await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_and_gets_nothing_is_given_up_and_the_application_learns_it()
{
    let begun = Instant::now();
    let script: &[Step] = &[Until("\r\n\r\n"), Rest];
    let (seen, application) = observed(Way::Inbound, &[Send(GET), Half, Rest], &[script]).await;
    assert_eq!(seen, ["closed"]);
    assert_eq!(application, [["GET /a HTTP/1.1\nhost: a\n", "closed"]]);
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn names_of_fields_are_spelt_as_they_were_sent() {
    const REQUEST: &str = "POST /a HTTP/1.1\r\nHOST: a\r\nX-MiXed: 1\r\nX-MIXED: 3\r\nx-lower: 2\r\n\
                           Content-LENGTH: 2\r\n\r\nab";
    const RESPONSE: &str = "HTTP/1.1 200 OK\r\nETag: a\r\nSet-Cookie: a\r\nSET-COOKIE: b\r\n\
                            DATE: now\r\nContent-Length: 2\r\n\r\nok";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let application = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut held = Vec::new();
            while !held.ends_with(b"ab") {
                assert_eq!(read(&mut stream, &mut held).await, Ok(true));
            }
            let text = String::from_utf8(held).unwrap();
            let own: Vec<&str> = text
                .split("\r\n")
                .filter(|line| !line.starts_with("l5d-") && !line.starts_with("forwarded:"))
                .collect();
            assert_eq!(own.join("\r\n"), REQUEST);
            stream.write_all(RESPONSE.as_bytes()).await.unwrap();
        }
    });
    for way in [Way::Inbound, Way::BothHalves] {
        let path = path(way, server(detect(), everybody()), address).await;
        let mut stream = TcpStream::connect(path.address).await.unwrap();
        stream.write_all(REQUEST.as_bytes()).await.unwrap();
        let mut held = Vec::new();
        while !held.ends_with(b"ok") {
            assert_eq!(read(&mut stream, &mut held).await, Ok(true));
        }
        assert_eq!(String::from_utf8(held).unwrap(), RESPONSE, "{way:?}");
    }
    application.await.unwrap();
}

#[tokio::test]
async fn characters_of_a_query_that_are_to_be_percent_encoded_are_forwarded_as_sent() {
    same(
        &[Send(b"GET /a?q=\"b\"&c=<d> HTTP/1.1\r\nHost: a\r\n\r\n"), Until("ok"), Close],
        &[&[Until("\r\n\r\n"), Send(OK), Rest]],
    )
    .await;
    // Where the path becomes canonical, too.
    let application = Scripted::start(&[&[Until("\r\n\r\n"), Send(OK), Rest]]).await;
    let path = path(Way::Inbound, server(detect(), everybody()), application.address).await;
    let request = b"GET /%7Ea?q=\"b\" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let stream = TcpStream::connect(path.address).await.unwrap();
    run(stream, &[Send(request), Rest]).await;
    let seen = application.ended().await;
    assert_eq!(seen[0][0], "GET /~a?q=\"b\" HTTP/1.1\nhost: a\n");
}

#[tokio::test]
async fn raw_paths_are_forwarded_with_characters_that_are_to_be_percent_encoded() {
    let mut policy = server(detect(), everybody());
    policy.paths = policy_core::PathHandling::Raw;
    for (sent, received) in [
        ("/a<b>`//%7E?c=<d>\"", "/a<b>`//%7E?c=<d>\""),
        ("http://a/b`?c", "/b`?c"),
        ("http://a?c=<", "/?c=<"),
    ] {
        let application = Scripted::start(&[&[Until("\r\n\r\n"), Send(OK), Rest]]).await;
        let path = path(Way::Inbound, policy.clone(), application.address).await;
        let mut stream = TcpStream::connect(path.address).await.unwrap();
        let request = format!("GET {sent} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let seen = run(stream, &[Rest]).await;
        assert_eq!(seen, ["HTTP/1.1 200 OK\ncontent-length: 2\nokclosed"], "{sent}");
        let all = application.ended().await;
        assert_eq!(all[0][0], format!("GET {received} HTTP/1.1\nhost: a\n"), "{sent}");
    }
}

/// The bodies of requests and responses, cut in the middle.
const CUT: [&[u8]; 2] =
    [b"Content-Length: 10\r\n\r\n1234", b"Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n"];

pub(super) fn message(line: &str, rest: &[u8]) -> &'static [u8] {
    [line.as_bytes(), b"\r\n", rest].concat().leak()
}

#[tokio::test]
async fn an_application_that_is_reset_within_its_response_is_not_seen_to_have_ended_it() {
    for body in CUT {
        for end in [Reset, Close] {
            let answer = message("HTTP/1.1 200 OK", body);
            let script: &[Step] = &[Until("\r\n\r\n"), Send(answer), Quiet(100), end];
            same(&[Send(GET), Until("1234"), Rest], &[script]).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_is_reset_within_its_request_is_not_seen_to_have_ended_it() {
    for body in CUT {
        for end in [Reset, Close] {
            let request = message("POST /a HTTP/1.1\r\nHost: a", body);
            let client = [Send(request), Quiet(100), end];
            same(&client, &[&[Until("1234"), Rest]]).await;
        }
    }
    // While it waits for the response, and while it gets it.
    same(&[Send(GET), Quiet(100), Reset], &[&[Until("\r\n\r\n"), Rest]]).await;
    let answer = message("HTTP/1.1 200 OK", CUT[0]);
    let script: &[Step] = &[Until("\r\n\r\n"), Send(answer), Rest];
    same(&[Send(GET), Until("1234"), Reset], &[script]).await;
}
