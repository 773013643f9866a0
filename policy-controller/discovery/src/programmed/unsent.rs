//! What clients of all replicas are not sent, by object.
//!
//! What is new is told at once. What ends is told once it has been so for a while: a proxy that moves
//! from one replica to another, or starts again, is not sent the same as before.

use super::ledger::Teller;
use policy_core::ObjectRef;
use policy_crds::ObjectKey;
use policy_engine::unsent::Unsent;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What every replica says, and what is told of it.
#[derive(Debug)]
pub(crate) struct UnsentBook {
    keep: Duration,
    said: BTreeMap<ObjectRef, BTreeMap<Teller, Unsent>>,
    told: BTreeMap<ObjectRef, Told>,
    /// What is to be looked at again.
    dirty: BTreeSet<ObjectRef>,
}

/// What is told of one object.
#[derive(Debug, Default)]
struct Told {
    unsent: Unsent,
    /// Since when some of it is not said any more.
    ending: Option<Instant>,
}

impl UnsentBook {
    /// Nothing yet. What is not said any more is told for `keep` longer.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, said: BTreeMap::new(), told: BTreeMap::new(), dirty: BTreeSet::new() }
    }

    /// Takes note of what the clients of `teller` are not sent of an object.
    pub(crate) fn tell(&mut self, teller: Teller, object: ObjectRef, unsent: Unsent) {
        let said = self.said.entry(object.clone()).or_default();
        match unsent.is_empty() {
            true => said.remove(&teller),
            false => said.insert(teller, unsent),
        };
        if said.is_empty() {
            self.said.remove(&object);
        }
        self.dirty.insert(object);
    }

    /// What `teller` says does not count any more, save of the objects that `still` names.
    pub(crate) fn take_back(&mut self, teller: Teller, still: &BTreeSet<ObjectRef>) {
        let says = |(object, said): &(&ObjectRef, &BTreeMap<Teller, Unsent>)| {
            said.contains_key(&teller) && !still.contains(*object)
        };
        let gone = self.said.iter().filter(says).map(|(object, _)| object.clone());
        for object in gone.collect::<Vec<ObjectRef>>() {
            self.tell(teller, object, Unsent::default());
        }
    }

    /// The object has changed: what was told of it before is told no longer than it is said.
    pub(crate) fn changed(&mut self, key: &ObjectKey) {
        if self.told.is_empty() {
            return;
        }
        let object = key.to_ref();
        if self.told.remove(&object).is_some() {
            self.dirty.insert(object);
        }
    }

    /// Brings what is told up to date; true if that differs.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        let mut differs = false;
        let ending = self.told.iter().filter(|(_, told)| told.ending.is_some());
        let ending: Vec<ObjectRef> = ending.map(|(object, _)| object.clone()).collect();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.extend(ending);
        for object in dirty {
            let mut said = Unsent::default();
            for unsent in self.said.get(&object).into_iter().flat_map(BTreeMap::values) {
                said.add(unsent);
            }
            let before = self.told.remove(&object);
            let was = before.as_ref().map(|told| told.unsent.clone()).unwrap_or_default();
            let told = Told::next(before.unwrap_or_default(), said, self.keep, now);
            differs |= told.unsent != was;
            if !told.unsent.is_empty() {
                self.told.insert(object, told);
            }
        }
        differs
    }

    /// What clients are not sent of an object. Mostly there is nothing to look for.
    pub(crate) fn of(&self, key: &ObjectKey) -> Unsent {
        let told = if self.told.is_empty() { None } else { self.told.get(&key.to_ref()) };
        told.map(|told| told.unsent.clone()).unwrap_or_default()
    }
}

impl Told {
    fn next(mut self, said: Unsent, keep: Duration, now: Instant) -> Self {
        if said.covers(&self.unsent) {
            return Self { unsent: said, ending: None };
        }
        let since = *self.ending.get_or_insert(now);
        if now.saturating_duration_since(since) >= keep {
            return Self { unsent: said, ending: None };
        }
        self.unsent.add(&said);
        self
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        policy_engine::testing::key(policy_crds::Kind::Server, "ns", name)
    }

    fn object(name: &str) -> ObjectRef {
        key(name).to_ref()
    }

    fn unsent(words: &[&str]) -> Unsent {
        let left_out = words.iter().map(|words| (*words).into()).collect();
        Unsent { left_out, ..Unsent::default() }
    }

    const KEEP: Duration = Duration::from_secs(10);

    #[test]
    fn what_begins_is_told_at_once_and_what_ends_once_it_has_lasted() {
        let (mut book, now) = (UnsentBook::new(KEEP), Instant::now());
        let told = |book: &UnsentBook| book.of(&key("s")).to_string();
        book.tell(1, object("s"), unsent(&["a"]));
        assert!(book.settle(now));
        book.tell(2, object("s"), unsent(&["a", "b"]));
        assert!(book.settle(now));
        assert_eq!(told(&book), "a; b");
        book.tell(2, object("s"), unsent(&[]));
        assert!(!book.settle(now), "it may come back");
        assert!(!book.settle(now + KEEP / 2));
        book.tell(2, object("s"), unsent(&["b"]));
        assert!(!book.settle(now + KEEP), "it came back");
        book.take_back(2, &BTreeSet::new());
        assert!(!book.settle(now + KEEP));
        assert!(!book.settle(now + KEEP + KEEP / 2), "the time begins anew");
        assert!(book.settle(now + KEEP * 2));
        assert_eq!(told(&book), "a");
        book.take_back(1, &BTreeSet::from([object("s")]));
        assert!(!book.settle(now + KEEP * 9), "it still says so");
        book.take_back(1, &BTreeSet::new());
        assert!(!book.settle(now + KEEP * 9));
        assert!(book.settle(now + KEEP * 10));
        assert!(book.of(&key("s")).is_empty() && book.told.is_empty() && book.said.is_empty());
    }

    #[test]
    fn an_object_that_was_edited_is_told_what_is_so_now() {
        let (mut book, now) = (UnsentBook::new(KEEP), Instant::now());
        book.tell(1, object("s"), unsent(&["a"]));
        book.settle(now);
        book.changed(&key("s"));
        book.tell(1, object("s"), unsent(&["b"]));
        book.settle(now);
        assert_eq!(book.of(&key("s")).to_string(), "b");
    }
}
