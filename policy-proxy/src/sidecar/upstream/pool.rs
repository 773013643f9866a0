//! HTTP/1 connections to the application: those that wait for a request, and the bodies of responses
//! that keep one until they end.

use crate::sidecar::io::{Metered, Prefixed};
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use policy_http::http1::client::{Connection, Error};
use policy_http::http2::{Received, Watched};
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

/// A connection to the application and the exchange on it. SidecarState while its request is sent by a task
/// of its own.
pub(crate) type SharedConn<B> = Rc<UpstreamConn<B>>;

/// A connection to the application.
pub(crate) struct UpstreamConn<B> {
    pub(crate) connection: RefCell<Connection<Metered<TcpStream>, B>>,
    /// What it takes of the client's share while it is in use.
    pub(crate) permit: Cell<Option<ConnPermit<B>>>,
}

/// Connections of one client: those that wait for a request, and how many may be in use beside them.
pub(crate) struct IdlePool<B> {
    idle: RefCell<Vec<SharedConn<B>>>,
    /// Made for a client that has many in use: most have one, and wait.
    in_use: OnceCell<Box<InUse>>,
}

/// What a client's connections in use share.
struct InUse {
    /// For those that may be in use beside them.
    permits: Semaphore,
    /// What sends requests whose answers are complete, the oldest in front.
    uploads: RefCell<VecDeque<AbortHandle>>,
}

/// A connection's part of its client's share; given back when dropped.
pub(crate) struct ConnPermit<B>(Rc<IdlePool<B>>);

/// The body of an application's response.
#[derive(Debug)]
pub(crate) enum UpstreamBody<B> {
    /// From a connection of ours.
    Http1(PooledBody<B>),
    /// A stream of an HTTP/2 connection.
    Http2(Received),
}

/// A response's body, with the connection that it comes by.
#[derive(Debug)]
pub(crate) struct PooledBody<B> {
    /// None once it is complete or broken.
    conn: Option<SharedConn<B>>,
    pool: Rc<IdlePool<B>>,
    /// What sends the rest of the request, if that was not complete when the response began.
    upload: Option<AbortHandle>,
}

/// Why a response's body breaks off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamBodyError {
    /// An HTTP/1 connection.
    #[error(transparent)]
    Http1(#[from] Error),
    /// An HTTP/2 stream.
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

impl UpstreamBodyError {
    /// What an HTTP/2 stream was reset with.
    pub(crate) fn reason(&self) -> Option<h2::Reason> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(error) => error.reason(),
        }
    }
}

/// Connections that may wait.
const MAX_IDLE: usize = 16;

impl<B> UpstreamConn<B> {
    pub(crate) fn new(connection: Connection<Metered<TcpStream>, B>) -> SharedConn<B> {
        Rc::new(Self { connection: RefCell::new(connection), permit: Cell::new(None) })
    }

    /// Whether it is one of several that its client has in use.
    fn has_permit(&self) -> bool {
        let permit = self.permit.take();
        let has = permit.is_some();
        self.permit.set(permit);
        has
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
        if let Some(in_use) = self.0.in_use.get() {
            in_use.permits.add_permits(1);
        }
    }
}

impl<B> Default for IdlePool<B> {
    fn default() -> Self {
        Self { idle: RefCell::default(), in_use: OnceCell::new() }
    }
}

impl<B> IdlePool<B> {
    /// ConnPermit for another connection in use, of which there are `most`. If there is none, a request that
    /// was answered in full gives way; who finds no room within `bound` gets none.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        most: usize,
        bound: Duration,
    ) -> Option<ConnPermit<B>> {
        let in_use = self.in_use.get_or_init(|| Box::new(InUse::new(most)));
        let permit = match in_use.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                in_use.abort_oldest_upload();
                tokio::time::timeout(bound, in_use.permits.acquire()).await.ok()?.ok()?
            }
        };
        permit.forget();
        Some(ConnPermit(Rc::clone(self)))
    }

    /// The answer of what `sender` sends is complete.
    fn defer_upload(&self, upload: AbortHandle) {
        let Some(in_use) = self.in_use.get() else { return };
        let mut uploads = in_use.uploads.borrow_mut();
        uploads.retain(|upload| !upload.is_finished());
        uploads.push_back(upload);
    }
}

impl InUse {
    fn new(most: usize) -> Self {
        let permits = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        Self { permits, uploads: RefCell::default() }
    }

    /// Lets go of the oldest request whose answer is complete: nobody waits for its end.
    fn abort_oldest_upload(&self) {
        let oldest = || self.uploads.borrow_mut().pop_front();
        if let Some(upload) = std::iter::from_fn(oldest).find(|upload| !upload.is_finished()) {
            upload.abort();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> IdlePool<B> {
    /// A connection that can be asked. Those that the application has closed are let go.
    pub(crate) fn checkout(&self, cx: &mut Context<'_>) -> Option<SharedConn<B>> {
        loop {
            let conn = self.idle.borrow_mut().pop()?;
            let quiet = conn.connection.borrow_mut().poll_quiet(cx);
            if quiet {
                return Some(conn);
            }
        }
    }

    /// Lets go of what the application has closed meanwhile.
    pub(crate) fn remove_closed(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.idle.borrow_mut().retain(|conn| conn.connection.borrow_mut().poll_quiet(&mut cx));
    }

    /// Keeps a connection whose exchange is complete, or closes it.
    fn checkin(&self, conn: SharedConn<B>) {
        let permit = conn.permit.take();
        let mut idle = self.idle.borrow_mut();
        if idle.len() < MAX_IDLE && conn.connection.borrow().is_reusable() {
            conn.connection.borrow_mut().rest();
            idle.push(conn);
        }
        drop(permit);
    }
}

impl<B: Body<Data = Bytes> + Watched + Unpin + 'static> PooledBody<B> {
    /// The body behind a head that was just read. What is left of the request is sent by a task of its
    /// own, since a client that takes no response may have to be heard out first.
    pub(crate) fn new(conn: SharedConn<B>, pool: &Rc<IdlePool<B>>) -> Self {
        let sending = conn.connection.borrow().is_sending();
        let upload = sending.then(|| send_rest(Rc::clone(&conn), pool));
        let mut body = Self { conn: Some(conn), pool: Rc::clone(pool), upload };
        body.checkin_if_complete();
        body
    }

    /// The stream behind a 101.
    pub(crate) fn into_upgraded(mut self) -> Option<Prefixed<Metered<TcpStream>>> {
        let conn = Rc::try_unwrap(self.conn.take()?).ok()?;
        let (stream, behind) = conn.connection.into_inner().into_stream();
        Some(Prefixed::new(behind, stream))
    }

    /// Once the response is complete: keeps the connection for the next request, unless the rest of
    /// this one is still being sent.
    fn checkin_if_complete(&mut self) {
        let ended = |conn: &SharedConn<B>| {
            let conn = conn.connection.borrow();
            conn.is_answered() && !conn.is_switched()
        };
        let Some(conn) = self.conn.take_if(|conn| ended(conn)) else { return };
        // Whoever sends goes on, and keeps the connection afterwards.
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

/// An incomplete response leaves nothing to be sent for.
impl<B> Drop for PooledBody<B> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            upload.abort();
        }
    }
}

/// Sends the rest of a request for as long as it is permitted, then keeps the connection if nobody else
/// has it.
fn send_rest<B>(conn: SharedConn<B>, pool: &Rc<IdlePool<B>>) -> AbortHandle
where
    B: Body<Data = Bytes> + Watched + Unpin + 'static,
{
    let pool = Rc::clone(pool);
    let task = spawn_local(async move {
        let sent = poll_fn(|cx| {
            let mut conn = conn.connection.borrow_mut();
            if conn.upload().is_some_and(|upload| upload.must_end(cx)) {
                return Poll::Ready(false);
            }
            conn.poll_send(cx).map(|sent| sent.is_ok())
        })
        .await;
        if sent && Rc::strong_count(&conn) == 1 {
            pool.checkin(conn);
        }
    });
    task.abort_handle()
}

impl<B> UpstreamBody<B> {
    /// A response of a connection of ours.
    pub(crate) fn of(head: Response<()>, body: PooledBody<B>) -> Response<Self> {
        head.map(|()| Self::Http1(body))
    }

    /// Takes in what comes while nothing can be passed on.
    pub(crate) fn gather(&mut self, cx: &mut Context<'_>) {
        match self {
            // The connection is its own: what nobody reads stays with the system.
            Self::Http1(_) => {}
            // What broke off ends behind what came of it.
            Self::Http2(body) => {
                let _ = body.gather(cx);
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Watched + Unpin + 'static> Body for UpstreamBody<B> {
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
