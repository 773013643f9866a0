//! Pool of idle HTTP/1 connections to the application, and response bodies that return their
//! connection to it when they end.

use crate::sidecar::io::{Metered, Prefixed};
use crate::sidecar::reset::Resettable as _;
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use policy_http::http1::client::{Connection, Error};
use policy_http::http2::{Interruptible, RecvBody};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, spawn_local};

/// A connection and the exchange on it, shared with the task that sends the rest of its request.
pub(crate) type SharedConn<B> = Rc<UpstreamConn<B>>;

/// An HTTP/1 connection to the application.
pub(crate) struct UpstreamConn<B> {
    pub(crate) connection: RefCell<Connection<Metered<TcpStream>, B>>,
    /// Permit while the connection is one of several in use.
    pub(crate) permit: Cell<Option<ConnPermit<B>>>,
}

/// Idle connections of one client, and the limit of those in use.
pub(crate) struct IdlePool<B> {
    idle: RefCell<Vec<SharedConn<B>>>,
    /// Created for a client with concurrent requests; most have one at a time, and need none.
    limit: OnceCell<Box<ConnLimit>>,
}

/// Limit of a client's connections in use.
struct ConnLimit {
    /// Permits of further connections.
    permits: Semaphore,
    /// Tasks that still send a request whose response is complete, the oldest first.
    uploads: RefCell<VecDeque<AbortHandle>>,
}

/// Permit of a connection in use; released on drop.
pub(crate) struct ConnPermit<B>(Rc<IdlePool<B>>);

/// The body of an application's response.
#[derive(Debug)]
pub(crate) enum UpstreamBody<B> {
    /// A response on an HTTP/1 connection.
    Http1(PooledBody<B>),
    /// A stream of an HTTP/2 connection.
    Http2(RecvBody),
}

/// The body of an HTTP/1 response, which returns its connection to the pool at its end.
#[derive(Debug)]
pub(crate) struct PooledBody<B> {
    /// None once the body is complete or failed.
    conn: Option<SharedConn<B>>,
    pool: Rc<IdlePool<B>>,
    /// Task that sends the rest of the request, if the response began before its end.
    upload: Option<AbortHandle>,
}

/// Error of an application's response body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamBodyError {
    /// The HTTP/1 connection failed.
    #[error(transparent)]
    Http1(#[from] Error),
    /// The HTTP/2 stream was reset, or its connection failed.
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

impl UpstreamBodyError {
    /// The reason of an HTTP/2 reset. That of a GOAWAY is of the connection: NO_ERROR would make a
    /// response that was cut look complete.
    pub(crate) fn reason(&self) -> Option<h2::Reason> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(error) => error.reason().filter(|_| error.is_reset()),
        }
    }

    /// True if the HTTP/1 connection was reset or failed, and did not end.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Http1(Error::Io(_)))
    }

    /// True if the HTTP/2 connection was lost, and not the stream alone.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Http2(error) if !error.is_reset())
    }
}

/// Idle connections of one client, at most.
const MAX_IDLE: usize = 16;

impl<B> UpstreamConn<B> {
    pub(crate) fn new(connection: Connection<Metered<TcpStream>, B>) -> SharedConn<B> {
        Rc::new(Self { connection: RefCell::new(connection), permit: Cell::new(None) })
    }

    /// True if it is one of several that its client has in use.
    fn has_permit(&self) -> bool {
        let permit = self.permit.take();
        let has = permit.is_some();
        self.permit.set(permit);
        has
    }
}

impl<B: Body<Data = Bytes> + Interruptible + Unpin> UpstreamConn<B> {
    /// Makes the connection's end a reset if the body of its request was cut.
    pub(crate) fn reset_if_cut(&self) {
        let mut connection = self.connection.borrow_mut();
        if connection.upload().is_some_and(|upload| upload.is_cut()) {
            connection.get_ref().reset_on_close();
        }
    }
}

impl<B> std::fmt::Debug for UpstreamConn<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamConn").finish_non_exhaustive()
    }
}

impl<B> std::fmt::Debug for IdlePool<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdlePool").finish_non_exhaustive()
    }
}

impl<B> Drop for ConnPermit<B> {
    fn drop(&mut self) {
        if let Some(limit) = self.0.limit.get() {
            limit.permits.add_permits(1);
        }
    }
}

impl<B> Default for IdlePool<B> {
    fn default() -> Self {
        Self { idle: RefCell::default(), limit: OnceCell::new() }
    }
}

impl<B> IdlePool<B> {
    /// Acquires a permit for another connection, of `most`. If there is none, the oldest request
    /// whose response is complete is aborted; fails after `bound`.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        most: usize,
        bound: Duration,
    ) -> Option<ConnPermit<B>> {
        let limit = self.limit.get_or_init(|| Box::new(ConnLimit::new(most)));
        let permit = match limit.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                limit.abort_oldest_upload();
                tokio::time::timeout(bound, limit.permits.acquire()).await.ok()?.ok()?
            }
        };
        permit.forget();
        Some(ConnPermit(Rc::clone(self)))
    }

    /// Marks an upload whose response is complete, so that it can be aborted for another request.
    fn defer_upload(&self, upload: AbortHandle) {
        let Some(limit) = self.limit.get() else { return };
        let mut uploads = limit.uploads.borrow_mut();
        uploads.retain(|upload| !upload.is_finished());
        uploads.push_back(upload);
    }
}

impl ConnLimit {
    fn new(most: usize) -> Self {
        let permits = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        Self { permits, uploads: RefCell::default() }
    }

    /// Aborts the oldest upload whose response is complete, because the client does not depend on
    /// it.
    fn abort_oldest_upload(&self) {
        let oldest = || self.uploads.borrow_mut().pop_front();
        if let Some(upload) = std::iter::from_fn(oldest).find(|upload| !upload.is_finished()) {
            upload.abort();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> IdlePool<B> {
    /// Takes an idle connection that is still open, and drops those that the application has
    /// closed.
    pub(crate) fn checkout(&self, cx: &mut Context<'_>) -> Option<SharedConn<B>> {
        loop {
            let conn = self.idle.borrow_mut().pop()?;
            let quiet = conn.connection.borrow_mut().poll_idle(cx);
            if quiet {
                return Some(conn);
            }
        }
    }

    /// Drops the connections that the application has closed.
    pub(crate) fn remove_closed(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.idle.borrow_mut().retain(|conn| conn.connection.borrow_mut().poll_idle(&mut cx));
    }

    /// Returns a connection whose exchange is complete to the pool, or closes it.
    fn checkin(&self, conn: SharedConn<B>) {
        let permit = conn.permit.take();
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MAX_IDLE && conn.connection.borrow().is_reusable() {
            conn.connection.borrow_mut().shrink();
            idle.push(conn);
        }
        drop(permit);
    }
}

impl<B: Body<Data = Bytes> + Interruptible + Unpin + 'static> PooledBody<B> {
    /// The body behind a response head. A task of its own sends the rest of the request, because a
    /// client that reads no response may have to send its whole request first.
    pub(crate) fn new(conn: SharedConn<B>, pool: &Rc<IdlePool<B>>) -> Self {
        let sending = conn.connection.borrow().is_sending();
        let upload = sending.then(|| send_rest(Rc::clone(&conn), pool));
        let mut body = Self { conn: Some(conn), pool: Rc::clone(pool), upload };
        body.checkin_if_complete();
        body
    }

    /// Takes the stream behind a 101.
    pub(crate) fn into_upgraded(mut self) -> Option<Prefixed<Metered<TcpStream>>> {
        let conn = Rc::try_unwrap(self.conn.take()?).ok()?;
        let (stream, behind) = conn.connection.into_inner().into_stream();
        Some(Prefixed::new(behind, stream))
    }

    /// Returns the connection to the pool once the response is complete, unless the rest of the
    /// request is still being sent.
    fn checkin_if_complete(&mut self) {
        let ended = |conn: &SharedConn<B>| {
            let conn = conn.connection.borrow();
            conn.is_answered() && !conn.is_switched()
        };
        let Some(conn) = self.conn.take_if(|conn| ended(conn)) else { return };
        conn.connection.borrow_mut().wake_rest();
        // The upload goes on, and returns the connection afterwards.
        if let Some(upload) = self.upload.take()
            && conn.has_permit()
        {
            self.pool.defer_upload(upload);
        }
        self.pool.checkin(conn);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &self.conn {
            Some(conn) => conn.connection.borrow_mut().poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

/// An incomplete response aborts the upload.
impl<B> Drop for PooledBody<B> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            upload.abort();
        }
    }
}

/// Sends the rest of a request while it is permitted, then returns the connection to the pool
/// unless the response still uses it.
fn send_rest<B>(conn: SharedConn<B>, pool: &Rc<IdlePool<B>>) -> AbortHandle
where
    B: Body<Data = Bytes> + Interruptible + Unpin + 'static,
{
    let pool = Rc::clone(pool);
    let task = spawn_local(async move {
        let sent = poll_fn(|cx| {
            let mut conn = conn.connection.borrow_mut();
            if conn.upload().is_some_and(|upload| upload.must_end(cx)) {
                return Poll::Ready(false);
            }
            match conn.poll_send(cx) {
                Poll::Ready(sent) => Poll::Ready(sent.is_ok()),
                Poll::Pending => conn.poll_closed(cx).map(|()| true),
            }
        })
        .await;
        if !sent {
            conn.reset_if_cut();
        }
        if sent && Rc::strong_count(&conn) == 1 {
            pool.checkin(conn);
        }
    });
    task.abort_handle()
}

impl<B> UpstreamBody<B> {
    /// A response of an HTTP/1 connection.
    pub(crate) fn of(head: Response<()>, body: PooledBody<B>) -> Response<Self> {
        head.map(|()| Self::Http1(body))
    }

    /// Buffers frames that arrive while nothing can be forwarded.
    pub(crate) fn gather(&mut self, cx: &mut Context<'_>) {
        match self {
            // The connection is not shared: unread bytes stay in the socket's buffer.
            Self::Http1(_) => {}
            // The error follows the frames that arrived before it.
            Self::Http2(body) => {
                let _ = body.gather(cx);
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Interruptible + Unpin + 'static> Body for UpstreamBody<B> {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        match self.get_mut() {
            Self::Http1(body) => {
                let polled = body.poll(cx);
                if let Poll::Ready(Some(Err(_))) = &polled {
                    body.conn = None;
                } else {
                    body.checkin_if_complete();
                }
                polled.map(|frame| frame.map(|frame| frame.map_err(UpstreamBodyError::Http1)))
            }
            Self::Http2(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(UpstreamBodyError::Http2)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.conn.is_none(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(PooledBody { conn: Some(conn), .. }) => {
                conn.connection.borrow().size_hint()
            }
            Self::Http1(_) => SizeHint::with_exact(0),
            Self::Http2(body) => body.size_hint(),
        }
    }
}
