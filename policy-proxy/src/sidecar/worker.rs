//! One worker: a thread, a runtime, listeners and connections of its own.

use super::seats::{InFlight, Seats};
use super::settings::{Listener, SidecarConfig};
use policy_core::{Decision, Denial, Permit};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::{DecisionInfo, Recorder, RequestRecord, Sampler};
use policy_enforce::store::{PolicyStore, PortHandle};
use policy_enforce::telemetry::{Caller, Side, TcpSeries};
use policy_tls::identity::{IdentityHandle, ProofVerifier};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What a sidecar is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Draining,
    Stopped,
}

/// What all workers have in common.
pub(super) struct Shared {
    pub(super) config: SidecarConfig,
    pub(super) store: PolicyStore,
    pub(super) identity: IdentityHandle,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    /// Where we listen, with the ports that were found for 0. Nothing is forwarded there.
    pub(super) listening: Vec<Listener>,
    pub(super) seats: Seats,
    pub(super) in_flight: InFlight,
    pub(super) sampler: Sampler,
}

/// One worker. Everything here stays on its thread.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    /// Its number in counter calls.
    pub(super) index: usize,
    /// Seconds since the worker began, plus one; coarse on purpose.
    pub(super) clock: Arc<AtomicU32>,
    draining: Cell<bool>,
    members: RefCell<Slab<Weak<dyn Member>>>,
    /// Connections of this worker.
    connections: Cell<usize>,
    left: Notify,
}

/// A connection or tunnel that has to be told of changes.
pub(super) trait Member {
    /// The policy may have changed: what lost its permission ends.
    fn review(&self);
    /// A second has passed.
    fn tick(&self);
    /// What the client proved its identity with may not count any longer; asked every second.
    fn prove(&self, judge: &mut ProofVerifier);
    /// Ends as soon as nothing is open.
    fn drain(&self);
}

/// One connection's place among those of its port; given back when dropped.
pub(super) struct Seat {
    worker: Rc<Worker>,
    port: NonZeroU16,
}

/// A member's place in its worker; given back when dropped.
pub(super) struct Membership {
    worker: Rc<Worker>,
    place: usize,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self {
            shared,
            index,
            clock: Arc::new(AtomicU32::new(1)),
            draining: Cell::new(false),
            members: RefCell::new(Slab::new()),
            connections: Cell::new(0),
            left: Notify::new(),
        }
    }

    /// Makes new connections and requests the last, and tells every member.
    pub(super) fn drain(&self) {
        self.draining.set(true);
        self.each(|member| member.drain());
    }

    /// Waits until the last connection has left; to be asked again, for others may have come.
    pub(super) async fn left(&self) {
        self.left.notified().await;
    }

    /// Whether new connections and requests are to be the last.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// The coarse clock's time.
    pub(super) fn now(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// A place for one more connection of `port`; none if they are too many.
    pub(super) fn seat(self: &Rc<Self>, port: NonZeroU16) -> Option<Seat> {
        if !self.shared.seats.take(port, self.shared.config.limits.connections) {
            return None;
        }
        self.connections.set(self.connections.get().saturating_add(1));
        self.shared.store.telemetry().transport.open.inc();
        Some(Seat { worker: Rc::clone(self), port })
    }

    /// Makes a member known. It has to be known before it is first decided on.
    pub(super) fn join(self: &Rc<Self>, member: Weak<dyn Member>) -> Membership {
        let place = self.members.borrow_mut().insert(member);
        Membership { worker: Rc::clone(self), place }
    }

    /// What a client's address stands for.
    pub(super) fn client(&self, from: SocketAddr) -> SocketAddr {
        let folded: IpAddr = policy_core::fold_mapped(from.ip());
        match &self.shared.config.client_address {
            Some(translate) => SocketAddr::new(translate(folded), from.port()),
            None => SocketAddr::new(folded, from.port()),
        }
    }

    /// Counts a failed connection, and logs the first of its kind in a while.
    pub(super) fn tcp_error(&self, kind: ErrorKind, client: SocketAddr) {
        self.count_tcp_error(kind);
        self.log(kind, client, "connection failed");
    }

    /// Counts a failed connection of which the log is told otherwise.
    pub(super) fn count_tcp_error(&self, kind: ErrorKind) {
        self.shared.store.telemetry().tcp_error(kind.as_str());
    }

    /// Counts a failed request under the policy of its port, and logs the first of its kind in a while.
    pub(super) fn http_error(&self, kind: ErrorKind, handle: &PortHandle, client: SocketAddr) {
        match handle.live().in_force() {
            Ok(policy) => policy.counters.http_error(self.index, kind),
            Err(_) => self.shared.store.telemetry().http_error(kind),
        }
        self.log(kind, client, "request failed");
    }

    /// Counts connections of one side of `handle`'s port, whose client is `caller`.
    pub(super) fn tcp(&self, side: Side, handle: &PortHandle, caller: Caller) -> Arc<TcpSeries> {
        let live = handle.live();
        let policy = live.in_force().ok().map(|policy| &**policy.evaluator.policy());
        self.shared.store.telemetry().tcp(side, handle.port(), caller, policy)
    }

    fn log(&self, kind: ErrorKind, client: SocketAddr, what: &'static str) {
        if let Some(suppressed) = self.shared.sampler.admit(kind, Instant::now()) {
            let workload = &*self.shared.config.workload;
            tracing::warn!(workload, %client, error = kind.as_str(), suppressed, "{what}");
        }
    }

    /// Whether somebody takes records.
    pub(super) fn is_recording(&self) -> bool {
        self.shared.recorder.as_ref().is_some_and(|recorder| recorder.is_recording())
    }

    /// Hands a decision on a request to the recorder.
    pub(super) fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(&decided.record(&self.shared.config.workload, Some(request)));
        }
    }

    /// Hands a decision on a connection to the recorder and, if it is a refusal or audited, to the log.
    pub(super) fn record_connection(&self, decided: &DecisionInfo<'_>) {
        self.shared.config.notices.log(decided, None, Instant::now());
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(&decided.record(&self.shared.config.workload, None));
        }
    }

    fn each(&self, act: impl Fn(&dyn Member)) {
        // Members may leave, or join, while they are told.
        let members: Vec<_> =
            self.members.borrow().iter().filter_map(|(_, member)| member.upgrade()).collect();
        members.iter().for_each(|member| act(&**member));
    }

    /// Lets every member decide again, and other tasks run in between. Who joins meanwhile has decided
    /// by what is published already, so that it does not matter on which side of the review it stands.
    pub(super) async fn review(&self) {
        let places = self.members.borrow().capacity();
        for place in 0..places {
            let member = self.members.borrow().get(place).and_then(Weak::upgrade);
            if let Some(member) = member {
                member.review();
            }
            if place % REVIEWED_AT_ONCE == REVIEWED_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(super) fn has_connections(&self) -> bool {
        self.connections.get() > 0
    }

    pub(super) async fn run_clock(&self) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        second.tick().await;
        loop {
            second.tick().await;
            self.clock.fetch_add(1, Ordering::Relaxed);
            self.each(|member| member.tick());
            self.shared.config.notices.tick(Instant::now());
            self.prove().await;
        }
    }

    /// Lets every member judge again what its client proved itself with, and other tasks run in
    /// between.
    async fn prove(&self) {
        let mut judge = ProofVerifier::new(self.shared.identity.current().clone());
        let places = self.members.borrow().capacity();
        for place in 0..places {
            let member = self.members.borrow().get(place).and_then(Weak::upgrade);
            if let Some(member) = member {
                member.prove(&mut judge);
            }
            if place % REVIEWED_AT_ONCE == REVIEWED_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Seat {
    /// Makes it a place among those of `port`; false: they are too many, and it stays what it was.
    pub(super) fn move_to(&mut self, port: NonZeroU16) -> bool {
        let shared = &self.worker.shared;
        let room = shared.seats.take(port, shared.config.limits.connections);
        if room {
            shared.seats.leave(self.port);
            self.port = port;
        }
        room
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.worker.shared.seats.leave(self.port);
        let left = self.worker.connections.get().saturating_sub(1);
        self.worker.connections.set(left);
        if left == 0 {
            self.worker.left.notify_one();
        }
        let transport = &self.worker.shared.store.telemetry().transport;
        transport.open.dec();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.worker.members.borrow_mut().try_remove(self.place);
    }
}

/// Members that decide again before other tasks have their turn.
const REVIEWED_AT_ONCE: usize = 32;

/// A decision as records take it.
pub(super) fn outcome(decision: Decision) -> Result<Permit, Denial> {
    match decision {
        Decision::Permit(permit) => Ok(permit),
        Decision::Deny(denial) => Err(denial),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_enforce::store::StoreConfig;
    use policy_enforce::telemetry::Telemetry;

    struct Counting(Rc<Cell<usize>>);

    impl Member for Counting {
        fn review(&self) {
            self.0.set(self.0.get().saturating_add(1));
        }

        fn tick(&self) {}

        fn prove(&self, _: &mut ProofVerifier) {}

        fn drain(&self) {}
    }

    fn worker() -> Rc<Worker> {
        let telemetry = Arc::new(Telemetry::new(1));
        let shared = Shared {
            config: SidecarConfig::new("ns/web-0"),
            store: PolicyStore::new(StoreConfig::default(), telemetry).unwrap(),
            identity: IdentityHandle::empty(),
            recorder: None,
            listening: Vec::new(),
            seats: Seats::default(),
            in_flight: InFlight::default(),
            sampler: Sampler::new(Duration::from_secs(10), Instant::now()),
        };
        Rc::new(Worker::new(Arc::new(shared), 0))
    }

    #[tokio::test]
    async fn other_tasks_have_their_turn_while_many_connections_are_decided_again() {
        let all = REVIEWED_AT_ONCE.saturating_mul(10);
        let (worker, reviewed) = (worker(), Rc::new(Cell::new(0)));
        let members: Vec<Rc<dyn Member>> =
            (0..all).map(|_| Rc::new(Counting(Rc::clone(&reviewed))) as Rc<dyn Member>).collect();
        let places: Vec<_> = members.iter().map(|own| worker.join(Rc::downgrade(own))).collect();
        let seen = Rc::new(Cell::new(None));
        let local = tokio::task::LocalSet::new();
        let (other, count) = (Rc::clone(&seen), Rc::clone(&reviewed));
        let own = Rc::clone(&worker);
        let review = local.spawn_local(async move { own.review().await });
        local.spawn_local(async move { other.set(Some(count.get())) });
        local.run_until(review).await.unwrap();
        assert_eq!(reviewed.get(), all, "nobody is left out");
        assert_eq!(seen.get(), Some(REVIEWED_AT_ONCE));
        drop(places);
    }
}
