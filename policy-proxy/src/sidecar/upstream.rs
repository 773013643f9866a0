//! The application's side: connections that belong to one client's connection and nobody else's.

use super::asked::{Answered, Line, Room, UpstreamBody, Waiting, Wire};
use super::bounds::{LEAST_HEAD, Sockets};
use super::io::Metered;
use super::listen::keepalive;
use super::settings::SidecarConfig;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use policy_enforce::respond::{Answer, Fault};
use policy_enforce::telemetry::{Meter, TcpSeries};
use policy_http::http1::client::{Connection, Error};
use policy_http::http1::request_decode::Bounds;
use policy_http::http2::{Interruptible, Reset, Sender, Settings, Streams, while_waiting};
use socket2::SockRef;
use std::cell::OnceCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_local};

/// One client's way to the application.
#[derive(Debug)]
pub(super) struct Upstream<B> {
    address: SocketAddr,
    /// Where its connections are counted, and by which worker.
    counted: (Arc<TcpSeries>, usize),
    connect: Duration,
    /// How long the application may take nothing of what is to be sent.
    stall: Option<Duration>,
    sockets: Sockets,
    settings: Settings,
    /// HTTP/1 connections while no request uses them: one, or some for requests that the client
    /// carries in HTTP/2.
    waiting: Rc<Waiting<B>>,
    /// HTTP/2 connections, which the client's own task polls.
    pub(super) streams: Streams<Metered<TcpStream>, B>,
    /// Held while such a connection is being made, so that streams do not make one each.
    connecting: OnceCell<Box<Mutex<Connecting>>>,
    /// HTTP/1 requests that may be open at a time where the client carries them in HTTP/2.
    carried: usize,
}

/// The HTTP/2 connection that is being made. Its attempt belongs to no stream: one that is taken back
/// does not make those that wait begin anew.
#[derive(Debug, Default)]
struct Connecting {
    attempt: Option<JoinHandle<Attempt>>,
    /// How and when the last one failed. Whoever waited for it shares the failure.
    failed: Option<(Fault, Instant)>,
}

/// What came of an attempt, and when.
type Attempt = (Result<TcpStream, Fault>, Instant);

/// Connects to the application.
pub(super) async fn connect(
    address: SocketAddr,
    bound: Duration,
    sockets: &Sockets,
) -> Result<TcpStream, Fault> {
    match tokio::time::timeout(bound, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => {
            // Without it, small writes wait for acknowledgements; a dead socket tells soon.
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
        Ok(Err(_)) => Err(Fault::Connect),
        Err(_) => Err(Fault::ConnectTimeout),
    }
}

impl<B> Upstream<B>
where
    B: Body<Data = Bytes, Error: Reset> + Interruptible + Unpin + 'static,
{
    pub(super) fn new(
        address: SocketAddr,
        config: &SidecarConfig,
        counted: (Arc<TcpSeries>, usize),
    ) -> Self {
        let limits = &config.limits;
        Self {
            address,
            counted,
            connect: config.timeouts.connect,
            stall: config.timeouts.stall,
            sockets: config.sockets,
            settings: Settings {
                ping: (config.timeouts.http2_ping, config.timeouts.http2_ping_answer),
                windows: limits.http2_upstream_windows,
                head: limits.request_head,
            },
            waiting: Rc::default(),
            streams: Streams::default(),
            connecting: OnceCell::new(),
            carried: limits.carried(),
        }
    }

    /// Sends one HTTP/1 request at a time. A request of which a kept connection took nothing is sent
    /// again on a new one, once.
    pub(super) async fn http1(
        &self,
        mut head: Box<Parts>,
        mut body: B,
        room: Option<Room<B>>,
    ) -> Result<Response<UpstreamBody<B>>, Fault> {
        let kept = poll_fn(|cx| Poll::Ready(self.waiting.take(cx))).await;
        let again = kept.is_some();
        let wire = match kept {
            Some(wire) => wire,
            None => {
                // Boxed, here and below: larger than all the rest, and rare.
                let stream = Box::pin(while_waiting(&mut body, self.connect())).await?;
                Line::new(Connection::new(stream, self.bounds()))
            }
        };
        wire.room.set(room);
        wire.connection.borrow_mut().begin(&mut head, body);
        drop(head);
        let mut asked = poll_fn(|cx| poll_head(&wire, cx)).await;
        if let (Err(Error::Unsent), true) = (&asked, again) {
            let stream = Box::pin(self.connect()).await?;
            wire.connection.borrow_mut().reconnect(stream);
            asked = poll_fn(|cx| poll_head(&wire, cx)).await;
        }
        let head = asked.map_err(|_| Fault::Broken)?;
        Ok(UpstreamBody::of(head, Answered::new(wire, &self.waiting)))
    }

    fn bounds(&self) -> Bounds {
        let bytes = usize::try_from(self.settings.head).unwrap_or(usize::MAX).max(LEAST_HEAD);
        Bounds { fields: ANSWER_FIELDS, bytes }
    }

    /// Lets go of connections that the application has closed.
    pub(super) fn tidy(&self) {
        self.waiting.tidy();
    }

    async fn connect(&self) -> Result<Metered<TcpStream>, Fault> {
        Ok(self.metered(connect(self.address, self.connect, &self.sockets).await?))
    }

    fn metered(&self, stream: TcpStream) -> Metered<TcpStream> {
        let (series, worker) = &self.counted;
        Metered::new(stream, Meter::open(series, *worker)).within(self.stall)
    }

    /// Sends one of several HTTP/1 requests that are open at once. Each has a connection until it and
    /// its response are over. Who finds that they are too many waits as long as a connection may take.
    pub(super) async fn one_of_many(
        &self,
        head: Box<Parts>,
        mut body: B,
    ) -> Result<Response<UpstreamBody<B>>, Answer> {
        let room = while_waiting(&mut body, self.waiting.room(self.carried, self.connect)).await;
        let room = room.ok_or(Answer::Overloaded)?;
        self.http1(head, body, Some(room)).await.map_err(Answer::Upstream)
    }

    /// Sends a request as one of many on the client's HTTP/2 connection.
    pub(super) async fn http2(
        &self,
        request: Request<B>,
    ) -> Result<Response<UpstreamBody<B>>, Fault> {
        let mut request = request;
        loop {
            let (sender, made) = match self.streams.sender() {
                Some(sender) => (sender, false),
                // Boxed: rare.
                None => {
                    let connected = while_waiting(request.body_mut(), self.connect_http2());
                    Box::pin(connected).await?
                }
            };
            match self.streams.send(sender, request).await {
                Ok(response) => return Ok(response.map(UpstreamBody::Http2)),
                // It has ended meanwhile, and is asked no more.
                Err(Some(unsent)) if !made => request = unsent,
                Err(_) => return Err(Fault::Broken),
            }
        }
    }

    /// A connection, and whether it was made for whoever asks.
    async fn connect_http2(&self) -> Result<(Sender, bool), Fault> {
        let came = Instant::now();
        let mut connecting = self.connecting.get_or_init(Box::default).lock().await;
        if let Some(sender) = self.streams.sender() {
            return Ok((sender, false));
        }
        if let Some((fault, at)) = connecting.failed
            && at >= came
        {
            return Err(fault);
        }
        match self.begin_http2(&mut connecting.attempt, came).await {
            Ok(sender) => Ok((sender, true)),
            Err(fault) => {
                connecting.failed = Some((fault, Instant::now()));
                Err(fault)
            }
        }
    }

    /// Waits for the attempt that is being made, or for a new one.
    async fn begin_http2(
        &self,
        attempt: &mut Option<JoinHandle<Attempt>>,
        came: Instant,
    ) -> Result<Sender, Fault> {
        let stream = loop {
            let begun = attempt.get_or_insert_with(|| self.attempt());
            let ended = begun.await;
            *attempt = None;
            match ended.map_err(|_| Fault::Connect)? {
                // Nobody was left who waited for it, and it is of unknown age.
                (_, at) if at < came => {}
                (stream, _) => break stream?,
            }
        };
        let begun = self.streams.handshake(self.metered(stream), self.settings).await;
        begun.map_err(|_| Fault::Connect)
    }

    fn attempt(&self) -> JoinHandle<Attempt> {
        let (address, bound, sockets) = (self.address, self.connect, self.sockets);
        spawn_local(async move {
            let stream = connect(address, bound, &sockets).await;
            (stream, Instant::now())
        })
    }
}

/// Sends a request and waits for the response's head, and notices that the client breaks off what nobody
/// takes.
fn poll_head<B>(wire: &Wire<B>, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Error>>
where
    B: Body<Data = Bytes> + Interruptible + Unpin,
{
    let mut connection = wire.connection.borrow_mut();
    let head = connection.poll_head(cx);
    if head.is_pending() && connection.upload().is_some_and(|upload| upload.must_end(cx)) {
        return Poll::Ready(Err(Error::Request));
    }
    head
}

/// Header fields of a response.
const ANSWER_FIELDS: usize = 100;
