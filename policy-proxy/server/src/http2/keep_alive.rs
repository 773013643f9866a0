//! Pings to clients that are silent.

use super::portions::ReadState;
use super::settings::Http2Settings;
use h2::{Ping, PingPong};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Finds out that a client is gone.
pub(super) struct ClientPinger {
    ping: Option<PingPong>,
    state: Arc<ReadState>,
    after: Duration,
    timeout: Duration,
    /// Bytes by which the client had shown life when the timer was set.
    seen: u64,
    is_pinged: bool,
    timer: Pin<Box<Sleep>>,
}

impl ClientPinger {
    /// Begins with the time that a client has for its first frames.
    pub(super) fn new(settings: &Http2Settings, state: Arc<ReadState>) -> Self {
        let timer = Box::pin(tokio::time::sleep(settings.ping_timeout));
        let (after, timeout) = (settings.ping_after, settings.ping_timeout);
        Self { ping: None, state, after, timeout, seen: 0, is_pinged: true, timer }
    }

    /// Pings by `ping` from now on.
    pub(super) fn begin(&mut self, ping: Option<PingPong>) {
        self.ping = ping;
        self.wait(false);
    }

    fn wait(&mut self, is_pinged: bool) {
        (self.seen, self.is_pinged) = (self.state.life(), is_pinged);
        let time = if is_pinged { self.timeout } else { self.after };
        let now = Instant::now();
        self.timer.as_mut().reset(now.checked_add(time).unwrap_or(now));
    }

    /// Completes if the client has shown no life in time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(ping) = &mut self.ping {
            // An answer is a sign of life like any other byte.
            let _answered = ping.poll_pong(cx);
        }
        if self.ping.is_some() && self.seen != self.state.life() {
            self.wait(false);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.is_pinged {
                return Poll::Ready(());
            }
            if let Some(ping) = &mut self.ping {
                // It fails only if one is under way.
                _ = ping.send_ping(Ping::opaque());
            }
            self.wait(true);
        }
        Poll::Pending
    }
}
