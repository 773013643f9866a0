//! What is told of `Programmed` once it has lasted: what gets worse is told at once.

use super::desired::{Fingerprint, Level};
use policy_crds::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long something is in force everywhere, after it was not, before that is told: a pod that starts
/// takes a moment, and under a shared object some pod always does.
pub(crate) const QUIET: Duration = Duration::from_secs(5);
/// How long nobody knows how far something is in force before that is told: one replica that is lost is
/// no news about every object.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(30);

/// What waits for quiet.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// What is told once it has been so for a while, and since when it is so.
    since: BTreeMap<ObjectKey, (Level, Instant)>,
    /// Objects that were told to be in force everywhere, and then not.
    fallen: BTreeSet<ObjectKey>,
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
        let wait = match (alone.map_or(Level::Unsaid, |before| before.level), wanted.level) {
            (Level::Down, Level::Up) if self.fallen.contains(key) => QUIET,
            (Level::Down | Level::Up, Level::Unknown) => UNKNOWN,
            _ => {
                self.since.remove(key);
                return None;
            }
        };
        let held = self.since.get(key).filter(|(level, _)| *level == wanted.level);
        let since = held.map_or(now, |(_, since)| *since);
        self.since.insert(key.clone(), (wanted.level, since));
        since.checked_add(wait)
    }

    /// It is as it was told again.
    pub(crate) fn settled(&mut self, key: &ObjectKey) {
        self.since.remove(key);
    }

    /// The object is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.since.remove(key);
        self.fallen.remove(key);
    }

    /// An object was told this, after it was told something else before.
    pub(crate) fn written(
        &mut self,
        key: &ObjectKey,
        before: Option<Fingerprint>,
        now: Fingerprint,
    ) {
        self.since.remove(key);
        let same = before.is_some_and(|before| before.beside == now.beside);
        match (before.map(|before| before.level), now.level) {
            (Some(Level::Up), Level::Down) if same => _ = self.fallen.insert(key.clone()),
            (_, Level::Down) if same => {}
            _ => _ = self.fallen.remove(key),
        }
    }
}
