//! Waiting until a moment to within microseconds; the runtime's own timers count milliseconds.

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One timer of the kernel for all lanes.
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// By moment and lane.
    waiting: RefCell<BTreeMap<(Instant, usize), Waker>>,
}

impl Timer {
    /// Needs a runtime.
    pub(crate) fn new() -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "what takes its place is unsafe, for descriptors that somebody else may close; \
                      this one is owned"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd, waiting: RefCell::default() })
    }

    /// Waits until the moment has come, or [`Self::wake_all`].
    pub(crate) async fn until(&self, moment: Instant, lane: usize) {
        let mut waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waited, true) || Instant::now() >= moment {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            let first = waiting.first_key_value().is_none_or(|(key, _)| moment < key.0);
            waiting.insert((moment, lane), context.waker().clone());
            if first {
                self.set(moment);
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes whoever's moment has come, for as long as it is polled.
    pub(crate) async fn drive(&self) {
        while let Ok(mut ready) = self.fd.readable().await {
            // Setting it anew takes the count back; there is no need to read it.
            ready.clear_ready();
            let now = Instant::now();
            let mut waiting = self.waiting.borrow_mut();
            while let Some(first) = waiting.first_entry() {
                if first.key().0 > now {
                    self.set(first.key().0);
                    break;
                }
                first.remove().wake();
            }
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut *self.waiting.borrow_mut());
        all.into_values().for_each(Waker::wake);
    }

    fn set(&self, moment: Instant) {
        let left = moment.saturating_duration_since(Instant::now());
        // Nothing at all would stop the timer.
        let left = left.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        // It fails for values that cannot be made here alone.
        _ = rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once);
    }
}
