//! Answers about destinations, encoded once for all streams that send them: a stream that waits for a
//! slow client holds no copy of its own, and many streams that ask the same cost what one does.

use super::cache::Cache;
use super::core::Core;
use bytes::Bytes;
use parking_lot::Mutex;
use policy_core::Destination;
use policy_engine::PublishedDestination;
use std::sync::{Arc, OnceLock, Weak};

/// The messages of one answer that all clients share, in order.
pub(super) type Messages = Arc<[Bytes]>;

/// The messages of an API.
#[derive(Debug)]
pub(super) struct Wording {
    /// The whole answer.
    pub(super) whole: fn(&Destination) -> Vec<Bytes>,
    /// The change from one answer to another; `None`: the whole answer says it.
    pub(super) change: fn(&Destination, &Destination) -> Option<Vec<Bytes>>,
}

/// The answers that the clients of one API have now, and the state to make them.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) core: Arc<Core>,
    wording: &'static Wording,
    cache: Arc<Cache<PublishedDestination, (), Answer>>,
}

impl Answers {
    pub(super) fn new(core: Arc<Core>, wording: &'static Wording) -> Self {
        Self { core, wording, cache: Arc::default() }
    }

    /// Returns the answer that says `destination`.
    pub(super) fn answer(&self, destination: &Arc<PublishedDestination>) -> Arc<Answer> {
        let make = |&(): &()| Answer::new(destination, self.wording);
        let (answer, made) = self.cache.get(destination, (), make);
        if made {
            self.core.metrics.encoded("destinations");
        } else {
            self.core.metrics.shared("destinations");
        }
        answer
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    said: Arc<PublishedDestination>,
    wording: &'static Wording,
    whole: OnceLock<Messages>,
    /// The change from another answer, for each that some client has.
    changes: Mutex<Vec<(Weak<Answer>, Messages)>>,
}

impl Answer {
    fn new(destination: &Arc<PublishedDestination>, wording: &'static Wording) -> Self {
        let said = Arc::clone(destination);
        Self { said, wording, whole: OnceLock::new(), changes: Mutex::default() }
    }

    /// True if a client that has this has `destination`.
    pub(super) fn says(&self, destination: &Arc<PublishedDestination>) -> bool {
        Arc::ptr_eq(&self.said, destination) || self.said.destination == destination.destination
    }

    /// Returns the whole answer.
    pub(super) fn whole(&self) -> Messages {
        let made = || (self.wording.whole)(&self.said.destination).into();
        Arc::clone(self.whole.get_or_init(made))
    }

    /// Returns the change for a client that has `base`, or the whole answer if that says it.
    pub(super) fn change_from(&self, base: &Arc<Self>) -> Messages {
        let mut changes = self.changes.lock();
        changes.retain(|(known, _)| known.strong_count() > 0);
        let known = changes.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(base));
        if let Some((_, messages)) = known {
            return Arc::clone(messages);
        }
        let change = (self.wording.change)(&base.said.destination, &self.said.destination);
        let messages = change.map_or_else(|| self.whole(), Messages::from);
        changes.push((Arc::downgrade(base), Arc::clone(&messages)));
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::destination::{
        Endpoint, EndpointMesh, PlaintextReason, ServiceDestination, ServiceName,
    };
    use policy_engine::ScopeKind;
    use std::net::SocketAddr;
    use std::num::NonZeroU16;

    fn published(endpoints: &[u8]) -> Arc<PublishedDestination> {
        let endpoint = |last: &u8| Endpoint {
            address: SocketAddr::from(([10, 0, 0, *last], 80)),
            owner: "deployment/web".into(),
            namespace: "shop".into(),
            mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
        };
        let destination = Destination::Service(ServiceDestination {
            service: ServiceName { namespace: "shop".into(), name: "web".into() },
            port: NonZeroU16::new(80).unwrap(),
            affinity: None,
            endpoints: endpoints.iter().map(endpoint).collect(),
        });
        Arc::new(PublishedDestination { destination, needs: ScopeKind::All, is_pending: false })
    }

    /// A message for each endpoint; of a change, for each new one.
    const ADDRESSES: Wording = Wording {
        whole: |now| now.endpoints().iter().map(shown).collect(),
        change: |old, new| {
            let fresh = new.endpoints().iter().filter(|now| !old.endpoints().contains(now));
            Some(fresh.map(shown).collect())
        },
    };

    fn shown(endpoint: &Endpoint) -> Bytes {
        endpoint.address.to_string().into()
    }

    fn answer(published: &Arc<PublishedDestination>) -> Answer {
        Answer::new(published, &ADDRESSES)
    }

    #[test]
    fn a_change_is_made_once_for_each_base_that_somebody_has() {
        let bases = [&[1, 2][..], &[2, 3]].map(|list| Arc::new(answer(&published(list))));
        let next = answer(&published(&[1, 2, 3]));
        let first = bases.each_ref().map(|base| next.change_from(base));
        let said = first.each_ref().map(|messages| messages.to_vec());
        assert_eq!(said, [["10.0.0.3:80"], ["10.0.0.1:80"]]);
        for (base, first) in bases.iter().zip(&first) {
            assert!(Arc::ptr_eq(&next.change_from(base), first));
        }
        drop(bases);
        next.change_from(&Arc::new(answer(&published(&[]))));
        assert_eq!(next.changes.lock().len(), 1, "changes from what nobody has are not kept");
    }

    #[test]
    fn what_says_the_same_is_not_sent_again() {
        let answer = answer(&published(&[1]));
        assert!(answer.says(&published(&[1])));
        assert!(!answer.says(&published(&[2])));
    }
}
