//! The application's side: connections that belong to one client's connection and nobody else's.

use super::Sockets;
use super::body::RequestBody;
use super::io::Metered;
use super::listen::keepalive;
use crate::respond::Fault;
use crate::telemetry::{Meter, TcpSeries};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_local;

/// One client's way to the application.
#[derive(Debug)]
pub(super) struct Upstream {
    address: SocketAddr,
    /// Where its connections are counted, and by which worker.
    counted: (Arc<TcpSeries>, usize),
    connect: Duration,
    sockets: Sockets,
    ping: (Duration, Duration),
    windows: (u32, u32),
    head: u32,
    /// The HTTP/1 connection while no request uses it.
    idle: RefCell<Option<http1::SendRequest<RequestBody>>>,
    http2: RefCell<Option<http2::SendRequest<RequestBody>>>,
    /// HTTP/1 connections for requests that the client carries in HTTP/2.
    many: RefCell<Vec<http1::SendRequest<RequestBody>>>,
    room: Semaphore,
    /// Held while an HTTP/2 connection is being made, so that streams do not make one each.
    connecting: Mutex<()>,
}

/// Runs hyper's own tasks on the worker's thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

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

impl Upstream {
    pub(super) fn new(
        address: SocketAddr,
        config: &super::SidecarConfig,
        counted: (Arc<TcpSeries>, usize),
    ) -> Self {
        let limits = &config.limits;
        Self {
            address,
            counted,
            connect: config.timeouts.connect,
            sockets: config.sockets,
            ping: (config.timeouts.http2_ping, config.timeouts.http2_ping_answer),
            windows: limits.http2_upstream_windows,
            head: limits.request_head,
            idle: RefCell::new(None),
            http2: RefCell::new(None),
            many: RefCell::default(),
            room: Semaphore::new(MOST_CONNECTIONS),
            connecting: Mutex::new(()),
        }
    }

    /// Sends one HTTP/1 request at a time. A request that a kept connection did not take is sent
    /// again on a new one, once.
    pub(super) async fn http1(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Fault> {
        let mut request = request;
        let kept = self.idle.borrow_mut().take();
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
        {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.keep(sender, response)),
                Err(mut error) => request = error.take_message().ok_or(Fault::Broken)?,
            }
        }
        let mut sender = self.connect_http1().await?;
        match sender.send_request(request).await {
            Ok(response) => Ok(self.keep(sender, response)),
            Err(_) => Err(Fault::Broken),
        }
    }

    fn keep(
        &self,
        sender: http1::SendRequest<RequestBody>,
        response: Response<Incoming>,
    ) -> Response<Incoming> {
        *self.idle.borrow_mut() = Some(sender);
        response
    }

    async fn connect(&self) -> Result<Metered<TcpStream>, Fault> {
        let stream = connect(self.address, self.connect, &self.sockets).await?;
        let (series, worker) = &self.counted;
        Ok(Metered::new(stream, Meter::open(series, *worker)))
    }

    async fn connect_http1(&self) -> Result<http1::SendRequest<RequestBody>, Fault> {
        let stream = self.connect().await?;
        let size = usize::try_from(self.head).unwrap_or(usize::MAX).max(LEAST_BUFFER);
        let handshake =
            http1::Builder::new().max_buf_size(size).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| Fault::Connect)?;
        // Its end is seen by whoever sends next.
        spawn_local(connection.with_upgrades());
        Ok(sender)
    }

    /// Sends one of several HTTP/1 requests that are open at once. At most [`MOST_CONNECTIONS`] wait for
    /// a response's head, and as many connections are kept; responses in progress have one each, of
    /// which the client's number of streams is the bound.
    pub(super) async fn one_of_many(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Fault> {
        // Never closed.
        let _room = self.room.acquire().await.map_err(|_| Fault::Broken)?;
        let mut request = request;
        if let Some(mut sender) = self.free() {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.keep_one(sender, response)),
                Err(mut error) => request = error.take_message().ok_or(Fault::Broken)?,
            }
        }
        let mut sender = self.connect_http1().await?;
        match sender.send_request(request).await {
            Ok(response) => Ok(self.keep_one(sender, response)),
            Err(_) => Err(Fault::Broken),
        }
    }

    /// A connection whose last response is complete. Those that have ended are let go.
    fn free(&self) -> Option<http1::SendRequest<RequestBody>> {
        let mut many = self.many.borrow_mut();
        many.retain(|sender| !sender.is_closed());
        let ready = many.iter().position(http1::SendRequest::is_ready)?;
        Some(many.swap_remove(ready))
    }

    fn keep_one(
        &self,
        sender: http1::SendRequest<RequestBody>,
        response: Response<Incoming>,
    ) -> Response<Incoming> {
        let mut many = self.many.borrow_mut();
        // Beyond the bound it is closed once its response is complete.
        if many.len() < MOST_CONNECTIONS {
            many.push(sender);
        }
        response
    }

    /// Sends a request as one of many on the client's HTTP/2 connection.
    pub(super) async fn http2(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Fault> {
        let (mut sender, kept) = match self.ready_http2() {
            Some(sender) => (sender, true),
            None => (self.connect_http2().await?, false),
        };
        match sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                Some(request) if kept => {
                    let mut sender = self.connect_http2().await?;
                    sender.send_request(request).await.map_err(|_| Fault::Broken)
                }
                Some(_) | None => Err(Fault::Broken),
            },
        }
    }

    fn ready_http2(&self) -> Option<http2::SendRequest<RequestBody>> {
        self.http2.borrow().as_ref().filter(|sender| !sender.is_closed()).cloned()
    }

    async fn connect_http2(&self) -> Result<http2::SendRequest<RequestBody>, Fault> {
        let _alone = self.connecting.lock().await;
        if let Some(sender) = self.ready_http2() {
            return Ok(sender);
        }
        let stream = self.connect().await?;
        let handshake = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.windows.0)
            .initial_connection_window_size(self.windows.1)
            .max_header_list_size(self.head)
            .keep_alive_interval(self.ping.0)
            .keep_alive_timeout(self.ping.1)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(|_| Fault::Connect)?;
        spawn_local(connection);
        *self.http2.borrow_mut() = Some(sender.clone());
        Ok(sender)
    }
}

/// hyper refuses to work with less.
pub(super) const LEAST_BUFFER: usize = 8 * 1024;
/// HTTP/1 connections that one client's HTTP/2 connection may keep.
const MOST_CONNECTIONS: usize = 16;
