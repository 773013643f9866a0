//! The cells of all ports: creation, updates and eviction.

use super::cell::{ActivePolicy, PortCell};
use super::config::StoreConfig;
use super::eviction::{self, Candidate};
use super::state::{Event, State, step};
use super::workers::Workers;
use crate::limiter::Limiter;
use crate::telemetry::Telemetry;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use policy_core::evaluator::{BuildError, Evaluator};
use policy_core::{Facts, Protocol, Revision, RouteChange, ServerPolicy, UndeclaredPorts};
use policy_server::ClientNetwork;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: StoreConfig,
    pub(super) telemetry: Arc<Telemetry>,
    pending: Option<Pending>,
    pub(super) cells: RwLock<HashMap<NonZeroU16, Arc<PortCell>>>,
    /// The cell of ports beyond the limit: denies everything.
    overflow: Arc<PortCell>,
    pub(super) control: Mutex<Control>,
    /// Locked while a policy is put in force, so that generations are published in order.
    pub(super) writer: Mutex<()>,
    generation: AtomicU64,
    /// Number of serial numbers given to cells.
    made: AtomicU64,
    pub(super) workers: Workers,
    /// Number of changes to the set of ports that have a cell.
    pub(super) demand: watch::Sender<u64>,
    /// Replaced policies, kept until they are unreferenced, so that no worker pauses to free ten
    /// thousand rules.
    retired: Mutex<Vec<Arc<ActivePolicy>>>,
}

/// The policy while nothing has been received.
#[derive(Debug)]
struct Pending {
    usual: Arc<Evaluator>,
    /// For the ports of [`StoreConfig::pending_opaque`].
    opaque: Arc<Evaluator>,
}

impl Pending {
    fn new(policy: &Arc<ServerPolicy>) -> Result<Self, BuildError> {
        let opaque = ServerPolicy { protocol: Protocol::Opaque, ..ServerPolicy::clone(policy) };
        Ok(Self {
            usual: Arc::new(Evaluator::build(Arc::clone(policy))?),
            opaque: Arc::new(Evaluator::build(Arc::new(opaque))?),
        })
    }
}

/// State of the control thread beside the ports.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) facts: Arc<Facts>,
    /// The ports that the workload declares; `None` while they are unknown.
    pub(super) declared: Option<Arc<BTreeSet<NonZeroU16>>>,
    undeclared: UndeclaredPorts,
}

impl Control {
    fn declares(&self, port: NonZeroU16) -> bool {
        self.declared.as_ref().is_some_and(|ports| ports.contains(&port))
    }

    /// Returns the event that brings a port in line with the declared ports.
    fn event(&self, port: NonZeroU16) -> Event<Arc<ActivePolicy>> {
        match self.undeclared {
            UndeclaredPorts::Deny if !self.declares(port) => Event::Undeclared,
            UndeclaredPorts::Deny | UndeclaredPorts::Default => Event::Declared,
        }
    }
}

/// Port of the overflow cell; never shown.
const NO_PORT: NonZeroU16 = NonZeroU16::MAX;

impl Inner {
    pub(super) fn new(config: StoreConfig, telemetry: Arc<Telemetry>) -> Result<Self, BuildError> {
        let pending = config.pending.as_ref().map(Pending::new).transpose()?;
        let overflow = PortCell::new(NO_PORT, State::Rejected, None, Instant::now());
        let control = Control {
            facts: Arc::clone(&config.facts),
            declared: None,
            undeclared: UndeclaredPorts::Default,
        };
        Ok(Self {
            config,
            telemetry,
            pending,
            cells: RwLock::new(HashMap::default()),
            overflow: Arc::new(overflow),
            control: Mutex::new(control),
            writer: Mutex::new(()),
            generation: AtomicU64::new(0),
            made: AtomicU64::new(0),
            workers: Workers::new(),
            demand: watch::Sender::new(0),
            retired: Mutex::default(),
        })
    }

    pub(super) fn all(&self) -> Vec<Arc<PortCell>> {
        self.cells.read().values().cloned().collect()
    }

    pub(super) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    }

    pub(super) fn handle(&self, cell: &PortCell, event: Event<Arc<ActivePolicy>>, now: Instant) {
        // A received policy has its own generation, which caches refer to.
        let own = match &event {
            Event::Received(policy) => Some(policy.generation),
            Event::Rejected
            | Event::Lost
            | Event::Tick { .. }
            | Event::Undeclared
            | Event::Declared => None,
        };
        let published = cell.handle(event, now, || own.unwrap_or_else(|| self.next_generation()));
        if let Some(generation) = published {
            self.workers.publish(generation);
        }
    }

    /// Sets the declared ports and the rule for all others, by which every later [`Inner::create`]
    /// makes its cell. Declared cells are not evicted from now on; the state of a cell that exists
    /// changes by [`Inner::align`].
    pub(super) fn set_declared(&self, ports: &BTreeSet<NonZeroU16>, undeclared: UndeclaredPorts) {
        // Under this lock cells are created and evicted: both go by the old ports or by the new.
        let cells = self.cells.write();
        let mut control = self.control.lock();
        control.declared = Some(Arc::new(ports.clone()));
        control.undeclared = undeclared;
        for cell in cells.values() {
            cell.set_declared(control.declares(cell.port));
        }
    }

    /// Brings the state of a cell in line with the declared ports.
    pub(super) fn align(&self, cell: &PortCell, now: Instant) {
        let event = self.control.lock().event(cell.port);
        if matches!(event, Event::Declared) && matches!(*cell.state(), State::Undeclared) {
            // Its policy was dropped, so a subscription from before says nothing more.
            cell.renumber(self.next_serial());
        }
        self.handle(cell, event, now);
    }

    fn next_serial(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Creates the cell of a port. `network`: of the first connection.
    pub(super) fn create(
        &self,
        port: NonZeroU16,
        (network, now): (Option<ClientNetwork>, Instant),
    ) -> Arc<PortCell> {
        let declared = self.control.lock().declares(port);
        if !declared && self.is_full() {
            self.evict(now, eviction::MIN_AGE);
            if self.is_full() && !self.make_room(network, now) {
                self.telemetry.port_refused();
                return Arc::clone(&self.overflow);
            }
        }
        let mut cells = self.cells.write();
        // Another worker may have been faster.
        if let Some(cell) = cells.get(&port) {
            return Arc::clone(cell);
        }
        // Read under the lock: a later change of any of these finds the cell and changes it.
        let (declared, event, facts) = {
            let control = self.control.lock();
            (control.declares(port), control.event(port), Arc::clone(&control.facts))
        };
        let state = step(State::Waiting, event, now);
        let cell = PortCell::new(port, state, self.pending(port, &facts), now);
        let cell = Arc::new(cell.first_used(self.next_serial(), network));
        cell.set_declared(declared);
        cells.insert(port, Arc::clone(&cell));
        drop(cells);
        self.demand.send_modify(|count| *count = count.wrapping_add(1));
        cell
    }

    fn is_full(&self) -> bool {
        let cells = self.cells.read();
        cells.values().filter(|cell| !cell.is_declared()).count() >= self.config.on_demand_ports
    }

    /// Evicts an undeclared port without open permits in favour of one of `network`.
    fn make_room(&self, network: Option<ClientNetwork>, now: Instant) -> bool {
        let mut cells = self.cells.write();
        let unused = cells.values().filter(|cell| !cell.is_declared() && !cell.is_retained());
        let unused: Vec<Candidate> = unused
            .map(|cell| Candidate { port: cell.port, network: cell.network, since: cell.born })
            .collect();
        let port = eviction::select(&unused, network, now);
        let Some(cell) = port.and_then(|port| cells.remove(&port)) else { return false };
        drop(cells);
        if let Some(generation) = cell.evict(|| self.next_generation()) {
            self.workers.publish(generation);
        }
        self.demand.send_modify(|count| *count = count.wrapping_add(1));
        true
    }

    fn pending(&self, port: NonZeroU16, facts: &Arc<Facts>) -> Option<Arc<ActivePolicy>> {
        let pending = self.pending.as_ref()?;
        let opaque = self.config.pending_opaque.contains(&port);
        let evaluator = Arc::clone(if opaque { &pending.opaque } else { &pending.usual });
        let policy = evaluator.policy();
        let limiter = Arc::new(Limiter::new(policy.rate_limit.as_ref()));
        let counters = self.telemetry.counters(port, policy, facts);
        let generation = self.next_generation();
        let facts = Arc::clone(facts);
        let revision = Revision::default();
        Some(Arc::new(ActivePolicy { evaluator, facts, revision, generation, limiter, counters }))
    }

    pub(super) fn build(
        &self,
        port: NonZeroU16,
        (policy, change): (Arc<ServerPolicy>, Option<&RouteChange>),
        revision: Revision,
        last: Option<&Arc<ActivePolicy>>,
    ) -> Result<ActivePolicy, BuildError> {
        let facts = Arc::clone(&self.control.lock().facts);
        // If the changed routes are named, comparing all of them is needless.
        if change.is_none_or(RouteChange::is_empty)
            && let Some(last) = last
            && *last.evaluator.policy() == policy
            && last.facts == facts
        {
            let mut same = last.with_facts(&facts, last.generation);
            same.revision = revision;
            return Ok(same);
        }
        let evaluator = Arc::new(match last.zip(change) {
            Some((last, change)) => last.evaluator.changed_to(Arc::clone(&policy), change)?,
            None => Evaluator::build(Arc::clone(&policy))?,
        });
        let kept = last.filter(|last| last.evaluator.policy().rate_limit == policy.rate_limit);
        let limiter = kept.map_or_else(
            || Arc::new(Limiter::new(policy.rate_limit.as_ref())),
            |last| Arc::clone(&last.limiter),
        );
        let counters = self.telemetry.counters(port, &policy, &facts);
        let generation = self.next_generation();
        Ok(ActivePolicy { evaluator, facts, revision, generation, limiter, counters })
    }

    /// Keeps the replaced `policy` until it is unreferenced.
    pub(super) fn retire(&self, policy: Option<Arc<ActivePolicy>>) {
        let mut retired = self.retired.lock();
        retired.extend(policy);
        retired.retain(|policy| Arc::strong_count(policy) > 1);
    }

    /// Drops the undeclared ports that were unused for `idle`.
    pub(super) fn evict(&self, now: Instant, idle: Duration) {
        let mut cells = self.cells.write();
        let before = cells.len();
        // Under the write lock no handle can be created, so a count of one stays one.
        cells.retain(|_, cell| {
            cell.is_declared() || Arc::strong_count(cell) > 1 || cell.note_idle(now) < idle
        });
        let changed = cells.len() != before;
        drop(cells);
        if changed {
            self.demand.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
