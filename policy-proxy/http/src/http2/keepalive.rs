//! HTTP/2 keepalive by PING, and estimation of the bandwidth-delay product.

use h2::{Ping, PingPong};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Activity of the peer. Single bytes do not count: only a whole request, response, DATA frame or
/// PING acknowledgement shows that the peer makes progress.
#[derive(Debug)]
pub(super) struct Activity {
    last: Cell<Instant>,
    /// DATA bytes since the last PING acknowledgement and the pause behind it.
    bytes: Cell<usize>,
    counted_from: Cell<Instant>,
}

/// The PINGs to a client.
pub(super) struct Keepalive {
    pings: PingPong,
    activity: Rc<Activity>,
    interval: Duration,
    timeout: Duration,
    /// Timer of the next check, or of the PING timeout.
    sleep: Pin<Box<Sleep>>,
    /// The time when the pending PING was sent.
    ping_sent: Option<Instant>,
    /// True if `sleep` is the timeout of the pending PING.
    pong_due: bool,
    bdp: Option<BdpEstimator>,
}

/// Event of a keepalive check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepaliveEvent {
    /// The peer did not acknowledge a PING in time.
    TimedOut,
    /// The windows limit the peer: they should be this many bytes.
    Window(u32),
}

/// Estimates the bandwidth-delay product: the number of bytes that the peer sends within a round
/// trip.
#[derive(Debug)]
struct BdpEstimator {
    bytes: u32,
    /// Highest rate measured, in bytes per second.
    most: f64,
    round_trip: f64,
    /// Pause between an acknowledgement and the next PING. Grows while the window does not.
    pause: Duration,
    /// Number of consecutive measurements without growth.
    stable: u8,
}

impl Activity {
    pub(super) fn new() -> Rc<Self> {
        let now = Instant::now();
        let (last, bytes) = (Cell::new(now), Cell::new(0));
        Rc::new(Self { last, bytes, counted_from: Cell::new(now) })
    }

    /// Records a request, a response or a PING acknowledgement.
    #[inline]
    pub(super) fn record(&self) {
        self.last.set(Instant::now());
    }

    /// Records a DATA frame.
    #[inline]
    pub(super) fn record_data(&self, bytes: usize) {
        let now = Instant::now();
        self.last.set(now);
        if now >= self.counted_from.get() {
            self.bytes.set(self.bytes.get().saturating_add(bytes));
        }
    }
}

impl Keepalive {
    /// `window`: initial size for adaptive windows; `None` for fixed windows.
    pub(super) fn new(
        pings: PingPong,
        activity: Rc<Activity>,
        (interval, timeout): (Duration, Duration),
        window: Option<u32>,
    ) -> Self {
        let sleep = Box::pin(tokio::time::sleep(interval));
        let bdp = window.map(BdpEstimator::new);
        Self { pings, activity, interval, timeout, sleep, ping_sent: None, pong_due: false, bdp }
    }

    /// Returns true if windows are adaptive: [`Self::poll`] has to be called after each read.
    #[inline]
    pub(super) fn is_adaptive(&self) -> bool {
        self.bdp.is_some()
    }

    /// Polls the timers and the pending PING.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<KeepaliveEvent> {
        if let Some(sent) = self.ping_sent
            && let Poll::Ready(Ok(_)) = self.pings.poll_pong(cx)
        {
            self.ping_sent = None;
            self.activity.record();
            if std::mem::take(&mut self.pong_due) {
                self.wake_after(self.interval);
            }
            if let Some(grown) = self.on_pong(sent.elapsed()) {
                return Poll::Ready(KeepaliveEvent::Window(grown));
            }
        }
        if self.bdp.is_some() && self.activity.bytes.get() > 0 {
            self.send_ping(cx);
        }
        self.poll_timeout(cx)
    }

    /// Takes a measurement from a PING that was acknowledged after `time`; the new window size if
    /// it grows.
    fn on_pong(&mut self, time: Duration) -> Option<u32> {
        let bdp = self.bdp.as_mut()?;
        let grown = bdp.on_pong(self.activity.bytes.replace(0), time);
        if let Some(at) = Instant::now().checked_add(bdp.pause) {
            self.activity.counted_from.set(at);
        }
        grown
    }

    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<KeepaliveEvent> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if self.pong_due {
                return Poll::Ready(KeepaliveEvent::TimedOut);
            }
            let quiet = self.activity.last.get().elapsed();
            let back_off = self.interval.saturating_sub(quiet);
            if !back_off.is_zero() {
                self.wake_after(back_off);
            } else {
                self.send_ping(cx);
                self.pong_due = true;
                self.wake_after(self.timeout);
            }
        }
    }

    /// Sends a PING unless one is pending.
    fn send_ping(&mut self, cx: &mut Context<'_>) {
        if self.ping_sent.is_none() && self.pings.send_ping(Ping::opaque()).is_ok() {
            self.ping_sent = Some(Instant::now());
            // Registers for the wake-up by its acknowledgement.
            let _ = self.pings.poll_pong(cx);
        }
    }

    fn wake_after(&mut self, bound: Duration) {
        if let Some(at) = Instant::now().checked_add(bound) {
            self.sleep.as_mut().reset(at);
        }
    }
}

impl BdpEstimator {
    fn new(bytes: u32) -> Self {
        Self { bytes, most: 0.0, round_trip: 0.0, pause: FIRST_PAUSE, stable: 0 }
    }

    /// Returns the new window size if the peer sent `bytes` within `time`, these nearly filled the
    /// window, and the rate exceeds the highest one so far.
    fn on_pong(&mut self, bytes: usize, time: Duration) -> Option<u32> {
        let seconds = time.as_secs_f64();
        self.round_trip = if self.round_trip > 0.0 {
            (seconds - self.round_trip).mul_add(RTT_WEIGHT, self.round_trip)
        } else {
            seconds
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Increased by half, because the acknowledgement queues behind the data in flight.
        let rate = f64::from(bytes) / (self.round_trip * 1.5);
        let nearly = u64::from(bytes).saturating_mul(3) >= u64::from(self.bytes).saturating_mul(2);
        if !nearly || rate < self.most || self.bytes >= MAX_WINDOW {
            self.back_off();
            return None;
        }
        self.most = rate;
        self.bytes = bytes.saturating_mul(2).clamp(self.bytes, MAX_WINDOW);
        self.pause = self.pause.checked_div(2).unwrap_or_default();
        self.stable = 0;
        Some(self.bytes)
    }

    /// Measures less often while the window does not grow.
    fn back_off(&mut self) {
        self.stable = self.stable.saturating_add(1);
        if self.stable >= 2 {
            self.pause = self.pause.saturating_mul(4).clamp(FIRST_PAUSE, MAX_PAUSE);
            self.stable = 0;
        }
    }
}

/// First and longest pause between PINGs that measure: a peer may treat many PINGs as an attack.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Maximum size of an adaptive window.
pub const MAX_WINDOW: u32 = 16 * 1024 * 1024;
/// Weight of the newest round trip in the moving average.
const RTT_WEIGHT: f64 = 0.125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_with_what_goes_through_and_never_beyond_their_bound() {
        let mut bdp = BdpEstimator::new(65_535);
        let ten = Duration::from_millis(10);
        assert_eq!(bdp.on_pong(1_000, ten), None, "the window was not what held it up");
        assert_eq!(bdp.on_pong(60_000, ten), Some(120_000));
        assert_eq!(bdp.on_pong(90_000, Duration::from_secs(9)), None, "slower than before");
        let mut last = 0;
        for _ in 0..100 {
            last = bdp.on_pong(usize::MAX, ten).unwrap_or(last);
        }
        assert_eq!(last, MAX_WINDOW);
    }
}
