//! HTTP/1 connections to the application: those that wait for a request, and the bodies of responses
//! that keep one until they end.

use super::io::{Metered, Prefixed};
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

/// A connection to the application and the exchange on it. Shared while its request is sent by a task
/// of its own.
pub(super) type Wire<B> = Rc<Line<B>>;

/// A connection to the application.
pub(super) struct Line<B> {
    pub(super) connection: RefCell<Connection<Metered<TcpStream>, B>>,
    /// What it takes of the client's share while it is in use.
    pub(super) room: Cell<Option<Room<B>>>,
}

/// Connections of one client: those that wait for a request, and how many may be in use beside them.
pub(super) struct Waiting<B> {
    wires: RefCell<Vec<Wire<B>>>,
    /// Made for a client that has many in use: most have one, and wait.
    many: OnceCell<Box<Many>>,
}

/// What a client's connections in use share.
struct Many {
    /// For those that may be in use beside them.
    room: Semaphore,
    /// What sends requests whose answers are complete, the oldest in front.
    behind: RefCell<VecDeque<AbortHandle>>,
}

/// A connection's part of its client's share; given back when dropped.
pub(super) struct Room<B>(Rc<Waiting<B>>);

/// The body of an application's response.
#[derive(Debug)]
pub(super) enum UpstreamBody<B> {
    /// From a connection of ours.
    Http1(Answered<B>),
    /// A stream of an HTTP/2 connection.
    Http2(RecvBody),
}

/// A response's body, with the connection that it comes by.
#[derive(Debug)]
pub(super) struct Answered<B> {
    /// None once it is complete or broken.
    wire: Option<Wire<B>>,
    waiting: Rc<Waiting<B>>,
    /// What sends the rest of the request, if that was not complete when the response began.
    sender: Option<AbortHandle>,
}

/// Why a response's body breaks off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// An HTTP/1 connection.
    #[error(transparent)]
    Http1(#[from] Error),
    /// An HTTP/2 stream.
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

impl Broken {
    /// What an HTTP/2 stream was reset with.
    pub(super) fn reason(&self) -> Option<h2::Reason> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(error) => error.reason(),
        }
    }
}

/// Connections that may wait.
const MOST_WAITING: usize = 16;

impl<B> Line<B> {
    pub(super) fn new(connection: Connection<Metered<TcpStream>, B>) -> Wire<B> {
        Rc::new(Self { connection: RefCell::new(connection), room: Cell::new(None) })
    }

    /// Whether it is one of several that its client has in use.
    fn is_one_of_many(&self) -> bool {
        let room = self.room.take();
        let one = room.is_some();
        self.room.set(room);
        one
    }
}

impl<B> std::fmt::Debug for Line<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl<B> std::fmt::Debug for Waiting<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

impl<B> Drop for Room<B> {
    fn drop(&mut self) {
        if let Some(many) = self.0.many.get() {
            many.room.add_permits(1);
        }
    }
}

impl<B> Default for Waiting<B> {
    fn default() -> Self {
        Self { wires: RefCell::default(), many: OnceCell::new() }
    }
}

impl<B> Waiting<B> {
    /// Room for another connection in use, of which there are `most`. If there is none, a request that
    /// was answered in full gives way; who finds no room within `bound` gets none.
    pub(super) async fn room(self: &Rc<Self>, most: usize, bound: Duration) -> Option<Room<B>> {
        let many = self.many.get_or_init(|| Box::new(Many::new(most)));
        let permit = match many.room.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                many.give_way();
                tokio::time::timeout(bound, many.room.acquire()).await.ok()?.ok()?
            }
        };
        permit.forget();
        Some(Room(Rc::clone(self)))
    }

    /// The answer of what `sender` sends is complete.
    fn answered(&self, sender: AbortHandle) {
        let Some(many) = self.many.get() else { return };
        let mut behind = many.behind.borrow_mut();
        behind.retain(|sender| !sender.is_finished());
        behind.push_back(sender);
    }
}

impl Many {
    fn new(most: usize) -> Self {
        let room = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        Self { room, behind: RefCell::default() }
    }

    /// Lets go of the oldest request whose answer is complete: nobody waits for its end.
    fn give_way(&self) {
        let oldest = || self.behind.borrow_mut().pop_front();
        if let Some(sender) = std::iter::from_fn(oldest).find(|sender| !sender.is_finished()) {
            sender.abort();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Waiting<B> {
    /// A connection that can be asked. Those that the application has closed are let go.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Option<Wire<B>> {
        loop {
            let wire = self.wires.borrow_mut().pop()?;
            let quiet = wire.connection.borrow_mut().poll_idle(cx);
            if quiet {
                return Some(wire);
            }
        }
    }

    /// Lets go of what the application has closed meanwhile.
    pub(super) fn tidy(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.wires.borrow_mut().retain(|wire| wire.connection.borrow_mut().poll_idle(&mut cx));
    }

    /// Keeps a connection whose exchange is complete, or closes it.
    fn put(&self, wire: Wire<B>) {
        let room = wire.room.take();
        let mut wires = self.wires.borrow_mut();
        if wires.len() < MOST_WAITING && wire.connection.borrow().is_reusable() {
            wire.connection.borrow_mut().shrink();
            wires.push(wire);
        }
        drop(room);
    }
}

impl<B: Body<Data = Bytes> + Interruptible + Unpin + 'static> Answered<B> {
    /// The body behind a head that was just read. What is left of the request is sent by a task of its
    /// own, since a client that takes no response may have to be heard out first.
    pub(super) fn new(wire: Wire<B>, waiting: &Rc<Waiting<B>>) -> Self {
        let sending = wire.connection.borrow().is_sending();
        let sender = sending.then(|| send_rest(Rc::clone(&wire), waiting));
        let mut body = Self { wire: Some(wire), waiting: Rc::clone(waiting), sender };
        body.settle();
        body
    }

    /// The stream behind a 101.
    pub(super) fn switched(mut self) -> Option<Prefixed<Metered<TcpStream>>> {
        let wire = Rc::try_unwrap(self.wire.take()?).ok()?;
        let (stream, behind) = wire.connection.into_inner().into_stream();
        Some(Prefixed::new(behind, stream))
    }

    /// Once the response is complete: keeps the connection for the next request, unless the rest of
    /// this one is still being sent.
    fn settle(&mut self) {
        let ended = |wire: &Wire<B>| {
            let wire = wire.connection.borrow();
            wire.is_answered() && !wire.is_switched()
        };
        let Some(wire) = self.wire.take_if(|wire| ended(wire)) else { return };
        // Whoever sends goes on, and keeps the connection afterwards.
        if let Some(sender) = self.sender.take()
            && wire.is_one_of_many()
        {
            self.waiting.answered(sender);
        }
        self.waiting.put(wire);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &self.wire {
            Some(wire) => wire.connection.borrow_mut().poll_frame(cx),
            None => Poll::Ready(None),
        }
    }
}

/// An incomplete response leaves nothing to be sent for.
impl<B> Drop for Answered<B> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.abort();
        }
    }
}

/// Sends the rest of a request for as long as it is permitted, then keeps the connection if nobody else
/// has it.
fn send_rest<B>(wire: Wire<B>, waiting: &Rc<Waiting<B>>) -> AbortHandle
where
    B: Body<Data = Bytes> + Interruptible + Unpin + 'static,
{
    let waiting = Rc::clone(waiting);
    let task = spawn_local(async move {
        let sent = poll_fn(|cx| {
            let mut wire = wire.connection.borrow_mut();
            if wire.upload().is_some_and(|upload| upload.must_end(cx)) {
                return Poll::Ready(false);
            }
            wire.poll_send(cx).map(|sent| sent.is_ok())
        })
        .await;
        if sent && Rc::strong_count(&wire) == 1 {
            waiting.put(wire);
        }
    });
    task.abort_handle()
}

impl<B> UpstreamBody<B> {
    /// A response of a connection of ours.
    pub(super) fn of(head: Response<()>, body: Answered<B>) -> Response<Self> {
        head.map(|()| Self::Http1(body))
    }

    /// Takes in what comes while nothing can be passed on.
    pub(super) fn gather(&mut self, cx: &mut Context<'_>) {
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

impl<B: Body<Data = Bytes> + Interruptible + Unpin + 'static> Body for UpstreamBody<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Http1(body) => {
                let polled = body.poll(cx);
                if let Poll::Ready(Some(Err(_))) = &polled {
                    body.wire = None;
                } else {
                    body.settle();
                }
                polled.map(|frame| frame.map(|frame| frame.map_err(Broken::Http1)))
            }
            Self::Http2(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(Broken::Http2)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.wire.is_none(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(Answered { wire: Some(wire), .. }) => wire.connection.borrow().size_hint(),
            Self::Http1(_) => SizeHint::with_exact(0),
            Self::Http2(body) => body.size_hint(),
        }
    }
}
