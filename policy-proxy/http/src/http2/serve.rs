//! The client's side of an HTTP/2 connection.

use super::body_room::{HeldBytes, ReceiveWindows, Windows};
use super::connection::{ClientConnection, Limits};
use super::frame_filter::{FRAMES_BUDGET, FrameFilter, PeerIo};
use super::keepalive::{Activity, Keepalive, KeepaliveEvent};
use super::recv_body::RecvBody;
use super::scheduler::Scheduler;
use super::send_queue::{Piece, SendQueue};
use super::stream::StreamTask;
use crate::shutdown::Shutdown;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::request::Parts;
use http::{Request, Response};
use slab::Slab;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;

/// Serves requests until the connection ends. `answer` creates the future that answers a request.
pub async fn serve<C, I, A, F>(connection: &C, io: I, answer: A)
where
    C: ClientConnection,
    I: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Box<Parts>, RecvBody) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    let activity = Activity::new();
    let (mut limits, state) = (connection.limits(), PeerIo::default());
    let account = connection.streams().account().cloned();
    let windows = Windows { stream: limits.stream_window, connection: limits.connection_window };
    // Windows that follow the bandwidth are changed by the keepalive alone.
    let windows = match &account {
        Some(account) if !limits.adaptive_window => account.windows(windows),
        Some(_) | None => ReceiveWindows::usual(windows),
    };
    limits.stream_window = windows.first().stream;
    limits.connection_window = windows.first().connection;
    state.refill();
    let io = FrameFilter::of_client(io, state.clone());
    let mut handshake = pin!(builder(&limits).handshake::<_, Piece>(io));
    let handshaken = poll_fn(|cx| match connection.shutdown().poll(cx) {
        Some(Shutdown::Immediate) => Poll::Ready(None),
        Some(Shutdown::Graceful) | None => handshake.as_mut().poll(cx).map(Some),
    });
    let mut client = match handshaken.await {
        None => return,
        Some(Err(error)) => return connection.on_error(&error),
        Some(Ok(client)) => client,
    };
    let keepalive = client.ping_pong().map(|pings| {
        let Limits { adaptive_window, stream_window, ping, .. } = limits;
        let window = adaptive_window.then_some(stream_window);
        Keepalive::new(pings, Rc::clone(&activity), ping, window)
    });
    let mut scheduler = Scheduler::new();
    // Each is polled once at the start.
    [CLIENT, UPSTREAM, KEEPALIVE].iter().for_each(|entry| scheduler.waker(*entry).wake());
    let streams = Slab::new();
    let mut task = ConnectionTask {
        connection,
        client,
        windows,
        is_adaptive: limits.adaptive_window,
        block: account.as_ref().map(|account| HeldBytes::of(account, 0)),
        queue: SendQueue::of_client(account, state.clone()),
        state,
        stall: limits.stall,
        activity,
        keepalive,
        scheduler,
        streams,
        answer,
        goaway_sent: false,
        closed: false,
    };
    poll_fn(|cx| task.poll(cx)).await;
    task.close();
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(Some(MAX_ERROR_RESETS))
        .max_header_list_size(limits.head.saturating_mul(4))
        .initial_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .data_frame_budget(FRAMES_BUDGET)
        .max_send_buffer_size(limits.send_buffer.unwrap_or(SEND_BUFFER));
    if let Some(bytes) = limits.frame {
        builder.max_frame_size(bytes);
    }
    builder
}

/// Entries of the [`Scheduler`]: the client's side, the application's side, the keepalive, and the
/// streams.
const CLIENT: usize = 0;
const UPSTREAM: usize = 1;
const KEEPALIVE: usize = 2;
const FIRST_STREAM: usize = 3;

/// Reason for the end of a client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseReason {
    /// The connection ended; each stream knows its own state.
    Ended,
    /// The client did not acknowledge a PING.
    PingTimeout,
}

/// The state of a served connection. `answer` creates the future that answers a request.
struct ConnectionTask<'a, C: ClientConnection, I, A, F: 'static> {
    connection: &'a C,
    client: Connection<FrameFilter<I>, Piece>,
    /// Pieces of responses that wait to be written.
    queue: SendQueue,
    windows: ReceiveWindows,
    /// True if the windows follow the bandwidth.
    is_adaptive: bool,
    /// Memory of a header block that is not complete.
    block: Option<HeldBytes>,
    /// The state of the client's stream.
    state: PeerIo,
    stall: Option<Duration>,
    activity: Rc<Activity>,
    keepalive: Option<Keepalive>,
    scheduler: Scheduler,
    streams: Slab<StreamTask<F, C>>,
    answer: A,
    /// True once GOAWAY was sent.
    goaway_sent: bool,
    /// True once the client's side has ended. Requests that were received completely are still
    /// forwarded.
    closed: bool,
}

impl<C, I, A, F> ConnectionTask<'_, C, I, A, F>
where
    C: ClientConnection,
    I: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Box<Parts>, RecvBody) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    /// Polls every entry that was woken. Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.scheduler.start(cx);
        match self.connection.shutdown().poll(cx) {
            Some(Shutdown::Immediate) => return Poll::Ready(()),
            Some(Shutdown::Graceful) if !self.goaway_sent => {
                self.goaway_sent = true;
                self.client.graceful_shutdown();
                self.scheduler.waker(CLIENT).wake();
            }
            Some(Shutdown::Graceful) | None => {}
        }
        let mut more_to_read = false;
        while let Some(entry) = self.scheduler.next() {
            if entry == UPSTREAM {
                // Also woken by this, although it is polled now anyway.
                self.connection.streams().drop_finished();
            }
            let waker = self.scheduler.take(entry);
            let mut cx = Context::from_waker(&waker);
            let ended = match entry {
                CLIENT | KEEPALIVE if self.closed => Poll::Pending,
                CLIENT => {
                    self.state.refill();
                    self.update_windows();
                    let accepted = self.accept(&mut cx);
                    self.queue.release_heads();
                    if let Some(block) = &mut self.block {
                        block.set(self.state.block());
                    }
                    more_to_read |= self.state.is_exhausted();
                    accepted
                }
                UPSTREAM => {
                    more_to_read |= self.connection.streams().poll(&mut cx);
                    Poll::Pending
                }
                KEEPALIVE => self.poll_keepalive(&mut cx),
                stream => {
                    self.poll_stream(stream.saturating_sub(FIRST_STREAM), &mut cx);
                    Poll::Pending
                }
            };
            if let Poll::Ready(reason) = ended {
                self.end_client(reason);
            }
            if self.closed && self.streams.is_empty() {
                return Poll::Ready(());
            }
            // Let the tasks that consume the data run.
            if more_to_read || !has_budget_remaining() {
                self.scheduler.yield_now();
                return Poll::Pending;
            }
        }
        Poll::Pending
    }

    fn update_windows(&mut self) {
        let streams = self.connection.streams();
        let Some(account) = streams.account().filter(|_| !self.is_adaptive) else { return };
        let client = RefCell::new(&mut self.client);
        self.windows.update(
            account,
            |bytes| client.borrow_mut().set_target_window_size(bytes),
            |bytes| client.borrow_mut().set_initial_window_size(bytes).is_ok(),
        );
    }

    /// Reads and writes frames, and starts to answer new requests.
    fn accept(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        loop {
            if self.keepalive.as_ref().is_some_and(Keepalive::is_adaptive)
                && let Poll::Ready(reason) = self.poll_keepalive(cx)
            {
                return Poll::Ready(reason);
            }
            match std::task::ready!(self.client.poll_accept(cx)) {
                Some(Ok((request, respond))) => self.begin(request, respond),
                Some(Err(error)) => {
                    self.connection.on_error(&error);
                    return Poll::Ready(CloseReason::Ended);
                }
                None => return Poll::Ready(CloseReason::Ended),
            }
        }
    }

    /// Drops all responses. Uploads behind complete responses continue unless the client timed out:
    /// their streams know whether the body is complete.
    fn end_client(&mut self, reason: CloseReason) {
        self.closed = true;
        self.streams.retain(|_, stream| match stream {
            StreamTask::Uploading(_) => reason == CloseReason::Ended,
            StreamTask::Answering { .. } | StreamTask::Responding(_) => false,
        });
    }

    fn begin(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Piece>) {
        let reset = respond.poll_reset(&mut Context::from_waker(std::task::Waker::noop()));
        if reset.is_ready() {
            // The client has reset the stream.
            return;
        }
        self.activity.record();
        let (head, body) = request.into_parts();
        let account = self.connection.streams().account().cloned();
        let body = RecvBody::request(body, &head.headers, Rc::clone(&self.activity), account);
        let answer = || (self.answer)(Box::new(head), body);
        self.spawn(StreamTask::answering(answer, respond));
    }

    /// Adds a stream task and polls it.
    fn spawn(&mut self, stream: StreamTask<F, C>) {
        if self.streams.capacity() == 0 {
            // Most connections never have more than one; a vector would start with space for four.
            self.streams.reserve_exact(1);
        }
        let index = self.streams.insert(stream);
        let waker = self.scheduler.waker(index.saturating_add(FIRST_STREAM));
        self.poll_stream(index, &mut Context::from_waker(&waker));
    }

    fn poll_stream(&mut self, index: usize, cx: &mut Context<'_>) {
        // The stream may have ended.
        let Some(stream) = self.streams.get_mut(index) else { return };
        let entry = self.scheduler.entry(index.saturating_add(FIRST_STREAM));
        if stream.poll(cx, entry, (self.connection, self.stall, &self.queue)).is_ready() {
            self.streams.try_remove(index);
        }
        while let Some(upload) = self.connection.streams().upload() {
            self.spawn(StreamTask::Uploading(upload));
        }
    }

    /// Polls the keepalive of the client.
    fn poll_keepalive(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let Some(keepalive) = &mut self.keepalive else { return Poll::Pending };
        match std::task::ready!(keepalive.poll(cx)) {
            KeepaliveEvent::TimedOut => {
                self.connection.on_ping_timeout();
                Poll::Ready(CloseReason::PingTimeout)
            }
            KeepaliveEvent::Window(bytes) => {
                let least = self.connection.limits().connection_window;
                self.client.set_target_window_size(bytes.max(least));
                // Fails while the last change is not acknowledged; another will follow.
                let _ = self.client.set_initial_window_size(bytes);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Drops the streams and closes the connection to the application.
    fn close(self) {
        let Self { connection, client, streams, .. } = self;
        drop((streams, client));
        connection.streams().close();
    }
}

/// Maximum number of streams reset for protocol errors before the connection is closed.
const MAX_ERROR_RESETS: usize = 128;
/// Maximum number of response bytes that wait for a client's window, unless configured.
const SEND_BUFFER: usize = 400 * 1024;
