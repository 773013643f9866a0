//! Timeout of a writer that makes no progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Detects that a writer has waited too long. Costs nothing before it first waits.
#[derive(Debug, Default)]
pub struct Stall(Option<Box<StallTimer>>);

#[derive(Debug)]
struct StallTimer {
    /// `None` while the writer makes progress.
    since: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Stall {
    /// Polls while nothing can be sent. Ready once that has lasted for `bound`.
    pub fn poll(&mut self, cx: &mut Context<'_>, bound: Duration) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| {
            Box::new(StallTimer { since: None, sleep: Box::pin(tokio::time::sleep(bound)) })
        });
        let since = *timer.since.get_or_insert_with(Instant::now);
        while timer.sleep.as_mut().poll(cx).is_ready() {
            match since.checked_add(bound).filter(|end| Instant::now() < *end) {
                Some(end) => timer.sleep.as_mut().reset(end),
                None => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    /// Records progress.
    #[inline]
    pub fn reset(&mut self) {
        if let Some(timer) = &mut self.0 {
            timer.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn the_time_begins_anew_whenever_something_is_sent() {
        let (mut stall, bound) = (Stall::default(), Duration::from_millis(200));
        for _ in 0..4 {
            let waited = tokio::time::timeout(bound / 2, poll_fn(|cx| stall.poll(cx, bound))).await;
            assert!(waited.is_err());
            stall.reset();
        }
        let begun = Instant::now();
        poll_fn(|cx| stall.poll(cx, bound)).await;
        assert!(begun.elapsed() >= bound);
    }
}
