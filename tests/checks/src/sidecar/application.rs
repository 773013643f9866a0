//! The application behind the sidecar: hyper's servers, which say what they read and answer it.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

/// A request as somebody read it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    /// As much of the body as came.
    pub(super) body: Vec<u8>,
    /// True if that is all of it.
    pub(super) whole: bool,
}

/// Messages received since the last call of `take`.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// In the order of their heads.
    pub(super) requests: Vec<Message>,
    /// Reasons of the library for refusing them.
    pub(super) wrong: Vec<String>,
}

/// An application in a thread of its own, which ends with the process.
pub(super) struct Application {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    came: Mutex<Came>,
    open: AtomicUsize,
    busy: AtomicUsize,
}

/// Bytes that begin a connection which is not the sidecar's.
const LAST: &[u8] = b"last";
/// Most time that a connection stays open after its client has left.
const BOUND: Duration = Duration::from_secs(10);
/// A head of the largest setting, and what the sidecar adds.
const LARGEST: u32 = 17 << 20;
/// As many as the sidecar reads of one request, and those that it adds.
const MOST_FIELDS: usize = 16 * 1024 + 16;

impl Application {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("its address");
        let state = Arc::<State>::default();
        let own = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("application".into());
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(accept(listener, own));
        };
        thread.spawn(run).expect("a thread");
        Self { address, state }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// True while it reads or answers a request.
    pub(super) fn is_busy(&self) -> bool {
        self.state.busy.load(Ordering::SeqCst) > 0
    }

    /// Takes the received messages, once every connection to it has ended.
    pub(super) fn take(&self) -> Result<Came, String> {
        // Connections are accepted in their order: with this one, all that the sidecar made before.
        let last = std::net::TcpStream::connect(self.address);
        let mut last = last.map_err(|error| format!("the application is gone: {error}"))?;
        std::io::Write::write_all(&mut last, LAST).map_err(|error| error.to_string())?;
        last.shutdown(std::net::Shutdown::Write).map_err(|error| error.to_string())?;
        let _ = std::io::Read::read_to_end(&mut last, &mut Vec::new());
        let begun = Instant::now();
        while self.state.open.load(Ordering::SeqCst) > 0 {
            if begun.elapsed() > BOUND {
                return Err("the client has left, and the application's connection is open".into());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(std::mem::take(&mut *self.state.came()))
    }
}

impl State {
    fn came(&self) -> std::sync::MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts for as long as it lives.
struct Counted(Arc<State>, fn(&State) -> &AtomicUsize);

impl Counted {
    fn new(state: &Arc<State>, which: fn(&State) -> &AtomicUsize) -> Self {
        which(state).fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(state), which)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Ordering::SeqCst);
    }
}

async fn accept(listener: std::net::TcpListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let open = Counted::new(&state, |state| &state.open);
            tokio::spawn(serve(stream, Arc::clone(&state), open));
        }
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>, open: Counted) {
    let mut first = [0; 4];
    let mut seen = 0;
    while let Ok(now) = stream.peek(&mut first).await {
        if now == seen || now == first.len() {
            break;
        }
        seen = now;
    }
    if first == LAST {
        // Not one that is waited for.
        drop(open);
        let _ = stream.read_to_end(&mut Vec::new()).await;
        return;
    }
    let own = Arc::clone(&state);
    let service = service_fn(move |request| answer(request, Arc::clone(&own)));
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(stream);
    let ended = if first.starts_with(b"PRI") {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(LARGEST);
        builder.serve_connection(io, service).await
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.max_headers(MOST_FIELDS).max_buf_size(LARGEST as usize).half_close(true);
        builder.serve_connection(io, service).await
    };
    if let Err(error) = ended
        && is_ours_to_answer_for(&error)
    {
        state.came().wrong.push(format!("{error:?}"));
    }
}

/// True if the error is about the written bytes, rather than about where they broke off.
fn is_ours_to_answer_for(error: &hyper::Error) -> bool {
    let reason = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .filter(|error| !error.is_remote())
        .and_then(h2::Error::reason);
    let wrong = [
        h2::Reason::PROTOCOL_ERROR,
        h2::Reason::COMPRESSION_ERROR,
        h2::Reason::FRAME_SIZE_ERROR,
        h2::Reason::FLOW_CONTROL_ERROR,
    ];
    error.is_parse() || reason.is_some_and(|reason| wrong.contains(&reason))
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let busy = Counted::new(&state, |state| &state.busy);
    let (head, body) = request.into_parts();
    let message = Message {
        method: head.method.clone(),
        uri: head.uri.clone(),
        version: head.version,
        headers: head.headers.clone(),
        body: Vec::new(),
        whole: false,
    };
    let place = {
        let mut came = state.came();
        came.requests.push(message);
        came.requests.len() - 1
    };
    let path = head.uri.path();
    if path.ends_with("/early") {
        tokio::spawn(read(body, state, place));
    } else {
        read(body, state, place).await;
    }
    let mut response = Response::new(Full::from("answered"));
    if path.ends_with("/echo") {
        *response.headers_mut() = head.headers;
        for name in ["content-length", "transfer-encoding", "connection", "upgrade", "host", "te"] {
            response.headers_mut().remove(name);
        }
    }
    drop(busy);
    Ok(response)
}

async fn read(mut body: Incoming, state: Arc<State>, place: usize) {
    let mut whole = true;
    while let Some(frame) = body.frame().await {
        let mut came = state.came();
        let Some(message) = came.requests.get_mut(place) else { return };
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(data)) => message.body.extend_from_slice(&data),
            Ok(Err(_)) => {}
            Err(_) => whole = false,
        }
        if !whole {
            return;
        }
    }
    if let Some(message) = state.came().requests.get_mut(place) {
        message.whole = true;
    }
}
