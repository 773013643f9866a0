//! The cell of one port: its state, and the snapshot of it that the data path reads.

use super::state::{Event, State, step};
use crate::limiter::Limiter;
use crate::telemetry::{Counters, PortStatus};
use arc_swap::ArcSwap;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use policy_core::evaluator::Evaluator;
use policy_core::{Denied, Facts, InformationalHeaders, Revision, UpstreamReuse};
use policy_server::ClientNetwork;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The policy state that a port's connections and requests are decided by.
#[derive(Debug)]
pub enum Live {
    /// Nothing has been received: connections wait, with a timeout.
    Waiting,
    /// The controller's latest policy.
    Current(Arc<ActivePolicy>),
    /// The last good policy, while the controller is unreachable or has sent an unusable update.
    Stale {
        /// The last good policy.
        policy: Arc<ActivePolicy>,
        /// Time since when the policy may be out of date.
        since: Instant,
    },
    /// Denied at once: expired, undeclared, or rejected without a previous good policy.
    Denied(Denied),
}

/// A policy indexed for decisions, with the state that belongs to it.
#[derive(Debug)]
pub struct ActivePolicy {
    /// The evaluator of the policy.
    pub evaluator: Arc<Evaluator>,
    /// The workload's facts as of this generation.
    pub facts: Arc<Facts>,
    /// The controller's revision of the policy.
    pub revision: Revision,
    /// Differs whenever policy or facts differ; caches of another generation are invalid.
    pub generation: u64,
    /// The rate limiter; shared by all generations with an equal limit.
    pub limiter: Arc<Limiter>,
    /// The counters of decisions by this policy.
    pub counters: Arc<Counters>,
}

impl Live {
    /// Returns the policy in force, or the reason of the denial.
    pub fn in_force(&self) -> Result<&Arc<ActivePolicy>, Denied> {
        match self {
            Self::Waiting => Err(Denied::PolicyPending),
            Self::Current(policy) | Self::Stale { policy, .. } => Ok(policy),
            Self::Denied(reason) => Err(*reason),
        }
    }

    /// Returns true if every decision by the two is certainly the same.
    pub(super) fn is_equivalent(&self, other: &Live) -> bool {
        match (self.in_force(), other.in_force()) {
            (Ok(own), Ok(other)) => own.generation == other.generation,
            // Leaving `Waiting` always counts, because a connection may wait for it.
            (Err(own), Err(reason)) => {
                own == reason && matches!(self, Self::Waiting) == matches!(other, Self::Waiting)
            }
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        }
    }
}

impl ActivePolicy {
    /// Returns true if the application gets the headers about its clients.
    pub fn informs(&self) -> bool {
        match self.evaluator.policy().informational_headers {
            InformationalHeaders::Enabled => true,
            InformationalHeaders::Disabled => false,
        }
    }

    /// Returns true if a connection to the application is used again after requests with a body, too.
    pub fn reuses_after_bodies(&self) -> bool {
        match self.evaluator.policy().upstream_reuse {
            UpstreamReuse::Usual => true,
            UpstreamReuse::WithoutBody => false,
        }
    }

    pub(super) fn with_facts(&self, facts: &Arc<Facts>, generation: u64) -> Self {
        Self {
            evaluator: Arc::clone(&self.evaluator),
            facts: Arc::clone(facts),
            revision: self.revision.clone(),
            generation,
            limiter: Arc::clone(&self.limiter),
            counters: Arc::clone(&self.counters),
        }
    }
}

/// One port's policy.
#[derive(Debug)]
pub(super) struct PortCell {
    pub(super) port: NonZeroU16,
    pub(super) live: ArcSwap<Live>,
    /// The generation of the last change that decisions can depend on.
    pub(super) changes: watch::Sender<u64>,
    declared: AtomicBool,
    cell_state: Mutex<CellState>,
    /// Time at which the cell became unused, in milliseconds after `born` plus one; 0 while in use.
    idle: AtomicU64,
    /// Number of handles that retain the cell.
    retained: AtomicUsize,
    /// True once the cell was evicted.
    evicted: AtomicBool,
    /// Differs from one cell of the port to the next, and whenever the cell has dropped its policy.
    serial: AtomicU64,
    /// Network of the first connection; `None` if the first use was no connection.
    pub(super) network: Option<ClientNetwork>,
    pub(super) born: Instant,
}

/// State that only the control side reads.
#[derive(Debug)]
struct CellState {
    state: State<Arc<ActivePolicy>>,
    /// The policy while nothing has been received; `None`: connections wait.
    pending: Option<Arc<ActivePolicy>>,
}

impl PortCell {
    pub(super) fn new(
        port: NonZeroU16,
        state: State<Arc<ActivePolicy>>,
        pending: Option<Arc<ActivePolicy>>,
        now: Instant,
    ) -> Self {
        Self {
            port,
            live: ArcSwap::from_pointee(snapshot(&state, pending.as_ref())),
            changes: watch::Sender::new(0),
            declared: AtomicBool::new(false),
            cell_state: Mutex::new(CellState { state, pending }),
            idle: AtomicU64::new(0),
            retained: AtomicUsize::new(0),
            evicted: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            network: None,
            born: now,
        }
    }

    /// Sets the serial number and the network of the first connection.
    pub(super) fn first_used(self, serial: u64, network: Option<ClientNetwork>) -> Self {
        Self { serial: AtomicU64::new(serial), network, ..self }
    }

    pub(super) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn release(&self) {
        self.retained.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn is_retained(&self) -> bool {
        self.retained.load(Ordering::Acquire) > 0
    }

    /// Evicts the cell: it grants nothing from now on, because it receives no more updates. Returns
    /// the generation.
    pub(super) fn evict(&self, generation: impl FnOnce() -> u64) -> Option<u64> {
        let cell_state = self.cell_state.lock();
        self.evicted.store(true, Ordering::Release);
        self.publish(&cell_state, generation)
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    /// Applies an event and publishes the result. `generation` is called only if decisions can
    /// differ; its result is returned then.
    pub(super) fn handle(
        &self,
        event: Event<Arc<ActivePolicy>>,
        now: Instant,
        generation: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let mut cell_state = self.cell_state.lock();
        let old = std::mem::replace(&mut cell_state.state, State::Waiting);
        cell_state.state = step(old, event, now);
        self.publish(&cell_state, generation)
    }

    /// Replaces every policy of the cell, in any state, and publishes the result.
    pub(super) fn rewrite(
        &self,
        change: impl Fn(Arc<ActivePolicy>) -> Arc<ActivePolicy>,
        generation: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let mut cell_state = self.cell_state.lock();
        let old = std::mem::replace(&mut cell_state.state, State::Waiting);
        cell_state.state = old.map(&change);
        cell_state.pending = cell_state.pending.take().map(&change);
        self.publish(&cell_state, generation)
    }

    pub(super) fn state(&self) -> MappedMutexGuard<'_, State<Arc<ActivePolicy>>> {
        MutexGuard::map(self.cell_state.lock(), |cell_state| &mut cell_state.state)
    }

    /// Returns true if the port has a policy from the controller that is not expired.
    pub(super) fn has_policy(&self) -> bool {
        matches!(*self.state(), State::Current(_) | State::Stale { .. })
    }

    /// Returns the serial number.
    pub(super) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Acquire)
    }

    /// Sets another serial number, because nothing is known about the port any more.
    pub(super) fn renumber(&self, serial: u64) {
        self.serial.store(serial, Ordering::Release);
    }

    pub(super) fn set_declared(&self, declared: bool) {
        self.declared.store(declared, Ordering::Release);
    }

    pub(super) fn is_declared(&self) -> bool {
        self.declared.load(Ordering::Acquire)
    }

    pub(super) fn touch(&self) {
        self.idle.store(0, Ordering::Release);
    }

    /// Records that the cell is unused; returns for how long it has been.
    pub(super) fn note_idle(&self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.born).as_millis();
        let stamp = u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1);
        let since = match self.idle.compare_exchange(0, stamp, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => stamp,
            Err(earlier) => earlier,
        };
        Duration::from_millis(stamp.saturating_sub(since))
    }

    pub(super) fn status(&self, now: Instant) -> PortStatus {
        let state = self.state();
        PortStatus {
            port: self.port,
            declared: self.is_declared(),
            state: state.name(),
            age: state.since().map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            generation: *self.changes.borrow(),
            revision: state.last_good().map(|policy| policy.revision.clone()),
        }
    }

    fn publish(&self, cell_state: &CellState, generation: impl FnOnce() -> u64) -> Option<u64> {
        let new = if self.is_evicted() {
            Live::Denied(Denied::PolicyPending)
        } else {
            snapshot(&cell_state.state, cell_state.pending.as_ref())
        };
        let alike = new.is_equivalent(&self.live.load());
        self.live.store(Arc::new(new));
        if alike {
            return None;
        }
        let generation = generation();
        self.changes.send_replace(generation);
        Some(generation)
    }
}

/// Returns the data path's view of a state.
fn snapshot(state: &State<Arc<ActivePolicy>>, pending: Option<&Arc<ActivePolicy>>) -> Live {
    match state {
        State::Waiting => pending.map_or(Live::Waiting, |policy| Live::Current(Arc::clone(policy))),
        State::Current(policy) => Live::Current(Arc::clone(policy)),
        State::Stale { policy, since } => Live::Stale { policy: Arc::clone(policy), since: *since },
        State::Expired { .. } | State::Rejected | State::Undeclared => {
            // `refusal` names a reason for each of the three; pending is the one that promises
            // least.
            Live::Denied(state.refusal().unwrap_or(Denied::PolicyPending))
        }
    }
}
