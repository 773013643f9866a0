//! A worker: a thread with a runtime, listeners and connections of its own.

use super::head_room::HeadRoom;
use super::permits::{ConnectionPermits, RequestPermits};
use super::places::{ConnectionPlace, InboundConnection, Places};
use super::settings::{Listener, SidecarConfig};
use crate::outbound::clients::MeshClients;
use crate::outbound::refusal_log::RefusalLog;
use policy_core::{Decision, Denial, Permit};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::{DecisionInfo, Recorder, RequestRecord, Sampler};
use policy_enforce::store::{PolicyStore, PortHandle};
use policy_enforce::telemetry::{Caller, Side, TcpSeries};
use policy_http::http2::BodyRoom;
use policy_tls::identity::{IdentityHandle, ProofVerifier};
use policy_tls::peer::{Peer, PeerTls};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Lifecycle phase of a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Draining,
    Stopped,
}

/// State that all workers share.
pub(super) struct SidecarState {
    pub(super) config: SidecarConfig,
    pub(super) store: PolicyStore,
    pub(super) identity: IdentityHandle,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    /// The listening addresses, with the ports that the system picked for 0. Connections to them
    /// are never forwarded.
    pub(super) listening: Vec<Listener>,
    pub(super) connection_permits: ConnectionPermits,
    pub(super) request_permits: RequestPermits,
    pub(super) sampler: Sampler,
    /// Open outbound connections by the port that was dialled.
    pub(super) outbound_permits: ConnectionPermits,
    pub(super) mesh_clients: MeshClients,
    pub(super) refusals: RefusalLog,
    pub(super) open: OpenConnections,
}

/// Number of open connections of all workers.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    count: AtomicUsize,
    emptied: Notify,
}

impl OpenConnections {
    fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until there is none.
    pub(super) async fn none(&self) {
        loop {
            // Before the look, so that no end falls between.
            let mut emptied = pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

/// Permit of one outbound connection; released on drop.
pub(super) struct OutboundPermit {
    worker: Rc<Worker>,
    port: NonZeroU16,
}

/// A worker. Everything here stays on its thread.
pub(super) struct Worker {
    pub(super) shared: Arc<SidecarState>,
    /// Index of its counters.
    pub(super) index: usize,
    /// Heads of open requests.
    pub(super) heads: Rc<HeadRoom>,
    /// Bodies that one side does not take.
    pub(super) bodies: Rc<BodyRoom>,
    /// Places of inbound connections.
    places: Places,
    /// Seconds since the worker started, plus one; coarse on purpose.
    pub(super) clock: Arc<AtomicU32>,
    draining: Cell<bool>,
    tracked: RefCell<Slab<Weak<dyn TrackedConnection>>>,
}

/// A connection or tunnel that the worker notifies of changes.
pub(super) trait TrackedConnection {
    /// Re-evaluates the connection after a policy change, and revokes what is not permitted any
    /// more.
    fn review(&self);
    /// Called every second.
    fn tick(&self);
    /// Checks every second that the client's certificate is still valid and trusted.
    fn reverify(&self, judge: &mut ProofVerifier);
    /// Drains gracefully: ends once no request is in flight.
    fn drain(&self);
}

/// Permit of one connection of a port; released on drop.
pub(super) struct ConnectionPermit {
    worker: Rc<Worker>,
    place: Rc<ConnectionPlace>,
}

/// Registration of a connection with its worker; removed on drop.
pub(super) struct Registration {
    worker: Rc<Worker>,
    key: usize,
}

impl Worker {
    pub(super) fn new(shared: Arc<SidecarState>, index: usize) -> Self {
        let bodies = Rc::new(BodyRoom::new(shared.config.most_bodies()));
        Self {
            shared,
            index,
            heads: Rc::default(),
            bodies,
            places: Places::default(),
            clock: Arc::new(AtomicU32::new(1)),
            draining: Cell::new(false),
            tracked: RefCell::new(Slab::new()),
        }
    }

    /// Starts draining, and drains every connection.
    pub(super) fn drain(&self) {
        self.draining.set(true);
        self.for_each(|connection| connection.drain());
    }

    /// True while draining.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Time of the coarse clock.
    pub(super) fn now(&self) -> u32 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Acquires a permit for another connection of `port`; none beyond the limit, unless a client that has
    /// more connections gives one up.
    pub(super) fn acquire_connection(
        self: &Rc<Self>,
        port: NonZeroU16,
        client: SocketAddr,
    ) -> Option<ConnectionPermit> {
        let place = ConnectionPlace::new(port, &Peer::new(client, PeerTls::Absent), self.now());
        if !self.take_place(&place, port) {
            return None;
        }
        self.places.add(&place);
        self.shared.open.add();
        self.shared.store.telemetry().transport.open.inc();
        Some(ConnectionPermit { worker: Rc::clone(self), place })
    }

    fn take_place(&self, place: &ConnectionPlace, port: NonZeroU16) -> bool {
        let bounds = (&self.shared.connection_permits, self.shared.config.limits.connections);
        let gone = |client| self.tcp_error(ErrorKind::TooManyConnections, client);
        self.places.take((place, port), bounds, self.now(), gone)
    }

    /// Acquires a permit for another outbound connection to `port`; none beyond the limit.
    pub(super) fn acquire_outbound(self: &Rc<Self>, port: NonZeroU16) -> Option<OutboundPermit> {
        let bound = self.shared.config.limits.connections;
        self.shared.outbound_permits.acquire(port, bound).then(|| {
            self.shared.open.add();
            OutboundPermit { worker: Rc::clone(self), port }
        })
    }

    /// Registers a connection. Must precede its first decision, so that no policy change is missed.
    pub(super) fn register(
        self: &Rc<Self>,
        connection: Weak<dyn TrackedConnection>,
    ) -> Registration {
        let key = self.tracked.borrow_mut().insert(connection);
        Registration { worker: Rc::clone(self), key }
    }

    /// The client's address for policy and records.
    pub(super) fn client(&self, from: SocketAddr) -> SocketAddr {
        let folded: IpAddr = policy_core::fold_mapped(from.ip());
        match &self.shared.config.client_address {
            Some(translate) => SocketAddr::new(translate(folded), from.port()),
            None => SocketAddr::new(folded, from.port()),
        }
    }

    /// Counts a failed connection, and logs it (sampled by kind).
    pub(super) fn tcp_error(&self, kind: ErrorKind, client: SocketAddr) {
        self.count_tcp_error(kind);
        self.log(kind, client, "connection failed");
    }

    /// Counts a failed connection that is logged elsewhere.
    pub(super) fn count_tcp_error(&self, kind: ErrorKind) {
        self.shared.store.telemetry().tcp_error(kind.as_str());
    }

    /// Counts a failed request under the policy of its port, and logs it (sampled by kind).
    pub(super) fn http_error(&self, kind: ErrorKind, handle: &PortHandle, client: SocketAddr) {
        match handle.live().in_force() {
            Ok(policy) => policy.counters.http_error(self.index, kind),
            Err(_) => self.shared.store.telemetry().http_error(kind),
        }
        self.log(kind, client, "request failed");
    }

    /// The series of one side of connections to `handle`'s port by `caller`.
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

    /// True if decisions are recorded.
    pub(super) fn is_recording(&self) -> bool {
        self.shared.recorder.as_ref().is_some_and(|recorder| recorder.is_recording())
    }

    /// Records a decision on a request.
    pub(super) fn record(&self, decided: &DecisionInfo<'_>, request: RequestRecord<'_>) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(&decided.record(&self.shared.config.workload, Some(request)));
        }
    }

    /// Records a decision on a connection, and logs it if it is a denial or audited.
    pub(super) fn record_connection(&self, decided: &mut DecisionInfo<'_>) {
        self.shared.config.notices.log(decided, None, Instant::now());
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(&decided.record(&self.shared.config.workload, None));
        }
    }

    fn for_each(&self, act: impl Fn(&dyn TrackedConnection)) {
        // Connections may register and close during the calls.
        let tracked: Vec<_> = self
            .tracked
            .borrow()
            .iter()
            .filter_map(|(_, connection)| connection.upgrade())
            .collect();
        tracked.iter().for_each(|connection| act(&**connection));
    }

    /// Re-evaluates every connection, and yields to other tasks in between. A connection that
    /// registers in the meantime was decided on by the current policy, so that it may be reviewed
    /// or not.
    pub(super) async fn review(&self) {
        let places = self.tracked.borrow().capacity();
        for place in 0..places {
            let connection = self.tracked.borrow().get(place).and_then(Weak::upgrade);
            if let Some(connection) = connection {
                connection.review();
            }
            if place % REVIEW_BATCH == REVIEW_BATCH - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(super) async fn run_clock(&self) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        second.tick().await;
        loop {
            second.tick().await;
            self.clock.fetch_add(1, Ordering::Relaxed);
            self.for_each(|connection| connection.tick());
            self.shared.config.notices.tick(Instant::now());
            self.reverify().await;
        }
    }

    /// Reverifies the certificate of every connection, and yields to other tasks in between.
    async fn reverify(&self) {
        let mut judge = ProofVerifier::new(self.shared.identity.current().clone());
        let places = self.tracked.borrow().capacity();
        for place in 0..places {
            let connection = self.tracked.borrow().get(place).and_then(Weak::upgrade);
            if let Some(connection) = connection {
                connection.reverify(&mut judge);
            }
            if place % REVIEW_BATCH == REVIEW_BATCH - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl ConnectionPermit {
    /// Returns the connection's place.
    pub(super) fn place(&self) -> Rc<ConnectionPlace> {
        Rc::clone(&self.place)
    }

    /// Sets the connection that is served, which gives its place to another where it has to.
    pub(super) fn serves(&self, peer: &Peer, connection: Weak<dyn InboundConnection>) {
        self.place.serves(peer, connection);
    }

    /// Moves the permit to `port`; false beyond its limit, and the permit stays unchanged.
    pub(super) fn move_to(&mut self, port: NonZeroU16) -> bool {
        let room = !self.place.is_gone() && self.worker.take_place(&self.place, port);
        if room {
            self.worker.shared.connection_permits.release(self.place.port());
            self.place.move_to(port);
        }
        room
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let shared = &self.worker.shared;
        self.worker.places.remove(&self.place);
        if !self.place.is_gone() {
            shared.connection_permits.release(self.place.port());
        }
        shared.open.remove();
        shared.store.telemetry().transport.open.dec();
    }
}

impl Drop for OutboundPermit {
    fn drop(&mut self) {
        self.worker.shared.outbound_permits.release(self.port);
        self.worker.shared.open.remove();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.worker.tracked.borrow_mut().try_remove(self.key);
    }
}

/// Connections that are reviewed before other tasks run.
const REVIEW_BATCH: usize = 32;

/// Converts a decision to the result that records take.
pub(super) fn into_result(decision: Decision) -> Result<Permit, Denial> {
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

    impl TrackedConnection for Counting {
        fn review(&self) {
            self.0.set(self.0.get().saturating_add(1));
        }

        fn tick(&self) {}

        fn reverify(&self, _: &mut ProofVerifier) {}

        fn drain(&self) {}
    }

    fn worker() -> Rc<Worker> {
        let telemetry = Arc::new(Telemetry::new(1));
        let shared = SidecarState {
            config: SidecarConfig::new("ns/web-0"),
            store: PolicyStore::new(StoreConfig::default(), telemetry).unwrap(),
            identity: IdentityHandle::empty(),
            recorder: None,
            listening: Vec::new(),
            connection_permits: ConnectionPermits::default(),
            request_permits: RequestPermits::default(),
            sampler: Sampler::new(Duration::from_secs(10), Instant::now()),
            outbound_permits: ConnectionPermits::default(),
            mesh_clients: MeshClients::new(IdentityHandle::empty()),
            refusals: RefusalLog::default(),
            open: OpenConnections::default(),
        };
        Rc::new(Worker::new(Arc::new(shared), 0))
    }

    #[tokio::test]
    async fn other_tasks_have_their_turn_while_many_connections_are_decided_again() {
        let all = REVIEW_BATCH.saturating_mul(10);
        let (worker, reviewed) = (worker(), Rc::new(Cell::new(0)));
        let tracked: Vec<Rc<dyn TrackedConnection>> = (0..all)
            .map(|_| Rc::new(Counting(Rc::clone(&reviewed))) as Rc<dyn TrackedConnection>)
            .collect();
        let places: Vec<_> =
            tracked.iter().map(|own| worker.register(Rc::downgrade(own))).collect();
        let seen = Rc::new(Cell::new(None));
        let local = tokio::task::LocalSet::new();
        let (other, count) = (Rc::clone(&seen), Rc::clone(&reviewed));
        let own = Rc::clone(&worker);
        let review = local.spawn_local(async move { own.review().await });
        local.spawn_local(async move { other.set(Some(count.get())) });
        local.run_until(review).await.unwrap();
        assert_eq!(reviewed.get(), all, "nobody is left out");
        assert_eq!(seen.get(), Some(REVIEW_BATCH));
        drop(places);
    }
}
