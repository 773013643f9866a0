//! Encodings of answers, made once for all streams that send them.
//!
//! A message has two parts: the lookup's number, which belongs to one client, and the rest, which is
//! shared. Concatenated they are one message, because protobuf reads fields in any order.

use crate::serve::cache::Cache;
use crate::serve::codec::Payload;
use crate::serve::core::Core;
use bytes::Bytes;
use parking_lot::Mutex;
use policy_engine::PublishedDestination;
use policy_proto::messages::DestinationResponse;
use policy_proto::messages::destination_response::Kind;
use policy_proto::native::destination::{change_of_destination, encode_destination};
use prost::Message;
use std::sync::{Arc, OnceLock, Weak};

/// The messages of one answer, in order, without the lookup's number.
pub(super) type Messages = Arc<[Bytes]>;

/// The answers that clients have now, and the state to make them.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) core: Arc<Core>,
    cache: Arc<Cache<PublishedDestination, (), Answer>>,
}

impl Answers {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, cache: Arc::default() }
    }

    /// Returns the answer that says `destination`.
    pub(super) fn answer(&self, destination: &Arc<PublishedDestination>) -> Arc<Answer> {
        let (answer, made) = self.cache.get(destination, (), |()| Answer::new(destination));
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
    whole: OnceLock<Messages>,
    /// The change from another answer, for each that some client has.
    changes: Mutex<Vec<(Weak<Answer>, Messages)>>,
}

impl Answer {
    fn new(destination: &Arc<PublishedDestination>) -> Self {
        Self { said: Arc::clone(destination), whole: OnceLock::new(), changes: Mutex::default() }
    }

    /// True if a client that has this has `destination`.
    pub(super) fn says(&self, destination: &Arc<PublishedDestination>) -> bool {
        Arc::ptr_eq(&self.said, destination) || self.said.destination == destination.destination
    }

    /// Returns the whole answer.
    pub(super) fn whole(&self) -> Messages {
        let made = || encoded(encode_destination(&self.said.destination));
        Arc::clone(self.whole.get_or_init(made))
    }

    /// Returns the change for a client that has `base`, or the whole answer if that is smaller.
    pub(super) fn change_from(&self, base: &Arc<Self>) -> Messages {
        let mut changes = self.changes.lock();
        changes.retain(|(known, _)| known.strong_count() > 0);
        let known = changes.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(base));
        if let Some((_, messages)) = known {
            return Arc::clone(messages);
        }
        let change = change_of_destination(&base.said.destination, &self.said.destination);
        let messages = change.map_or_else(|| self.whole(), encoded);
        changes.push((Arc::downgrade(base), Arc::clone(&messages)));
        messages
    }
}

fn encoded(kinds: Vec<Kind>) -> Messages {
    kinds.into_iter().map(|kind| message(0, Some(kind))).collect()
}

/// The message of a client's lookup and the part that all clients share.
pub(super) fn payload(id: u32, shared: Bytes) -> Payload {
    Payload { own: message(id, None), shared }
}

/// A message for one client alone.
pub(super) fn own_payload(id: u32, kind: Kind) -> Payload {
    Payload { own: message(id, Some(kind)), shared: Bytes::new() }
}

fn message(id: u32, kind: Option<Kind>) -> Bytes {
    DestinationResponse { id, kind }.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::destination::{
        Destination, Endpoint, EndpointMesh, PlaintextReason, ServiceDestination, ServiceName,
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
        Arc::new(PublishedDestination { destination, needs: ScopeKind::All })
    }

    #[test]
    fn own_and_shared_part_are_one_message() {
        let published = published(&[1]);
        let whole = Answer::new(&published).whole();
        let [one] = &*whole else { panic!("one message") };
        let payload = payload(7, one.clone());
        let read = DestinationResponse::decode(&*[payload.own, payload.shared].concat()).unwrap();
        let kind = encode_destination(&published.destination).pop();
        assert_eq!(read, DestinationResponse { id: 7, kind });
    }

    #[test]
    fn a_change_is_made_once_for_each_base_that_somebody_has() {
        let bases = [&[1, 2, 3, 4][..], &[1, 2, 3, 4, 5]]
            .map(|list| Arc::new(Answer::new(&published(list))));
        let next = Answer::new(&published(&[1, 2, 3, 4, 6]));
        let first = bases.each_ref().map(|base| next.change_from(base));
        assert_ne!(first[0], first[1]);
        for (base, first) in bases.iter().zip(&first) {
            assert!(Arc::ptr_eq(&next.change_from(base), first));
            assert!(first[0].len() < next.whole()[0].len());
        }
        drop(bases);
        next.change_from(&Arc::new(Answer::new(&published(&[]))));
        assert_eq!(next.changes.lock().len(), 1, "changes from what nobody has are not kept");
    }

    #[test]
    fn what_says_the_same_is_not_sent_again() {
        let answer = Answer::new(&published(&[1]));
        assert!(answer.says(&published(&[1])));
        assert!(!answer.says(&published(&[2])));
    }
}
