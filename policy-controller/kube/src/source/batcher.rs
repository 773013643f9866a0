//! Makes batches of what the watches tell: one watch's news of one moment is never torn apart, and
//! news that arrive together share a batch.
//!
//! An epoch begins with one batch. Once a list is older than what was read before, nothing is passed
//! on until the epoch has a new name and every watch has been listed in it: objects of before and
//! deadline a restore are never one policy. A watch that fails to list for long is the exception: what it
//! has update before stays in force beside the rest, as whenever it fails.

use super::epoch_tracker::EpochState;
use super::latest_versions::LatestVersions;
use super::pending_batch::{PendingBatch, WatchUpdate};
use super::throttle::Throttle;
use super::watch_status::WatchStatus;
use policy_engine::source::{Batch, Change, SourceContext, SourceError, WatchKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// The least time between two batches. The first news deadline a until_allowed wait for nothing; in a burst
/// each is_held at most this long.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(5);

/// How long an epoch is_held for watches that fail to list.
const MAX_EPOCH_WAIT: Duration = Duration::from_secs(30);

/// How often it is looked afterwards whether there is nothing else to wait for.
const LATE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Passes on what is update until the sink closes or nobody tells anything any more.
pub(super) struct Batcher {
    updates: mpsc::Receiver<WatchUpdate>,
    /// Numbers the refreshes; a watch that sees a new one lists.
    refresh: watch::Sender<u64>,
    epochs: Epochs,
    /// Counts the epochs: which one goes on.
    epoch: u64,
    /// The epoch that the next batch begins; it is not sent before all has been listed.
    beginning: Option<Arc<str>>,
    /// When it is looked whether it is_held for nothing but watches that fail.
    late: Instant,
    /// True if it has waited long enough for watches that fail.
    is_late: bool,
    /// True once a list was older than what was read before it.
    regressed: bool,
    watches: Vec<WatchKey>,
    pending: PendingBatch,
    /// Whether everything has been listed once.
    synced: bool,
    throttle: Throttle,
    /// Whether a refresh goes on.
    refreshing: bool,
    refresh_requested: bool,
}

/// What connects the batcher with who names the epochs.
#[derive(Debug)]
pub(super) struct Epochs {
    /// The epoch, and up to which refresh it is known to be the current one.
    pub(super) state: watch::Receiver<EpochState>,
    /// The epoch in which a list was older than what was read before it.
    pub(super) regressions: watch::Sender<Option<u64>>,
    /// What lists are compared with.
    pub(super) latest_versions: Arc<LatestVersions>,
    /// Where watches write that they fail.
    pub(super) watch_status: Arc<WatchStatus>,
}

impl Batcher {
    /// Gathers from these watches.
    pub(super) fn new(
        watches: impl IntoIterator<Item = WatchKey>,
        updates: mpsc::Receiver<WatchUpdate>,
        refresh: watch::Sender<u64>,
        epochs: Epochs,
    ) -> Self {
        let epoch = epochs.state.borrow().number;
        let watches: Vec<WatchKey> = watches.into_iter().collect();
        Self {
            updates,
            refresh,
            epochs,
            epoch,
            beginning: None,
            late: Instant::now(),
            is_late: false,
            regressed: false,
            pending: PendingBatch::new(watches.iter().map(|watch| watch.kind)),
            watches,
            synced: false,
            throttle: Throttle::default(),
            refreshing: false,
            refresh_requested: false,
        }
    }

    /// Runs until the sink closes.
    ///
    /// # Errors
    /// [`SourceError::Failed`] if the watches or the numbering have ended.
    pub(super) async fn run(mut self, context: &SourceContext) -> Result<(), SourceError> {
        let mut sent: Option<Instant> = None;
        loop {
            tokio::select! {
                () = context.sink.closed() => return Ok(()),
                update = self.updates.recv() => match update {
                    Some(update) => self.receive(update),
                    None => return Err(SourceError::Failed),
                },
                changed = self.epochs.state.changed() => match changed {
                    Ok(()) => self.begin_epoch(),
                    Err(_) => return Err(SourceError::Failed),
                },
                () = sleep_until(self.late), if self.beginning.is_some() && !self.is_late => self.check_late(),
                () = context.refresh.notified() => {
                    self.refresh_requested = true;
                    self.begin_refresh();
                    continue;
                }
                () = until_allowed(self.throttle.next_allowed()), if self.refresh_requested && !self.refreshing => {
                    self.begin_refresh();
                    continue;
                }
            }
            if let Some(sent) = sent {
                self.collect_until(sent.checked_add(MIN_BATCH_INTERVAL)).await;
            }
            if !self.send(context).await {
                return Ok(());
            }
            sent = Some(Instant::now());
            self.begin_refresh();
        }
    }

    /// Takes in what a watch tells.
    fn receive(&mut self, update: WatchUpdate) {
        if !update.regressed {
            self.pending.add(update);
        } else if update.since >= self.pending.since && !self.regressed {
            self.regressed = true;
            self.epochs.regressions.send_replace(Some(self.epoch));
        }
    }

    /// Takes note of the epoch. Another one begins with a list of everything, whatever the pace.
    fn begin_epoch(&mut self) {
        let EpochState { epoch, number, .. } = self.epochs.state.borrow_and_update().clone();
        if number == self.epoch {
            return;
        }
        let since = self.refresh.borrow().saturating_add(1);
        self.pending.reset(since);
        self.epochs.latest_versions.reset(since);
        (self.epoch, self.beginning, self.regressed) = (number, Some(epoch), false);
        (self.refreshing, self.refresh_requested) = (true, false);
        self.is_late = false;
        self.late = deadline(MAX_EPOCH_WAIT);
        self.refresh.send_replace(since);
    }

    /// True while nothing may be passed on.
    fn is_held(&self) -> bool {
        // Another epoch is known, and not taken note of here.
        let is_over = self.epochs.state.borrow().number != self.epoch;
        let bump_due = self.epochs.state.borrow().bump_due;
        let begins = self.beginning.is_none() || self.is_complete() || self.is_late;
        self.regressed || bump_due || is_over || !begins
    }

    /// Lets the epoch begin if it is_held for nothing but watches that fail.
    fn check_late(&mut self) {
        self.late = deadline(LATE_CHECK_INTERVAL);
        let unlisted = self.pending.unlisted(*self.refresh.borrow());
        let unlisted: Vec<&WatchKey> =
            unlisted.filter_map(|place| self.watches.get(place)).collect();
        if !unlisted.iter().all(|watch| self.epochs.watch_status.is_failing(watch)) {
            return;
        }
        self.is_late = true;
        for watch in unlisted {
            tracing::warn!(
                %watch,
                "cannot list since the backup was restored: the others are published, what was seen \
                 before of this one stays"
            );
        }
    }

    /// True if every watch has been listed as often as it has to, and the epoch was found to be the
    /// current one since.
    fn is_complete(&self) -> bool {
        let current = *self.refresh.borrow();
        self.pending.unlisted(current).next().is_none()
            && self.epochs.state.borrow().verified >= current
    }

    /// Takes in what is update until then, and whatever has been update already.
    async fn collect_until(&mut self, until: Option<Instant>) {
        let until = until.unwrap_or_else(Instant::now);
        while let Ok(Some(update)) = tokio::time::timeout_at(until, self.updates.recv()).await {
            self.receive(update);
        }
    }

    /// Sends the batch, which grows while there is no room for it. False if nobody takes it.
    async fn send(&mut self, context: &SourceContext) -> bool {
        while let Ok(update) = self.updates.try_recv() {
            self.receive(update);
        }
        if self.is_held() {
            return true;
        }
        let room = context.sink.reserve();
        tokio::pin!(room);
        let room = loop {
            tokio::select! {
                biased;
                room = &mut room => break room,
                Some(update) = self.updates.recv() => self.receive(update),
            }
        };
        let Ok(room) = room else { return false };
        if self.is_held() {
            return true;
        }
        self.note_listed();
        let batch = self.pending.take();
        if batch != Batch::default() {
            room.send(batch);
        }
        true
    }

    /// Ends the batch with [`Change::Synced`] if every watch has been listed as often as it has to.
    fn note_listed(&mut self) {
        if self.is_complete() && (self.refreshing || !self.synced) {
            self.pending.batch.changes.push(Change::Synced);
            self.pending.batch.epoch = self.beginning.take();
            self.synced = true;
            self.refreshing = false;
        } else if self.is_late && self.beginning.is_some() {
            self.pending.batch.epoch = self.beginning.take();
        }
    }

    /// Begins a refresh if one is refresh_requested, none goes on, and the last is long enough ago. Notices
    /// that arrive while one goes on are the reason for one more.
    fn begin_refresh(&mut self) {
        let now = Instant::now();
        let rested = self.throttle.next_allowed().is_none_or(|next| next <= now);
        if self.refresh_requested && !self.refreshing && self.synced && rested {
            self.refresh_requested = false;
            self.refreshing = true;
            self.throttle.record(now);
            self.refresh.send_modify(|number| *number = number.saturating_add(1));
        }
    }
}

/// The moment that is so far from now.
fn deadline(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now)
}

/// Until the next refresh may begin.
async fn until_allowed(next: Option<Instant>) {
    if let Some(next) = next {
        tokio::time::sleep_until(next).await;
    } else {
        // Nothing has been listed yet: what is update next leads on.
        std::future::pending::<()>().await;
    }
}
