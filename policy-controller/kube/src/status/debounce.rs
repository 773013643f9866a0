//! What is told of `Programmed` once it has lasted: what gets worse is told at once, unless workloads
//! may only begin anew.

use super::desired::{Fingerprint, Level};
use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long something is in force everywhere, after it was not, before that is told: a pod that starts
/// takes a moment, and under a shared object some pod always does.
pub(crate) const RECOVERY_DELAY: Duration = Duration::from_secs(5);
/// How long nobody knows how far something is in force before that is told: one replica that is lost is
/// no news about every object. It is known again once it has been known for as long: a replica that
/// answers now and then does not begin the time anew.
pub(crate) const UNKNOWN_DELAY: Duration = Duration::from_secs(30);
/// How long something that was in force, or about to be, is in force nowhere before that is told: a
/// workload of one pod that is replaced has none for a while, and then an image to pull.
pub(crate) const LOSS_DELAY: Duration = Duration::from_secs(60);

/// What waits for quiet.
#[derive(Debug, Default)]
pub(crate) struct Debounce {
    /// Since when an object is in force everywhere that was told otherwise.
    recovering: BTreeMap<ObjectKey, Instant>,
    /// Since when an object is in force nowhere that was told otherwise.
    losing: BTreeMap<ObjectKey, Instant>,
    /// Objects of which nobody knows, or nobody knew a moment ago.
    unknown: BTreeMap<ObjectKey, UnknownPeriod>,
    /// Objects that were told to be in force everywhere, and then not.
    degraded: BTreeSet<ObjectKey>,
}

/// For how long nobody knows.
#[derive(Clone, Copy, Debug)]
struct UnknownPeriod {
    /// When nobody knew first.
    since: Instant,
    /// Since when somebody knows again.
    known: Option<Instant>,
}

impl UnknownPeriod {
    fn is_over(&self, now: Instant) -> bool {
        self.known.is_some_and(|known| now.saturating_duration_since(known) >= UNKNOWN_DELAY)
    }
}

impl Debounce {
    /// Until when a change has to last to be told; `None`: it is told at once.
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
            // What its status says was found in a list.
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

    /// Until when it has to be in force nowhere for that to be told; it is so now, and its status says
    /// otherwise.
    pub(crate) fn delay_loss(&mut self, key: &ObjectKey, now: Instant) -> Instant {
        self.recovering.remove(key);
        self.known(key, now);
        let since = *self.losing.entry(key.clone()).or_insert(now);
        since.checked_add(LOSS_DELAY).unwrap_or(now)
    }

    /// It is as it was told again.
    pub(crate) fn settle(&mut self, key: &ObjectKey, now: Instant) {
        self.recovering.remove(key);
        self.losing.remove(key);
        self.known(key, now);
    }

    /// Somebody knows how far it is in force.
    fn known(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(unknown) = self.unknown.get_mut(key) {
            unknown.known.get_or_insert(now);
        }
    }

    /// Forgets what is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.unknown.retain(|_, unknown| !unknown.is_over(now));
    }

    /// The object is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.recovering.remove(key);
        self.losing.remove(key);
        self.unknown.remove(key);
        self.degraded.remove(key);
    }

    /// An object was told this, after it was told something else before.
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
