//! Connections to the application. Each belongs to one client's connection and is never shared
//! between clients.

mod pool;

pub(super) use pool::{UpstreamBody, UpstreamBodyError};

use super::io::Metered;
use super::limits::{MIN_HEAD_LIMIT, SocketOptions};
use super::listen::keepalive;
use super::reset::Resettable as _;
use super::settings::SidecarConfig;
use crate::source_ports;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use policy_enforce::respond::{Answer, Fault, ResponseFault};
use policy_enforce::telemetry::{Meter, TcpSeries};
use policy_http::bounds::MAX_FIELDS;
use policy_http::http1::client::{Connection, Error};
use policy_http::http1::request_decode::Bounds;
use policy_http::http1::response_decode::{ResponseHeadError, is_interim};
use policy_http::http2::{
    BodyAccount, Interruptible, Reset, SendError, Sender, Settings, Streams, while_waiting,
};
use pool::{ConnPermit, IdlePool, PooledBody, SharedConn, UpstreamConn};
use socket2::SockRef;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_local};

/// Upstream connections of one client's connection.
pub(super) struct Upstream<B> {
    address: SocketAddr,
    /// Series of its connections, and the worker's index in them.
    series: (Arc<TcpSeries>, usize),
    connect: Duration,
    /// Timeout of a write that makes no progress.
    stall: Option<Duration>,
    sockets: SocketOptions,
    settings: Settings,
    /// Idle HTTP/1 connections: one, or several for a client that sends HTTP/1 requests in HTTP/2.
    idle: Rc<IdlePool<B>>,
    /// HTTP/2 connections, which the client's own task polls.
    pub(super) streams: Streams<Metered<TcpStream>, B>,
    /// Held while an HTTP/2 connection is being established, so that concurrent streams share it.
    connecting: OnceCell<Box<Mutex<Connecting>>>,
    /// Concurrent HTTP/1 requests of a client that sends them in HTTP/2.
    carried: usize,
    /// The heads of an HTTP/1 client's request and of its response, as they were received: names are
    /// spelt by them. Each is taken by its writer.
    pub(super) request_text: RefCell<Bytes>,
    pub(super) response_text: RefCell<Bytes>,
    /// True if the application said with its last response that it closes the connection.
    pub(super) closes: Cell<bool>,
    /// The connection of an HTTP/1 client, which has one at a time.
    only: Cell<Weak<UpstreamConn<B>>>,
}

/// The HTTP/2 connection that is being established. The attempt belongs to no stream: cancelling a
/// stream does not restart it for the others.
#[derive(Debug, Default)]
struct Connecting {
    attempt: Option<JoinHandle<Attempt>>,
    /// The last failure and its time, shared by all streams that waited for the attempt.
    failed: Option<(Fault, Instant)>,
}

/// Result of an attempt to connect, and its time.
type Attempt = (Result<TcpStream, Fault>, Instant);

/// Connects to the application.
pub(super) async fn connect(
    address: SocketAddr,
    bound: Duration,
    sockets: &SocketOptions,
) -> Result<TcpStream, Fault> {
    match tokio::time::timeout(bound, source_ports::connect(address)).await {
        Ok(Ok(stream)) => {
            // Without nodelay, small writes wait for acknowledgements; keepalive and user timeout
            // detect a dead peer early.
            let _ = stream.set_nodelay(true);
            let socket = SockRef::from(&stream);
            if let Some(quiet) = sockets.connect_keepalive {
                let _ = socket.set_tcp_keepalive(&keepalive(quiet));
            }
            if let Some(bound) = sockets.connect_user_timeout {
                let _ = socket.set_tcp_user_timeout(Some(bound));
            }
            Ok(stream)
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            Err(Fault::SourcePorts)
        }
        Ok(Err(_)) => Err(Fault::Connect),
        Err(_) => Err(Fault::ConnectTimeout),
    }
}

impl<B> std::fmt::Debug for Upstream<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<B> Upstream<B>
where
    B: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin + 'static,
{
    pub(super) fn new(
        address: SocketAddr,
        config: &SidecarConfig,
        series: (Arc<TcpSeries>, usize),
        account: Option<BodyAccount>,
    ) -> Self {
        let limits = &config.limits;
        Self {
            address,
            series,
            connect: config.timeouts.connect,
            stall: config.timeouts.stall,
            sockets: config.sockets,
            settings: Settings {
                windows: limits.http2_upstream_windows,
                head: limits.response_head,
            },
            idle: Rc::default(),
            streams: Streams::new(account),
            connecting: OnceCell::new(),
            carried: limits.carried(),
            request_text: RefCell::default(),
            response_text: RefCell::default(),
            closes: Cell::new(false),
            only: Cell::default(),
        }
    }

    /// Sends one HTTP/1 request at a time, and passes interim responses to `inform`.
    ///
    /// On a connection that was used before, the application may close it while the request is on
    /// its way. Such a request is sent once more on a new connection if nothing of it was written, or
    /// if it may be repeated ([`Connection::is_repeatable`]).
    pub(super) async fn http1(
        &self,
        mut head: Box<Parts>,
        mut body: B,
        (permit, inform): (Option<ConnPermit<B>>, Inform<'_>),
    ) -> Result<Response<UpstreamBody<B>>, Answer> {
        let idle = poll_fn(|cx| Poll::Ready(self.idle.checkout(cx))).await;
        let used = idle.is_some().then(Instant::now);
        let conn = match idle {
            Some(conn) => conn,
            None => {
                // Boxed, here and below: larger than everything else, and rare.
                let stream = Box::pin(while_waiting(&mut body, self.connect())).await?;
                let conn = UpstreamConn::new(Connection::new(stream, self.bounds()));
                if permit.is_none() {
                    self.only.set(Rc::downgrade(&conn));
                }
                conn
            }
        };
        conn.permit.set(permit);
        conn.connection.borrow_mut().begin((&mut head, &self.request_text.borrow()), body);
        drop(head);
        self.request_text.take();
        let response = match poll_fn(|cx| poll_head(&conn, cx, inform)).await {
            Err(error) => Box::pin(self.resend(&conn, error, (used, inform))).await?,
            Ok(response) => response,
        };
        self.response_text.replace(conn.connection.borrow_mut().take_text());
        self.closes.set(conn.connection.borrow().closes());
        Ok(UpstreamBody::of(response, PooledBody::new(conn, &self.idle)))
    }

    /// Sends a request again, if it may be, that failed with `error` on a connection that was `used` before.
    #[cold]
    async fn resend(
        &self,
        conn: &SharedConn<B>,
        error: Error,
        (used, inform): (Option<Instant>, Inform<'_>),
    ) -> Result<Response<()>, Answer> {
        if matches!(error, Error::Request) {
            conn.reset_if_cut();
        }
        let Some(sent_at) = used else { return Err(answer_of(&error)) };
        let repeats = matches!(error, Error::Closed) && sent_at.elapsed() < KEPT_RACE;
        if !repeats && !matches!(error, Error::Unsent) {
            return Err(answer_of(&error));
        }
        if repeats && !conn.connection.borrow().is_repeatable() {
            return Err(Fault::ClosedKept.into());
        }
        let stream = self.connect().await?;
        if repeats {
            conn.connection.borrow_mut().repeat(stream);
        } else {
            conn.connection.borrow_mut().reconnect(stream);
        }
        let response = poll_fn(|cx| poll_head(conn, cx, inform)).await;
        response.map_err(|error| answer_of(&error))
    }

    fn bounds(&self) -> Bounds {
        let bytes = usize::try_from(self.settings.head).unwrap_or(usize::MAX).max(MIN_HEAD_LIMIT);
        Bounds { fields: MAX_FIELDS, bytes }
    }

    /// Closes idle connections that the application has closed.
    pub(super) fn remove_closed(&self) {
        self.idle.remove_closed();
    }

    /// Makes the end of an HTTP/1 client's connection to the application a reset, because the client was
    /// reset.
    pub(super) fn reset_on_close(&self) {
        let only = self.only.take();
        if let Some(conn) = only.upgrade() {
            conn.connection.borrow().get_ref().reset_on_close();
        }
        self.only.set(only);
    }

    async fn connect(&self) -> Result<Metered<TcpStream>, Fault> {
        Ok(self.metered(connect(self.address, self.connect, &self.sockets).await?))
    }

    fn metered(&self, stream: TcpStream) -> Metered<TcpStream> {
        let (series, worker) = &self.series;
        Metered::new(stream, Meter::open(series, *worker)).with_write_timeout(self.stall)
    }

    /// Sends one of several concurrent HTTP/1 requests. Each has a connection of its own until its
    /// request and response are complete. Beyond the limit it waits, at most for the connect
    /// timeout.
    pub(super) async fn http1_multiplexed(
        &self,
        head: Box<Parts>,
        mut body: B,
        inform: Inform<'_>,
    ) -> Result<Response<UpstreamBody<B>>, Answer> {
        let permit = while_waiting(&mut body, self.idle.acquire(self.carried, self.connect)).await;
        let permit = permit.ok_or(Answer::Overloaded)?;
        let response = self.http1(head, body, (Some(permit), inform)).await;
        // In HTTP/2 names are in lower case.
        self.response_text.take();
        response
    }

    /// Sends a request on the client's HTTP/2 connection to the application, and passes interim
    /// responses to `inform`. One that the application has certainly not processed is sent once more.
    pub(super) async fn http2(
        &self,
        request: Request<B>,
        inform: Inform<'_>,
    ) -> Result<Response<UpstreamBody<B>>, Fault> {
        let (mut request, mut again) = (request, true);
        loop {
            let (sender, is_new) = match self.streams.sender() {
                Some(sender) => (sender, false),
                // Boxed: rare.
                None => {
                    let connected = while_waiting(request.body_mut(), self.connect_http2());
                    Box::pin(connected).await?
                }
            };
            match self.streams.send(sender, request, inform).await {
                Ok(response) => return Ok(response.map(UpstreamBody::Http2)),
                // The connection has closed in the meantime and takes no further requests.
                Err(SendError::Unsent(unsent)) if !is_new => request = *unsent,
                Err(SendError::Refused(refused)) if again => (request, again) = (*refused, false),
                Err(SendError::Refused(_)) => return Err(Fault::Reset(REFUSED_STREAM)),
                Err(SendError::Reset(reason)) => return Err(Fault::Reset(reason.into())),
                Err(SendError::TooManyInterim) => {
                    return Err(Fault::Response(ResponseFault::TooManyInterim));
                }
                Err(SendError::Unsent(_) | SendError::Broken) => return Err(Fault::Broken),
            }
        }
    }

    /// Returns a connection, and true if this call established it.
    async fn connect_http2(&self) -> Result<(Sender, bool), Fault> {
        let requested_at = Instant::now();
        let mut connecting = self.connecting.get_or_init(Box::default).lock().await;
        if let Some(sender) = self.streams.sender() {
            return Ok((sender, false));
        }
        if let Some((fault, at)) = connecting.failed
            && at >= requested_at
        {
            return Err(fault);
        }
        match self.start_http2(&mut connecting.attempt, requested_at).await {
            Ok(sender) => Ok((sender, true)),
            Err(fault) => {
                connecting.failed = Some((fault, Instant::now()));
                Err(fault)
            }
        }
    }

    /// Waits for the attempt in progress, or for a new one.
    async fn start_http2(
        &self,
        attempt: &mut Option<JoinHandle<Attempt>>,
        requested_at: Instant,
    ) -> Result<Sender, Fault> {
        let stream = loop {
            let started = attempt.get_or_insert_with(|| self.attempt());
            let ended = started.await;
            *attempt = None;
            match ended.map_err(|_| Fault::Connect)? {
                // An abandoned attempt of unknown age: its waiters were cancelled.
                (_, at) if at < requested_at => {}
                (stream, _) => break stream?,
            }
        };
        let started = self.streams.handshake(self.metered(stream), self.settings).await;
        started.map_err(|_| Fault::Connect)
    }

    fn attempt(&self) -> JoinHandle<Attempt> {
        let (address, bound, sockets) = (self.address, self.connect, self.sockets);
        spawn_local(async move {
            let stream = connect(address, bound, &sockets).await;
            (stream, Instant::now())
        })
    }
}

/// Receives the interim responses to a request.
pub(super) type Inform<'a> = &'a dyn Fn(Response<()>);

/// Sends a request and waits for the response head; fails if the client breaks off a body that is
/// not being read.
fn poll_head<B>(
    conn: &SharedConn<B>,
    cx: &mut Context<'_>,
    inform: Inform<'_>,
) -> Poll<Result<Response<()>, Error>>
where
    B: Body<Data = Bytes> + Interruptible + Unpin,
{
    let mut connection = conn.connection.borrow_mut();
    loop {
        match connection.poll_head(cx) {
            Poll::Ready(Ok(response)) if is_interim(response.status()) => inform(response),
            Poll::Pending if connection.upload().is_some_and(|upload| upload.must_end(cx)) => {
                return Poll::Ready(Err(Error::Request));
            }
            head @ (Poll::Ready(_) | Poll::Pending) => return head,
        }
    }
}

/// The answer in place of a response that does not come.
fn answer_of(error: &Error) -> Answer {
    let fault = match error {
        Error::Request => return Answer::BadBody,
        Error::Unsent | Error::Closed => Fault::Closed,
        Error::Truncated => Fault::Truncated,
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Fault::Stalled,
        Error::Io(_) => Fault::Broken,
        Error::Early => Fault::Response(ResponseFault::Upgrade),
        Error::Body(_) => Fault::Response(ResponseFault::Framing),
        Error::Head(head) => Fault::Response(match head {
            ResponseHeadError::Malformed => ResponseFault::Malformed,
            ResponseHeadError::Field => ResponseFault::Field,
            ResponseHeadError::Framing => ResponseFault::Framing,
            ResponseHeadError::TooManyInterim => ResponseFault::TooManyInterim,
            ResponseHeadError::TooLarge => ResponseFault::TooLarge,
        }),
    };
    Answer::Upstream(fault)
}

/// Time after the start of a request within which the end of a connection that was kept open is taken
/// for the end of its idle time, which the application decided on before it saw the request.
const KEPT_RACE: Duration = Duration::from_secs(1);
/// RFC 9113 section 7.
const REFUSED_STREAM: u32 = 7;
