//! Batches the updates of the watches: changes that one watch sends together are never split, and
//! updates that arrive together share a batch.
//!
//! An epoch begins with one batch. Once a list is older than what was read before, nothing is
//! published until the epoch has a new name and every watch has relisted in it: objects of before and
//! after a restore are never one policy. The exception is a watch that fails to list for long: its
//! earlier objects stay in force beside the rest, as whenever it fails.

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

/// Minimum time between two batches. The first update after a pause is sent at once; in a burst each
/// waits at most this long.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(5);

/// Most time that an epoch waits for watches that fail to list.
const MAX_EPOCH_WAIT: Duration = Duration::from_secs(30);

/// Interval at which an overdue epoch is checked again for other watches to wait for.
const LATE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Batches updates until the sink closes or the watches end.
pub(super) struct Batcher {
    updates: mpsc::Receiver<WatchUpdate>,
    /// Number of the current refresh; a watch that sees a new one relists.
    refresh: watch::Sender<u64>,
    epochs: Epochs,
    /// Number of the current epoch.
    epoch: u64,
    /// The epoch that the next batch begins. The batch is held until everything has been listed.
    beginning: Option<Arc<str>>,
    /// Time of the next check for watches that fail.
    late: Instant,
    /// True once the epoch has waited long enough for watches that fail.
    is_late: bool,
    /// True once a list was older than what was read before it.
    regressed: bool,
    watches: Vec<WatchKey>,
    pending: PendingBatch,
    /// True once everything has been listed.
    synced: bool,
    throttle: Throttle,
    /// True during a refresh.
    refreshing: bool,
    refresh_requested: bool,
}

/// The channels between the batcher and the epoch tracker.
#[derive(Debug)]
pub(super) struct Epochs {
    /// The epoch, and the last refresh for which it was verified.
    pub(super) state: watch::Receiver<EpochState>,
    /// Number of the epoch in which a list was older than what was read before it.
    pub(super) regressions: watch::Sender<Option<u64>>,
    /// The versions that lists are compared with.
    pub(super) latest_versions: Arc<LatestVersions>,
    /// The health of the watches.
    pub(super) watch_status: Arc<WatchStatus>,
}

impl Batcher {
    /// Creates a batcher of these watches.
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
    /// [`SourceError::Failed`] if the watches or the epoch tracker have ended.
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

    /// Adds an update of a watch.
    fn receive(&mut self, update: WatchUpdate) {
        if !update.regressed {
            self.pending.add(update);
        } else if update.since >= self.pending.since && !self.regressed {
            self.regressed = true;
            self.epochs.regressions.send_replace(Some(self.epoch));
        }
    }

    /// Reads the current epoch. A new one begins with a relist of everything, whatever the throttle.
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

    /// True while nothing may be published.
    fn is_held(&self) -> bool {
        // A new epoch is known but not yet begun here.
        let is_over = self.epochs.state.borrow().number != self.epoch;
        let bump_due = self.epochs.state.borrow().bump_due;
        let begins = self.beginning.is_none() || self.is_complete() || self.is_late;
        self.regressed || bump_due || is_over || !begins
    }

    /// Lets the epoch begin if only failing watches are missing.
    fn check_late(&mut self) {
        self.late = deadline(LATE_CHECK_INTERVAL);
        let unlisted = self.pending.unlisted(*self.refresh.borrow());
        let unlisted: Vec<&WatchKey> =
            unlisted.filter_map(|index| self.watches.get(index)).collect();
        if !unlisted.iter().all(|watch| self.epochs.watch_status.is_failing(watch)) {
            return;
        }
        self.is_late = true;
        for watch in unlisted {
            tracing::warn!(
                %watch,
                "cannot list since the backup was restored: publishing the other kinds, known objects \
                 of this one stay in force"
            );
        }
    }

    /// True if every watch has listed for the current refresh and the epoch was verified since.
    fn is_complete(&self) -> bool {
        let current = *self.refresh.borrow();
        self.pending.unlisted(current).next().is_none()
            && self.epochs.state.borrow().verified >= current
    }

    /// Adds the updates that are queued or arrive until then.
    async fn collect_until(&mut self, until: Option<Instant>) {
        let until = until.unwrap_or_else(Instant::now);
        while let Ok(Some(update)) = tokio::time::timeout_at(until, self.updates.recv()).await {
            self.receive(update);
        }
    }

    /// Sends the batch, which grows while the sink has no capacity. False if the sink is closed.
    async fn send(&mut self, context: &SourceContext) -> bool {
        while let Ok(update) = self.updates.try_recv() {
            self.receive(update);
        }
        if self.is_held() {
            return true;
        }
        let permit = context.sink.reserve();
        tokio::pin!(permit);
        let permit = loop {
            tokio::select! {
                biased;
                permit = &mut permit => break permit,
                Some(update) = self.updates.recv() => self.receive(update),
            }
        };
        let Ok(permit) = permit else { return false };
        if self.is_held() {
            return true;
        }
        self.note_listed();
        let batch = self.pending.take();
        if batch != Batch::default() {
            permit.send(batch);
        }
        true
    }

    /// Ends the batch with [`Change::Synced`] if every watch has listed.
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

    /// Begins a refresh if one is requested, none is running, and the throttle allows it. Requests
    /// during a refresh cause one more.
    fn begin_refresh(&mut self) {
        let now = Instant::now();
        let allowed = self.throttle.next_allowed().is_none_or(|next| next <= now);
        if self.refresh_requested && !self.refreshing && self.synced && allowed {
            self.refresh_requested = false;
            self.refreshing = true;
            self.throttle.record(now);
            self.refresh.send_modify(|number| *number = number.saturating_add(1));
        }
    }
}

/// The instant `wait` from now.
fn deadline(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now)
}

/// Waits until the next refresh may begin.
async fn until_allowed(next: Option<Instant>) {
    if let Some(next) = next {
        tokio::time::sleep_until(next).await;
    } else {
        // Nothing has been listed yet: the next update wakes the loop.
        std::future::pending::<()>().await;
    }
}
