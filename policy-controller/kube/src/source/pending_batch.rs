//! Updates of the watches that have not been published yet.

use policy_crds::Kind;
use policy_engine::source::{Batch, Change};
use std::collections::{BTreeMap, HashSet};

/// Number of changes that a batch holds before it is compacted.
const MIN_CAPACITY: usize = 4096;

/// An update of one watch.
#[derive(Debug)]
pub(super) struct WatchUpdate {
    /// Index of the watch.
    pub(super) watch: usize,
    /// The watched kind.
    pub(super) kind: Kind,
    /// Changes that belong together.
    pub(super) changes: Vec<Change>,
    /// The resource version up to which the watch has seen everything.
    pub(super) version: Option<u64>,
    /// If the watch has been listed completely: the refresh that the list belongs to or follows.
    pub(super) listed: Option<u64>,
    /// The refresh of the list that this update is or follows.
    pub(super) since: u64,
    /// True if the read was older than what was read before. The update then has no changes.
    pub(super) regressed: bool,
}

impl WatchUpdate {
    /// The update of a watch that has read something older than before, for this refresh.
    pub(super) fn regression(watch: usize, kind: Kind, since: u64) -> Self {
        let (changes, version, listed) = (Vec::new(), None, None);
        Self { watch, kind, changes, version, listed, since, regressed: true }
    }
}

/// The pending batch, and the progress of each watch.
#[derive(Debug)]
pub(super) struct PendingBatch {
    /// The changes that have not been published.
    pub(super) batch: Batch,
    /// The refresh that the epoch began with.
    pub(super) since: u64,
    watches: Vec<WatchProgress>,
    /// The latest version of any watch of a kind.
    latest: BTreeMap<Kind, u64>,
    /// The version that all watches of a kind have passed, where several share it.
    passed: BTreeMap<Kind, u64>,
    /// Number of changes at which the batch is compacted.
    capacity: usize,
}

/// Progress of a watch.
#[derive(Clone, Copy, Debug)]
struct WatchProgress {
    kind: Kind,
    /// The last refresh that it has listed for.
    listed: Option<u64>,
    /// The version up to which it has seen everything.
    version: u64,
}

impl PendingBatch {
    /// Creates an empty batch for watches of these kinds.
    pub(super) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let progress = |kind| WatchProgress { kind, listed: None, version: 0 };
        let watches: Vec<WatchProgress> = kinds.into_iter().map(progress).collect();
        let shared = |kind: &Kind| watches.iter().filter(|watch| watch.kind == *kind).count() > 1;
        let passed = watches.iter().map(|watch| watch.kind).filter(shared).map(|kind| (kind, 0));
        let passed = passed.collect();
        Self {
            batch: Batch::default(),
            since: 0,
            watches,
            latest: BTreeMap::new(),
            passed,
            capacity: MIN_CAPACITY,
        }
    }

    /// Adds an update. Of an earlier epoch only the changes count, because the list that follows
    /// contains only the difference to them.
    pub(super) fn add(&mut self, update: WatchUpdate) {
        let changed = !update.changes.is_empty();
        self.batch.changes.extend(update.changes);
        if self.batch.changes.len() > self.capacity {
            self.compact();
        }
        if update.since < self.since {
            return;
        }
        if let Some(watch) = self.watches.get_mut(update.watch) {
            watch.listed = watch.listed.max(update.listed);
            watch.version = watch.version.max(update.version.unwrap_or_default());
        }
        let before = self.latest.get(&update.kind).copied();
        let Some(latest) = before.max(update.version) else { return };
        // A change is labelled by the latest of its kind even where it is older itself: a replica that
        // has passed the latest in every watch has seen the change.
        if changed || before != Some(latest) {
            self.latest.insert(update.kind, latest);
            self.batch.versions.insert(update.kind, latest);
        }
        if update.version.is_some() {
            self.note_passed(update.kind, update.version == Some(latest));
        }
    }

    /// Records the version that all watches of a kind have passed, where several share it.
    fn note_passed(&mut self, kind: Kind, is_latest: bool) {
        let Some(passed) = self.passed.get_mut(&kind) else { return };
        let versions = self.watches.iter().filter(|w| w.kind == kind).map(|w| w.version);
        let all = versions.min().unwrap_or_default();
        // The first is sent even if it is 0, else the latest would be taken for it.
        if all > *passed || is_latest {
            *passed = all;
            self.batch.passed.insert(kind, all);
        }
    }

    /// The indexes of the watches that have not listed for this refresh or a later one.
    pub(super) fn unlisted(&self, refresh: u64) -> impl Iterator<Item = usize> {
        let is_listed =
            move |watch: &WatchProgress| watch.listed.is_some_and(|listed| listed >= refresh);
        let watches = self.watches.iter().enumerate();
        watches.filter(move |(_, watch)| !is_listed(watch)).map(|(index, _)| index)
    }

    /// Takes the pending batch.
    pub(super) fn take(&mut self) -> Batch {
        self.capacity = MIN_CAPACITY;
        std::mem::take(&mut self.batch)
    }

    /// Drops all changes of an object but the last, and those that keep it: consumers never see the states
    /// between the first and the last of a batch. A batch that waits for long holds no object twice.
    fn compact(&mut self) {
        let mut seen = HashSet::new();
        let changes = std::mem::take(&mut self.batch.changes).into_iter().rev();
        let last = changes.filter(|change| match change {
            Change::Apply(object) => seen.insert(object.meta.key.clone()),
            Change::Delete(key) => seen.insert(key.clone()),
            // What is kept is what came before it.
            Change::Keep(_) | Change::Synced => true,
        });
        self.batch.changes = last.collect();
        self.batch.changes.reverse();
        // Doubling bounds how often each change is scanned, however long the batch waits.
        self.capacity = self.batch.changes.len().saturating_mul(2).max(MIN_CAPACITY);
    }

    /// Resets the progress of the watches, because an epoch begins with the refresh `since`. Changes
    /// stay.
    pub(super) fn reset(&mut self, since: u64) {
        self.since = since;
        self.latest.clear();
        for watch in &mut self.watches {
            (watch.listed, watch.version) = (None, 0);
        }
        for passed in self.passed.values_mut() {
            *passed = 0;
        }
        self.batch.versions.clear();
        self.batch.passed.clear();
    }
}
