//! Room for the heads of open requests, over all clients of a worker. A head of a few hundred compressed
//! bytes may be 64 KiB, and a connection of HTTP/2 has hundreds of streams.

use policy_core::Identity;
use policy_http::http2::BodyGroup;
use policy_tls::peer::Peer;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// The heads of a worker's open requests.
#[derive(Default)]
pub(super) struct HeadRoom {
    held: Cell<usize>,
    clients: RefCell<HashMap<HeadClient, Rc<HeldByClient>>>,
}

/// Clients whose heads count together: those of an identity, or those without one in a network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum HeadClient {
    Identity(Identity),
    /// The first address of a /24 or /64.
    Network(IpAddr),
}

struct HeldByClient {
    client: HeadClient,
    held: Cell<usize>,
}

/// Room of one head; released on drop.
pub(super) struct HeadPermit {
    room: Rc<HeadRoom>,
    client: Rc<HeldByClient>,
    bytes: usize,
}

/// There is no room: its client holds too much, or all clients do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Returns the clients whose bodies count together, as their heads do.
pub(super) fn body_group(peer: &Peer) -> BodyGroup {
    let client = HeadClient::of(peer);
    let share = if matches!(client, HeadClient::Identity(_)) { IDENTITY_SHARE } else { 1 };
    BodyGroup { key: BuildHasherDefault::<DefaultHasher>::default().hash_one(&client), share }
}

impl HeadClient {
    fn of(peer: &Peer) -> Self {
        match (peer.identity(), policy_core::fold_mapped(peer.ip())) {
            (Some(identity), _) => Self::Identity(identity.clone()),
            (None, IpAddr::V4(address)) => {
                let [a, b, c, _] = address.octets();
                Self::Network(Ipv4Addr::new(a, b, c, 0).into())
            }
            (None, IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Self::Network(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }
}

impl HeadRoom {
    /// Takes room for a head of `bytes`, of `most` for all; none for a small one, which costs less than its request does. A
    /// client without an identity may hold as much as is free, one with an identity four times that: each
    /// leaves room for the next.
    pub(super) fn acquire(
        self: &Rc<Self>,
        peer: &Peer,
        (bytes, most): (usize, usize),
    ) -> Result<Option<HeadPermit>, NoRoom> {
        let bytes = bytes.saturating_sub(SMALL);
        if bytes == 0 {
            return Ok(None);
        }
        let free = most.saturating_sub(self.held.get());
        let client = HeadClient::of(peer);
        let share = if matches!(client, HeadClient::Identity(_)) { IDENTITY_SHARE } else { 1 };
        let mut clients = self.clients.borrow_mut();
        let known = clients.get(&client);
        let own = known.map_or(0, |known| known.held.get()).saturating_add(bytes);
        if bytes > free || own > free.saturating_mul(share) {
            return Err(NoRoom);
        }
        let client = clients.entry(client).or_insert_with_key(|client| {
            Rc::new(HeldByClient { client: client.clone(), held: Cell::new(0) })
        });
        client.held.set(own);
        self.held.set(self.held.get().saturating_add(bytes));
        Ok(Some(HeadPermit { room: Rc::clone(self), client: Rc::clone(client), bytes }))
    }
}

impl HeadPermit {
    /// Bytes of the room.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HeadPermit {
    fn drop(&mut self) {
        let room = &self.room;
        room.held.set(room.held.get().saturating_sub(self.bytes));
        self.client.held.set(self.client.held.get().saturating_sub(self.bytes));
        if self.client.held.get() == 0 {
            room.clients.borrow_mut().remove(&self.client.client);
        }
    }
}

/// A client with an identity may hold as many times what one without may.
const IDENTITY_SHARE: usize = 4;
/// Bytes of a head that count for nothing.
const SMALL: usize = 2 * 1024;
