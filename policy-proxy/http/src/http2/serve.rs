//! The client's side: what its frames begin, and whose turn it is.

use super::connection::{ClientConnection, Limits};
use super::frame_filter::{FRAMES_BUDGET, FrameFilter, ReadBudget};
use super::keepalive::{Activity, Keepalive, KeepaliveEvent};
use super::recv_body::RecvBody;
use super::scheduler::Scheduler;
use super::stream::StreamTask;
use crate::shutdown::Shutdown;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::request::Parts;
use http::{Request, Response};
use slab::Slab;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;

/// Serves requests until the connection ends. `answer`: what answers a request.
pub async fn serve<C, I, A, F>(connection: &C, io: I, answer: A)
where
    C: ClientConnection,
    I: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Box<Parts>, RecvBody) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    let activity = Activity::new();
    let (limits, budget) = (connection.limits(), ReadBudget::default());
    budget.refill();
    let io = FrameFilter::of_client(io, budget.clone());
    let mut handshake = pin!(builder(&limits).handshake::<_, Bytes>(io));
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
    // Each has its first turn.
    [CLIENT, UPSTREAM, KEEPALIVE].iter().for_each(|entry| scheduler.waker(*entry).wake());
    let streams = Slab::new();
    let mut task = ConnectionTask {
        connection,
        client,
        budget,
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
        .max_local_error_reset_streams(Some(MOST_ERROR_RESETS))
        .max_header_list_size(limits.head)
        .initial_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .data_frame_budget(FRAMES_BUDGET)
        .max_send_buffer_size(limits.send_buffer.unwrap_or(SEND_BUFFER));
    if let Some(bytes) = limits.frame {
        builder.max_frame_size(bytes);
    }
    builder
}

/// Places of [`Scheduler`]: the client's side, the application's, the PINGs, and the streams.
const CLIENT: usize = 0;
const UPSTREAM: usize = 1;
const KEEPALIVE: usize = 2;
const FIRST: usize = 3;

/// How a client's side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseReason {
    /// As its streams know.
    Ended,
    /// Without a word.
    PingTimeout,
}

/// A connection that is served. `answer`: what answers a request.
struct ConnectionTask<'a, C: ClientConnection, I, A, F: 'static> {
    connection: &'a C,
    client: Connection<FrameFilter<I>, Bytes>,
    /// What is read of the client before others have their turn.
    budget: ReadBudget,
    stall: Option<Duration>,
    activity: Rc<Activity>,
    keepalive: Option<Keepalive>,
    scheduler: Scheduler,
    streams: Slab<StreamTask<F, C>>,
    answer: A,
    /// Whether the client was told to ask for nothing more.
    goaway_sent: bool,
    /// Whether the client's side has ended. What it has sent in full by then is sent on.
    closed: bool,
}

impl<C, I, A, F> ConnectionTask<'_, C, I, A, F>
where
    C: ClientConnection,
    I: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Box<Parts>, RecvBody) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    /// Does what there is to do. Ready when the connection has ended.
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
                // Woken by this too, while it has its turn anyway.
                self.connection.streams().drop_finished();
            }
            let waker = self.scheduler.take(entry);
            let mut cx = Context::from_waker(&waker);
            let ended = match entry {
                CLIENT | KEEPALIVE if self.closed => Poll::Pending,
                CLIENT => {
                    self.budget.refill();
                    let accepted = self.accept(&mut cx);
                    more_to_read |= self.budget.is_exhausted();
                    accepted
                }
                UPSTREAM => {
                    let idle = self.connection.is_idle();
                    more_to_read |= self.connection.streams().poll(&mut cx, idle);
                    Poll::Pending
                }
                KEEPALIVE => self.poll_keepalive(&mut cx),
                stream => {
                    self.poll_stream(stream.saturating_sub(FIRST), &mut cx);
                    Poll::Pending
                }
            };
            if let Poll::Ready(reason) = ended {
                self.end_client(reason);
            }
            if self.closed && self.streams.is_empty() {
                return Poll::Ready(());
            }
            // What was read is for other tasks too.
            if more_to_read || !has_budget_remaining() {
                self.scheduler.yield_now();
                return Poll::Pending;
            }
        }
        Poll::Pending
    }

    /// Reads and writes what there is, and begins to answer what is new.
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

    /// Nobody takes an answer any more. Bodies behind complete answers go on: their streams know
    /// whether all of them has come.
    fn end_client(&mut self, reason: CloseReason) {
        self.closed = true;
        self.streams.retain(|_, stream| match stream {
            StreamTask::Uploading(_) => reason == CloseReason::Ended,
            StreamTask::Answering { .. } | StreamTask::Responding(_) => false,
        });
    }

    fn begin(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let reset = respond.poll_reset(&mut Context::from_waker(std::task::Waker::noop()));
        if reset.is_ready() {
            // Nobody wants the answer any more.
            return;
        }
        self.activity.record();
        let (head, body) = request.into_parts();
        let body = RecvBody::request(body, &head.headers, Rc::clone(&self.activity));
        let answer = || (self.answer)(Box::new(head), body);
        self.spawn(StreamTask::answering(answer, respond));
    }

    /// Gives a task an entry, and its first turn.
    fn spawn(&mut self, stream: StreamTask<F, C>) {
        if self.streams.capacity() == 0 {
            // Most connections never have more than one; a vector would begin with room for four.
            self.streams.reserve_exact(1);
        }
        let index = self.streams.insert(stream);
        let waker = self.scheduler.waker(index.saturating_add(FIRST));
        self.poll_stream(index, &mut Context::from_waker(&waker));
    }

    fn poll_stream(&mut self, index: usize, cx: &mut Context<'_>) {
        let second = self.connection.second();
        // Whoever was here may be gone.
        let Some(stream) = self.streams.get_mut(index) else { return };
        let entry = self.scheduler.entry(index.saturating_add(FIRST));
        if stream.poll(cx, entry, (second, self.stall)).is_ready() {
            self.streams.try_remove(index);
        }
        while let Some(upload) = self.connection.streams().upload() {
            self.spawn(StreamTask::Uploading(upload));
        }
    }

    /// Whether the client is still there.
    fn poll_keepalive(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let Some(keepalive) = &mut self.keepalive else { return Poll::Pending };
        match std::task::ready!(keepalive.poll(cx, false)) {
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

    /// Ends what is open, and tells the application.
    fn close(self) {
        let Self { connection, client, streams, .. } = self;
        drop((streams, client));
        connection.streams().close();
    }
}

/// Streams that a client made us reset by breaking the protocol, before its connection is closed.
const MOST_ERROR_RESETS: usize = 128;
/// Bytes of a response that wait for a client's window, unless configured.
const SEND_BUFFER: usize = 400 * 1024;
