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

/// The least time between the begins of two refreshes.
const REFRESH_EVERY: Duration = Duration::from_secs(3);

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
    /// By watch, the last refresh that it has listed for.
    listed: Vec<Option<u64>>,
    /// Whether everything has been listed once.
    synced: bool,
    versions: BTreeMap<Kind, u64>,
    batch: Batch,
    /// When the last refresh began, if any, and whether it goes on.
    refreshed: Option<Instant>,
    refreshing: bool,
    wanted: bool,
}

impl Gatherer {
    /// Gathers from `watches` watches.
    pub(super) fn new(
        watches: usize,
        told: mpsc::Receiver<Told>,
        refresh: watch::Sender<u64>,
    ) -> Self {
        Self {
            told,
            refresh,
            listed: vec![None; watches],
            synced: false,
            versions: BTreeMap::new(),
            batch: Batch::default(),
            refreshed: None,
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
                    Some(told) => self.add(told),
                    None => return,
                },
                () = context.refresh.notified() => {
                    self.wanted = true;
                    self.begin_refresh();
                    continue;
                }
                () = pause(self.refreshed), if self.wanted && !self.refreshing => {
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
            self.add(told);
        }
    }

    /// Sends the batch, which grows while there is no room for it. False if nobody takes it.
    async fn send(&mut self, context: &SourceContext) -> bool {
        while let Ok(told) = self.told.try_recv() {
            self.add(told);
        }
        let room = context.sink.reserve();
        tokio::pin!(room);
        let room = loop {
            tokio::select! {
                biased;
                room = &mut room => break room,
                Some(told) = self.told.recv() => add(
                    &mut self.batch, &mut self.versions, &mut self.listed, told,
                ),
            }
        };
        let Ok(room) = room else { return false };
        self.note_listed();
        let batch = std::mem::take(&mut self.batch);
        if !batch.changes.is_empty() || !batch.versions.is_empty() {
            room.send(batch);
        }
        true
    }

    fn add(&mut self, told: Told) {
        add(&mut self.batch, &mut self.versions, &mut self.listed, told);
    }

    /// Ends the batch with [`Change::Synced`] if every watch has been listed as often as it has to.
    fn note_listed(&mut self) {
        let current = *self.refresh.borrow();
        let complete = self.listed.iter().all(|listed| listed.is_some_and(|l| l >= current));
        if complete && (self.refreshing || !self.synced) {
            self.batch.changes.push(Change::Synced);
            self.synced = true;
            self.refreshing = false;
        }
    }

    /// Begins a refresh if one is wanted, none goes on, and the last is long enough ago. Notices
    /// that arrive while one goes on are the reason for one more.
    fn begin_refresh(&mut self) {
        let rested = self.refreshed.is_none_or(|at| at.elapsed() >= REFRESH_EVERY);
        if self.wanted && !self.refreshing && self.synced && rested {
            self.wanted = false;
            self.refreshing = true;
            self.refreshed = Some(Instant::now());
            self.refresh.send_modify(|number| *number = number.saturating_add(1));
        }
    }
}

/// Until the next refresh may begin.
async fn pause(last: Option<Instant>) {
    if let Some(next) = last.and_then(|last| last.checked_add(REFRESH_EVERY)) {
        tokio::time::sleep_until(next).await;
    } else {
        // Nothing has been listed yet: what is told next leads on.
        std::future::pending::<()>().await;
    }
}

fn add(
    batch: &mut Batch,
    versions: &mut BTreeMap<Kind, u64>,
    listed: &mut [Option<u64>],
    told: Told,
) {
    batch.changes.extend(told.changes);
    if let Some(version) = told.version {
        let newest = versions.entry(told.kind).or_insert(0);
        // Another watch of the kind may be further, and an API server may be restored from a backup.
        if version > *newest {
            *newest = version;
            batch.versions.insert(told.kind, version);
        }
    }
    if let (Some(generation), Some(slot)) = (told.listed, listed.get_mut(told.watch)) {
        *slot = Some(slot.unwrap_or_default().max(generation));
    }
}
