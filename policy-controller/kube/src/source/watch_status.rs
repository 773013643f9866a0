//! Health of the watches.

use parking_lot::Mutex;
use policy_engine::source::{Health, WatchHealth, WatchKey, WatchState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// Minimum time between two reports.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// The state of all watches, and the report that is published from it.
#[derive(Debug)]
pub(super) struct WatchStatus {
    health: Mutex<Health>,
    changed: Notify,
    report: watch::Sender<Arc<Health>>,
}

impl WatchStatus {
    /// Creates the status of these watches, all of them listing. The flag marks kinds that are
    /// optional.
    pub(super) fn new(watches: impl IntoIterator<Item = (WatchKey, bool)>) -> Self {
        let heard = Instant::now();
        let state = WatchState::Listing;
        let watch = |optional| WatchHealth { state: state.clone(), listed: false, optional, heard };
        let watches: BTreeMap<_, _> =
            watches.into_iter().map(|(key, optional)| (key, watch(optional))).collect();
        let health = Health { watches };
        let report = watch::Sender::new(Arc::new(health.clone()));
        Self { health: Mutex::new(health), changed: Notify::new(), report }
    }

    /// Subscribes to the reports.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Health>> {
        self.report.subscribe()
    }

    /// Publishes a report after a change, at most once per interval.
    pub(super) async fn run(&self) {
        loop {
            self.changed.notified().await;
            let health = self.health.lock().clone();
            self.report.send_replace(Arc::new(health));
            tokio::time::sleep(MIN_REPORT_INTERVAL).await;
        }
    }

    /// Notes that the API server has sent something.
    pub(super) fn note_activity(&self, key: &WatchKey) {
        self.update(key, |watch| watch.heard = Instant::now());
    }

    /// Notes a complete list.
    pub(super) fn note_listed(&self, key: &WatchKey) {
        self.update(key, |watch| {
            watch.listed = true;
            watch.heard = Instant::now();
        });
        self.note_following(key);
    }

    /// Notes that the watch is open again, though nothing has been received yet.
    pub(super) fn note_following(&self, key: &WatchKey) {
        self.set_state(key, WatchState::Following);
    }

    /// Notes that the cluster does not serve the kind.
    pub(super) fn note_absent(&self, key: &WatchKey) {
        self.set_state(key, WatchState::Absent);
        self.update(key, |watch| {
            watch.listed = true;
            watch.heard = Instant::now();
        });
    }

    /// Notes a failed list or watch.
    pub(super) fn note_failure(&self, key: &WatchKey, error: Arc<str>) {
        self.set_state(key, WatchState::Failing { error });
    }

    /// True if the last attempt of a watch failed.
    pub(super) fn is_failing(&self, key: &WatchKey) -> bool {
        let health = self.health.lock();
        let watch = health.watches.get(key);
        watch.is_some_and(|watch| matches!(watch.state, WatchState::Failing { .. }))
    }

    /// Marks all watches as failing, because the API server cannot be used.
    pub(super) fn fail_all(&self, error: &Arc<str>) {
        self.set_all(&WatchState::Failing { error: error.clone() });
    }

    /// Marks all watches as listing again.
    pub(super) fn reset_all(&self) {
        self.set_all(&WatchState::Listing);
    }

    /// Publishes at once, because no task publishes reports before the watches run.
    fn set_all(&self, state: &WatchState) {
        let mut health = self.health.lock();
        for watch in health.watches.values_mut() {
            watch.state = state.clone();
        }
        self.report.send_replace(Arc::new(health.clone()));
    }

    fn set_state(&self, key: &WatchKey, state: WatchState) {
        let mut before = None;
        self.update(key, |watch| {
            if watch.state != state {
                before = Some(std::mem::replace(&mut watch.state, state.clone()));
            }
        });
        match (before, state) {
            (None, _) => {}
            (Some(_), WatchState::Failing { error }) => {
                tracing::warn!(watch = %key, %error, "list or watch failed, known objects stay in force");
            }
            (Some(WatchState::Failing { .. }), WatchState::Following) => {
                tracing::info!(watch = %key, "watching again");
            }
            (Some(_), WatchState::Absent) => {
                tracing::info!(watch = %key, "the cluster does not serve this kind");
            }
            (Some(WatchState::Absent), WatchState::Following) => {
                tracing::info!(watch = %key, "the cluster serves this kind now");
            }
            (Some(_), WatchState::Following | WatchState::Listing) => {
                tracing::debug!(watch = %key, "watching");
            }
        }
    }

    fn update(&self, key: &WatchKey, change: impl FnOnce(&mut WatchHealth)) {
        if let Some(watch) = self.health.lock().watches.get_mut(key) {
            change(watch);
        }
        self.changed.notify_one();
    }
}
