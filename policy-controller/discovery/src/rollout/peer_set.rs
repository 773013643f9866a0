//! The other replicas' reports, and whether they are complete.

use super::acks::{AckTable, ReporterId};
use super::metrics::RolloutMetrics;
use super::unsent::UnsentReports;
use crate::peers::{Connector, PeerEvent, Replica, Replicas, watch_peer};
use crate::serve::WorkloadPort;
use policy_core::ObjectRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, StreamMap, wrappers::ReceiverStream};

/// Pending messages of one replica.
const QUEUE: usize = 16;

/// The reason while it is unknown which other replicas there are.
const REPLICAS_UNKNOWN: &str = "ReplicasUnknown";
/// The reason while a replica does not answer.
const REPLICA_UNREACHABLE: &str = "ReplicaUnreachable";

/// Every reason of reports that are incomplete.
pub const INCOMPLETE_REASONS: [&str; 2] = [REPLICAS_UNKNOWN, REPLICA_UNREACHABLE];

/// Completeness of the reports that the counts are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Every replica has sent a complete list, and its stream is open.
    Complete,
    /// A new replica has not sent its complete list yet.
    Pending,
    /// A replica is unreachable, or the replicas are unknown.
    Incomplete {
        /// Machine-readable reason, in CamelCase.
        reason: &'static str,
        /// Human-readable message.
        message: String,
    },
}

/// The other replicas.
#[derive(Debug)]
pub(super) struct PeerSet {
    name: Arc<str>,
    connector: Connector,
    timeout: Duration,
    known: BTreeMap<Replica, PeerState>,
    unknown: Option<Arc<str>>,
    events: StreamMap<Replica, ReceiverStream<PeerEvent>>,
    next: ReporterId,
}

#[derive(Debug)]
struct PeerState {
    reporter: ReporterId,
    /// Time at which it was found, or last sent part of its first complete list on an unbroken
    /// stream: a long list may take its time.
    expected_since: Instant,
    /// True if a stream of this peer has ended.
    disconnected: bool,
    /// Time of its last message after its first complete list.
    last_seen: Option<Instant>,
    /// Ports reported since its stream began, until the first complete list.
    said: Option<BTreeSet<WorkloadPort>>,
    /// Objects with omissions, as reported since its stream began.
    unsent: BTreeSet<ObjectRef>,
    /// Name that the replica reports itself, for the case that nothing else names it.
    name: Option<String>,
}

impl PeerSet {
    /// Creates an empty set. `name` is the name of this replica.
    pub(super) fn new(name: Arc<str>, connector: Connector, timeout: Duration) -> Self {
        Self {
            name,
            connector,
            timeout,
            known: BTreeMap::new(),
            unknown: None,
            events: StreamMap::new(),
            next: 0,
        }
    }

    /// Starts following new replicas, and drops those that are gone.
    pub(super) fn follow(
        &mut self,
        replicas: &Replicas,
        acks: &mut AckTable,
        unsent: &mut UnsentReports,
    ) {
        let wanted = match replicas {
            Replicas::Known(wanted) => {
                self.unknown = None;
                wanted
            }
            Replicas::Unknown(why) => {
                self.unknown = Some(why.clone());
                &BTreeSet::new()
            }
        };
        let gone: Vec<Replica> =
            self.known.keys().filter(|known| !wanted.contains(known)).cloned().collect();
        for replica in gone {
            // Its task ends when the receiver is dropped.
            self.events.remove(&replica);
            if let Some(peer) = self.known.remove(&replica) {
                acks.retract(peer.reporter, &BTreeSet::new());
                unsent.retract(peer.reporter, &BTreeSet::new());
            }
        }
        for replica in wanted {
            if !self.known.contains_key(replica) {
                self.begin(replica);
            }
        }
    }

    fn begin(&mut self, replica: &Replica) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let asking = watch_peer(
            replica.clone(),
            self.name.clone(),
            self.connector.clone(),
            self.timeout,
            sender,
        );
        tokio::spawn(asking);
        // Our own clients are number 0.
        self.next = self.next.wrapping_add(1);
        self.events.insert(replica.clone(), ReceiverStream::new(receiver));
        let said = Some(BTreeSet::new());
        let (reporter, expected_since) = (self.next, Instant::now());
        let unsent = BTreeSet::new();
        let peer = PeerState {
            reporter,
            expected_since,
            disconnected: false,
            last_seen: None,
            said,
            unsent,
            name: None,
        };
        self.known.insert(replica.clone(), peer);
    }

    /// Waits for the next event of some replica; forever if there is none.
    pub(super) async fn next(&mut self) -> (Replica, PeerEvent) {
        match self.events.next().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Applies an event.
    pub(super) fn take(
        &mut self,
        (replica, event): (Replica, PeerEvent),
        acks: &mut AckTable,
        unsent: &mut UnsentReports,
    ) {
        let Some(peer) = self.known.get_mut(&replica) else { return };
        let said = match event {
            PeerEvent::Disconnected => {
                peer.said = Some(BTreeSet::new());
                peer.unsent = BTreeSet::new();
                peer.disconnected = true;
                return;
            }
            PeerEvent::Report(said) => said,
        };
        for (at, in_force) in said.set {
            acks.record(peer.reporter, &at, Some(in_force));
            if let Some(all) = &mut peer.said {
                all.insert(at);
            }
        }
        for at in &said.gone {
            acks.record(peer.reporter, at, None);
            if let Some(all) = &mut peer.said {
                all.remove(at);
            }
        }
        for (object, lacking) in said.unsent {
            match lacking.is_empty() {
                true => peer.unsent.remove(&object),
                false => peer.unsent.insert(object.clone()),
            };
            unsent.record(peer.reporter, object, lacking);
        }
        if !said.more
            && let Some(all) = peer.said.take()
        {
            acks.retract(peer.reporter, &all);
            unsent.retract(peer.reporter, &peer.unsent);
        }
        if peer.said.is_none() {
            peer.last_seen = Some(Instant::now());
        } else if !peer.disconnected {
            peer.expected_since = Instant::now();
        }
        peer.name = Some(said.replica).filter(|name| !name.is_empty());
    }

    /// Withdraws the reports of replicas that do not answer: their clients are connected elsewhere,
    /// or gone. A replica whose stream has ended starts over.
    pub(super) fn forget_silent(&self, now: Instant, unsent: &mut UnsentReports) {
        let silent = |peer: &&PeerState| peer.said.is_some() && peer.is_silent(now, self.timeout);
        for peer in self.known.values().filter(silent) {
            unsent.retract(peer.reporter, &BTreeSet::new());
        }
    }

    /// Returns the completeness of all reports at `now`.
    pub(super) fn completeness(&self, now: Instant, metrics: &RolloutMetrics) -> Completeness {
        let silent = |peer: &PeerState| peer.is_silent(now, self.timeout);
        let answering =
            self.known.values().filter(|peer| peer.last_seen.is_some() && !silent(peer));
        metrics.replicas(self.known.len(), answering.count());
        if let Some(why) = &self.unknown {
            return Completeness::Incomplete { reason: REPLICAS_UNKNOWN, message: why.to_string() };
        }
        let lost = self.known.iter().filter(|(_, peer)| silent(peer));
        let lost: Vec<String> = lost.map(|(replica, peer)| peer.title(replica)).collect();
        match lost.as_slice() {
            [] if self.known.values().any(|peer| peer.last_seen.is_none()) => Completeness::Pending,
            [] => Completeness::Complete,
            [one] => Completeness::Incomplete {
                reason: REPLICA_UNREACHABLE,
                message: format!("replica {one} does not answer"),
            },
            several => Completeness::Incomplete {
                reason: REPLICA_UNREACHABLE,
                message: format!("replicas {} do not answer", several.join(", ")),
            },
        }
    }
}

impl PeerState {
    fn is_silent(&self, now: Instant, timeout: Duration) -> bool {
        let since = self.last_seen.unwrap_or(self.expected_since);
        now.saturating_duration_since(since) > timeout
    }

    fn title(&self, replica: &Replica) -> String {
        match (&replica.name, &self.name) {
            (None, Some(name)) => format!("{name} ({})", replica.address),
            (_, _) => replica.to_string(),
        }
    }
}
