//! The policies of a proxy: one cell per port, read by one atomic load.
//!
//! The control thread writes ([`PolicyStore::apply`] and its siblings), the workers read
//! ([`PortHandle::live`]). A port is *declared* if the workload names it. Any other port gets a
//! cell on first use; their number is bounded, and idle ones are evicted.
//!
//! **Invariants.** A port without a usable policy grants nothing. A policy that could not be
//! applied never replaces one that could. A generation is published only after it can be read.

mod cell;
mod config;
mod eviction;
mod inner;
pub mod state;
mod workers;

pub use cell::{ActivePolicy, Live};
pub use config::StoreConfig;
pub use state::{Event, State, step};
pub use workers::{Worker, Workers};

use crate::telemetry::{PortStatus, Telemetry};
use arc_swap::Guard;
use cell::PortCell;
use inner::Inner;
use policy_core::evaluator::BuildError;
use policy_core::{Denied, Facts, Revision, RouteChange, ServerPolicy, UndeclaredPorts};
use policy_server::ClientNetwork;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The policies of all ports of one workload. Clones share them.
#[derive(Clone, Debug)]
pub struct PolicyStore {
    inner: Arc<Inner>,
}

/// One port's policy. A connection holds a handle for its lifetime.
///
/// If too many undeclared ports are in use, one is evicted unless a handle retains it: those of
/// [`PolicyStore::port`] do, those of [`PolicyStore::port_for`] while a permitted request or
/// connection is open.
#[derive(Debug)]
pub struct PortHandle {
    cell: Arc<PortCell>,
    keeps: AtomicBool,
}

/// Reasons why a proxy is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// True while the workload's declared ports are unknown.
    pub workload: bool,
    /// Declared ports without a policy in force.
    pub ports: Vec<NonZeroU16>,
}

impl PolicyStore {
    /// Creates a store without ports. Fails if the pending policy cannot be built.
    pub fn new(config: StoreConfig, telemetry: Arc<Telemetry>) -> Result<Self, BuildError> {
        Ok(Self { inner: Arc::new(Inner::new(config, telemetry)?) })
    }

    /// Returns a retaining handle of `port`. The first use of an undeclared port subscribes to its
    /// policy; if too many are in use, the port is refused as `policy_pending`.
    pub fn port(&self, port: NonZeroU16) -> PortHandle {
        let handle = self.handle(port, None);
        handle.retain();
        handle
    }

    /// Returns a handle of `port` for a connection of `client`, which retains it from
    /// [`PortHandle::retain`] on.
    pub fn port_for(&self, port: NonZeroU16, client: IpAddr) -> PortHandle {
        self.handle(port, Some(ClientNetwork::of(client)))
    }

    fn handle(&self, port: NonZeroU16, network: Option<ClientNetwork>) -> PortHandle {
        let keeps = AtomicBool::new(false);
        if let Some(cell) = self.inner.cells.read().get(&port) {
            cell.touch();
            return PortHandle { cell: Arc::clone(cell), keeps };
        }
        PortHandle { cell: self.inner.create(port, (network, Instant::now())), keeps }
    }

    /// Returns the proxy's workers.
    pub fn workers(&self) -> &Workers {
        &self.inner.workers
    }

    /// Returns the telemetry that counts decisions.
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        &self.inner.telemetry
    }

    /// Sets the ports that the workload declares, and the rule for all others. A port that is no
    /// longer declared keeps its policy while it is in use, unless undeclared ports are denied.
    pub fn declare(&self, ports: &BTreeSet<NonZeroU16>, undeclared: UndeclaredPorts) {
        let _writer = self.inner.writer.lock();
        let now = Instant::now();
        self.inner.set_declared(ports, undeclared);
        for port in ports {
            let known = self.inner.cells.read().contains_key(port);
            if !known {
                self.inner.create(*port, (None, now));
            }
        }
        for cell in self.inner.all() {
            self.inner.align(&cell, now);
        }
        self.inner.demand.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Puts a policy in force. Returns the generation that workers must reach before the update may
    /// be acknowledged. A policy that cannot be built only changes the port's state, as
    /// [`PolicyStore::reject`] does.
    pub fn apply(
        &self,
        port: NonZeroU16,
        policy: Arc<ServerPolicy>,
        revision: Revision,
    ) -> Result<u64, BuildError> {
        self.apply_change(port, policy, revision, None)
    }

    /// As [`PolicyStore::apply`]; `change` may name the routes of `policy` that differ from the
    /// previous policy, so that only these are indexed again.
    pub fn apply_change(
        &self,
        port: NonZeroU16,
        policy: Arc<ServerPolicy>,
        revision: Revision,
        change: Option<&RouteChange>,
    ) -> Result<u64, BuildError> {
        let _writer = self.inner.writer.lock();
        let now = Instant::now();
        let Some(cell) = self.inner.cells.read().get(&port).cloned() else {
            // The port is unused: it was evicted while the update was in flight.
            return Ok(self.inner.workers.published());
        };
        let last = cell.state().last_good().cloned();
        let built = match self.inner.build(port, (policy, change), revision, last.as_ref()) {
            Ok(built) => Arc::new(built),
            Err(error) => {
                self.inner.handle(&cell, Event::Rejected, now);
                return Err(error);
            }
        };
        let generation = built.generation;
        self.inner.handle(&cell, Event::Received(built), now);
        self.inner.workers.publish(generation);
        self.inner.retire(last);
        Ok(generation)
    }

    /// Records that an update for `port` could not be applied: the last good policy stays.
    pub fn reject(&self, port: NonZeroU16) {
        self.event(port, Event::Rejected);
    }

    /// Records that changes to `port` are no longer received.
    pub fn lose(&self, port: NonZeroU16) {
        self.event(port, Event::Lost);
    }

    /// As [`PolicyStore::lose`] for every port: the stream of all ports ended.
    pub fn lose_all(&self) {
        let _writer = self.inner.writer.lock();
        let now = Instant::now();
        for cell in self.inner.all() {
            self.inner.handle(&cell, Event::Lost, now);
        }
    }

    /// Replaces the workload's facts under every policy. Returns the generation that uses them
    /// everywhere.
    pub fn set_facts(&self, facts: Arc<Facts>) -> u64 {
        let _writer = self.inner.writer.lock();
        {
            let mut control = self.inner.control.lock();
            if control.facts == facts {
                return self.inner.workers.published();
            }
            control.facts = Arc::clone(&facts);
        }
        let generation = self.inner.next_generation();
        for cell in self.inner.all() {
            cell.rewrite(|old| Arc::new(old.with_facts(&facts, generation)), || generation);
        }
        self.inner.workers.publish(generation);
        generation
    }

    /// Expires policies that are stale for too long and evicts undeclared ports that are unused.
    /// Has to be called about once a second.
    pub fn sweep(&self) {
        let _writer = self.inner.writer.lock();
        let now = Instant::now();
        let tick = Event::Tick { maximum_age: self.inner.config.maximum_age };
        for cell in self.inner.all() {
            self.inner.handle(&cell, tick.clone(), now);
        }
        self.inner.evict(now, self.inner.config.on_demand_idle);
        self.inner.retire(None);
    }

    /// Subscribes to changes of [`PolicyStore::ports`].
    pub fn demand(&self) -> watch::Receiver<u64> {
        self.inner.demand.subscribe()
    }

    /// Returns the ports that have a cell and are not denied as undeclared: those to subscribe to.
    /// The value is true for declared ports.
    pub fn ports(&self) -> BTreeMap<NonZeroU16, bool> {
        let wanted = |cell: &Arc<PortCell>| !matches!(*cell.state(), State::Undeclared);
        let cells = self.inner.all().into_iter().filter(wanted);
        cells.map(|cell| (cell.port, cell.is_declared())).collect()
    }

    /// Returns the ports of [`PolicyStore::ports`], each with a number that changes when nothing is
    /// known about the port any more: it was evicted and is used again, or was denied as undeclared
    /// in between.
    pub fn wanted(&self) -> BTreeMap<NonZeroU16, u64> {
        let wanted = |cell: &Arc<PortCell>| !matches!(*cell.state(), State::Undeclared);
        let cells = self.inner.all().into_iter().filter(wanted);
        cells.map(|cell| (cell.port, cell.serial())).collect()
    }

    /// Returns the applied revisions, for the controller to compare with its own.
    pub fn applied(&self) -> Vec<(NonZeroU16, Revision)> {
        let revision = |cell: &Arc<PortCell>| {
            cell.state().last_good().map(|policy| (cell.port, policy.revision.clone()))
        };
        let mut applied: Vec<_> = self.inner.all().iter().filter_map(revision).collect();
        applied.sort_unstable_by_key(|(port, _)| *port);
        applied
    }

    /// Returns the reasons why the proxy is not ready; `None` if every declared port has a policy
    /// in force.
    pub fn unready(&self) -> Option<Unready> {
        let declared = self.inner.control.lock().declared.clone();
        let workload = declared.is_none();
        let declared = declared.unwrap_or_default();
        let ports: Vec<_> = {
            // A declared port may have no cell yet.
            let cells = self.inner.cells.read();
            let ready = |port: &NonZeroU16| cells.get(port).is_some_and(|cell| cell.has_policy());
            declared.iter().filter(|port| !ready(port)).copied().collect()
        };
        let ready = !workload && ports.is_empty();
        (!ready).then_some(Unready { workload, ports })
    }

    /// Returns the policy state of a port that is in use or declared; of others nothing is known, and
    /// nothing is asked for.
    pub fn live(&self, port: NonZeroU16) -> Option<Arc<Live>> {
        self.inner.cells.read().get(&port).map(|cell| cell.live.load_full())
    }

    /// Returns the status of every port, for metrics and messages.
    pub fn status(&self) -> Vec<PortStatus> {
        let now = Instant::now();
        let mut status: Vec<_> = self.inner.all().iter().map(|cell| cell.status(now)).collect();
        status.sort_unstable_by_key(|status| status.port);
        status
    }

    fn event(&self, port: NonZeroU16, event: Event<Arc<ActivePolicy>>) {
        let _writer = self.inner.writer.lock();
        let cell = self.inner.cells.read().get(&port).cloned();
        if let Some(cell) = cell {
            self.inner.handle(&cell, event, Instant::now());
        }
    }
}

impl Clone for PortHandle {
    fn clone(&self) -> Self {
        let copy = Self { cell: Arc::clone(&self.cell), keeps: AtomicBool::new(false) };
        if self.keeps.load(Ordering::Acquire) {
            copy.retain();
        }
        copy
    }
}

impl Drop for PortHandle {
    fn drop(&mut self) {
        if *self.keeps.get_mut() {
            self.cell.release();
        }
    }
}

impl PortHandle {
    /// Retains the port until [`Self::release`] or drop, because the connection was permitted.
    pub fn retain(&self) {
        if !self.keeps.load(Ordering::Acquire) && !self.keeps.swap(true, Ordering::AcqRel) {
            self.cell.retain();
        }
    }

    /// Releases the port: nothing permitted is open any more, and the port may be evicted.
    pub fn release(&self) {
        if self.keeps.swap(false, Ordering::AcqRel) {
            self.cell.release();
        }
    }

    /// Returns true if the port was evicted. It grants nothing any more; a new connection
    /// subscribes to it again.
    pub fn is_evicted(&self) -> bool {
        self.cell.is_evicted()
    }

    /// Returns the port.
    pub fn port(&self) -> NonZeroU16 {
        self.cell.port
    }

    /// Returns the policy that decides now. One atomic load; call it once per request and drop the
    /// guard before the next.
    pub fn live(&self) -> Guard<Arc<Live>> {
        self.cell.live.load()
    }

    /// Subscribes to changes that decisions can depend on; the value is the generation of the last
    /// one.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.cell.changes.subscribe()
    }

    /// Waits until the port has left [`Live::Waiting`], at most `bound`. `Err(policy_pending)`: it
    /// has not.
    pub async fn ready(&self, bound: Duration) -> Result<(), Denied> {
        let mut changed = self.changed();
        let left = async {
            while matches!(**self.live(), Live::Waiting) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(bound, left).await.map_err(|_| Denied::PolicyPending)
    }
}

#[cfg(test)]
mod tests;
