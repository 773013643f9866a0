//! Places of a worker's inbound connections. Nobody has fewer of a port's than are free; where all of them
//! are taken, the clients that have most in this worker give some to one that has fewer.

use super::head_room::body_group;
use super::permits::ConnectionPermits;
use policy_tls::peer::Peer;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::rc::{Rc, Weak};
use tokio::task::AbortHandle;

/// The places that a worker's connections have.
#[derive(Default)]
pub(super) struct Places(RefCell<Slab<Rc<ConnectionPlace>>>);

/// The place of one connection.
pub(super) struct ConnectionPlace {
    index: Cell<usize>,
    port: Cell<NonZeroU16>,
    client: SocketAddr,
    /// The clients that count together, and what one of their connections counts.
    group: Cell<(u64, usize)>,
    /// The time of its arrival, by the worker's clock.
    since: u32,
    holder: RefCell<Holder>,
}

/// The connection that has a place.
enum Holder {
    /// It is not known yet what it speaks; the task that finds out.
    Arriving(Option<AbortHandle>),
    Serving(Weak<dyn InboundConnection>),
    /// The place was given to another.
    Gone,
}

/// A connection that may have to give its place to another.
pub(super) trait InboundConnection {
    /// Returns true if something is open on it, and the time of its last movement by the worker's clock.
    fn activity(&self) -> (bool, u32);
    /// Ends at once.
    fn give_way(&self);
}

/// Places of one group, or of one address of it.
#[derive(Default)]
struct PortPart<'a> {
    weight: usize,
    places: Vec<&'a Rc<ConnectionPlace>>,
}

impl ConnectionPlace {
    /// Creates a place of `port` for a client of which the address alone is known.
    pub(super) fn new(port: NonZeroU16, stranger: &Peer, since: u32) -> Rc<Self> {
        Rc::new(Self {
            index: Cell::default(),
            port: Cell::new(port),
            client: stranger.address(),
            group: Cell::new(group(stranger)),
            since,
            holder: RefCell::new(Holder::Arriving(None)),
        })
    }

    /// Returns the port that it is a place of.
    pub(super) fn port(&self) -> NonZeroU16 {
        self.port.get()
    }

    /// Changes the port that it is a place of.
    pub(super) fn move_to(&self, port: NonZeroU16) {
        self.port.set(port);
    }

    /// Sets the task that finds out what the connection speaks.
    pub(super) fn arrives_in(&self, task: AbortHandle) {
        if let Holder::Arriving(own) = &mut *self.holder.borrow_mut() {
            *own = Some(task);
        }
    }

    /// Sets the connection, whose client is known. It ends at once if the place was given away.
    pub(super) fn serves(&self, peer: &Peer, connection: Weak<dyn InboundConnection>) {
        self.group.set(group(peer));
        if self.is_gone() {
            return connection.upgrade().iter().for_each(|own| own.give_way());
        }
        self.holder.replace(Holder::Serving(connection));
    }

    /// Returns true if the place was given to another.
    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.holder.borrow(), Holder::Gone)
    }

    /// Gives the place away and ends its connection.
    fn give_way(&self) {
        match self.holder.replace(Holder::Gone) {
            Holder::Arriving(task) => task.iter().for_each(AbortHandle::abort),
            Holder::Serving(connection) => {
                connection.upgrade().iter().for_each(|own| own.give_way());
            }
            Holder::Gone => {}
        }
    }

    /// Returns the order in which places are given away: those on which nothing is open, then those on
    /// which nothing moves, the oldest first. None for one on which something moves.
    fn order(&self, now: u32) -> Option<(bool, u32)> {
        match &*self.holder.borrow() {
            Holder::Arriving(_) => Some((false, self.since)),
            Holder::Serving(connection) => {
                let (is_open, moved) = connection.upgrade()?.activity();
                let moves = is_open && now.saturating_sub(moved) < STALLED;
                (!moves).then_some((is_open, moved))
            }
            Holder::Gone => None,
        }
    }
}

impl Places {
    /// Adds a place.
    pub(super) fn add(&self, place: &Rc<ConnectionPlace>) {
        place.index.set(self.0.borrow_mut().insert(Rc::clone(place)));
    }

    /// Removes a place.
    pub(super) fn remove(&self, place: &ConnectionPlace) {
        self.0.borrow_mut().try_remove(place.index.get());
    }

    /// Takes one of `most` places of `port` for `own`. If none is free, others give theirs away, of which
    /// `gone` is told.
    pub(super) fn take(
        &self,
        (own, port): (&ConnectionPlace, NonZeroU16),
        (permits, most): (&ConnectionPermits, usize),
        now: u32,
        gone: impl Fn(SocketAddr),
    ) -> bool {
        if permits.acquire(port, most) {
            return true;
        }
        for place in self.chosen((own, port), most, now) {
            permits.release(port);
            place.give_way();
            gone(place.client);
        }
        permits.acquire(port, most)
    }

    /// Returns the places that are given away for `own`: of the group that has most, the address that has
    /// most, if it has more than the newcomer would. Many at a time where there are many, because all are
    /// looked at.
    fn chosen(
        &self,
        (own, port): (&ConnectionPlace, NonZeroU16),
        most: usize,
        now: u32,
    ) -> Vec<Rc<ConnectionPlace>> {
        let all = self.0.borrow();
        let of_port = || all.iter().filter(|(_, place)| place.port() == port && !place.is_gone());
        let groups = parts(of_port().map(|(_, place)| place), |place| place.group.get().0);
        let (key, weight) = own.group.get();
        let least = weight.saturating_add(groups.get(&key).map_or(0, |group| group.weight));
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, group)| Reverse(group.weight));
        for (group, PortPart { weight, places }) in groups {
            if group != key && weight <= least {
                continue;
            }
            let addresses = parts(places.into_iter(), |place| place.client.ip());
            let least = addresses.get(&own.client.ip()).map_or(0, |part| part.places.len());
            let mut addresses: Vec<_> = addresses.into_values().collect();
            addresses.sort_by_key(|part| Reverse(part.places.len()));
            for PortPart { places, .. } in addresses {
                let more = places.len().saturating_sub(least);
                if group == key && more < 2 {
                    break;
                }
                let ordered = places.into_iter().filter_map(|own| Some((own.order(now)?, own)));
                let mut ordered: Vec<_> = ordered.collect();
                ordered.sort_by_key(|(order, _)| *order);
                let at_once = (most / PART).min(more / 2).max(1);
                if !ordered.is_empty() {
                    return ordered.into_iter().take(at_once).map(|(_, own)| own.clone()).collect();
                }
            }
        }
        Vec::new()
    }
}

/// Divides places by `key`.
fn parts<'a, K: std::hash::Hash + Eq>(
    places: impl Iterator<Item = &'a Rc<ConnectionPlace>>,
    key: impl Fn(&ConnectionPlace) -> K,
) -> HashMap<K, PortPart<'a>> {
    let mut parts: HashMap<K, PortPart<'a>> = HashMap::new();
    for place in places {
        let part = parts.entry(key(place)).or_default();
        part.weight = part.weight.saturating_add(place.group.get().1);
        part.places.push(place);
    }
    parts
}

/// Returns the clients that count together, and what one of their connections counts: of an identity a
/// quarter of what one of a network counts.
fn group(peer: &Peer) -> (u64, usize) {
    let group = body_group(peer);
    (group.key, WEIGHT.checked_div(group.share).unwrap_or(WEIGHT))
}

/// Weight of a connection that counts whole.
const WEIGHT: usize = 4;
/// Seconds without movement after which what is open on a connection is stalled.
const STALLED: u32 = 10;
/// Part of all places that is given away at once, at most.
const PART: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use policy_tls::peer::PeerTls;

    const PORT: NonZeroU16 = NonZeroU16::new(80).unwrap();

    /// A connection with something open or not, and the time of its last movement.
    struct Fake {
        activity: (bool, u32),
        is_ended: Cell<bool>,
    }

    impl InboundConnection for Fake {
        fn activity(&self) -> (bool, u32) {
            self.activity
        }

        fn give_way(&self) {
            self.is_ended.set(true);
        }
    }

    struct World {
        places: Places,
        permits: ConnectionPermits,
        most: usize,
    }

    const NOW: u32 = 1000;

    impl World {
        fn new(most: usize) -> Self {
            Self { places: Places::default(), permits: ConnectionPermits::default(), most }
        }

        /// A connection from this address; none if there is no place for it.
        fn open(&self, from: [u8; 4], activity: (bool, u32)) -> Option<Rc<Fake>> {
            let peer = Peer::new(SocketAddr::from((from, 1)), PeerTls::Absent);
            let place = ConnectionPlace::new(PORT, &peer, NOW);
            let bounds = (&self.permits, self.most);
            let taken = self.places.take((&place, PORT), bounds, NOW, |_| {});
            taken.then(|| {
                self.places.add(&place);
                let fake = Rc::new(Fake { activity, is_ended: Cell::default() });
                let weak = Rc::downgrade(&fake);
                place.serves(&peer, weak);
                fake
            })
        }
    }

    fn ended(all: &[Rc<Fake>]) -> Vec<usize> {
        all.iter().enumerate().filter(|(_, own)| own.is_ended.get()).map(|(at, _)| at).collect()
    }

    #[test]
    fn who_has_most_places_gives_way_idle_before_stalled_and_nothing_that_moves() {
        let world = World::new(4);
        let activities = [(true, NOW - 1), (true, NOW - 60), (false, NOW - 2), (false, NOW - 5)];
        let many: Vec<_> =
            activities.iter().map(|own| world.open([10, 0, 0, 1], *own).unwrap()).collect();
        // No more for one that has most itself.
        assert!(world.open([10, 0, 0, 1], (true, NOW)).is_none());
        assert!(ended(&many).is_empty());
        let other = world.open([10, 0, 1, 1], (false, NOW - 100)).unwrap();
        assert_eq!(ended(&many), [3]);
        let third = world.open([10, 0, 2, 1], (false, NOW - 100)).unwrap();
        assert_eq!(ended(&many), [2, 3]);
        let fourth = world.open([10, 0, 3, 1], (false, NOW - 100)).unwrap();
        assert_eq!(ended(&many), [1, 2, 3]);
        // Who has one place keeps it.
        assert!(world.open([10, 0, 4, 1], (false, NOW)).is_none());
        assert!(ended(&[other, third, fourth]).is_empty());
    }

    #[test]
    fn what_moves_of_the_largest_client_is_not_taken_from_smaller_ones() {
        let world = World::new(5);
        let moving: Vec<_> =
            (0..4).map(|_| world.open([10, 0, 0, 1], (true, NOW)).unwrap()).collect();
        let idle = world.open([10, 0, 1, 1], (false, NOW)).unwrap();
        assert!(world.open([10, 0, 0, 1], (true, NOW)).is_none());
        assert!(world.open([10, 0, 2, 1], (true, NOW)).is_none());
        assert_eq!((ended(&moving), idle.is_ended.get()), (vec![], false));
    }

    #[test]
    fn many_small_holders_of_a_network_count_together_and_its_largest_address_first() {
        let world = World::new(8);
        let mut many: Vec<_> =
            (1..7).map(|host| world.open([10, 0, 0, host], (false, NOW)).unwrap()).collect();
        many.push(world.open([10, 0, 0, 6], (false, NOW)).unwrap());
        let two = world.open([10, 0, 1, 1], (false, NOW)).unwrap();
        let more = world.open([10, 0, 1, 2], (false, NOW)).unwrap();
        assert_eq!(
            (ended(&many), two.is_ended.get(), more.is_ended.get()),
            (vec![5], false, false)
        );
        // Within a network by address.
        let world = World::new(3);
        let many: Vec<_> =
            (0..3).map(|_| world.open([10, 0, 0, 1], (false, NOW)).unwrap()).collect();
        let neighbour = world.open([10, 0, 0, 2], (false, NOW)).unwrap();
        assert_eq!((ended(&many), neighbour.is_ended.get()), (vec![0], false));
    }

    #[test]
    fn of_many_places_some_are_given_away_at_once() {
        let world = World::new(640);
        let many: Vec<_> =
            (0..640).map(|_| world.open([10, 0, 0, 1], (false, NOW)).unwrap()).collect();
        world.open([10, 0, 1, 1], (false, NOW)).unwrap();
        assert_eq!(ended(&many).len(), 10);
    }
}
