//! What is told of `Programmed` once it has lasted: what gets worse is told at once, unless workloads
//! may only begin anew.

use super::desired::{Fingerprint, Level};
use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long something is in force everywhere, after it was not, before that is told: a pod that starts
/// takes a moment, and under a shared object some pod always does.
pub(crate) const QUIET: Duration = Duration::from_secs(5);
/// How long nobody knows how far something is in force before that is told: one replica that is lost is
/// no news about every object. It is known again once it has been known for as long: a replica that
/// answers now and then does not begin the time anew.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(30);
/// How long something that was in force, or about to be, is in force nowhere before that is told: a
/// workload of one pod that is replaced has none for a while, and then an image to pull.
pub(crate) const LOSS: Duration = Duration::from_secs(60);

/// What waits for quiet.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// Since when an object is in force everywhere that was told otherwise.
    up: BTreeMap<ObjectKey, Instant>,
    /// Since when an object is in force nowhere that was told otherwise.
    lost: BTreeMap<ObjectKey, Instant>,
    /// Objects of which nobody knows, or nobody knew a moment ago.
    unknown: BTreeMap<ObjectKey, Unknown>,
    /// Objects that were told to be in force everywhere, and then not.
    fallen: BTreeSet<ObjectKey>,
}

/// For how long nobody knows.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    /// When nobody knew first.
    since: Instant,
    /// Since when somebody knows again.
    known: Option<Instant>,
}

impl Unknown {
    fn is_over(&self, now: Instant) -> bool {
        self.known.is_some_and(|known| now.saturating_duration_since(known) >= UNKNOWN)
    }
}

impl Quiet {
    /// Until when a change has to last to be told; `None`: it is told at once.
    pub(crate) fn until(
        &mut self,
        key: &ObjectKey,
        before: Option<Fingerprint>,
        wanted: Fingerprint,
        now: Instant,
    ) -> Option<Instant> {
        let alone = before.filter(|before| before.beside == wanted.beside);
        match (alone.map_or(Level::Unsaid, |before| before.level), wanted.level) {
            (Level::Down | Level::Lost, Level::Up) if self.fallen.contains(key) => {
                self.lost.remove(key);
                self.known(key, now);
                self.up.entry(key.clone()).or_insert(now).checked_add(QUIET)
            }
            (Level::Down | Level::Up, Level::Lost) => Some(self.losing(key, now)),
            // What its status says was found in a list.
            (Level::Unsaid, Level::Lost) if before.is_none() && self.lost.contains_key(key) => {
                Some(self.losing(key, now))
            }
            (Level::Down | Level::Lost | Level::Up, Level::Unknown) => {
                self.up.remove(key);
                let unknown = self.unknown.get(key).filter(|unknown| !unknown.is_over(now));
                let since = unknown.map_or(now, |unknown| unknown.since);
                self.unknown.insert(key.clone(), Unknown { since, known: None });
                since.checked_add(UNKNOWN)
            }
            _ => {
                self.settled(key, now);
                None
            }
        }
    }

    /// Until when it has to be in force nowhere for that to be told; it is so now, and its status says
    /// otherwise.
    pub(crate) fn losing(&mut self, key: &ObjectKey, now: Instant) -> Instant {
        self.up.remove(key);
        self.known(key, now);
        let since = *self.lost.entry(key.clone()).or_insert(now);
        since.checked_add(LOSS).unwrap_or(now)
    }

    /// It is as it was told again.
    pub(crate) fn settled(&mut self, key: &ObjectKey, now: Instant) {
        self.up.remove(key);
        self.lost.remove(key);
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
        self.up.remove(key);
        self.lost.remove(key);
        self.unknown.remove(key);
        self.fallen.remove(key);
    }

    /// An object was told this, after it was told something else before.
    pub(crate) fn written(
        &mut self,
        key: &ObjectKey,
        before: Option<Fingerprint>,
        now: Fingerprint,
    ) {
        self.up.remove(key);
        match now.level {
            Level::Unknown => _ = self.unknown.remove(key),
            Level::Lost => _ = self.lost.remove(key),
            Level::Unsaid | Level::Down | Level::Up => {}
        }
        let same = before.is_some_and(|before| before.beside == now.beside);
        match (before.map(|before| before.level), now.level) {
            (Some(Level::Up), Level::Down | Level::Lost) if same => {
                self.fallen.insert(key.clone());
            }
            (_, Level::Down | Level::Lost) if same => {}
            _ => _ = self.fallen.remove(key),
        }
    }
}
