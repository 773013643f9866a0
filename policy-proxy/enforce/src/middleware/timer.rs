//! The timer of a request whose policy bounds parts of its exchange.
//!
//! One timer serves all bounds. It is armed for the first of them that could be exceeded, and armed
//! again if the exchange has gone on since: what moves a bound to a later time touches no timer, so a
//! body's frames cost an instant each. The bound that begins with the end of the request is left out
//! while the request goes on, and armed once it has ended.

use crate::headers;
use crate::respond::{Exceeded, RefusalDetail, ResponseFormat};
use http::request::Parts;
use pin_project_lite::pin_project;
use policy_core::EffectiveTimeouts;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The bounds of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// Those of the policy.
    pub policy: EffectiveTimeouts,
    /// The client's own deadline, which only shortens the policy's bounds on the request.
    pub client: Option<Duration>,
}

/// The parts of an exchange that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The end of the request; `None` while its body is being sent, and where that is not known.
    pub request_ended: Option<Instant>,
    /// The last frame of either body, or a head; `None` where that is not known.
    pub last_frame: Option<Instant>,
}

pin_project! {
    /// The timer of an open request.
    #[derive(Debug)]
    pub struct Timer {
        #[pin]
        sleep: Sleep,
        started: Instant,
        timeouts: RequestTimeouts,
        // True once the head of the response has arrived.
        answered: bool,
        // True if the bound that begins with the end of the request was left out, because it went on.
        asking: bool,
    }
}

impl RequestTimeouts {
    /// The bounds of `policy` for the request of `head`. `None` if there are none. A gRPC client's
    /// deadline counts where a bound on the request is longer.
    pub fn new(policy: EffectiveTimeouts, client: Option<Duration>) -> Option<Box<Self>> {
        (!policy.is_empty()).then(|| Box::new(Self { policy, client }))
    }

    /// Returns the first bound that could be exceeded, and when.
    fn first(
        &self,
        (started, answered): (Instant, bool),
        progress: Progress,
        now: Instant,
    ) -> Option<(Instant, Exceeded)> {
        let EffectiveTimeouts { complete, head, response, idle } = self.policy;
        let request = |bound: Duration| match self.client {
            Some(client) if client < bound => (started, client, Exceeded::Client),
            Some(_) | None => (started, bound, Exceeded::Request),
        };
        // As long as the request goes on, the response is not late.
        let response = response.filter(|_| !answered).zip(progress.request_ended);
        let active = progress.last_frame.unwrap_or(now);
        let all = [
            complete.map(request),
            head.filter(|_| !answered).map(request),
            response.map(|(bound, asked)| (asked, bound, Exceeded::Response)),
            idle.map(|bound| (active, bound, Exceeded::Idle)),
        ];
        let ends = |(from, bound, what): (Instant, Duration, Exceeded)| {
            Some((from.checked_add(bound)?, what))
        };
        all.into_iter().flatten().filter_map(ends).min_by_key(|(at, _)| *at)
    }
}

/// Returns the deadline that a gRPC client sets. One that is malformed is none.
pub fn client_deadline(head: &Parts) -> Option<Duration> {
    let is_grpc = ResponseFormat::of(head, false, RefusalDetail::Status).is_grpc();
    if is_grpc { headers::grpc_timeout(&head.headers) } else { None }
}

impl Timer {
    /// Starts the timer of a request that arrived at `started`. `None` if no bound can be exceeded.
    pub fn start(started: Instant, timeouts: RequestTimeouts) -> Option<Pin<Box<Self>>> {
        // It may have ended, or end soon. If not, the timer is armed once in vain.
        let progress = Progress { request_ended: Some(started), last_frame: None };
        let (first, _) = timeouts.first((started, false), progress, started)?;
        let sleep = tokio::time::sleep_until(first.into());
        Some(Box::pin(Self { sleep, started, timeouts, answered: false, asking: false }))
    }

    /// Ends the bounds on the head of the response. `None` if there is no other.
    pub fn answered(mut self: Pin<Box<Self>>) -> Option<Pin<Box<Self>>> {
        let EffectiveTimeouts { complete, idle, head: _, response: _ } = self.timeouts.policy;
        *self.as_mut().project().answered = true;
        (complete.is_some() || idle.is_some()).then_some(self)
    }

    /// Ends the bounds on the response, because the connection switched protocols: both sides may send
    /// as long as they like. Time without a byte stays bounded; `None` if it is not.
    pub fn switched(mut self: Pin<Box<Self>>) -> Option<Pin<Box<Self>>> {
        let this = self.as_mut().project();
        *this.answered = true;
        this.timeouts.policy.complete = None;
        this.timeouts.policy.idle.is_some().then_some(self)
    }

    /// Returns the bound that is exceeded. Else wakes `cx` when one may be; the end of the request
    /// does not, and whoever sees it wakes the task.
    pub fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        progress: impl FnOnce() -> Progress,
    ) -> Option<Exceeded> {
        let mut this = self.project();
        let fired = this.sleep.as_mut().poll(cx).is_ready();
        if !fired && !*this.asking {
            return None;
        }
        let progress = progress();
        let bounds_response = this.timeouts.policy.response.is_some() && !*this.answered;
        *this.asking = bounds_response && progress.request_ended.is_none();
        if !fired && *this.asking {
            return None;
        }
        let now = tokio::time::Instant::now();
        let state = (*this.started, *this.answered);
        let (at, what) = this.timeouts.first(state, progress, now.into_std())?;
        let at = tokio::time::Instant::from_std(at);
        if at <= now {
            return Some(what);
        }
        this.sleep.as_mut().reset(at);
        if let Poll::Ready(()) = this.sleep.poll(cx) {
            cx.waker().wake_by_ref();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn after(start: Instant, wait: Duration) -> Instant {
        start.checked_add(wait).unwrap()
    }

    fn all() -> EffectiveTimeouts {
        EffectiveTimeouts {
            complete: Some(seconds(10)),
            head: Some(seconds(8)),
            response: Some(seconds(3)),
            idle: Some(seconds(5)),
        }
    }

    #[track_caller]
    fn first(
        timeouts: &RequestTimeouts,
        answered: bool,
        (ended, frame): (Option<u64>, u64),
        now: u64,
    ) -> (u64, Exceeded) {
        let started = Instant::now();
        let progress = Progress {
            request_ended: ended.map(|end| after(started, seconds(end))),
            last_frame: Some(after(started, seconds(frame))),
        };
        let now = after(started, seconds(now));
        let (at, what) = timeouts.first((started, answered), progress, now).unwrap();
        (at.duration_since(started).as_secs(), what)
    }

    #[test]
    fn the_bound_that_ends_first_counts() {
        let timeouts = RequestTimeouts { policy: all(), client: None };
        assert_eq!(first(&timeouts, false, (Some(0), 0), 1), (3, Exceeded::Response));
        // The request goes on: the response is not late, but a pause is a pause.
        assert_eq!(first(&timeouts, false, (None, 1), 4), (6, Exceeded::Idle));
        assert_eq!(first(&timeouts, false, (None, 4), 6), (8, Exceeded::Request));
        assert_eq!(first(&timeouts, true, (Some(5), 6), 6), (10, Exceeded::Request));
        assert_eq!(first(&timeouts, true, (Some(5), 4), 6), (9, Exceeded::Idle));
    }

    #[test]
    fn a_client_shortens_bounds_on_the_request_and_lengthens_none() {
        let with = |client| RequestTimeouts { policy: all(), client: Some(seconds(client)) };
        assert_eq!(first(&with(2), false, (Some(0), 0), 1), (2, Exceeded::Client));
        assert_eq!(first(&with(2), true, (Some(0), 1), 1), (2, Exceeded::Client));
        assert_eq!(first(&with(60), true, (Some(0), 9), 9), (10, Exceeded::Request));
        let idle = EffectiveTimeouts { idle: Some(seconds(5)), ..EffectiveTimeouts::default() };
        let idle = RequestTimeouts { policy: idle, client: Some(seconds(1)) };
        assert_eq!(first(&idle, true, (Some(0), 0), 1), (5, Exceeded::Idle));
        assert_eq!(RequestTimeouts::new(EffectiveTimeouts::default(), Some(seconds(1))), None);
    }

    #[tokio::test]
    async fn a_timer_without_a_bound_that_remains_is_dropped() {
        let start = |policy| {
            Timer::start(Instant::now(), RequestTimeouts { policy, client: None }).unwrap()
        };
        let some = Some(seconds(1));
        let head = EffectiveTimeouts { head: some, response: some, ..Default::default() };
        assert!(start(head).answered().is_none());
        assert!(start(all()).answered().is_some());
        let complete = EffectiveTimeouts { complete: some, ..Default::default() };
        assert!(start(complete).answered().is_some());
        assert!(start(complete).switched().is_none());
        assert!(start(all()).switched().is_some());
        let endless = EffectiveTimeouts { idle: Some(Duration::MAX), ..Default::default() };
        let endless = RequestTimeouts { policy: endless, client: None };
        assert!(Timer::start(Instant::now(), endless).is_none());
    }

    /// Counts wake-ups.
    #[derive(Default)]
    struct Wakes(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_request_that_goes_on_arms_no_bound_on_the_response() {
        let started = Instant::now();
        let bound = Duration::from_millis(5);
        let policy = EffectiveTimeouts {
            response: Some(bound),
            complete: Some(seconds(60)),
            ..EffectiveTimeouts::default()
        };
        let mut timer = Timer::start(started, RequestTimeouts { policy, client: None }).unwrap();
        let wakes = std::sync::Arc::new(Wakes::default());
        let waker = std::task::Waker::from(std::sync::Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut poll = |request_ended| {
            let progress = Progress { request_ended, last_frame: None };
            timer.as_mut().poll(&mut cx, || progress)
        };
        let mut seen = 0;
        for _ in 0..20 {
            assert_eq!(poll(None), None);
            tokio::time::sleep(bound).await;
            seen = wakes.0.load(std::sync::atomic::Ordering::Relaxed);
        }
        assert!(seen <= 1, "{seen} wake-ups while the request went on");
        // Its end begins the bound, although the timer is armed for a later one.
        let ended = Instant::now();
        assert_eq!(poll(Some(ended)), None);
        tokio::time::sleep(bound.saturating_mul(4)).await;
        assert!(wakes.0.load(std::sync::atomic::Ordering::Relaxed) > seen, "woken by the bound");
        assert_eq!(poll(Some(ended)), Some(Exceeded::Response));
    }

    #[tokio::test]
    async fn frames_put_the_end_of_a_pause_off() {
        let started = Instant::now();
        let idle = Some(Duration::from_millis(60));
        let policy = EffectiveTimeouts { idle, ..EffectiveTimeouts::default() };
        let mut timer = Timer::start(started, RequestTimeouts { policy, client: None }).unwrap();
        let last = after(started, Duration::from_millis(40));
        let progress = || Progress { request_ended: None, last_frame: Some(last) };
        let exceeded = std::future::poll_fn(|cx| match timer.as_mut().poll(cx, progress) {
            Some(what) => Poll::Ready(what),
            None => Poll::Pending,
        });
        assert_eq!(exceeded.await, Exceeded::Idle);
        assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
    }
}
