//! The bounded table of groups.
//!
//! Clients can cause decisions at will. A client has a bounded number of groups, of which a new one
//! takes the place of its own oldest. Beyond the room of all, a new group of a client without an
//! identity takes the place of one of a small part that such groups share (churn), or of a group that
//! was quiet for long: so a flood from many addresses erases its own evidence alone. A new group of an
//! identity takes the place of a client without one.
//!
//! Every operation takes constant time, but for one pass over the table per second, at most.

use super::group::{Class, DecisionGroup, GroupKey, GroupSubject};
use foldhash::HashMap;
use policy_core::{DecisionId, PodPart};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of groups, of those of one subject, of clients without an identity, and of the
/// workload's own connections.
pub(super) const CAPACITY: usize = 512;
pub(super) const PER_SUBJECT: usize = 8;
const ANONYMOUS: usize = 352;
const OUTBOUND: usize = 56;
/// Further groups of the last two kinds each, which take each other's place.
const CHURN: usize = 16;
/// Maximum number of groups that begin in the part of one kind that takes each other's place, per
/// second. Decisions beyond are only counted.
const CHURN_PER_SECOND: u32 = 256;
/// Time without a decision after which a group may give its place to one of another subject.
const QUIET: Duration = Duration::from_secs(600);
/// Maximum number of groups without an explanation that are remembered.
const UNEXPLAINED: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
/// An odd number spreads the numbers of consecutive groups over all of them, each once.
const SPREAD: u32 = 0x9e37_79b1;

/// The groups.
#[derive(Debug)]
pub(super) struct GroupTable {
    pub(super) pod: PodPart,
    pub(super) process: u8,
    slots: Vec<Option<DecisionGroup>>,
    free: Vec<usize>,
    subjects: HashMap<GroupSubject, SubjectSlots>,
    anonymous: ClassState,
    outbound: ClassState,
    /// Groups that may give their place to a new one of an identity, the first to go last.
    replaceable: Vec<Place>,
    /// Time of the last pass over the table.
    refreshed: Option<Instant>,
    /// Number of groups so far.
    made: u32,
    /// True once all ids were used.
    wrapped: bool,
    /// Number of decisions without a group.
    pub(super) left_out: u64,
    /// Number of groups that gave their place to another subject's.
    pub(super) replaced: u64,
    unexplained: VecDeque<DecisionId>,
}

/// Groups of a class with a bounded part of the table.
#[derive(Debug)]
struct ClassState {
    most: usize,
    /// Number of groups that are not in `churn`.
    steady: usize,
    /// The slots that take each other's place, oldest first.
    churn: VecDeque<usize>,
    /// Quiet groups, the first to go last.
    quiet: Vec<Place>,
    /// The second that `begun` is about.
    second: Option<Instant>,
    begun: u32,
}

/// The slots of one subject.
#[derive(Debug, Default)]
struct SubjectSlots(Vec<usize>);

/// A slot and the group that was in it.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: usize,
    id: DecisionId,
    last_at: Instant,
}

impl ClassState {
    fn new(most: usize) -> Self {
        let (churn, quiet) = (VecDeque::new(), Vec::new());
        Self { most, steady: 0, churn, quiet, second: None, begun: 0 }
    }

    /// Counts a group that begins in the churn; false beyond the rate.
    fn may_churn(&mut self, now: Instant) -> bool {
        let over = |begun: Instant| now.saturating_duration_since(begun) >= SECOND;
        if self.second.is_none_or(over) {
            (self.second, self.begun) = (Some(now), 0);
        }
        self.begun = self.begun.saturating_add(1);
        self.begun <= CHURN_PER_SECOND
    }
}

impl GroupTable {
    pub(super) fn new(pod: PodPart, process: u8) -> Self {
        Self {
            pod,
            process,
            slots: Vec::new(),
            free: Vec::new(),
            subjects: HashMap::default(),
            anonymous: ClassState::new(ANONYMOUS),
            outbound: ClassState::new(OUTBOUND),
            replaceable: Vec::new(),
            refreshed: None,
            made: 0,
            wrapped: false,
            left_out: 0,
            replaced: 0,
            unexplained: VecDeque::new(),
        }
    }

    /// Returns the group of a decision at `now`; a new one is what `new` returns. `None`: there is no
    /// room, and the decision is counted as left out.
    pub(super) fn enter(
        &mut self,
        subject: &GroupSubject,
        key: &GroupKey,
        now: Instant,
        new: impl FnOnce(DecisionId) -> DecisionGroup,
    ) -> Option<&mut DecisionGroup> {
        let slot = match self.find(subject, key) {
            Some(slot) => slot,
            None => self.begin(subject, now, new)?,
        };
        self.slots.get_mut(slot)?.as_mut()
    }

    fn find(&self, subject: &GroupSubject, key: &GroupKey) -> Option<usize> {
        let own = self.subjects.get(subject)?;
        let same = |slot: &&usize| self.group(**slot).is_some_and(|group| group.key == *key);
        own.0.iter().find(same).copied()
    }

    fn group(&self, slot: usize) -> Option<&DecisionGroup> {
        self.slots.get(slot)?.as_ref()
    }

    fn begin(
        &mut self,
        subject: &GroupSubject,
        now: Instant,
        new: impl FnOnce(DecisionId) -> DecisionGroup,
    ) -> Option<usize> {
        self.forget_oldest_of(subject);
        let Some(is_churn) = self.make_room(subject.class(), now) else {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len().saturating_sub(1)
        });
        let mut group = new(self.next_id());
        group.is_churn = is_churn;
        if let Some(class) = self.class(subject.class()) {
            match is_churn {
                true => class.churn.push_back(slot),
                false => class.steady = class.steady.saturating_add(1),
            }
        }
        if self.unexplained.len() >= UNEXPLAINED {
            self.unexplained.pop_front();
        }
        self.unexplained.push_back(group.id);
        *self.slots.get_mut(slot)? = Some(group);
        self.subjects.entry(subject.clone()).or_default().0.push(slot);
        Some(slot)
    }

    /// Removes the oldest group of a subject that has as many as it may.
    fn forget_oldest_of(&mut self, subject: &GroupSubject) {
        let Some(own) = self.subjects.get(subject) else { return };
        if own.0.len() < PER_SUBJECT {
            return;
        }
        let oldest = own.0.iter().copied().min_by_key(|slot| self.group(*slot).map(|g| g.last_at));
        if let Some(slot) = oldest {
            self.remove(slot);
        }
    }

    /// Makes room for a group of `class`. True: in the part whose groups take each other's place.
    fn make_room(&mut self, class: Class, now: Instant) -> Option<bool> {
        let is_full = self.len() >= CAPACITY;
        let Some(own) = self.class(class) else {
            return (!is_full || self.replace_for_identity(now)).then_some(false);
        };
        if own.steady < own.most && !is_full {
            return Some(false);
        }
        if !own.may_churn(now) {
            return None;
        }
        self.refresh(now);
        let quiet = self.class(class).and_then(|own| own.quiet.pop());
        if quiet.is_some_and(|quiet| self.replace(quiet)) {
            return Some(false);
        }
        let own = self.class(class)?;
        let oldest = if own.churn.len() < CHURN { None } else { own.churn.front().copied() };
        match oldest {
            Some(oldest) => {
                self.replaced = self.replaced.saturating_add(1);
                self.remove(oldest);
                Some(true)
            }
            None => (self.len() < CAPACITY).then_some(true),
        }
    }

    /// Gives the place of a client without an identity, or of a quiet group, to one of an identity.
    fn replace_for_identity(&mut self, now: Instant) -> bool {
        if let Some(slot) = self.anonymous.churn.front().copied() {
            self.replaced = self.replaced.saturating_add(1);
            self.remove(slot);
            return true;
        }
        self.refresh(now);
        while let Some(place) = self.replaceable.pop() {
            if self.replace(place) {
                return true;
            }
        }
        false
    }

    /// Removes a group unless it was in use since.
    fn replace(&mut self, place: Place) -> bool {
        let same = |group: &DecisionGroup| group.id == place.id && group.last_at == place.last_at;
        let is_same = self.group(place.slot).is_some_and(same);
        if is_same {
            self.replaced = self.replaced.saturating_add(1);
            self.remove(place.slot);
        }
        is_same
    }

    /// Finds groups that may give their place to others; at most once a second.
    fn refresh(&mut self, now: Instant) {
        let soon = |last| now.saturating_duration_since(last) < SECOND;
        if self.refreshed.is_some_and(soon) {
            return;
        }
        self.refreshed = Some(now);
        let is_quiet = |place: &Place| now.saturating_duration_since(place.last_at) >= QUIET;
        let latest_first =
            |places: &mut Vec<Place>| places.sort_by_key(|place| Reverse(place.last_at));
        let mut all: Vec<(Class, Place)> = Vec::with_capacity(self.len());
        for (slot, group) in self.slots.iter().enumerate() {
            let Some(group) = group.as_ref().filter(|group| !group.is_churn) else { continue };
            let place = Place { slot, id: group.id, last_at: group.last_at };
            all.push((group.subject.class(), place));
        }
        let of = |class: Class| all.iter().filter(move |(own, _)| *own == class).map(|(_, p)| *p);
        let mut anonymous: Vec<Place> = of(Class::Anonymous).collect();
        latest_first(&mut anonymous);
        self.anonymous.quiet = anonymous.iter().copied().filter(is_quiet).collect();
        let mut outbound: Vec<Place> = of(Class::Outbound).filter(is_quiet).collect();
        latest_first(&mut outbound);
        let mut identities: Vec<Place> = of(Class::Identity).filter(is_quiet).collect();
        latest_first(&mut identities);
        identities.extend(anonymous);
        self.outbound.quiet = outbound;
        self.replaceable = identities;
    }

    fn remove(&mut self, slot: usize) {
        let Some(group) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.free.push(slot);
        if let Some(class) = self.class(group.subject.class()) {
            match group.is_churn {
                true => class.churn.retain(|own| *own != slot),
                false => class.steady = class.steady.saturating_sub(1),
            }
        }
        if let Some(own) = self.subjects.get_mut(&group.subject) {
            own.0.retain(|other| *other != slot);
            if own.0.is_empty() {
                self.subjects.remove(&group.subject);
            }
        }
    }

    fn class(&mut self, class: Class) -> Option<&mut ClassState> {
        match class {
            Class::Identity => None,
            Class::Anonymous => Some(&mut self.anonymous),
            Class::Outbound => Some(&mut self.outbound),
        }
    }

    fn next_id(&mut self) -> DecisionId {
        loop {
            self.made = self.made.wrapping_add(1);
            self.wrapped |= self.made >= DecisionId::GROUPS;
            let id = DecisionId::new(self.pod, self.process, self.made.wrapping_mul(SPREAD));
            if !self.wrapped || self.slot_of(id).is_none() {
                return id;
            }
        }
    }

    fn slot_of(&self, id: DecisionId) -> Option<usize> {
        let is = |group: &Option<DecisionGroup>| group.as_ref().is_some_and(|own| own.id == id);
        self.slots.iter().position(is)
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// Number of slots that have ever been used.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Copies of the groups in some slots.
    pub(super) fn copy(&self, slots: std::ops::Range<usize>) -> Vec<DecisionGroup> {
        self.slots.get(slots).unwrap_or_default().iter().flatten().cloned().collect()
    }

    /// Takes a group that has no explanation yet, the newest first.
    pub(super) fn take_unexplained(&mut self) -> Option<DecisionGroup> {
        loop {
            let id = self.unexplained.pop_back()?;
            if let Some(group) = self.slot_of(id).and_then(|slot| self.group(slot)) {
                return Some(group.clone());
            }
        }
    }

    /// Returns the group of an id.
    pub(super) fn by_id(&mut self, id: DecisionId) -> Option<&mut DecisionGroup> {
        let slot = self.slot_of(id)?;
        self.slots.get_mut(slot)?.as_mut()
    }
}
