//! The messages of `DestinationDiscovery`.
//!
//! A message has two parts: the lookup's number, which belongs to one client, and the rest, which is
//! shared. Concatenated they are one message, because protobuf reads fields in any order.

use crate::serve::answers::Wording;
use crate::serve::codec::Payload;
use bytes::Bytes;
use policy_proto::messages::DestinationResponse;
use policy_proto::messages::destination_response::Kind;
use policy_proto::native::destination::{change_of_destination, encode_destination};
use prost::Message;

/// The shared parts of answers.
pub(super) const WORDING: Wording = Wording {
    whole: |destination| encoded(encode_destination(destination)),
    change: |old, new| change_of_destination(old, new).map(encoded),
};

fn encoded(kinds: Vec<Kind>) -> Vec<Bytes> {
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
    use policy_core::Destination;

    #[test]
    fn own_and_shared_part_are_one_message() {
        let whole = (WORDING.whole)(&Destination::Node);
        let [one] = &*whole else { panic!("one message") };
        let payload = payload(7, one.clone());
        let read = DestinationResponse::decode(&*[payload.own, payload.shared].concat()).unwrap();
        let kind = encode_destination(&Destination::Node).pop();
        assert_eq!(read, DestinationResponse { id: 7, kind });
    }
}
