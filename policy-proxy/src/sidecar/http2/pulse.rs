//! Asks the other side of a connection whether it is still there, and how much it could be sending.

use h2::{Ping, PingPong};
use std::cell::Cell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What was heard of the other side.
#[derive(Debug)]
pub(super) struct Heard {
    last: Cell<Instant>,
    bytes: Cell<usize>,
}

/// A stream that notes what is read from it.
#[derive(Debug)]
pub(super) struct Listened<S> {
    inner: S,
    heard: Rc<Heard>,
}

/// The PINGs of a connection.
pub(super) struct Pulse {
    pings: PingPong,
    heard: Rc<Heard>,
    interval: Duration,
    answer: Duration,
    /// Until the next look, or until an answer is overdue.
    sleep: Pin<Box<Sleep>>,
    /// When the PING went whose answer is awaited, and how much had been heard by then.
    asked: Option<(Instant, usize)>,
    /// Whether `sleep` is the bound of that answer.
    due: bool,
    window: Option<Window>,
}

/// What a look told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beat {
    /// The other side is gone.
    Dead,
    /// It could send more than its windows let it: they should have as many bytes.
    Window(u32),
}

/// How much the other side sends while a PING and its answer are on their way.
#[derive(Debug)]
struct Window {
    bytes: u32,
    /// Bytes per second, at their most.
    most: f64,
    round_trip: f64,
}

impl<S> Listened<S> {
    pub(super) fn new(inner: S) -> Self {
        let (last, bytes) = (Cell::new(Instant::now()), Cell::new(0));
        Self { inner, heard: Rc::new(Heard { last, bytes }) }
    }

    pub(super) fn heard(&self) -> Rc<Heard> {
        Rc::clone(&self.heard)
    }
}

impl Pulse {
    /// `window`: from which on windows follow what is measured; absent: they stay as they are.
    pub(super) fn new(
        pings: PingPong,
        heard: Rc<Heard>,
        (interval, answer): (Duration, Duration),
        window: Option<u32>,
    ) -> Self {
        let sleep = Box::pin(tokio::time::sleep(interval));
        let window = window.map(|bytes| Window { bytes, most: 0.0, round_trip: 0.0 });
        Self { pings, heard, interval, answer, sleep, asked: None, due: false, window }
    }

    /// Whether it has to be looked at whenever something was read.
    pub(super) fn measures(&self) -> bool {
        self.window.is_some()
    }

    /// `idle`: nobody needs to know.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, idle: bool) -> Poll<Beat> {
        if let Some((sent, before)) = self.asked
            && let Poll::Ready(Ok(_)) = self.pings.poll_pong(cx)
        {
            self.asked = None;
            if std::mem::take(&mut self.due) {
                self.wake_after(self.interval);
            }
            let bytes = self.heard.bytes.get().saturating_sub(before);
            if let Some(window) = &mut self.window
                && let Some(bytes) = window.measured(bytes, sent.elapsed())
            {
                return Poll::Ready(Beat::Window(bytes));
            }
        }
        if self.window.is_some() && self.asked.is_none() && self.heard.bytes.replace(0) > 0 {
            self.ask(cx);
        }
        self.poll_late(cx, idle)
    }

    fn poll_late(&mut self, cx: &mut Context<'_>, idle: bool) -> Poll<Beat> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if self.due {
                return Poll::Ready(Beat::Dead);
            }
            let quiet = self.heard.last.get().elapsed();
            let rest = self.interval.saturating_sub(quiet);
            if idle {
                self.wake_after(self.interval);
            } else if !rest.is_zero() {
                self.wake_after(rest);
            } else {
                self.ask(cx);
                self.due = true;
                self.wake_after(self.answer);
            }
        }
    }

    /// Sends a PING, unless one is on its way.
    fn ask(&mut self, cx: &mut Context<'_>) {
        if self.asked.is_none() && self.pings.send_ping(Ping::opaque()).is_ok() {
            self.asked = Some((Instant::now(), self.heard.bytes.get()));
            // To be woken by its answer.
            let _ = self.pings.poll_pong(cx);
        }
    }

    fn wake_after(&mut self, bound: Duration) {
        if let Some(at) = Instant::now().checked_add(bound) {
            self.sleep.as_mut().reset(at);
        }
    }
}

impl Window {
    /// `bytes` were heard while a PING and its answer took `time`: the windows, if they were nearly
    /// used up and more goes through than ever before.
    fn measured(&mut self, bytes: usize, time: Duration) -> Option<u32> {
        let seconds = time.as_secs_f64();
        self.round_trip = if self.round_trip > 0.0 {
            (seconds - self.round_trip).mul_add(NEWEST, self.round_trip)
        } else {
            seconds
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Half as much again, since the answer waits behind what is being sent.
        let rate = f64::from(bytes) / (self.round_trip * 1.5);
        let nearly = u64::from(bytes).saturating_mul(3) >= u64::from(self.bytes).saturating_mul(2);
        if !nearly || rate < self.most || self.bytes >= LARGEST_WINDOW {
            return None;
        }
        self.most = rate;
        self.bytes = bytes.saturating_mul(2).clamp(self.bytes, LARGEST_WINDOW);
        Some(self.bytes)
    }
}

/// Windows grow up to this.
const LARGEST_WINDOW: u32 = 16 * 1024 * 1024;
/// What the newest round trip counts for in the one that is reckoned with.
const NEWEST: f64 = 0.125;

impl<S: AsyncRead + Unpin> AsyncRead for Listened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        let bytes = buf.filled().len().saturating_sub(before);
        let all = self.heard.bytes.get().saturating_add(bytes);
        self.heard.bytes.set(all);
        self.heard.last.set(Instant::now());
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listened<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // One piece, as most are, costs the system less as what it is.
        let mut pieces = bufs.iter().filter(|piece| !piece.is_empty());
        match (pieces.next(), pieces.next()) {
            (Some(only), None) => Pin::new(&mut self.inner).poll_write(cx, only),
            (_, _) => Pin::new(&mut self.inner).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_with_what_goes_through_and_never_beyond_their_bound() {
        let mut window = Window { bytes: 65_535, most: 0.0, round_trip: 0.0 };
        let ten = Duration::from_millis(10);
        assert_eq!(window.measured(1_000, ten), None, "the window was not what held it up");
        assert_eq!(window.measured(60_000, ten), Some(120_000));
        assert_eq!(window.measured(90_000, Duration::from_secs(9)), None, "slower than before");
        let mut last = 0;
        for _ in 0..100 {
            last = window.measured(usize::MAX, ten).unwrap_or(last);
        }
        assert_eq!(last, LARGEST_WINDOW);
    }
}
