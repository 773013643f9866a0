//! First lines of connections against a real sidecar, on a port of unknown protocol: what any of six HTTP
//! servers takes for a request (`tests/servers`) is never carried as bytes.

use policy_tests::servers::{FirstLine, first_lines};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The bytes behind a first line: an HTTP server that takes the line believes the header.
const REST: &[u8] = b"Host: a\r\nl5d-client-id: forged\r\n\r\n";

/// The header that the sidecar adds to every request that it has decided on.
const JUDGED: &[u8] = b"\r\nforwarded: ";

/// A sidecar in front of an application that answers everything and remembers what it got.
struct World {
    address: SocketAddr,
    upstream: SocketAddr,
    sidecar: Child,
    application: Arc<Application>,
}

/// Said to the application itself.
const LAST: &[u8] = b"last\n";

#[derive(Default)]
struct Application {
    got: Mutex<Vec<Vec<u8>>>,
    open: AtomicUsize,
}

impl Application {
    fn serve(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let own = Arc::clone(&self);
            own.open.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || own.answer(stream));
        }
    }

    fn answer(&self, mut stream: TcpStream) {
        let (mut got, mut chunk) = (Vec::new(), [0; 32 * 1024]);
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            if got.is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
            got.extend_from_slice(chunk.get(..read).unwrap());
        }
        self.got.lock().unwrap().push(got);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes the bytes that arrived since the last call, once all connections have ended. `upstream`:
    /// address of the listener.
    fn take(&self, upstream: SocketAddr) -> Vec<u8> {
        // Connections are accepted in their order: with this one, those that the sidecar made before.
        let mut last = TcpStream::connect(upstream).unwrap();
        last.write_all(LAST).unwrap();
        last.shutdown(Shutdown::Write).unwrap();
        last.read_to_end(&mut Vec::new()).unwrap();
        let start = Instant::now();
        while self.open.load(Ordering::SeqCst) > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "a connection stays open");
            thread::sleep(Duration::from_micros(200));
        }
        let mut got = std::mem::take(&mut *self.got.lock().unwrap());
        got.retain(|bytes| bytes != LAST);
        got.concat()
    }
}

impl World {
    /// `routes`: whether a route is attached to the port.
    fn start(routes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = listener.local_addr().unwrap();
        let application = Arc::<Application>::default();
        let serving = Arc::clone(&application);
        thread::spawn(move || serving.serve(&listener));
        let mut sidecar = Command::new(env!("CARGO_BIN_EXE_sidecar-under-test"))
            .arg(upstream.to_string())
            .args(routes.then_some("/open"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(sidecar.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().parse().expect("the sidecar prints its address");
        Self { address, upstream, sidecar, application }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends `pieces` with a pause between them, ends, and returns the answer and what the application
    /// got.
    fn exchange(&self, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let mut stream = self.connect();
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                thread::sleep(Duration::from_millis(3));
            }
            // The sidecar may have refused already.
            let _ = stream.write_all(piece);
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        drop(stream);
        (answer, self.application.take(self.upstream))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.sidecar.kill();
        let _ = self.sidecar.wait();
    }
}

/// The status line of the answer to a `GET`.
fn ask(mut stream: TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The lines that some server routes.
fn routed() -> Vec<FirstLine> {
    let lines = first_lines().unwrap();
    lines.into_iter().filter(|line| !line.routed_by().is_empty()).collect()
}

/// Collects the lines that break a promise, so that a failure shows all of them.
#[track_caller]
fn none(broken: &[&FirstLine]) {
    let shown: Vec<String> = broken
        .iter()
        .map(|line| {
            let text: String =
                line.bytes.iter().take(80).map(|b| b.escape_ascii().to_string()).collect();
            format!("{} ({}): {text} routed by {:?}", line.class, line.comment, line.routed_by())
        })
        .collect();
    assert!(broken.is_empty(), "{} lines:\n{}", broken.len(), shown.join("\n"));
}

#[test]
fn what_any_server_takes_for_a_request_is_not_carried_as_bytes() {
    let world = World::start(false);
    let lines = routed();
    assert!(lines.len() > 500, "{} lines", lines.len());
    let carried = |line: &&FirstLine| {
        let (_, got) = world.exchange(&[&[&line.bytes[..], REST].concat()]);
        contains(&got, b"forged") || !(got.is_empty() || contains(&got, JUDGED))
    };
    none(&lines.iter().filter(carried).collect::<Vec<_>>());
}

/// From the sources of servers that are not recorded.
#[test]
fn what_other_servers_take_for_a_request_is_not_carried_as_bytes() {
    let world = World::start(false);
    for line in [
        // Twisted and gunicorn end lines at CRLF alone and separate words at any blank.
        &b"GET\n/admin HTTP/1.1\r\n"[..],
        b"FOO\n/admin\nHTTP/1.1\r\n",
        // The JDK's server takes any text for a method, and never looks at the third word.
        b"X\nY /admin HTTP/1.1\r\n",
        b"FOO /admin x\r\n",
        // Waitress and WEBrick take any method in capitals without a version.
        b"FOO /admin\r\n",
        // Python before 3.11 reads the number as `int` does.
        b"FOO /admin HTTP/+1.1\r\n",
        b"\0\x01 /admin HTTP/+1.1\r\n",
        // gunicorn looks at the first five letters of a PROXY header.
        b"PROXYX TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET /admin HTTP/1.1\r\n",
    ] {
        let (_, got) = world.exchange(&[&[line, REST].concat()]);
        assert!(got.is_empty() || contains(&got, JUDGED), "{}", line.escape_ascii());
        assert!(!contains(&got, b"forged"), "{}", line.escape_ascii());
    }
}

#[test]
fn a_line_that_comes_in_pieces_is_not_carried_whole() {
    let world = World::start(false);
    let lines = routed();
    let carried = |line: &&FirstLine| {
        let (first, second) = line.bytes.split_at(line.bytes.len() / 2);
        let (_, got) = world.exchange(&[first, &[second, REST].concat()]);
        contains(&got, b"forged") || (!contains(&got, JUDGED) && got.len() >= line.bytes.len())
    };
    none(&lines.iter().filter(carried).collect::<Vec<_>>());
}

#[test]
fn a_proxy_header_is_refused() {
    let world = World::start(false);
    let lines = first_lines().unwrap();
    let headers: Vec<_> = lines.iter().filter(|line| line.class == "proxy-header").collect();
    assert!(headers.len() > 10);
    let carried =
        |line: &&&FirstLine| !world.exchange(&[&[&line.bytes[..], REST].concat()]).1.is_empty();
    none(&headers.iter().filter(carried).copied().collect::<Vec<_>>());
}

#[test]
fn nothing_but_http_passes_where_routes_are_attached() {
    let world = World::start(true);
    let lines = first_lines().unwrap();
    let carried = |line: &&FirstLine| {
        let (_, got) = world.exchange(&[&[&line.bytes[..], REST].concat()]);
        contains(&got, b"forged") || !(got.is_empty() || contains(&got, JUDGED))
    };
    none(&lines.iter().filter(carried).collect::<Vec<_>>());
    assert_eq!(ask(world.connect(), "/open"), "HTTP/1.1 200 OK");
    assert_eq!(ask(world.connect(), "/admin"), "HTTP/1.1 404 Not Found");
}

/// The price of erring towards HTTP, and no more than it.
#[test]
fn other_protocols_are_carried_but_for_those_that_look_like_http() {
    let world = World::start(false);
    let lines = first_lines().unwrap();
    let protocols = lines.iter().filter(|line| line.class == "protocol");
    let mut refused = BTreeSet::new();
    for line in protocols {
        let start = Instant::now();
        let (_, got) = world.exchange(&[&line.bytes]);
        assert!(start.elapsed() < Duration::from_secs(2), "{} was waited for", line.comment);
        if got != line.bytes {
            refused.insert(line.bytes.escape_ascii().to_string());
        }
    }
    let want = [
        r"DESCRIBE rtsp://a/m RTSP/1.0\r\n",
        r"GET_PARAMETER /admin RTSP/1.0\r\n",
        r"OPTIONS rtsp://a/m RTSP/1.0\r\n",
        r"OPTIONS icap://a/s ICAP/1.0\r\n",
        r"MOVE /a 1\r\n",
        r"DELE /admin\r\n",
        r"delete /admin\r\n",
    ];
    assert_eq!(refused, want.map(str::to_owned).into());
}
