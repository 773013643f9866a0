//! The task that counts how far objects are in force.

use super::acks::{AckTable, ReporterId};
use super::metrics::RolloutMetrics;
use super::peer_set::{Completeness, PeerSet};
use super::unsent::UnsentReports;
use crate::peers::{Connector, Replicas};
use crate::serve::{AckRegistry, Feed};
use policy_crds::ObjectKey;
use policy_engine::desired::Version;
use policy_engine::handles::DesiredHandle;
use policy_engine::programmed::{Programmed, ProgrammedAt, ProgrammedTable};
use policy_engine::reach::Reach;
use policy_engine::report::{Count, Tally};
use policy_server::TlsHandle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Shortest time between two counts.
const GAP: Duration = Duration::from_millis(250);

/// Interval at which timeouts are checked.
const TICK: Duration = Duration::from_millis(500);

/// Time for which counting goes on after a single query.
const LINGER: Duration = Duration::from_secs(30);

/// Most changes of our own clients read at once.
const MAX_CHANGES: usize = 10_000;

/// The reporter of our own clients.
const OWN_CLIENTS: ReporterId = 0;

const NOT_COUNTED: &str = "NotCounted";

/// Settings of the rollout tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutConfig {
    /// Name of this replica, for the logs of the others.
    pub replica: Arc<str>,
    /// Time after which a silent replica counts as unreachable.
    pub timeout: Duration,
    /// Time for which the last report about a proxy counts after its stream has ended, unless the
    /// proxy reports something else on another stream.
    pub keep: Duration,
}

impl RolloutConfig {
    /// The usual times.
    pub fn new(replica: &str) -> Self {
        let (timeout, keep) = (Duration::from_secs(10), Duration::from_secs(10));
        Self { replica: replica.into(), timeout, keep }
    }
}

/// A handle on the counts; clones share them. Counting ends when the last is dropped.
#[derive(Clone, Debug)]
pub struct RolloutTracker {
    interest: Arc<watch::Sender<Interest>>,
    tally: watch::Receiver<Arc<Tally>>,
    table: watch::Receiver<Arc<ProgrammedTable>>,
    metrics: RolloutMetrics,
}

/// Demand for the counts.
#[derive(Clone, Copy, Debug, Default)]
struct Interest {
    holders: usize,
    until: Option<Instant>,
}

impl Interest {
    fn exists(&self) -> bool {
        self.holders > 0 || self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// Keeps counting going until it is dropped.
#[derive(Debug)]
pub struct TrackingGuard(Arc<watch::Sender<Interest>>);

impl Drop for TrackingGuard {
    fn drop(&mut self) {
        self.0.send_modify(|interest| interest.holders = interest.holders.saturating_sub(1));
    }
}

impl RolloutTracker {
    /// Keeps counting until the guard is dropped.
    pub fn hold(&self) -> TrackingGuard {
        self.interest.send_modify(|interest| interest.holders = interest.holders.saturating_add(1));
        TrackingGuard(self.interest.clone())
    }

    /// Counts while this replica leads.
    pub async fn while_leading(self, mut leading: watch::Receiver<bool>) {
        loop {
            if leading.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let _hold = self.hold();
            if leading.wait_for(|leads| !*leads).await.is_err() {
                // Without a Lease the replica leads to the end.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the rollout of every object, updated at most a few times a second.
    pub fn tally(&self) -> watch::Receiver<Arc<Tally>> {
        self.tally.clone()
    }

    /// Returns the rollout of every object that can contribute to a policy, with the version of the
    /// object that each count is about.
    pub fn table(&self) -> watch::Receiver<Arc<ProgrammedTable>> {
        self.table.clone()
    }

    /// Returns the current rollout of every object. Counting goes on for a while from then; the
    /// call waits for the first count at most for `patience`.
    pub async fn current(&self, patience: Duration) -> Arc<Tally> {
        self.interest.send_modify(|interest| {
            interest.until = Instant::now().checked_add(LINGER);
        });
        let mut tally = self.tally.clone();
        let counted = tally.wait_for(
            |tally| !matches!(&**tally, Tally::Unknown { reason, .. } if **reason == *NOT_COUNTED),
        );
        // After the timeout the last known counts are returned.
        _ = tokio::time::timeout(patience, counted).await;
        self.tally.borrow().clone()
    }

    /// Returns the metrics, to be registered.
    pub fn metrics(&self) -> RolloutMetrics {
        self.metrics.clone()
    }
}

/// Starts the task that compares what should be in force (`demand`) with what is in force, by
/// `applied` and by the other `replicas`, while there is demand for the counts. It authenticates to
/// the replicas with `tls`. Needs a tokio runtime.
pub fn start(
    config: RolloutConfig,
    demand: DesiredHandle,
    applied: AckRegistry,
    replicas: watch::Receiver<Arc<Replicas>>,
    tls: Option<TlsHandle>,
) -> RolloutTracker {
    let (interest, interest_receiver) = watch::channel(Interest::default());
    let (tally, tally_receiver) = watch::channel(Arc::new(not_counted()));
    let (table, table_receiver) = watch::channel(Arc::default());
    let metrics = RolloutMetrics::default();
    let counter = Counter {
        config,
        demand,
        applied,
        replicas,
        connector: Connector::new(tls),
        interest: interest_receiver,
        tally,
        table,
        metrics: metrics.clone(),
    };
    tokio::spawn(counter.run());
    let interest = Arc::new(interest);
    RolloutTracker { interest, tally: tally_receiver, table: table_receiver, metrics }
}

fn not_counted() -> Tally {
    Tally::unknown(NOT_COUNTED, "this replica has not counted yet; try again in a moment")
}

struct Counter {
    config: RolloutConfig,
    demand: DesiredHandle,
    applied: AckRegistry,
    replicas: watch::Receiver<Arc<Replicas>>,
    connector: Connector,
    interest: watch::Receiver<Interest>,
    tally: watch::Sender<Arc<Tally>>,
    table: watch::Sender<Arc<ProgrammedTable>>,
    metrics: RolloutMetrics,
}

/// State that is kept while there is demand for the counts.
struct TrackerState {
    acks: AckTable,
    unsent: UnsentReports,
    peers: PeerSet,
    objects: BTreeMap<ObjectKey, Version>,
    reaches: BTreeMap<ObjectKey, Arc<Reach>>,
    feed: Feed,
    listed: bool,
    /// True if the objects or the completeness have changed since the counts were last published.
    changed: bool,
    completeness: Completeness,
}

impl Counter {
    async fn run(mut self) {
        loop {
            // The last handle has gone if this fails.
            if self.interest.wait_for(Interest::exists).await.is_err() {
                return;
            }
            let going_on = self.count().await;
            self.demand.stop().await;
            self.publish(not_counted(), BTreeMap::new());
            self.metrics.not_programmed(0);
            self.metrics.replicas(0, 0);
            if !going_on {
                return;
            }
        }
    }

    /// Counts while there is demand; false if all handles are gone.
    async fn count(&mut self) -> bool {
        let mut state = self.open();
        let mut demanded = true;
        // Without discovery the known replicas are all.
        let mut followed = true;
        let mut due = Some(Instant::now());
        // So that a burst is counted only a few times. Reports are read in the meantime.
        let mut earliest = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let at = due.unwrap_or_else(Instant::now);
            tokio::select! {
                () = tokio::time::sleep_until(at.into()), if due.is_some() => {
                    if std::mem::take(&mut demanded) {
                        state.update_desired(&mut self.demand).await;
                    }
                    self.recount(&mut state);
                    due = None;
                    earliest = Instant::now().checked_add(GAP).unwrap_or(earliest);
                    continue;
                }
                changed = self.interest.changed() => {
                    if changed.is_err() {
                        return false;
                    }
                    continue;
                }
                there = self.demand.changed() => {
                    if !there {
                        return false;
                    }
                    demanded = true;
                }
                () = state.feed.changed() => state.take_own_reports(),
                event = state.peers.next() => {
                    state.peers.take(event, &mut state.acks, &mut state.unsent);
                }
                changed = self.replicas.changed(), if followed => {
                    followed = changed.is_ok();
                    let replicas = self.replicas.borrow_and_update().clone();
                    state.peers.follow(&replicas, &mut state.acks, &mut state.unsent);
                }
                _ = tick.tick() => {
                    if !self.interest.borrow().exists() {
                        return true;
                    }
                    demanded |= !state.listed;
                    state.acks.expire(Instant::now());
                    state.peers.forget_silent(Instant::now(), &mut state.unsent);
                }
            }
            due.get_or_insert(earliest);
        }
    }

    fn open(&mut self) -> TrackerState {
        let name = self.config.replica.clone();
        let mut state = TrackerState {
            acks: AckTable::new(self.config.keep),
            unsent: UnsentReports::new(self.config.keep),
            peers: PeerSet::new(name, self.connector.clone(), self.config.timeout),
            objects: BTreeMap::new(),
            reaches: BTreeMap::new(),
            feed: self.applied.follow(),
            listed: false,
            changed: true,
            completeness: Completeness::Pending,
        };
        let replicas = self.replicas.borrow_and_update().clone();
        state.peers.follow(&replicas, &mut state.acks, &mut state.unsent);
        state
    }

    /// Counts, and publishes changes.
    fn recount(&self, state: &mut TrackerState) {
        let completeness = state.peers.completeness(Instant::now(), &self.metrics);
        if state.unsent.refresh(Instant::now()) {
            state.changed = true;
            state.acks.set_lacking(state.unsent.denied());
        }
        state.changed |= state.acks.recount();
        state.changed |= completeness != state.completeness;
        for time in state.acks.take_durations() {
            self.metrics.observe_rollout(time);
        }
        state.completeness = completeness;
        let tally = match &state.completeness {
            // The published counts stay until the replica has reported everything, or has been
            // silent for too long.
            Completeness::Pending => return,
            _ if !std::mem::take(&mut state.changed) => return,
            _ if !state.listed => {
                Tally::unknown("NotListed", "objects have not been listed completely")
            }
            Completeness::Incomplete { reason, message } => Tally::unknown(reason, message),
            Completeness::Complete => Tally::Counted(state.acks.counts().clone()),
        };
        let lacking = |count: &&Count| count.in_force < count.concerned;
        let lacking = state.acks.counts().values().filter(lacking).count();
        self.metrics.not_programmed(lacking);
        let table = state.objects.iter().map(|(key, version)| {
            let programmed = programmed(&tally, key, state.reaches.get(key));
            let Version { uid, generation } = version.clone();
            let unsent = state.unsent.of(key);
            (key.clone(), ProgrammedAt { uid, generation, programmed, unsent })
        });
        let table = table.collect();
        self.publish(tally, table);
    }

    fn publish(&self, tally: Tally, table: ProgrammedTable) {
        fn replace<T: PartialEq>(known: &mut Arc<T>, now: T) -> bool {
            let differs = **known != now;
            if differs {
                *known = Arc::new(now);
            }
            differs
        }
        // The table first, so that a reader of the counts finds the table that belongs to them.
        self.table.send_if_modified(|known| replace(known, table));
        self.tally.send_if_modified(|known| replace(known, tally));
    }
}

fn programmed(tally: &Tally, key: &ObjectKey, reach: Option<&Arc<Reach>>) -> Programmed {
    match tally {
        Tally::Counted(counts) => {
            let count = counts.get(&key.to_ref()).copied().unwrap_or_default();
            let Count { in_force, concerned, refused } = count;
            let reach = reach.cloned().unwrap_or_default();
            Programmed::Counted { in_force, concerned, refused, reach }
        }
        Tally::Unknown { reason, message } => {
            Programmed::Unknown { reason: reason.clone(), message: message.clone() }
        }
    }
}

impl TrackerState {
    /// Reads the reports of our own clients.
    fn take_own_reports(&mut self) {
        loop {
            let (changes, more) = self.feed.take_unsent(MAX_CHANGES);
            for (object, unsent) in changes {
                self.unsent.record(OWN_CLIENTS, object, unsent);
            }
            if !more {
                break;
            }
        }
        loop {
            let (changes, more) = self.feed.take(MAX_CHANGES);
            for (at, in_force) in changes {
                self.acks.record(OWN_CLIENTS, &at, in_force);
            }
            if !more {
                return;
            }
        }
    }

    /// Reads the desired policies.
    async fn update_desired(&mut self, demand: &mut DesiredHandle) {
        let Some(news) = demand.delta().await else { return };
        self.changed |= !self.listed || !news.objects.is_empty();
        self.listed = true;
        self.acks.set_desired(&news);
        for (key, version) in news.objects {
            let before = match &version {
                Some(version) => self.objects.insert(key.clone(), version.clone()),
                None => {
                    self.reaches.remove(&key);
                    self.objects.remove(&key)
                }
            };
            if before != version {
                self.unsent.object_changed(&key);
            }
        }
        for (key, reach) in news.reaches {
            let differs = self.reaches.get(&key) != Some(&reach);
            self.changed |= differs;
            if differs {
                self.reaches.insert(key, reach);
            }
        }
    }
}
