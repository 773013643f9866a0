//! State that all lanes of a load share: the start of each operation and its outcome.

use crate::timer::Timer;
use anyhow::{bail, ensure};
use policy_bench::histogram::Histogram;
use policy_bench::load::{Load, Outcome};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time after the end within which overdue operations are still made. The remaining ones count as
/// lasting until then.
const GRACE: Duration = Duration::from_secs(2);

/// A load that is being made.
pub(crate) struct Job {
    pub(crate) load: Load,
    pub(crate) timer: Timer,
    pub(crate) tls: Option<tokio_rustls::TlsConnector>,
    start: Instant,
    /// Between two operations of one lane.
    interval: Option<Duration>,
    lanes: usize,
    begun: Cell<Option<Instant>>,
    ended: Cell<Option<Instant>>,
    operations: Cell<u64>,
    bytes: Cell<u64>,
    connections: Cell<u64>,
    failures: Cell<u64>,
    statuses: RefCell<BTreeMap<u16, u64>>,
    latency: RefCell<Histogram>,
}

/// An operation that is to be made now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    intended: Instant,
}

/// Schedule of a lane's next operations.
#[derive(Debug)]
pub(crate) struct Lane {
    number: usize,
    next: Option<Instant>,
}

impl Job {
    pub(crate) fn new(load: Load) -> anyhow::Result<Self> {
        ensure!(load.connections > 0 && load.streams > 0, "nothing to do");
        let lanes = load.connections * load.streams;
        let tls = load.tls.as_deref().map(policy_bench::tls::connector).transpose()?;
        let count = policy_bench::stats::number(lanes);
        let interval = load.rate.map(|rate| Duration::from_secs_f64(count / rate));
        Ok(Self {
            timer: Timer::new()?,
            tls,
            start: Instant::now() + Duration::from_millis(20),
            interval,
            lanes,
            begun: Cell::new(None),
            ended: Cell::new(None),
            operations: Cell::new(0),
            bytes: Cell::new(0),
            connections: Cell::new(0),
            failures: Cell::new(0),
            statuses: RefCell::default(),
            latency: RefCell::default(),
            load,
        })
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.load.warm_up)
    }

    pub(crate) fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.load.seconds)
    }

    /// The lane of this number; lanes start one after the other, evenly.
    pub(crate) fn lane(&self, number: usize) -> Lane {
        let lanes = u32::try_from(self.lanes).unwrap_or(u32::MAX);
        let place = u32::try_from(number).unwrap_or(u32::MAX);
        let next = self.interval.map(|interval| self.start + interval / lanes * place);
        Lane { number, next }
    }

    /// Waits until the lane's next operation is to start; nothing when there are no more.
    pub(crate) async fn turn(&self, lane: &mut Lane) -> Option<Turn> {
        let (Some(interval), Some(next)) = (self.interval, lane.next) else {
            let now = Instant::now();
            return self.ended.get().is_none().then_some(Turn { intended: now });
        };
        if self.ended.get().is_some_and(|ended| next >= ended) {
            return None;
        }
        let now = Instant::now();
        if next > now {
            self.timer.until(next, lane.number).await;
            if self.ended.get().is_some_and(|ended| next >= ended) {
                return None;
            }
        } else if let Some(ended) = self.ended.get()
            && now > ended + GRACE
        {
            self.give_up(next, interval, ended, now);
            return None;
        }
        lane.next = Some(next + interval);
        Some(Turn { intended: next })
    }

    /// Operations that could not be started any more took at least until now.
    fn give_up(&self, mut next: Instant, interval: Duration, ended: Instant, now: Instant) {
        let mut latency = self.latency.borrow_mut();
        while next < ended {
            if self.begun.get().is_some_and(|begun| next >= begun) {
                latency.record(now.saturating_duration_since(next));
            }
            next += interval;
        }
    }

    /// An operation was answered.
    pub(crate) fn done(&self, turn: Turn, status: u16, bytes: usize) {
        self.operations.set(self.operations.get() + 1);
        self.moved(bytes);
        *self.statuses.borrow_mut().entry(status).or_default() += 1;
        let after_begin = self.begun.get().is_some_and(|begun| turn.intended >= begun);
        let before_end = self.ended.get().is_none_or(|ended| turn.intended < ended);
        if after_begin && before_end {
            self.latency.borrow_mut().record(turn.intended.elapsed());
        }
    }

    /// Bytes of bodies went either way.
    pub(crate) fn moved(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + u64::try_from(bytes).unwrap_or(0));
    }

    /// A request got no answer: counted where that is wanted, an error otherwise.
    pub(crate) fn failed(&self, error: anyhow::Error) -> anyhow::Result<()> {
        if !self.load.count_failures {
            return Err(error);
        }
        if self.failures.replace(self.failures.get() + 1) == 0 {
            eprintln!("the first failure: {error:#}");
        }
        Ok(())
    }

    /// A connection was opened; which one, for its source address.
    pub(crate) fn opened(&self) -> u64 {
        let before = self.connections.get();
        self.connections.set(before + 1);
        before
    }

    /// True if the measured time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Operations and bytes so far.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.operations.get(), self.bytes.get())
    }

    pub(crate) fn begin(&self) {
        self.begun.set(Some(Instant::now()));
    }

    /// Ends the time that is measured, and says how long it was.
    pub(crate) fn end(&self) -> Duration {
        let now = Instant::now();
        self.ended.set(Some(now));
        self.timer.wake_all();
        self.begun.get().map_or(Duration::ZERO, |begun| now.duration_since(begun))
    }

    /// Adds what is known when every lane has ended. Answers other than expected are an error.
    pub(crate) fn finish(&self, outcome: &mut Outcome) -> anyhow::Result<()> {
        let latency = self.latency.borrow();
        let micros = |share| latency.quantile(share).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        outcome.p50 = micros(0.5);
        outcome.p99 = micros(0.99);
        outcome.p999 = micros(0.999);
        outcome.greatest = latency.greatest().as_secs_f64() * 1e6;
        outcome.statuses.clone_from(&self.statuses.borrow());
        outcome.failures = self.failures.get();
        outcome.connections = self.connections.get();
        let expected = self.load.expect;
        if outcome.statuses.keys().any(|status| *status != expected) {
            bail!("expected {expected}, but answers by status are {:?}", outcome.statuses);
        }
        Ok(())
    }
}
