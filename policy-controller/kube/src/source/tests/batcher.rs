//! Batches made from the updates of watches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where it cannot go on"
)]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects")]

use super::server;
use crate::source::batcher::{Batcher, Epochs};
use crate::source::epoch_tracker::EpochState;
use crate::source::pending_batch::WatchUpdate;
use crate::source::watch_status::WatchStatus;
use policy_crds::Kind;
use policy_engine::source::{Batch, Change, SourceContext, SourceError, WatchKey};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Harness {
    updates: mpsc::Sender<WatchUpdate>,
    batches: mpsc::Receiver<Batch>,
    refresh: Arc<Notify>,
    refreshes: watch::Receiver<u64>,
    states: watch::Sender<EpochState>,
    regressions: watch::Receiver<Option<u64>>,
    watch_status: Arc<WatchStatus>,
    running: JoinHandle<Result<(), SourceError>>,
}

impl Harness {
    fn start(watches: &[Kind]) -> Self {
        let (updates, queue) = mpsc::channel(64);
        let (sink, batches) = mpsc::channel(64);
        let (sender, refreshes) = watch::channel(0);
        let refresh = Arc::new(Notify::new());
        let shutdown = CancellationToken::new();
        let context = SourceContext { sink, refresh: refresh.clone(), shutdown };
        // Refreshes are frequent here, and each verifies the epoch.
        let state = EpochState { epoch: "first".into(), number: 0, verified: 9, bump_due: false };
        let watches: Vec<WatchKey> =
            watches.iter().map(|kind| WatchKey { kind: *kind, namespace: None }).collect();
        let watch_status =
            Arc::new(WatchStatus::new(watches.iter().map(|key| (key.clone(), false))));
        let (states, state) = watch::channel(state);
        let (noticed, regressions) = watch::channel(None);
        let epochs = Epochs {
            state,
            regressions: noticed,
            latest_versions: Arc::default(),
            watch_status: watch_status.clone(),
        };
        let batcher = Batcher::new(watches, queue, sender, epochs);
        let running = tokio::spawn(async move { batcher.run(&context).await });
        Self { updates, batches, refresh, refreshes, states, regressions, watch_status, running }
    }

    async fn send_update(&self, watch: usize, name: &str, version: u64, listed: Option<u64>) {
        self.send_since(watch, name, version, (listed, 0)).await;
    }

    async fn send_since(
        &self,
        watch: usize,
        name: &str,
        version: u64,
        (listed, since): (Option<u64>, u64),
    ) {
        let changes = vec![Change::Apply(Arc::new(server(name)))];
        let (kind, version, regressed) = (Kind::Server, Some(version), false);
        let update = WatchUpdate { watch, kind, changes, version, listed, since, regressed };
        self.updates.send(update).await.unwrap();
    }

    /// Asserts that nothing is published for a while.
    async fn expect_nothing(&mut self) {
        let batch = tokio::time::timeout(Duration::from_millis(200), self.batches.recv()).await;
        assert!(batch.is_err(), "{batch:?}");
    }

    async fn batch(&mut self) -> Batch {
        let batch = tokio::time::timeout(Duration::from_secs(20), self.batches.recv());
        batch.await.expect("no batch").unwrap()
    }
}

fn batch(changes: Vec<Change>, version: Option<u64>) -> Batch {
    let versions = version.map(|version| (Kind::Server, version));
    Batch { changes, versions: versions.into_iter().collect(), ..Batch::default() }
}

#[tokio::test]
async fn it_is_synced_once_all_are_listed_and_again_after_every_refresh() {
    let mut harness = Harness::start(&[Kind::Server, Kind::Pod]);
    let apply = |name: &str| Change::Apply(Arc::new(server(name)));
    harness.send_update(0, "a", 3, Some(0)).await;
    assert_eq!(harness.batch().await, batch(vec![apply("a")], Some(3)));
    harness.send_update(1, "b", 2, Some(0)).await;
    // Versions never decrease: a late update is labelled by the newest.
    assert_eq!(harness.batch().await, batch(vec![apply("b"), Change::Synced], Some(3)));
    harness.send_update(0, "c", 4, None).await;
    assert_eq!(harness.batch().await, batch(vec![apply("c")], Some(4)));

    harness.refresh.notify_one();
    harness.refreshes.changed().await.unwrap();
    assert_eq!(*harness.refreshes.borrow_and_update(), 1);
    harness.send_update(0, "a", 5, Some(1)).await;
    assert_eq!(harness.batch().await, batch(vec![apply("a")], Some(5)));
    // A request in the meantime causes one more refresh, but not at once.
    harness.refresh.notify_one();
    harness.send_update(1, "b", 6, Some(1)).await;
    assert_eq!(harness.batch().await, batch(vec![apply("b"), Change::Synced], Some(6)));
    harness.refreshes.changed().await.unwrap();
    assert_eq!(*harness.refreshes.borrow_and_update(), 2);
}

#[tokio::test]
async fn namespaces_that_share_a_kind_have_passed_what_the_slowest_has() {
    let mut harness = Harness::start(&[Kind::Server, Kind::Server]);
    let mut seen = Vec::new();
    for (watch, version) in [(0, 7), (1, 5), (1, 6), (0, 9), (1, 12)] {
        harness.send_update(watch, "a", version, None).await;
        let Batch { versions, passed, .. } = harness.batch().await;
        let of = |versions: BTreeMap<Kind, u64>| versions.get(&Kind::Server).copied();
        seen.push((of(versions), of(passed)));
    }
    let expected = [
        (Some(7), Some(0)),
        (Some(7), Some(5)),
        (Some(7), Some(6)),
        (Some(9), Some(6)),
        (Some(12), Some(9)),
    ];
    assert_eq!(seen, expected);
}

/// A change of a watch that another of its kind has overtaken. A replica that has passed only the
/// updates before the change must not count as having seen it.
#[tokio::test]
async fn a_late_change_is_labelled_by_the_newest_of_its_kind() {
    let mut harness = Harness::start(&[Kind::Server, Kind::Server]);
    harness.send_update(0, "a", 7, None).await;
    harness.batch().await;
    // A bookmark of the other namespace.
    let (kind, version, since) = (Kind::Server, Some(20), 0);
    let (changes, listed, regressed) = (Vec::new(), None, false);
    let bookmark = WatchUpdate { watch: 1, kind, changes, version, listed, since, regressed };
    harness.updates.send(bookmark).await.unwrap();
    harness.batch().await;
    harness.send_update(0, "a", 10, None).await;
    let batch = harness.batch().await;
    assert_eq!(batch.versions.get(&Kind::Server), Some(&20));
    assert_eq!(batch.passed.get(&Kind::Server), Some(&10));
}

#[tokio::test]
async fn another_epoch_begins_with_one_batch_of_everything_listed_in_it() {
    let mut harness = Harness::start(&[Kind::Server, Kind::Pod]);
    let apply = |name: &str| Change::Apply(Arc::new(server(name)));
    harness.send_update(0, "a", 90, Some(0)).await;
    harness.send_update(1, "b", 80, Some(0)).await;
    while !harness.batch().await.changes.contains(&Change::Synced) {}
    // A list is older than that: from here on nothing is published.
    harness.updates.send(WatchUpdate::regression(0, Kind::Server, 0)).await.unwrap();
    harness.regressions.changed().await.unwrap();
    assert_eq!(*harness.regressions.borrow_and_update(), Some(0));
    harness.send_update(1, "c", 91, None).await;
    harness.expect_nothing().await;
    harness.states.send_modify(|state| (state.epoch, state.number) = ("second".into(), 1));
    harness.refreshes.changed().await.unwrap();
    assert_eq!(*harness.refreshes.borrow_and_update(), 1);
    // Of the epoch before: the change counts, but not its version, nor the list.
    harness.send_since(1, "d", 92, (Some(0), 0)).await;
    harness.send_since(0, "e", 12, (Some(1), 1)).await;
    harness.expect_nothing().await;
    harness.send_since(1, "f", 13, (Some(1), 1)).await;
    let begins = harness.batch().await;
    assert_eq!(begins.epoch.as_deref(), Some("second"));
    let changes = ["c", "d", "e", "f"].map(apply).into_iter().chain([Change::Synced]);
    assert_eq!(begins.changes, changes.collect::<Vec<_>>());
    assert_eq!(begins.versions, [(Kind::Server, 13)].into());
    harness.send_since(0, "g", 14, (None, 1)).await;
    let goes_on = harness.batch().await;
    assert_eq!((goes_on.epoch, goes_on.versions), (None, [(Kind::Server, 14)].into()));
}

/// The storage was restored, as the raised counter shows, and one of the watches cannot list.
#[tokio::test]
async fn a_watch_that_fails_keeps_a_followed_epoch_from_beginning_for_half_a_minute_at_most() {
    let mut harness = Harness::start(&[Kind::Server, Kind::Pod]);
    harness.send_update(0, "a", 90, Some(0)).await;
    harness.send_update(1, "b", 80, Some(0)).await;
    while !harness.batch().await.changes.contains(&Change::Synced) {}
    let began = Instant::now();
    harness.states.send_modify(|state| (state.epoch, state.number) = ("second".into(), 1));
    harness.refreshes.changed().await.unwrap();
    let pods = WatchKey { kind: Kind::Pod, namespace: None };
    harness.watch_status.note_failure(&pods, "refused".into());
    harness.send_since(0, "c", 12, (Some(1), 1)).await;
    let begins = tokio::time::timeout(Duration::from_secs(40), harness.batches.recv()).await;
    let begins = begins.expect("nothing is published for ever").unwrap();
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    assert_eq!(begins.epoch.as_deref(), Some("second"));
    // Not everything has been listed, so that it ends no hold.
    assert_eq!(begins.changes, [Change::Apply(Arc::new(server("c")))]);
    harness.send_since(1, "d", 13, (Some(1), 1)).await;
    let ends = harness.batch().await;
    assert_eq!((ends.epoch, ends.changes.last()), (None, Some(&Change::Synced)));
}

#[tokio::test]
async fn nothing_is_passed_on_while_the_next_epoch_has_no_name() {
    let mut harness = Harness::start(&[Kind::Server]);
    harness.send_update(0, "a", 90, Some(0)).await;
    harness.batch().await;
    harness.states.send_modify(|state| state.bump_due = true);
    harness.send_update(0, "b", 91, None).await;
    harness.expect_nothing().await;
}

#[tokio::test]
async fn a_batch_that_waits_does_not_grow_with_every_change_of_an_object() {
    let mut harness = Harness::start(&[Kind::Server]);
    harness.send_update(0, "a", 1, Some(0)).await;
    harness.batch().await;
    harness.states.send_modify(|state| state.bump_due = true);
    for number in 0..10_000_u64 {
        harness.send_update(0, if number % 2 == 0 { "a" } else { "b" }, 2, None).await;
    }
    harness.states.send_modify(|state| state.bump_due = false);
    let batch = harness.batch().await;
    assert!(batch.changes.len() < 5_000, "{} changes of two objects", batch.changes.len());
    let last = batch.changes.last();
    assert_eq!(last, Some(&Change::Apply(Arc::new(server("b")))));
}

#[tokio::test]
async fn a_numbering_that_ends_is_a_failure_of_the_source() {
    // The watches go on.
    let Harness { states, mut batches, running, updates, .. } = Harness::start(&[Kind::Server]);
    drop(states);
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    assert!(ended.is_err());
    assert_eq!(batches.recv().await, None);
    assert!(updates.is_closed());
}

#[tokio::test]
async fn a_list_counts_as_consistent_once_the_epoch_was_found_to_be_the_current_one() {
    let mut harness = Harness::start(&[Kind::Server]);
    harness.states.send_modify(|state| state.verified = 0);
    harness.send_update(0, "a", 3, Some(0)).await;
    assert!(harness.batch().await.changes.contains(&Change::Synced));
    harness.refresh.notify_one();
    harness.refreshes.changed().await.unwrap();
    harness.send_since(0, "b", 4, (Some(1), 1)).await;
    assert!(!harness.batch().await.changes.contains(&Change::Synced));
    harness.states.send_modify(|state| state.verified = 1);
    assert_eq!(harness.batch().await.changes, [Change::Synced]);
}

#[tokio::test]
async fn a_lone_change_waits_for_nothing_and_a_burst_becomes_few_batches() {
    let mut harness = Harness::start(&[Kind::Server]);
    harness.send_update(0, "a", 1, Some(0)).await;
    harness.batch().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    harness.send_update(0, "a", 2, None).await;
    harness.batch().await;
    assert!(began.elapsed() < Duration::from_secs(1));

    let updates = harness.updates.clone();
    let burst = tokio::spawn(async move {
        for number in 3..1_003_u64 {
            let changes = vec![Change::Apply(Arc::new(server(&format!("s{number}"))))];
            let (kind, version) = (Kind::Server, Some(number));
            let (listed, since, regressed) = (None, 0, false);
            let update = WatchUpdate { watch: 0, kind, changes, version, listed, since, regressed };
            updates.send(update).await.unwrap();
        }
    });
    let (mut batches, mut names) = (0, Vec::new());
    while names.len() < 1_000 {
        let batch = harness.batch().await;
        batches += 1;
        names.extend(batch.changes.into_iter().map(|change| match change {
            Change::Apply(object) => object.meta.key.name.clone(),
            change => panic!("{change:?}"),
        }));
    }
    burst.await.unwrap();
    let expected: Vec<Arc<str>> = (3..1_003).map(|n| format!("s{n}").into()).collect();
    assert_eq!(names, expected);
    assert!(batches < 300, "{batches} batches");
}
