//! A work queue of objects: each is in it at most once, however often it changes.

use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The work queue. Its size is bounded by the number of objects.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<ObjectKey>,
    delayed: BTreeSet<(Instant, ObjectKey)>,
    entries: BTreeMap<ObjectKey, EntryState>,
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Ready,
    /// Until that time. `backing_off`: it failed, and is not retried earlier even if it changes.
    Delayed {
        until: Instant,
        backing_off: bool,
    },
    /// Taken by a job. `again`: it has changed since.
    Taken {
        again: bool,
    },
}

impl Queue {
    /// Adds an object, to be taken not before `earliest`.
    pub(crate) fn push(&mut self, key: &ObjectKey, earliest: Option<Instant>) {
        match self.entries.get(key).copied() {
            None => self.insert(key, earliest),
            Some(EntryState::Ready | EntryState::Delayed { backing_off: true, .. }) => {}
            Some(EntryState::Delayed { until, backing_off: false }) => {
                if earliest.is_none_or(|earliest| earliest < until) {
                    self.delayed.remove(&(until, key.clone()));
                    self.waiting = self.waiting.saturating_sub(1);
                    self.insert(key, earliest);
                }
            }
            Some(EntryState::Taken { .. }) => {
                self.entries.insert(key.clone(), EntryState::Taken { again: true });
            }
        }
    }

    /// Adds an object, or postpones one that is delayed. An object that is due stays due.
    pub(crate) fn postpone(&mut self, key: &ObjectKey, earliest: Instant) {
        if let Some(EntryState::Delayed { until, backing_off: false }) =
            self.entries.get(key).copied()
        {
            self.delayed.remove(&(until, key.clone()));
            self.waiting = self.waiting.saturating_sub(1);
            self.entries.remove(key);
        }
        self.push(key, Some(earliest));
    }

    fn insert(&mut self, key: &ObjectKey, earliest: Option<Instant>) {
        self.waiting = self.waiting.saturating_add(1);
        let state = match earliest {
            None => {
                self.ready.push_back(key.clone());
                EntryState::Ready
            }
            Some(until) => {
                self.delayed.insert((until, key.clone()));
                EntryState::Delayed { until, backing_off: false }
            }
        };
        self.entries.insert(key.clone(), state);
    }

    /// Takes the next object. It is not returned again before [`Queue::done`].
    pub(crate) fn take(&mut self, now: Instant) -> Option<ObjectKey> {
        while let Some((until, _)) = self.delayed.first() {
            if *until > now {
                break;
            }
            let Some((_, key)) = self.delayed.pop_first() else { break };
            self.entries.insert(key.clone(), EntryState::Ready);
            self.ready.push_back(key);
        }
        let key = self.ready.pop_front()?;
        self.waiting = self.waiting.saturating_sub(1);
        self.entries.insert(key.clone(), EntryState::Taken { again: false });
        Some(key)
    }

    /// Ends the work on an object, or delays it until `retry`. An object that changed in the meantime
    /// is due at once, unless it failed.
    pub(crate) fn done(&mut self, key: &ObjectKey, retry: Option<Instant>) {
        let again = match self.entries.remove(key) {
            Some(EntryState::Taken { again }) => again,
            Some(EntryState::Ready | EntryState::Delayed { .. }) | None => return,
        };
        match retry {
            Some(until) => {
                self.waiting = self.waiting.saturating_add(1);
                self.delayed.insert((until, key.clone()));
                self.entries.insert(key.clone(), EntryState::Delayed { until, backing_off: true });
            }
            None if again => self.insert(key, None),
            None => {}
        }
    }

    /// The time at which the next object is due; `None` if none is ready or delayed.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        match self.ready.is_empty() {
            false => Some(now),
            true => self.delayed.first().map(|(until, _)| *until),
        }
    }

    /// Number of objects in the queue.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }
}

/// Exponential backoff after a number of failures, bounded by `most`, with `jitter` so that replicas
/// and objects do not retry together.
pub(crate) fn backoff(failures: u32, first: Duration, most: Duration, jitter: u64) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(0));
    let whole = if doubled.is_zero() || doubled > most { most } else { doubled };
    let quarter = whole.checked_div(4).unwrap_or_default();
    let spread = quarter.saturating_mul(u32::try_from(jitter % 1024).unwrap_or_default());
    whole.saturating_sub(spread.checked_div(1024).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;
    use policy_engine::testing::key;

    fn server(name: &str) -> ObjectKey {
        key(Kind::Server, "ns", name)
    }

    #[test]
    fn an_object_is_in_it_once_and_comes_back_if_it_changes_while_it_is_taken() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["a", "b", "a", "a"] {
            queue.push(&server(name), None);
        }
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.take(now), Some(server("a")));
        queue.push(&server("a"), None);
        assert_eq!(queue.take(now), Some(server("b")));
        assert_eq!(queue.take(now), None, "a is being dealt with");
        queue.done(&server("a"), None);
        queue.done(&server("b"), None);
        assert_eq!(queue.take(now), Some(server("a")));
        queue.done(&server("a"), None);
        assert_eq!((queue.take(now), queue.len(), queue.next(now)), (None, 0, None));
    }

    #[test]
    fn what_failed_is_not_tried_before_its_time_even_if_it_changes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(5);
        queue.push(&server("a"), None);
        queue.take(now);
        queue.push(&server("a"), None);
        queue.done(&server("a"), Some(later));
        queue.push(&server("a"), None);
        assert_eq!((queue.take(now), queue.next(now), queue.len()), (None, Some(later), 1));
        assert_eq!(queue.take(later), Some(server("a")));
    }

    #[test]
    fn what_was_not_urgent_is_taken_earlier_once_it_is() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(5);
        queue.push(&server("a"), Some(later));
        queue.push(&server("a"), Some(later + Duration::from_secs(5)));
        assert_eq!(queue.next(now), Some(later));
        queue.push(&server("a"), None);
        assert_eq!((queue.take(now), queue.len()), (Some(server("a")), 0));
        queue.done(&server("a"), None);
        assert_eq!(queue.take(later), None, "it was left where it waited, too");
    }

    #[test]
    fn what_waits_for_quiet_waits_longer_when_it_is_not_quiet() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        queue.postpone(&server("a"), later(5));
        queue.postpone(&server("a"), later(8));
        assert_eq!((queue.take(later(5)), queue.len()), (None, 1));
        queue.push(&server("a"), None);
        queue.postpone(&server("a"), later(20));
        assert_eq!(queue.take(later(5)), Some(server("a")), "what is due stays due");
    }

    #[test]
    fn waiting_doubles_up_to_a_bound() {
        let seconds = |failures, jitter| {
            backoff(failures, Duration::from_secs(1), Duration::from_secs(60), jitter).as_secs_f64()
        };
        assert_eq!(
            [1, 2, 3, 7, 33, 1000].map(|n| seconds(n, 0)),
            [1.0, 2.0, 4.0, 60.0, 60.0, 60.0]
        );
        assert!((0.75..1.0).contains(&seconds(1, 1023)));
    }
}
