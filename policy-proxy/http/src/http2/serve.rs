//! The client's side: what its frames begin, and whose turn it is.

use super::connection::{ClientConnection, Limits};
use super::inflow::{FRAMES_BUDGET, Inflow, Portion};
use super::pulse::{Beat, Heard, Pulse};
use super::received::Received;
use super::stream::Turn;
use super::turns::Turns;
use crate::ending::Ending;
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
    A: Fn(Box<Parts>, Received) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    let heard = Heard::new();
    let (limits, portion) = (connection.limits(), Portion::default());
    portion.renew();
    let io = Inflow::of_client(io, portion.clone());
    let mut shaking = pin!(builder(&limits).handshake::<_, Bytes>(io));
    let shaken = poll_fn(|cx| match connection.ending().poll(cx) {
        Some(Ending::Now) => Poll::Ready(None),
        Some(Ending::Gracefully) | None => shaking.as_mut().poll(cx).map(Some),
    });
    let mut client = match shaken.await {
        None => return,
        Some(Err(error)) => return connection.ended_by(&error),
        Some(Ok(client)) => client,
    };
    let pulse = client.ping_pong().map(|pings| {
        let Limits { adaptive_window, stream_window, ping, .. } = limits;
        let window = adaptive_window.then_some(stream_window);
        Pulse::new(pings, Rc::clone(&heard), ping, window)
    });
    let mut turns = Turns::new();
    // Each has its first turn.
    [CLIENT, UPSTREAM, PULSE].iter().for_each(|place| turns.waker(*place).wake());
    let streams = Slab::new();
    let mut serving = Serving {
        connection,
        client,
        portion,
        stall: limits.stall,
        heard,
        pulse,
        turns,
        streams,
        answer,
        told: false,
        over: false,
    };
    poll_fn(|cx| serving.poll(cx)).await;
    serving.close();
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

/// Places of [`Turns`]: the client's side, the application's, the PINGs, and the streams.
const CLIENT: usize = 0;
const UPSTREAM: usize = 1;
const PULSE: usize = 2;
const FIRST: usize = 3;

/// How a client's side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// As its streams know.
    Ended,
    /// Without a word.
    Silent,
}

/// A connection that is served. `answer`: what answers a request.
struct Serving<'a, C: ClientConnection, I, A, F: 'static> {
    connection: &'a C,
    client: Connection<Inflow<I>, Bytes>,
    /// What is read of the client before others have their turn.
    portion: Portion,
    stall: Option<Duration>,
    heard: Rc<Heard>,
    pulse: Option<Pulse>,
    turns: Turns,
    streams: Slab<Turn<F, C>>,
    answer: A,
    /// Whether the client was told to ask for nothing more.
    told: bool,
    /// Whether the client's side has ended. What it has sent in full by then is sent on.
    over: bool,
}

impl<C, I, A, F> Serving<'_, C, I, A, F>
where
    C: ClientConnection,
    I: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Box<Parts>, Received) -> F,
    F: Future<Output: Into<Response<C::ResponseBody>>> + 'static,
{
    /// Does what there is to do. Ready when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.turns.begin(cx);
        match self.connection.ending().poll(cx) {
            Some(Ending::Now) => return Poll::Ready(()),
            Some(Ending::Gracefully) if !self.told => {
                self.told = true;
                self.client.graceful_shutdown();
                self.turns.waker(CLIENT).wake();
            }
            Some(Ending::Gracefully) | None => {}
        }
        let mut rests = false;
        while let Some(place) = self.turns.next() {
            if place == UPSTREAM {
                // Woken by this too, while it has its turn anyway.
                self.connection.streams().forget_left();
            }
            let waker = self.turns.take(place);
            let mut cx = Context::from_waker(&waker);
            let ended = match place {
                CLIENT | PULSE if self.over => Poll::Pending,
                CLIENT => {
                    self.portion.renew();
                    let accepted = self.accept(&mut cx);
                    rests |= self.portion.is_spent();
                    accepted
                }
                UPSTREAM => {
                    let idle = self.connection.is_idle();
                    rests |= self.connection.streams().poll(&mut cx, idle);
                    Poll::Pending
                }
                PULSE => self.look(&mut cx),
                stream => {
                    self.turn(stream.saturating_sub(FIRST), &mut cx);
                    Poll::Pending
                }
            };
            if let Poll::Ready(gone) = ended {
                self.leave(gone);
            }
            if self.over && self.streams.is_empty() {
                return Poll::Ready(());
            }
            // What was read is for other tasks too.
            if rests || !has_budget_remaining() {
                self.turns.pause();
                return Poll::Pending;
            }
        }
        Poll::Pending
    }

    /// Reads and writes what there is, and begins to answer what is new.
    fn accept(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        loop {
            if self.pulse.as_ref().is_some_and(Pulse::measures)
                && let Poll::Ready(gone) = self.look(cx)
            {
                return Poll::Ready(gone);
            }
            match std::task::ready!(self.client.poll_accept(cx)) {
                Some(Ok((request, respond))) => self.begin(request, respond),
                Some(Err(error)) => {
                    self.connection.ended_by(&error);
                    return Poll::Ready(Gone::Ended);
                }
                None => return Poll::Ready(Gone::Ended),
            }
        }
    }

    /// Nobody takes an answer any more. Bodies behind complete answers go on: their streams know
    /// whether all of them has come.
    fn leave(&mut self, gone: Gone) {
        self.over = true;
        self.streams.retain(|_, turn| match turn {
            Turn::Uploading(_) => gone == Gone::Ended,
            Turn::Answering { .. } | Turn::Responding(_) => false,
        });
    }

    fn begin(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let gone = respond.poll_reset(&mut Context::from_waker(std::task::Waker::noop()));
        if gone.is_ready() {
            // Nobody wants the answer any more.
            return;
        }
        self.heard.note();
        let (head, body) = request.into_parts();
        let body = Received::request(body, &head.headers, Rc::clone(&self.heard));
        let answer = || (self.answer)(Box::new(head), body);
        self.join(Turn::answering(answer, respond));
    }

    /// Gives something a place, and its first turn.
    fn join(&mut self, turn: Turn<F, C>) {
        if self.streams.capacity() == 0 {
            // Most connections never have more than one; a vector would begin with room for four.
            self.streams.reserve_exact(1);
        }
        let index = self.streams.insert(turn);
        let waker = self.turns.waker(index.saturating_add(FIRST));
        self.turn(index, &mut Context::from_waker(&waker));
    }

    fn turn(&mut self, index: usize, cx: &mut Context<'_>) {
        let second = self.connection.second();
        // Whoever was here may be gone.
        let Some(turn) = self.streams.get_mut(index) else { return };
        let place = self.turns.place(index.saturating_add(FIRST));
        if turn.poll(cx, place, (second, self.stall)).is_ready() {
            self.streams.try_remove(index);
        }
        while let Some(upload) = self.connection.streams().upload() {
            self.join(Turn::Uploading(upload));
        }
    }

    /// Whether the client is still there.
    fn look(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        let Some(pulse) = &mut self.pulse else { return Poll::Pending };
        match std::task::ready!(pulse.poll(cx, false)) {
            Beat::Dead => {
                self.connection.silent();
                Poll::Ready(Gone::Silent)
            }
            Beat::Window(bytes) => {
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
