//! Makes batches of what the watches tell: one watch's news of one moment is never torn apart, and
//! news that arrive together share a batch.

use crate::source::{Batch, Change, SourceContext};
use policy_crds::Kind;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The least time between two batches. The first news after a pause wait for nothing; in a burst
/// each waits at most this long.
const WINDOW: Duration = Duration::from_millis(5);

/// The least time between the begins of two refreshes, while they are few.
const REFRESH_EVERY: Duration = Duration::from_secs(3);

/// The same once there have been many in a row.
const REFRESH_SELDOM: Duration = Duration::from_secs(30);

/// So many in a row are many.
const MANY: u32 = 10;

/// After so long without one a row has ended.
const ROW_ENDS: Duration = Duration::from_secs(120);

/// What one watch has to tell.
#[derive(Debug)]
pub(super) struct Told {
    /// Which watch, by its place in the list of watches.
    pub(super) watch: usize,
    /// What it watches.
    pub(super) kind: Kind,
    /// Changes that belong together.
    pub(super) changes: Vec<Change>,
    /// The resource version up to which it has seen everything.
    pub(super) version: Option<u64>,
    /// If it has been listed completely: the refresh that the list is part of or comes after.
    pub(super) listed: Option<u64>,
}

/// Passes on what is told until the sink closes or nobody tells anything any more.
pub(super) struct Gatherer {
    told: mpsc::Receiver<Told>,
    /// Numbers the refreshes; a watch that sees a new one lists.
    refresh: watch::Sender<u64>,
    news: News,
    /// Whether everything has been listed once.
    synced: bool,
    pace: Pace,
    /// Whether a refresh goes on.
    refreshing: bool,
    wanted: bool,
}

impl Gatherer {
    /// Gathers from watches of these kinds.
    pub(super) fn new(
        kinds: impl IntoIterator<Item = Kind>,
        told: mpsc::Receiver<Told>,
        refresh: watch::Sender<u64>,
    ) -> Self {
        Self {
            told,
            refresh,
            news: News::new(kinds),
            synced: false,
            pace: Pace::default(),
            refreshing: false,
            wanted: false,
        }
    }

    /// Runs until the sink closes.
    pub(super) async fn run(mut self, context: &SourceContext) {
        let mut sent: Option<Instant> = None;
        loop {
            tokio::select! {
                () = context.sink.closed() => return,
                told = self.told.recv() => match told {
                    Some(told) => self.news.add(told),
                    None => return,
                },
                () = context.refresh.notified() => {
                    self.wanted = true;
                    self.begin_refresh();
                    continue;
                }
                () = pause(self.pace.next()), if self.wanted && !self.refreshing => {
                    self.begin_refresh();
                    continue;
                }
            }
            if let Some(sent) = sent {
                self.gather_until(sent.checked_add(WINDOW)).await;
            }
            if !self.send(context).await {
                return;
            }
            sent = Some(Instant::now());
            self.begin_refresh();
        }
    }

    /// Takes in what is told until then, and whatever has been told already.
    async fn gather_until(&mut self, until: Option<Instant>) {
        let until = until.unwrap_or_else(Instant::now);
        while let Ok(Some(told)) = tokio::time::timeout_at(until, self.told.recv()).await {
            self.news.add(told);
        }
    }

    /// Sends the batch, which grows while there is no room for it. False if nobody takes it.
    async fn send(&mut self, context: &SourceContext) -> bool {
        while let Ok(told) = self.told.try_recv() {
            self.news.add(told);
        }
        let room = context.sink.reserve();
        tokio::pin!(room);
        let room = loop {
            tokio::select! {
                biased;
                room = &mut room => break room,
                Some(told) = self.told.recv() => self.news.add(told),
            }
        };
        let Ok(room) = room else { return false };
        self.note_listed();
        let batch = std::mem::take(&mut self.news.batch);
        if batch != Batch::default() {
            room.send(batch);
        }
        true
    }

    /// Ends the batch with [`Change::Synced`] if every watch has been listed as often as it has to.
    fn note_listed(&mut self) {
        let current = *self.refresh.borrow();
        let complete = self.news.watches.iter().all(|w| w.listed.is_some_and(|l| l >= current));
        if complete && (self.refreshing || !self.synced) {
            self.news.batch.changes.push(Change::Synced);
            self.synced = true;
            self.refreshing = false;
        }
    }

    /// Begins a refresh if one is wanted, none goes on, and the last is long enough ago. Notices
    /// that arrive while one goes on are the reason for one more.
    fn begin_refresh(&mut self) {
        let now = Instant::now();
        let rested = self.pace.next().is_none_or(|next| next <= now);
        if self.wanted && !self.refreshing && self.synced && rested {
            self.wanted = false;
            self.refreshing = true;
            self.pace.begin(now);
            self.refresh.send_modify(|number| *number = number.saturating_add(1));
        }
    }
}

/// When refreshes begin. Whoever may watch a workload can ask for one by what it says it has in force,
/// true or not, and each lists everything there is: if somebody goes on asking, they become rare.
#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    /// How many came before it in its row.
    row: u32,
}

impl Pace {
    /// When the next may begin; none: there has been no refresh.
    fn next(&self) -> Option<Instant> {
        let every = if self.row < MANY { REFRESH_EVERY } else { REFRESH_SELDOM };
        self.last?.checked_add(every)
    }

    fn begin(&mut self, now: Instant) {
        let before = self.last.map(|last| now.saturating_duration_since(last));
        let goes_on = before.is_some_and(|before| before < ROW_ENDS);
        self.row = if goes_on { self.row.saturating_add(1) } else { 0 };
        self.last = Some(now);
    }
}

/// Until the next refresh may begin.
async fn pause(next: Option<Instant>) {
    if let Some(next) = next {
        tokio::time::sleep_until(next).await;
    } else {
        // Nothing has been listed yet: what is told next leads on.
        std::future::pending::<()>().await;
    }
}

/// What has been told and not been passed on, and how far each watch is.
#[derive(Debug)]
struct News {
    batch: Batch,
    watches: Vec<Progress>,
    /// By kind, the newest version of any of its watches.
    newest: BTreeMap<Kind, u64>,
    /// By kind that several watches share, the version that all of them have passed.
    passed: BTreeMap<Kind, u64>,
}

/// How far a watch is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    kind: Kind,
    /// The last refresh that it has been listed for.
    listed: Option<u64>,
    /// The version up to which it has seen everything.
    version: u64,
}

impl News {
    fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let progress = |kind| Progress { kind, listed: None, version: 0 };
        let watches: Vec<Progress> = kinds.into_iter().map(progress).collect();
        let shared = |kind: &Kind| watches.iter().filter(|watch| watch.kind == *kind).count() > 1;
        let passed = watches.iter().map(|watch| watch.kind).filter(shared).map(|kind| (kind, 0));
        let passed = passed.collect();
        Self { batch: Batch::default(), watches, newest: BTreeMap::new(), passed }
    }

    fn add(&mut self, told: Told) {
        self.batch.changes.extend(told.changes);
        if let Some(watch) = self.watches.get_mut(told.watch) {
            watch.listed = watch.listed.max(told.listed);
            watch.version = watch.version.max(told.version.unwrap_or_default());
        }
        let Some(version) = told.version else { return };
        let newest = self.newest.entry(told.kind).or_default();
        // Another watch of the kind may be further, and an API server may be restored from a backup.
        if version > *newest {
            *newest = version;
            self.batch.versions.insert(told.kind, version);
        }
        if let Some(passed) = self.passed.get_mut(&told.kind) {
            let versions = self.watches.iter().filter(|w| w.kind == told.kind).map(|w| w.version);
            let all = versions.min().unwrap_or_default();
            // The first is told even if it is 0: the newest is no answer then.
            if all > *passed || *newest == version {
                *passed = all;
                self.batch.passed.insert(told.kind, all);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    #[test]
    fn refreshes_that_somebody_goes_on_asking_for_become_rare() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.next(), None);
        let mut begins = Vec::new();
        let mut now = start;
        while now < start + Duration::from_secs(630) {
            begins.push((now - start).as_secs());
            pace.begin(now);
            now = pace.next().unwrap();
        }
        // Ten of them soon, then one in half a minute.
        let expected: Vec<u64> =
            (0..=10).map(|n| 3 * n).chain((1..=19).map(|n| 30 + 30 * n)).collect();
        assert_eq!(begins, expected);
        let quiet = now + ROW_ENDS;
        pace.begin(quiet);
        assert_eq!(pace.next(), Some(quiet + REFRESH_EVERY));
    }
}
