//! Parts of objects that clients of all replicas are not sent.
//!
//! A new report is published at once. A report that ends stays published for a while, because a
//! proxy that restarts, or moves from one replica to another, reports the same again.

use super::acks::ReporterId;
use policy_core::ObjectRef;
use policy_crds::{Kind, ObjectKey};
use policy_engine::unsent::Unsent;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The reports of every replica, and the union that is published.
#[derive(Debug)]
pub(crate) struct UnsentReports {
    keep: Duration,
    reported: BTreeMap<ObjectRef, BTreeMap<ReporterId, Unsent>>,
    published: BTreeMap<ObjectRef, Retained>,
    /// Objects to be published again.
    dirty: BTreeSet<ObjectRef>,
}

/// The published state of one object.
#[derive(Debug, Default)]
struct Retained {
    unsent: Unsent,
    /// Time since which part of it is not reported.
    ending: Option<Instant>,
}

impl UnsentReports {
    /// Creates an empty table. A report that has ended stays published for `keep`.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, reported: BTreeMap::new(), published: BTreeMap::new(), dirty: BTreeSet::new() }
    }

    /// Records the parts of an object that the clients of `reporter` are not sent.
    pub(crate) fn record(&mut self, reporter: ReporterId, object: ObjectRef, unsent: Unsent) {
        let reported = self.reported.entry(object.clone()).or_default();
        match unsent.is_empty() {
            true => reported.remove(&reporter),
            false => reported.insert(reporter, unsent),
        };
        if reported.is_empty() {
            self.reported.remove(&object);
        }
        self.dirty.insert(object);
    }

    /// Withdraws everything that `reporter` reported, except for the objects in `still`.
    pub(crate) fn retract(&mut self, reporter: ReporterId, still: &BTreeSet<ObjectRef>) {
        let says = |(object, reported): &(&ObjectRef, &BTreeMap<ReporterId, Unsent>)| {
            reported.contains_key(&reporter) && !still.contains(*object)
        };
        let gone = self.reported.iter().filter(says).map(|(object, _)| object.clone());
        for object in gone.collect::<Vec<ObjectRef>>() {
            self.record(reporter, object, Unsent::default());
        }
    }

    /// Drops the published state of an object that has changed, so that only current reports are
    /// published.
    pub(crate) fn object_changed(&mut self, key: &ObjectKey) {
        if self.published.is_empty() {
            return;
        }
        let object = key.to_ref();
        if self.published.remove(&object).is_some() {
            self.dirty.insert(object);
        }
    }

    /// Updates the published state; true if it changed.
    pub(crate) fn refresh(&mut self, now: Instant) -> bool {
        let mut differs = false;
        let ending = self.published.iter().filter(|(_, published)| published.ending.is_some());
        let ending: Vec<ObjectRef> = ending.map(|(object, _)| object.clone()).collect();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.extend(ending);
        for object in dirty {
            let mut reported = Unsent::default();
            for unsent in self.reported.get(&object).into_iter().flat_map(BTreeMap::values) {
                reported.add(unsent);
            }
            let before = self.published.remove(&object);
            let was = before.as_ref().map(|published| published.unsent.clone()).unwrap_or_default();
            let published = Retained::next(before.unwrap_or_default(), reported, self.keep, now);
            differs |= published.unsent != was;
            if !published.unsent.is_empty() {
                self.published.insert(object, published);
            }
        }
        differs
    }

    /// The objects of which requests are denied to some clients, but the owners of ports: these are in force
    /// without what others contribute.
    pub(crate) fn denied(&self) -> BTreeSet<ObjectRef> {
        let denied = self.published.iter().filter(|(_, one)| !one.unsent.denied.is_empty());
        let denied = denied.map(|(object, _)| object);
        denied.filter(|object| object.kind() != Kind::Server.as_str()).cloned().collect()
    }

    /// Returns the parts of an object that clients are not sent.
    pub(crate) fn of(&self, key: &ObjectKey) -> Unsent {
        let published =
            if self.published.is_empty() { None } else { self.published.get(&key.to_ref()) };
        published.map(|published| published.unsent.clone()).unwrap_or_default()
    }
}

impl Retained {
    fn next(mut self, reported: Unsent, keep: Duration, now: Instant) -> Self {
        if reported.covers(&self.unsent) {
            return Self { unsent: reported, ending: None };
        }
        let since = *self.ending.get_or_insert(now);
        if now.saturating_duration_since(since) >= keep {
            return Self { unsent: reported, ending: None };
        }
        self.unsent.add(&reported);
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
        let (mut book, now) = (UnsentReports::new(KEEP), Instant::now());
        let published = |book: &UnsentReports| book.of(&key("s")).to_string();
        book.record(1, object("s"), unsent(&["a"]));
        assert!(book.refresh(now));
        book.record(2, object("s"), unsent(&["a", "b"]));
        assert!(book.refresh(now));
        assert_eq!(published(&book), "a; b");
        book.record(2, object("s"), unsent(&[]));
        assert!(!book.refresh(now), "it may come back");
        assert!(!book.refresh(now + KEEP / 2));
        book.record(2, object("s"), unsent(&["b"]));
        assert!(!book.refresh(now + KEEP), "it came back");
        book.retract(2, &BTreeSet::new());
        assert!(!book.refresh(now + KEEP));
        assert!(!book.refresh(now + KEEP + KEEP / 2), "the time begins anew");
        assert!(book.refresh(now + KEEP * 2));
        assert_eq!(published(&book), "a");
        book.retract(1, &BTreeSet::from([object("s")]));
        assert!(!book.refresh(now + KEEP * 9), "it still says so");
        book.retract(1, &BTreeSet::new());
        assert!(!book.refresh(now + KEEP * 9));
        assert!(book.refresh(now + KEEP * 10));
        assert!(
            book.of(&key("s")).is_empty() && book.published.is_empty() && book.reported.is_empty()
        );
    }

    #[test]
    fn an_object_that_was_edited_is_told_what_is_so_now() {
        let (mut book, now) = (UnsentReports::new(KEEP), Instant::now());
        book.record(1, object("s"), unsent(&["a"]));
        book.refresh(now);
        book.object_changed(&key("s"));
        book.record(1, object("s"), unsent(&["b"]));
        book.refresh(now);
        assert_eq!(book.of(&key("s")).to_string(), "b");
    }
}
