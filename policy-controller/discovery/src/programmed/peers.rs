//! What the other replicas say, and whether they all do.

use super::ledger::{Ledger, Teller};
use super::metrics::ProgrammedMetrics;
use super::unsent::UnsentBook;
use crate::replicas::{Connector, Event, Replica, Replicas, ask};
use crate::serve::PortAt;
use policy_core::ObjectRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, StreamMap, wrappers::ReceiverStream};

/// Messages of one replica that wait.
const QUEUE: usize = 16;

/// Whether what is counted is all there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Every replica has said everything, and goes on to.
    Complete,
    /// One that was found lately has not said everything yet.
    Waiting,
    /// It is not.
    Lacking {
        /// Why, in one word for programs.
        reason: &'static str,
        /// Why, for people.
        message: String,
    },
}

/// The other replicas.
#[derive(Debug)]
pub(super) struct Peers {
    name: Arc<str>,
    connector: Connector,
    timeout: Duration,
    known: BTreeMap<Replica, Peer>,
    unknown: Option<Arc<str>>,
    events: StreamMap<Replica, ReceiverStream<Event>>,
    next: Teller,
}

#[derive(Debug)]
struct Peer {
    teller: Teller,
    /// When it was found, or last said a part of everything without having broken off before: a long
    /// list is heard out.
    awaited: Instant,
    /// Whether a stream of its has ended.
    broke_off: bool,
    /// When it last said anything after it had said everything.
    heard: Option<Instant>,
    /// The ports that it said since its stream began, until it has said everything.
    said: Option<BTreeSet<PortAt>>,
    /// The objects of which it said since its stream began that its clients are not sent something.
    unsent: BTreeSet<ObjectRef>,
    /// What it calls itself, where nothing else names it.
    name: Option<String>,
}

impl Peers {
    /// None yet. `name` is what we call ourselves.
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

    /// Begins to ask those that are new, and forgets those that are gone.
    pub(super) fn follow(
        &mut self,
        replicas: &Replicas,
        ledger: &mut Ledger,
        unsent: &mut UnsentBook,
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
            // Whoever asks it ends when nobody listens.
            self.events.remove(&replica);
            if let Some(peer) = self.known.remove(&replica) {
                ledger.take_back(peer.teller, &BTreeSet::new());
                unsent.take_back(peer.teller, &BTreeSet::new());
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
        let asking =
            ask(replica.clone(), self.name.clone(), self.connector.clone(), self.timeout, sender);
        tokio::spawn(asking);
        // Our own clients are number 0.
        self.next = self.next.wrapping_add(1);
        self.events.insert(replica.clone(), ReceiverStream::new(receiver));
        let said = Some(BTreeSet::new());
        let (teller, awaited) = (self.next, Instant::now());
        let unsent = BTreeSet::new();
        let peer =
            Peer { teller, awaited, broke_off: false, heard: None, said, unsent, name: None };
        self.known.insert(replica.clone(), peer);
    }

    /// The next thing that some replica says; waits for ever where there is none.
    pub(super) async fn next(&mut self) -> (Replica, Event) {
        match self.events.next().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Takes note of what a replica said.
    pub(super) fn take(
        &mut self,
        (replica, event): (Replica, Event),
        ledger: &mut Ledger,
        unsent: &mut UnsentBook,
    ) {
        let Some(peer) = self.known.get_mut(&replica) else { return };
        let said = match event {
            Event::Lost => {
                peer.said = Some(BTreeSet::new());
                peer.unsent = BTreeSet::new();
                peer.broke_off = true;
                return;
            }
            Event::Said(said) => said,
        };
        for (at, in_force) in said.set {
            ledger.tell(peer.teller, &at, Some(in_force));
            if let Some(all) = &mut peer.said {
                all.insert(at);
            }
        }
        for at in &said.gone {
            ledger.tell(peer.teller, at, None);
            if let Some(all) = &mut peer.said {
                all.remove(at);
            }
        }
        for (object, lacking) in said.unsent {
            match lacking.is_empty() {
                true => peer.unsent.remove(&object),
                false => peer.unsent.insert(object.clone()),
            };
            unsent.tell(peer.teller, object, lacking);
        }
        if !said.more
            && let Some(all) = peer.said.take()
        {
            ledger.take_back(peer.teller, &all);
            unsent.take_back(peer.teller, &peer.unsent);
        }
        if peer.said.is_none() {
            peer.heard = Some(Instant::now());
        } else if !peer.broke_off {
            peer.awaited = Instant::now();
        }
        peer.name = Some(said.replica).filter(|name| !name.is_empty());
    }

    /// What replicas that do not answer said of their clients does not count: these are elsewhere, or
    /// gone. A replica whose stream has ended begins anew.
    pub(super) fn forget_silent(&self, now: Instant, unsent: &mut UnsentBook) {
        let silent = |peer: &&Peer| peer.said.is_some() && peer.is_silent(now, self.timeout);
        for peer in self.known.values().filter(silent) {
            unsent.take_back(peer.teller, &BTreeSet::new());
        }
    }

    /// Whether everything is known at `now`.
    pub(super) fn completeness(&self, now: Instant, metrics: &ProgrammedMetrics) -> Completeness {
        let silent = |peer: &Peer| peer.is_silent(now, self.timeout);
        let answering = self.known.values().filter(|peer| peer.heard.is_some() && !silent(peer));
        metrics.replicas(self.known.len(), answering.count());
        if let Some(why) = &self.unknown {
            return Completeness::Lacking { reason: "ReplicasUnknown", message: why.to_string() };
        }
        let lost = self.known.iter().filter(|(_, peer)| silent(peer));
        let lost: Vec<String> = lost.map(|(replica, peer)| peer.title(replica)).collect();
        match lost.as_slice() {
            [] if self.known.values().any(|peer| peer.heard.is_none()) => Completeness::Waiting,
            [] => Completeness::Complete,
            [one] => Completeness::Lacking {
                reason: "ReplicaUnreachable",
                message: format!("replica {one} does not answer"),
            },
            several => Completeness::Lacking {
                reason: "ReplicaUnreachable",
                message: format!("replicas {} do not answer", several.join(", ")),
            },
        }
    }
}

impl Peer {
    fn is_silent(&self, now: Instant, timeout: Duration) -> bool {
        let since = self.heard.unwrap_or(self.awaited);
        now.saturating_duration_since(since) > timeout
    }

    fn title(&self, replica: &Replica) -> String {
        match (&replica.name, &self.name) {
            (None, Some(name)) => format!("{name} ({})", replica.address),
            (_, _) => replica.to_string(),
        }
    }
}
