//! What is in force, told port by port to whoever adds it up.
//!
//! A follower is told which ports changed and reads how they are when it comes to it, so that a slow
//! one skips states and what it makes us keep is bounded by the ports there are.

use super::followers::{InForce, Noted, PortAt};
use super::record::Applied;
use parking_lot::Mutex;
use policy_core::ObjectRef;
use policy_engine::unsent::Unsent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tells what changed since it was last asked; at first, everything.
#[derive(Debug)]
pub struct Feed {
    applied: Applied,
    noted: Arc<Noted>,
    /// What clients are not sent, as it was taken last.
    unsent: Mutex<BTreeMap<ObjectRef, Unsent>>,
}

impl Applied {
    /// Follows what is in force, port by port.
    pub fn follow(&self) -> Feed {
        Feed { applied: self.clone(), noted: self.add_follower(), unsent: Mutex::default() }
    }
}

impl Feed {
    /// Waits until there is something to take, or there may be.
    pub async fn changed(&self) {
        self.noted.wake.notified().await;
    }

    /// At most `most` of the ports that changed, in order, each as it is now: nothing if no client
    /// answers for it any more. The flag says whether more are left.
    pub fn take(&self, most: usize) -> (Vec<(PortAt, Option<InForce>)>, bool) {
        let mut dirty = self.noted.dirty.lock();
        let rest = match dirty.iter().nth(most).cloned() {
            Some(first) => dirty.split_off(&first),
            None => BTreeSet::new(),
        };
        let taken = std::mem::replace(&mut *dirty, rest);
        let more = !dirty.is_empty();
        drop(dirty);
        let changes = taken.into_iter().map(|at| {
            let in_force = self.applied.in_force(&at);
            (at, in_force)
        });
        (changes.collect(), more)
    }

    /// At most `most` of the objects of which clients are not sent something, as far as that changed,
    /// each as it is now: nothing if all of it is sent. The flag says whether more are left.
    pub fn take_unsent(&self, most: usize) -> (Vec<(ObjectRef, Unsent)>, bool) {
        if !self.noted.unsent.swap(false, Ordering::AcqRel) {
            return (Vec::new(), false);
        }
        let now = self.applied.unsent();
        let mut known = self.unsent.lock();
        let gone = known.keys().filter(|object| !now.contains_key(object));
        let gone = gone.map(|object| (object.clone(), Unsent::default()));
        let new = now.iter().filter(|(object, unsent)| known.get(object) != Some(unsent));
        let new = new.map(|(object, unsent)| (object.clone(), unsent.clone()));
        let mut changes: Vec<_> = gone.chain(new).collect();
        let more = changes.len() > most;
        changes.truncate(most);
        for (object, unsent) in &changes {
            match unsent.is_empty() {
                true => known.remove(object),
                false => known.insert(object.clone(), unsent.clone()),
            };
        }
        if more {
            self.noted.unsent.store(true, Ordering::Release);
        }
        (changes, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::applied::{AppliedPort, Lacks, Refused, Watching};
    use crate::testing::{policy, port};
    use policy_core::{Source, WorkloadKey};
    use policy_proto::{Fallback, Part, Unsupported};

    fn record(content: u64) -> AppliedPort {
        AppliedPort { current: policy("web"), in_force: None, content, refused: None }
    }

    /// Hash and refusal of a port.
    type Told = Option<(u64, Option<String>)>;

    fn taken(feed: &Feed) -> Vec<(String, Told)> {
        let (changes, more) = feed.take(100);
        assert!(!more);
        let told = |in_force: InForce| (in_force.content, in_force.refused.map(|r| r.to_string()));
        changes.into_iter().map(|((key, _), now)| (key.to_string(), now.map(told))).collect()
    }

    #[test]
    fn a_follower_hears_everything_first_and_then_what_changed() {
        let applied = Applied::default();
        let (a, b) = (WorkloadKey::pod("ns", "a"), WorkloadKey::pod("ns", "b"));
        applied.record(&a, port(80), 1, record(7));
        let feed = applied.follow();
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((7, None)))]);
        assert!(taken(&feed).is_empty());
        applied.record(&b, port(80), 2, record(0));
        applied.record(&a, port(80), 1, record(7));
        assert_eq!(taken(&feed), [("ns/b".to_owned(), Some((0, None)))]);
        applied.record(&b, port(80), 2, record(8));
        applied.forget(&b, port(80), 2);
        applied.forget(&b, port(80), 2);
        assert_eq!(taken(&feed), [("ns/b".to_owned(), None)]);
    }

    #[test]
    fn one_client_that_lacks_it_decides_for_all_of_a_port() {
        let applied = Applied::default();
        let feed = applied.follow();
        let a = WorkloadKey::pod("ns", "a");
        applied.record(&a, port(80), 1, record(7));
        applied.record(&a, port(80), 2, record(7));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((7, None)))]);
        applied.record(&a, port(80), 2, record(6));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((0, None)))]);
        let refused = Some(Refused { reason: "no".into(), field_path: "port.deny".into() });
        applied.record(&a, port(80), 2, AppliedPort { refused, ..record(7) });
        let told = Some((7, Some("port.deny: no".to_owned())));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), told)]);
        applied.forget(&a, port(80), 2);
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((7, None)))]);
    }

    #[test]
    fn what_is_taken_at_once_is_bounded_and_nothing_is_lost() {
        let applied = Applied::default();
        let key = |n: u16| WorkloadKey::pod("ns", &format!("web-{n:04}"));
        for n in 0..1000 {
            applied.record(&key(n), port(80), n.into(), record(7));
        }
        let feed = applied.follow();
        let mut all = Vec::new();
        loop {
            let (changes, more) = feed.take(300);
            assert!(changes.len() <= 300);
            all.extend(changes.into_iter().map(|((key, _), _)| key));
            if !more {
                break;
            }
        }
        assert_eq!(all, (0..1000).map(key).collect::<Vec<_>>());
    }

    #[test]
    fn what_clients_are_not_sent_is_told_while_one_of_them_watches() {
        let applied = Applied::default();
        let of = |name: &str| {
            let object = ObjectRef::new("policy.linkerd.io", "HTTPRoute", "ns", name);
            let part = Part::Filter(Source::Object(object));
            let message = "a timeout: not sent".to_owned();
            let replaced = Unsupported { part, fallback: Fallback::Omitted, message };
            Lacks::of("old clients", &policy("web"), &[replaced]).unwrap()
        };
        let taken = |feed: &Feed, most| {
            let (changes, more) = feed.take_unsent(most);
            let line =
                |(object, unsent): (ObjectRef, Unsent)| format!("{}={unsent}", object.name());
            (changes.into_iter().map(line).collect::<Vec<_>>(), more)
        };
        let words = |name| {
            format!("{name}=old clients: effect of HTTPRoute ns/{name}: a timeout: not sent")
        };
        let (first, second) = (applied.watching(&of("a")), applied.watching(&of("a")));
        let feed = applied.follow();
        assert_eq!(taken(&feed, 9), (vec![words("a")], false));
        drop(first);
        assert_eq!(taken(&feed, 9), (vec![], false), "one still watches");
        let mut other = Some(second);
        Watching::replace(&mut other, &applied, Some(&of("b")));
        assert_eq!(taken(&feed, 1), (vec!["a=".to_owned()], true));
        assert_eq!(taken(&feed, 1), (vec![words("b")], false));
        drop(other);
        assert_eq!(taken(&feed, 9), (vec!["b=".to_owned()], false));
        assert_eq!(taken(&applied.follow(), 9), (vec![], false));
    }

    #[tokio::test]
    async fn a_follower_that_is_gone_costs_nothing() {
        let applied = Applied::default();
        let feed = applied.follow();
        feed.changed().await;
        drop(feed);
        let second = applied.follow();
        assert_eq!(applied.followers(), 1);
        second.changed().await;
    }
}
