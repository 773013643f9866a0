//! Debounces the `Programmed` condition: a degradation is written at once, unless workloads may only
//! be restarting.

use super::desired::{Fingerprint, Level};
use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Time that an object has to be in force everywhere again before that is written: a pod that starts
/// takes a moment, and under a shared object some pod always does.
pub(crate) const RECOVERY_DELAY: Duration = Duration::from_secs(5);
/// Time that the count has to be unknown before that is written: one lost replica must not change
/// every object. It counts as known again once it has been known for as long, so that a replica that
/// answers now and then does not restart the delay.
pub(crate) const UNKNOWN_DELAY: Duration = Duration::from_secs(30);
/// Time that an object that was in force, or about to be, has to be in force nowhere before that is
/// written: the only pod of a workload that is replaced is gone for a while, and its successor may
/// have an image to pull.
pub(crate) const LOSS_DELAY: Duration = Duration::from_secs(60);

/// The changes that are being delayed.
#[derive(Debug, Default)]
pub(crate) struct Debounce {
    /// Objects that became in force everywhere while their status says otherwise, with the time.
    recovering: BTreeMap<ObjectKey, Instant>,
    /// Objects that came to be in force nowhere while their status says otherwise, with the time.
    losing: BTreeMap<ObjectKey, Instant>,
    /// Objects whose count is unknown, or was a moment ago.
    unknown: BTreeMap<ObjectKey, UnknownPeriod>,
    /// Objects that were written as in force everywhere, and then not.
    degraded: BTreeSet<ObjectKey>,
}

/// A period without a count.
#[derive(Clone, Copy, Debug)]
struct UnknownPeriod {
    /// Its beginning.
    since: Instant,
    /// Time at which the count became known again.
    known: Option<Instant>,
}

impl UnknownPeriod {
    fn is_over(&self, now: Instant) -> bool {
        self.known.is_some_and(|known| now.saturating_duration_since(known) >= UNKNOWN_DELAY)
    }
}

impl Debounce {
    /// The time until which a change has to last before it is written; `None`: it is written at once.
    pub(crate) fn delay_until(
        &mut self,
        key: &ObjectKey,
        before: Option<Fingerprint>,
        wanted: Fingerprint,
        now: Instant,
    ) -> Option<Instant> {
        let alone = before.filter(|before| before.without_programmed == wanted.without_programmed);
        match (alone.map_or(Level::Unset, |before| before.level), wanted.level) {
            (Level::Partial | Level::Nowhere, Level::Everywhere) if self.degraded.contains(key) => {
                self.losing.remove(key);
                self.known(key, now);
                self.recovering.entry(key.clone()).or_insert(now).checked_add(RECOVERY_DELAY)
            }
            (Level::Partial | Level::Everywhere, Level::Nowhere) => Some(self.delay_loss(key, now)),
            // A list has shown that its status says otherwise.
            (Level::Unset, Level::Nowhere) if before.is_none() && self.losing.contains_key(key) => {
                Some(self.delay_loss(key, now))
            }
            (Level::Partial | Level::Nowhere | Level::Everywhere, Level::Unknown) => {
                self.recovering.remove(key);
                let unknown = self.unknown.get(key).filter(|unknown| !unknown.is_over(now));
                let since = unknown.map_or(now, |unknown| unknown.since);
                self.unknown.insert(key.clone(), UnknownPeriod { since, known: None });
                since.checked_add(UNKNOWN_DELAY)
            }
            _ => {
                self.settle(key, now);
                None
            }
        }
    }

    /// The time until which it has to be in force nowhere before that is written. It is so now, and
    /// its status says otherwise.
    pub(crate) fn delay_loss(&mut self, key: &ObjectKey, now: Instant) -> Instant {
        self.recovering.remove(key);
        self.known(key, now);
        let since = *self.losing.entry(key.clone()).or_insert(now);
        since.checked_add(LOSS_DELAY).unwrap_or(now)
    }

    /// Ends the delays of an object whose status is as desired again.
    pub(crate) fn settle(&mut self, key: &ObjectKey, now: Instant) {
        self.recovering.remove(key);
        self.losing.remove(key);
        self.known(key, now);
    }

    /// Notes that the count of an object is known.
    fn known(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(unknown) = self.unknown.get_mut(key) {
            unknown.known.get_or_insert(now);
        }
    }

    /// Drops periods that are over.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.unknown.retain(|_, unknown| !unknown.is_over(now));
    }

    /// Drops an object that was deleted.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.recovering.remove(key);
        self.losing.remove(key);
        self.unknown.remove(key);
        self.degraded.remove(key);
    }

    /// Notes a write: the status before, and the one that was written.
    pub(crate) fn written(
        &mut self,
        key: &ObjectKey,
        before: Option<Fingerprint>,
        now: Fingerprint,
    ) {
        self.recovering.remove(key);
        match now.level {
            Level::Unknown => _ = self.unknown.remove(key),
            Level::Nowhere => _ = self.losing.remove(key),
            Level::Unset | Level::Partial | Level::Everywhere => {}
        }
        let same = before.is_some_and(|before| before.without_programmed == now.without_programmed);
        match (before.map(|before| before.level), now.level) {
            (Some(Level::Everywhere), Level::Partial | Level::Nowhere) if same => {
                self.degraded.insert(key.clone());
            }
            (_, Level::Partial | Level::Nowhere) if same => {}
            _ => _ = self.degraded.remove(key),
        }
    }
}
