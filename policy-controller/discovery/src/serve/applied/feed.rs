//! Changes of what is in force, port by port, for the tracker that adds them up.
//!
//! A follower is notified which ports changed, and reads their state when it takes them. A slow one
//! therefore skips states, and its backlog is bounded by the number of ports.

use super::followers::{FeedState, InForce, WorkloadPort};
use super::record::AckRegistry;
use parking_lot::Mutex;
use policy_core::ObjectRef;
use policy_engine::unsent::Unsent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The changes since the last call; the first call returns everything.
#[derive(Debug)]
pub struct Feed {
    applied: AckRegistry,
    state: Arc<FeedState>,
    /// The omissions as they were last taken.
    unsent: Mutex<BTreeMap<ObjectRef, Unsent>>,
}

impl AckRegistry {
    /// Follows what is in force, port by port.
    pub fn follow(&self) -> Feed {
        Feed { applied: self.clone(), state: self.add_follower(), unsent: Mutex::default() }
    }
}

impl Feed {
    /// Waits until there is something to take, or there may be.
    pub async fn changed(&self) {
        self.state.wake.notified().await;
    }

    /// Takes up to `most` of the changed ports, in order, each in its current state: `None` if no
    /// client answers for it any more. The flag is true if more are pending.
    pub fn take(&self, most: usize) -> (Vec<(WorkloadPort, Option<InForce>)>, bool) {
        let mut dirty = self.state.dirty.lock();
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

    /// Takes up to `most` of the objects whose omissions changed, each in its current state: empty
    /// if everything is sent. The flag is true if more are pending.
    pub fn take_unsent(&self, most: usize) -> (Vec<(ObjectRef, Unsent)>, bool) {
        if !self.state.unsent.swap(false, Ordering::AcqRel) {
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
            self.state.unsent.store(true, Ordering::Release);
        }
        (changes, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::applied::{AppliedPort, OmissionGuard, Omissions, Rejection};
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
        let applied = AckRegistry::default();
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
        let applied = AckRegistry::default();
        let feed = applied.follow();
        let a = WorkloadKey::pod("ns", "a");
        applied.record(&a, port(80), 1, record(7));
        applied.record(&a, port(80), 2, record(7));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((7, None)))]);
        applied.record(&a, port(80), 2, record(6));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((0, None)))]);
        let refused = Some(Rejection { reason: "no".into(), field_path: "port.deny".into() });
        applied.record(&a, port(80), 2, AppliedPort { refused, ..record(7) });
        let told = Some((7, Some("port.deny: no".to_owned())));
        assert_eq!(taken(&feed), [("ns/a".to_owned(), told)]);
        applied.forget(&a, port(80), 2);
        assert_eq!(taken(&feed), [("ns/a".to_owned(), Some((7, None)))]);
    }

    #[test]
    fn what_is_taken_at_once_is_bounded_and_nothing_is_lost() {
        let applied = AckRegistry::default();
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
        let applied = AckRegistry::default();
        let of = |name: &str| {
            let object = ObjectRef::new("policy.linkerd.io", "HTTPRoute", "ns", name);
            let part = Part::Filter(Source::Object(object));
            let message = "a timeout: not sent".to_owned();
            let replaced = Unsupported { part, fallback: Fallback::Omitted, message };
            Omissions::of("old clients", &policy("web"), &[replaced]).unwrap()
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
        let (first, second) = (applied.omit(&of("a")), applied.omit(&of("a")));
        let feed = applied.follow();
        assert_eq!(taken(&feed, 9), (vec![words("a")], false));
        drop(first);
        assert_eq!(taken(&feed, 9), (vec![], false), "one still watches");
        let mut other = Some(second);
        OmissionGuard::replace(&mut other, &applied, Some(&of("b")));
        assert_eq!(taken(&feed, 1), (vec!["a=".to_owned()], true));
        assert_eq!(taken(&feed, 1), (vec![words("b")], false));
        drop(other);
        assert_eq!(taken(&feed, 9), (vec!["b=".to_owned()], false));
        assert_eq!(taken(&applied.follow(), 9), (vec![], false));
    }

    #[tokio::test]
    async fn a_follower_that_is_gone_costs_nothing() {
        let applied = AckRegistry::default();
        let feed = applied.follow();
        feed.changed().await;
        drop(feed);
        let second = applied.follow();
        assert_eq!(applied.followers(), 1);
        second.changed().await;
    }
}
