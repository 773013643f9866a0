//! Room for what requests hold in memory, over all connections of a worker: bodies that one side of a
//! connection of HTTP/2 does not take, large heads of open requests, and bytes of heads to come.
//!
//! A connection may hold megabytes of bodies, within the windows of both sides. While more than half of the
//! room is held, each connection queues less, and new connections have small windows. Beyond the whole room
//! the group of clients that holds most loses the connection that holds most. Connections that hold little
//! are neither ended nor counted there.

use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// Room for what a worker's connections hold.
#[derive(Debug)]
pub struct BodyRoom {
    /// Bytes of the room.
    most: usize,
    held: Cell<usize>,
    /// Bytes from which on a connection is looked for that has to end.
    look_at: Cell<usize>,
    accounts: RefCell<Slab<Rc<Account>>>,
}

/// Clients whose connections count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyGroup {
    /// The key of the group.
    pub key: u64,
    /// The part of its bytes that counts: 1 for all of them, 4 for a quarter.
    pub share: usize,
}

/// The bytes that a connection holds; released on drop.
#[derive(Debug)]
pub struct BodyAccount {
    room: Rc<BodyRoom>,
    account: Rc<Account>,
    index: usize,
}

/// Flow-control windows of what is received, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    pub(super) stream: u32,
    pub(super) connection: u32,
}

/// The windows of a connection, which are small while much is held.
#[derive(Debug)]
pub(super) struct ReceiveWindows {
    wanted: Windows,
    is_small: Cell<bool>,
}

/// Bytes that count for an account; released on drop.
#[derive(Debug)]
pub struct HeldBytes {
    account: Rc<BodyAccount>,
    bytes: usize,
}

struct Account {
    group: BodyGroup,
    held: Cell<usize>,
    /// Bytes that count for the room.
    charged: Cell<usize>,
    /// True once the connection was ended for the room: its bytes count no longer.
    ended: Cell<bool>,
    /// Ends the connection; none until it is set, and once it was called.
    end: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("held", &self.held).finish_non_exhaustive()
    }
}

impl BodyRoom {
    /// Creates a room of `most` bytes.
    pub fn new(most: usize) -> Self {
        let (held, look_at) = (Cell::new(0), Cell::new(most));
        Self { most, held, look_at, accounts: RefCell::default() }
    }

    /// Opens the account of a connection.
    pub fn account(self: &Rc<Self>, group: BodyGroup) -> BodyAccount {
        let account = Rc::new(Account {
            group,
            held: Cell::new(0),
            charged: Cell::new(0),
            ended: Cell::new(false),
            end: RefCell::default(),
        });
        let index = self.accounts.borrow_mut().insert(Rc::clone(&account));
        BodyAccount { room: Rc::clone(self), account, index }
    }

    fn charge(&self, account: &Account, bytes: usize) {
        let before = account.charged.replace(bytes);
        self.held.set(self.held.get().saturating_sub(before).saturating_add(bytes));
    }

    /// Takes note that fewer bytes are held: the next look for a connection to end comes earlier.
    fn lower(&self) {
        let next = self.held.get().saturating_add(self.most / 16);
        self.look_at.set(self.look_at.get().min(next).max(self.most));
    }

    /// Ends connections until there is room.
    fn make_room(&self) {
        while self.held.get() > self.most {
            let Some(largest) = self.largest() else {
                self.look_at.set(self.held.get().saturating_add(self.most / 16));
                return;
            };
            self.charge(&largest, 0);
            largest.ended.set(true);
            let end = largest.end.take();
            if let Some(end) = end {
                end();
            }
        }
        self.look_at.set(self.most);
    }

    /// Returns the largest account of the largest group. Small accounts count for no group.
    fn largest(&self) -> Option<Rc<Account>> {
        let accounts = self.accounts.borrow();
        let may_end = |own: &Account| own.charged.get() > SPARED && own.end.borrow().is_some();
        let alive = || accounts.iter().filter(|(_, own)| may_end(own));
        let mut groups: HashMap<u64, usize> = HashMap::new();
        for (_, own) in alive() {
            let bytes = own.charged.get().checked_div(own.group.share).unwrap_or_default();
            let sum = groups.entry(own.group.key).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let (key, _) = groups.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        let of_group = alive().filter(|(_, own)| own.group.key == key);
        of_group.max_by_key(|(_, own)| own.charged.get()).map(|(_, own)| Rc::clone(own))
    }
}

impl BodyAccount {
    /// Sets how the connection is ended.
    pub fn ended_by(&self, end: impl FnOnce() + 'static) {
        self.account.end.replace(Some(Box::new(end)));
    }

    /// Adds bytes that are held from now on.
    #[inline]
    pub(super) fn add(&self, bytes: usize) {
        if self.account.ended.get() {
            return;
        }
        let held = self.account.held.get().saturating_add(bytes);
        self.account.held.set(held);
        if held > FREE {
            self.room.charge(&self.account, held.saturating_sub(FREE));
            if self.room.held.get() > self.room.look_at.get() {
                self.room.make_room();
            }
        }
    }

    /// Removes bytes that are held no longer.
    #[inline]
    pub(super) fn remove(&self, bytes: usize) {
        if self.account.ended.get() {
            return;
        }
        let held = self.account.held.get().saturating_sub(bytes);
        self.account.held.set(held);
        if self.account.charged.get() > 0 {
            self.room.charge(&self.account, held.saturating_sub(FREE));
            self.room.lower();
        }
    }

    /// Returns true while connections shall queue less.
    #[inline]
    pub(super) fn is_pressed(&self) -> bool {
        self.room.held.get() > self.room.most / 2
    }

    /// Returns true once connections may receive as much as usual again: some time after they were pressed,
    /// so that windows do not change all the time.
    #[inline]
    fn is_relaxed(&self) -> bool {
        self.room.held.get() <= self.room.most / 4
    }

    /// Returns the windows of a connection that is new, of which `wanted` would be best.
    pub(super) fn windows(&self, wanted: Windows) -> ReceiveWindows {
        ReceiveWindows { wanted, is_small: Cell::new(self.is_pressed()) }
    }
}

impl ReceiveWindows {
    /// The usual windows for good.
    pub(super) fn usual(wanted: Windows) -> Self {
        Self { wanted, is_small: Cell::new(false) }
    }

    /// Returns the windows to begin with.
    pub(super) fn first(&self) -> Windows {
        if self.is_small.get() { self.small() } else { self.wanted }
    }

    fn small(&self) -> Windows {
        let Windows { stream, connection } = self.wanted;
        Windows { stream: stream.min(SMALL_STREAM), connection: connection.min(SMALL_CONNECTION) }
    }

    /// Changes the windows if the room asks for it. The window of streams is lowered for new connections
    /// alone, since lowering takes the peer's consent; `set_stream` fails while it is awaited.
    #[inline]
    pub(super) fn update(
        &self,
        account: &BodyAccount,
        set: impl FnOnce(u32),
        set_stream: impl FnOnce(u32) -> bool,
    ) {
        if !self.is_small.get() && account.is_pressed() {
            self.is_small.set(true);
            set(self.small().connection);
        } else if self.is_small.get() && account.is_relaxed() && set_stream(self.wanted.stream) {
            self.is_small.set(false);
            set(self.wanted.connection);
        }
    }
}

impl HeldBytes {
    /// Holds bytes for `account`.
    pub fn of(account: &Rc<BodyAccount>, bytes: usize) -> Self {
        account.add(bytes);
        Self { account: Rc::clone(account), bytes }
    }

    /// Holds this many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes > before {
            self.account.add(bytes.saturating_sub(before));
        } else {
            self.account.remove(before.saturating_sub(bytes));
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
    }
}

impl Drop for BodyAccount {
    fn drop(&mut self) {
        self.room.charge(&self.account, 0);
        self.room.lower();
        self.room.accounts.borrow_mut().try_remove(self.index);
    }
}

/// Bytes of a connection that count for nothing.
const FREE: usize = 8 * 1024;
/// Bytes that count, up to which a connection is never ended for the room.
const SPARED: usize = 16 * 1024;
/// Windows while much is held: of the streams of new connections, and of connections.
const SMALL_STREAM: u32 = 4 * 1024;
const SMALL_CONNECTION: u32 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(
        room: &Rc<BodyRoom>,
        key: u64,
        share: usize,
        ended: &Rc<RefCell<Vec<usize>>>,
    ) -> BodyAccount {
        let account = room.account(BodyGroup { key, share });
        let (ended, index) = (Rc::clone(ended), account.index);
        account.ended_by(move || ended.borrow_mut().push(index));
        account
    }

    #[test]
    fn the_largest_connection_of_the_largest_group_ends_first_and_a_small_one_never() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        // Ten connections of one group, and one of another that holds more than each of them.
        let many: Vec<_> = (0..10).map(|_| open(&room, 1, 1, &ended)).collect();
        let other = open(&room, 2, 1, &ended);
        many.iter().for_each(|own| own.add(FREE + 70_000));
        assert!(other.is_pressed());
        other.add(FREE + 200_000);
        assert_eq!((room.held.get(), ended.borrow().len()), (900_000, 0));
        many[3].add(20_000);
        many[4].add(90_000);
        assert_eq!(*ended.borrow(), [4]);
        assert_eq!(room.held.get(), 850_000);
        // It is let go once, whatever it still holds or gives back.
        many[4].remove(160_000);
        other.add(500_000);
        assert_eq!(*ended.borrow(), [4, 10]);
        drop((many, other));
        assert_eq!((room.held.get(), room.accounts.borrow().len()), (0, 0));
        let small: Vec<_> = (0..100).map(|_| open(&room, 1, 1, &ended)).collect();
        small.iter().for_each(|own| own.add(FREE + SPARED));
        assert!(room.held.get() > room.most);
        assert_eq!(ended.borrow().len(), 2);
        small.iter().for_each(|own| own.remove(FREE + SPARED));
        assert_eq!((room.held.get(), room.look_at.get()), (0, room.most));
    }

    #[test]
    fn a_group_of_many_small_connections_does_not_shield_a_large_one() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        let small: Vec<_> = (0..20).map(|_| open(&room, 1, 1, &ended)).collect();
        small.iter().for_each(|own| own.add(FREE + SPARED));
        let large = [open(&room, 2, 1, &ended), open(&room, 2, 1, &ended)];
        large[0].add(FREE + 350_000);
        large[1].add(FREE + 450_000);
        assert_eq!(*ended.borrow(), [21]);
        assert_eq!(room.held.get(), 20 * SPARED + 350_000);
    }

    #[test]
    fn the_next_look_comes_earlier_when_bytes_are_given_back() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        let small: Vec<_> = (0..100).map(|_| open(&room, 1, 1, &ended)).collect();
        small.iter().for_each(|own| own.add(FREE + SPARED));
        small[..45].iter().for_each(|own| own.remove(FREE + SPARED));
        assert_eq!(room.held.get(), 55 * SPARED);
        let large = open(&room, 2, 1, &ended);
        large.add(FREE + 100_000);
        assert_eq!(*ended.borrow(), [100]);
    }

    #[test]
    fn a_connection_that_was_ended_is_charged_no_more_and_ends_no_other() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        let (first, second) = (open(&room, 1, 1, &ended), open(&room, 2, 1, &ended));
        second.add(FREE + 400_000);
        first.add(FREE + 700_000);
        assert_eq!(*ended.borrow(), [0]);
        first.add(1);
        assert_eq!((room.held.get(), ended.borrow().len()), (400_000, 1));
        first.remove(FREE + 1);
        assert_eq!(room.held.get(), 400_000);
        drop(first);
        assert_eq!((room.held.get(), ended.borrow().len()), (400_000, 1));
    }

    #[test]
    fn a_client_with_an_identity_may_hold_four_times_as_much() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        let (known, unknown) = (open(&room, 1, 4, &ended), open(&room, 2, 1, &ended));
        known.add(700_000);
        unknown.add(400_000);
        assert_eq!(*ended.borrow(), [1]);
    }

    #[test]
    fn while_much_is_held_windows_are_small_and_what_is_let_go_makes_room() {
        let (room, ended) = (Rc::new(BodyRoom::new(1_000_000)), Rc::default());
        let wanted = Windows { stream: 65_535, connection: 1_000_000 };
        let small = Windows { stream: SMALL_STREAM, connection: SMALL_CONNECTION };
        let account = Rc::new(open(&room, 1, 1, &ended));
        let before = account.windows(wanted);
        assert_eq!(before.first(), wanted);
        let mut held = HeldBytes::of(&account, 400_000);
        held.set(600_000);
        let other = open(&room, 2, 1, &ended);
        let later = other.windows(wanted);
        assert_eq!(later.first(), small);
        let changes = |windows: &ReceiveWindows, may: bool| {
            let (connection, stream) = (Cell::new(0), Cell::new(0));
            windows.update(
                &other,
                |bytes| connection.set(bytes),
                |bytes| {
                    stream.set(bytes);
                    may
                },
            );
            (connection.get(), stream.get())
        };
        assert_eq!(changes(&before, true), (SMALL_CONNECTION, 0));
        assert_eq!((changes(&before, true), changes(&later, true)), ((0, 0), (0, 0)));
        held.set(400_000);
        assert_eq!(changes(&later, true), (0, 0), "not at once");
        held.set(200_000);
        assert_eq!(room.held.get(), 200_000 - FREE);
        assert_eq!(changes(&later, false), (0, 65_535));
        assert_eq!(changes(&later, true), (1_000_000, 65_535));
        assert_eq!(changes(&before, true), (1_000_000, 65_535));
        assert_eq!(changes(&later, true), (0, 0));
        drop(held);
        assert_eq!((room.held.get(), ended.borrow().len()), (0, 0));
    }
}
