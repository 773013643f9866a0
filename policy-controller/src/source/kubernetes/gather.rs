//! Makes batches of what the watches tell: one watch's news of one moment is never torn apart, and
//! news that arrive together share a batch.
//!
//! An epoch begins with one batch. Once a list is older than what was read before, nothing is passed
//! on until the epoch has a new name and every watch has been listed in it: objects of before and
//! after a restore are never one policy.

use super::newest::Newest;
use super::news::{News, Told};
use super::numbering::Numbered;
use crate::source::{Batch, Change, SourceContext};
use policy_crds::Kind;
use std::sync::Arc;
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

/// Passes on what is told until the sink closes or nobody tells anything any more.
pub(super) struct Gatherer {
    told: mpsc::Receiver<Told>,
    /// Numbers the refreshes; a watch that sees a new one lists.
    refresh: watch::Sender<u64>,
    epochs: Epochs,
    /// Counts the epochs: which one goes on.
    epoch: u64,
    /// The epoch that the next batch begins; it is not sent before all has been listed.
    beginning: Option<Arc<str>>,
    /// True once a list was older than what was read before it.
    older: bool,
    news: News,
    /// Whether everything has been listed once.
    synced: bool,
    pace: Pace,
    /// Whether a refresh goes on.
    refreshing: bool,
    wanted: bool,
}

/// What connects the gatherer with who names the epochs.
#[derive(Debug)]
pub(super) struct Epochs {
    /// The epoch, and up to which refresh it is known to be the current one.
    pub(super) numbered: watch::Receiver<Numbered>,
    /// The epoch in which a list was older than what was read before it.
    pub(super) older: watch::Sender<Option<u64>>,
    /// What lists are compared with.
    pub(super) newest: Arc<Newest>,
}

impl Gatherer {
    /// Gathers from watches of these kinds.
    pub(super) fn new(
        kinds: impl IntoIterator<Item = Kind>,
        told: mpsc::Receiver<Told>,
        refresh: watch::Sender<u64>,
        epochs: Epochs,
    ) -> Self {
        let epoch = epochs.numbered.borrow().number;
        Self {
            told,
            refresh,
            epochs,
            epoch,
            beginning: None,
            older: false,
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
                    Some(told) => self.hear(told),
                    None => return,
                },
                changed = self.epochs.numbered.changed() => match changed {
                    Ok(()) => self.follow(),
                    Err(_) => return,
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

    /// Takes in what a watch tells.
    fn hear(&mut self, told: Told) {
        if !told.older {
            self.news.add(told);
        } else if told.since >= self.news.since && !self.older {
            self.older = true;
            self.epochs.older.send_replace(Some(self.epoch));
        }
    }

    /// Takes note of the epoch. Another one begins with a list of everything, whatever the pace.
    fn follow(&mut self) {
        let Numbered { epoch, number, .. } = self.epochs.numbered.borrow_and_update().clone();
        if number == self.epoch {
            return;
        }
        let since = self.refresh.borrow().saturating_add(1);
        self.news.restart(since);
        self.epochs.newest.restart(since);
        (self.epoch, self.beginning, self.older) = (number, Some(epoch), false);
        (self.refreshing, self.wanted) = (true, false);
        self.refresh.send_replace(since);
    }

    /// True while nothing may be passed on.
    fn waits(&self) -> bool {
        // Another epoch is known, and not taken note of here.
        let is_over = self.epochs.numbered.borrow().number != self.epoch;
        self.older || is_over || (self.beginning.is_some() && !self.is_complete())
    }

    /// True if every watch has been listed as often as it has to, and the epoch was found to be the
    /// current one since.
    fn is_complete(&self) -> bool {
        let current = *self.refresh.borrow();
        self.news.is_listed(current) && self.epochs.numbered.borrow().looked >= current
    }

    /// Takes in what is told until then, and whatever has been told already.
    async fn gather_until(&mut self, until: Option<Instant>) {
        let until = until.unwrap_or_else(Instant::now);
        while let Ok(Some(told)) = tokio::time::timeout_at(until, self.told.recv()).await {
            self.hear(told);
        }
    }

    /// Sends the batch, which grows while there is no room for it. False if nobody takes it.
    async fn send(&mut self, context: &SourceContext) -> bool {
        while let Ok(told) = self.told.try_recv() {
            self.hear(told);
        }
        if self.waits() {
            return true;
        }
        let room = context.sink.reserve();
        tokio::pin!(room);
        let room = loop {
            tokio::select! {
                biased;
                room = &mut room => break room,
                Some(told) = self.told.recv() => self.hear(told),
            }
        };
        let Ok(room) = room else { return false };
        if self.waits() {
            return true;
        }
        self.note_listed();
        let batch = std::mem::take(&mut self.news.batch);
        if batch != Batch::default() {
            room.send(batch);
        }
        true
    }

    /// Ends the batch with [`Change::Synced`] if every watch has been listed as often as it has to.
    fn note_listed(&mut self) {
        if self.is_complete() && (self.refreshing || !self.synced) {
            self.news.batch.changes.push(Change::Synced);
            self.news.batch.epoch = self.beginning.take();
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
