//! Tracks the epoch: raises the counter in the Lease after the storage was restored, and follows
//! where another replica has raised it.
//!
//! ```text
//! watch ──regression──▶ batcher ──regression──▶ epoch_tracker ◀──Lease──▶ API server
//!                          ▲                         │
//!                          └───────── epoch ─────────┘
//! ```
//!
//! **Invariants.** The counter never decreases while a replica lives that has read it. It is raised
//! above every value that the replica has read, by an optimistic write. Nothing is published from the
//! moment that a list or the Lease has shown the restore until the epoch has its name. The events of
//! a watch are compared with that watch alone: a watch that was interrupted and resumed is published
//! until a list or the Lease shows the restore.

use super::api::{Api, ApiError};
use super::backoff::{Backoff, jittered};
use super::epoch::{self, EpochLease, EpochObjects};
use super::throttle::Throttle;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Poll interval of the Lease. Each refresh reads it too.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Poll interval where the API server forbids it.
const REFUSED_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Time that a refusal has to persist: an API server that has just started refuses for a moment what it
/// allows.
const REFUSAL_GRACE: Duration = Duration::from_secs(3);

/// Most time that raising the counter may fail before this process begins an epoch of its own.
const MAX_BUMP_FAILURE: Duration = Duration::from_secs(30);

/// Number of immediate attempts at a write that conflicts.
const MAX_CONFLICTS: u32 = 5;

/// The epoch, and the last refresh for which it was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EpochState {
    /// Its name.
    pub(super) epoch: Arc<str>,
    /// Counts the epochs of this process.
    pub(super) number: u64,
    /// The last refresh after whose beginning the Lease was read.
    pub(super) verified: u64,
    /// True while the epoch is over and the next has no name yet.
    pub(super) bump_due: bool,
}

/// Polls the Lease for as long as the source runs.
pub(super) struct EpochTracker {
    api: Api,
    names: EpochObjects,
    /// The Lease as it was last read; `None` if it does not name the current epoch.
    lease: Option<EpochLease>,
    /// True while the counter has to be raised.
    bump_due: bool,
    /// True while the epoch is this process's own, because the counter could not be raised.
    standalone: bool,
    state: watch::Sender<EpochState>,
    refresh: watch::Receiver<u64>,
    regressions: watch::Receiver<Option<u64>>,
    /// The last regression that was handled.
    handled_regression: Option<u64>,
    /// The first refusal since the Lease could last be used.
    refused_since: Option<Instant>,
    /// The first response that prevented the counter from being raised.
    failing_since: Option<Instant>,
    /// Limits how often epochs begin.
    throttle: Throttle,
    backoff: Backoff,
}

/// The action that follows from the Lease as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochAction {
    /// The epoch continues.
    Keep,
    /// The Lease names another epoch.
    Follow,
    /// The counter has to be raised to this.
    Raise(u64),
}

impl EpochTracker {
    /// Continues the epoch in `state`, and the Lease that named it, if one did. `regressions`
    /// receives the epoch in which a read was older than an earlier one.
    pub(super) fn new(
        (api, names): (Api, EpochObjects),
        lease: Option<EpochLease>,
        state: watch::Sender<EpochState>,
        refresh: watch::Receiver<u64>,
        regressions: watch::Receiver<Option<u64>>,
    ) -> Self {
        Self {
            api,
            names,
            lease,
            bump_due: false,
            standalone: false,
            state,
            refresh,
            regressions,
            handled_regression: None,
            refused_since: None,
            failing_since: None,
            throttle: Throttle::default(),
            backoff: Backoff::default(),
        }
    }

    /// Runs until the receivers of epochs are dropped.
    pub(super) async fn run(mut self) {
        loop {
            let refresh = *self.refresh.borrow_and_update();
            self.note_regression();
            let wait = match self.reconcile().await {
                Ok(()) => {
                    (self.refused_since, self.failing_since) = (None, None);
                    self.backoff.reset();
                    self.note_verified(refresh);
                    jittered(POLL_INTERVAL)
                }
                Err(failure) if failure.is_permanent() => self.handle_refusal(refresh, &failure),
                Err(failure) => self.handle_failure(&failure),
            };
            let goes_on = tokio::select! {
                () = sleep(wait) => true,
                changed = self.refresh.changed() => changed.is_ok(),
                changed = self.regressions.changed() => changed.is_ok(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Handles a regression that was read in the current epoch.
    fn note_regression(&mut self) {
        let regressed = *self.regressions.borrow_and_update();
        if regressed == Some(self.state.borrow().number) && regressed != self.handled_regression {
            (self.standalone, self.failing_since, self.handled_regression) =
                (false, None, regressed);
            self.mark_bump_due();
            tracing::warn!(
                "the API server listed older resource versions than before, as after a restored \
                 backup: a new epoch of revisions begins"
            );
        }
    }

    /// Marks the counter as to be raised. Until then nothing is published, unless this process has an
    /// epoch of its own.
    fn mark_bump_due(&mut self) {
        self.bump_due = true;
        let stops = !self.standalone;
        self.state.send_if_modified(|state| stops && !std::mem::replace(&mut state.bump_due, true));
    }

    /// Reads the Lease, and acts on it.
    async fn reconcile(&mut self) -> Result<(), ApiError> {
        for _ in 0..MAX_CONFLICTS {
            let read = epoch::read(&self.api, &self.names).await?;
            match decide(self.lease.as_ref(), &read, self.bump_due) {
                EpochAction::Keep => {
                    self.lease = Some(read);
                    return Ok(());
                }
                EpochAction::Follow => {
                    self.begin(read);
                    return Ok(());
                }
                EpochAction::Raise(counter) => {
                    self.mark_bump_due();
                    if let Some(next) =
                        self.throttle.next_allowed().filter(|next| *next > Instant::now())
                    {
                        // Another replica may raise it in the meantime.
                        sleep_until(next).await;
                        continue;
                    }
                    match epoch::write(&self.api, &self.names, &read, counter).await {
                        Err(failure) if failure.is_conflict() || failure.is_not_found() => {}
                        written => {
                            self.begin(written?);
                            return Ok(());
                        }
                    }
                }
            }
        }
        let message = "other clients changed the Lease in every attempt".to_owned();
        Err(ApiError::Refused { code: 409, message, retry_after: None, too_new: false })
    }

    /// Begins the epoch that a Lease names.
    fn begin(&mut self, lease: EpochLease) {
        let epoch = lease.epoch();
        tracing::info!(%epoch, "a new epoch began, relisting all kinds");
        (self.bump_due, self.standalone, self.lease) = (false, false, Some(lease));
        self.publish(epoch);
    }

    /// Handles a refusal, which counts once it persists, and returns the delay until the next
    /// attempt.
    fn handle_refusal(&mut self, refresh: u64, failure: &ApiError) -> Duration {
        let now = Instant::now();
        let refused = now.saturating_duration_since(*self.refused_since.get_or_insert(now));
        if let Some(rest) = REFUSAL_GRACE.checked_sub(refused).filter(|rest| !rest.is_zero()) {
            return rest;
        }
        if let Some(rest) = self.begin_standalone(failure) {
            return rest;
        }
        self.note_verified(refresh);
        jittered(REFUSED_POLL_INTERVAL)
    }

    /// Handles a transient failure, and returns the delay until the next attempt. Where the API
    /// server does not respond there is nothing to publish either.
    fn handle_failure(&mut self, failure: &ApiError) -> Duration {
        tracing::debug!(error = %failure, "cannot read the Lease");
        self.refused_since = None;
        if self.bump_due && failure.is_response() {
            let now = Instant::now();
            let failing = *self.failing_since.get_or_insert(now);
            if now.saturating_duration_since(failing) >= MAX_BUMP_FAILURE
                && let Some(rest) = self.begin_standalone(failure)
            {
                return rest;
            }
        }
        self.backoff.next(failure.retry_after())
    }

    /// Begins an epoch of this process alone if the storage was restored and the counter cannot be
    /// raised. Returns the delay if the throttle does not allow it yet.
    fn begin_standalone(&mut self, failure: &ApiError) -> Option<Duration> {
        if !self.bump_due || self.standalone {
            return None;
        }
        let rest =
            self.throttle.next_allowed().map(|next| next.saturating_duration_since(Instant::now()));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Some(rest);
        }
        self.standalone = true;
        tracing::warn!(
            reason = %failure,
            "cannot write the Lease: until then this replica's revisions cannot be compared with others"
        );
        self.publish(epoch::process_epoch());
        None
    }

    fn publish(&mut self, epoch: Arc<str>) {
        self.throttle.record(Instant::now());
        self.state.send_modify(|state| {
            (state.epoch, state.number) = (epoch, state.number.saturating_add(1));
            state.bump_due = false;
        });
    }

    fn note_verified(&self, refresh: u64) {
        self.state.send_if_modified(|state| {
            let later = refresh > state.verified;
            state.verified = state.verified.max(refresh);
            later
        });
    }
}

/// Decides what follows from the Lease as `read` now, compared with the one `held` before.
/// `bump_due`: the counter has to be raised.
pub(super) fn decide(held: Option<&EpochLease>, read: &EpochLease, bump_due: bool) -> EpochAction {
    let Some(held) = held else { return EpochAction::Follow };
    let same = read.uid == held.uid;
    // The replica that raised it has noticed the restore. The counter of another Lease proves
    // nothing.
    if same && read.counter > held.counter {
        return EpochAction::Follow;
    }
    let older = read.version.zip(held.version).is_some_and(|(read, held)| read < held);
    if bump_due || older || (same && read.counter < held.counter) {
        return EpochAction::Raise(held.counter.max(read.counter).saturating_add(1));
    }
    if same { EpochAction::Keep } else { EpochAction::Follow }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a test ends where it cannot go on"
)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use std::convert::Infallible;

    /// An API server that has one Lease.
    #[derive(Clone)]
    struct Server(Arc<Mutex<State>>);

    struct State {
        lease: Value,
        version: u64,
        /// Number of concurrent writes between a read and a write.
        conflicts: u32,
        /// The status of the response to every write, if it is refused.
        refuses: Option<u16>,
        writes: Vec<Value>,
    }

    impl Server {
        fn new(version: u64) -> Self {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "l", "namespace": "n", "uid": "u"},
                "spec": {"holderIdentity": "leader"},
            });
            let (conflicts, refuses, writes) = (0, None, Vec::new());
            Self(Arc::new(Mutex::new(State { lease, version, conflicts, refuses, writes })))
        }

        fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
            let state = &mut *self.0.lock();
            let mut code = 200;
            if *method == Method::PUT {
                if state.conflicts > 0 {
                    state.conflicts -= 1;
                    state.version += 1;
                }
                let put: Value = serde_json::from_slice(body).unwrap();
                let current = put["metadata"]["resourceVersion"].as_str()
                    == Some(&*state.version.to_string());
                code = state.refuses.unwrap_or(if current { 200 } else { 409 });
                if code == 200 {
                    state.version += 1;
                    state.lease = put.clone();
                    state.writes.push(put);
                }
            }
            state.lease["metadata"]["resourceVersion"] = state.version.to_string().into();
            (code, if code == 200 { state.lease.clone() } else { json!({ "code": code }) })
        }

        fn client(&self) -> kube::Client {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let server = server.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let (code, answer) = server.answer(&head.method, &body);
                    let answer = Full::<bytes::Bytes>::from(answer.to_string());
                    Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
                }
            });
            kube::Client::new(service, "default")
        }
    }

    struct Running {
        server: Server,
        state: watch::Receiver<EpochState>,
        refresh: watch::Sender<u64>,
        regressions: watch::Sender<Option<u64>>,
    }

    impl Running {
        async fn start(version: u64) -> Self {
            let server = Server::new(version);
            let api = Api::new(server.client());
            let names =
                EpochObjects { namespace: "n".into(), lease: "l".into(), fallback: Vec::new() };
            let lease = epoch::read(&api, &names).await.unwrap();
            let numbered =
                EpochState { epoch: lease.epoch(), number: 0, verified: 0, bump_due: false };
            let (sender, state) = watch::channel(numbered);
            let (refresh, refreshes) = watch::channel(0);
            let (regressions, noticed) = watch::channel(None);
            let tracker = EpochTracker::new((api, names), Some(lease), sender, refreshes, noticed);
            tokio::spawn(tracker.run());
            Self { server, state, refresh, regressions }
        }

        async fn until(&mut self, number: u64) -> Arc<str> {
            let state = self.state.wait_for(|state| state.number == number);
            let state = tokio::time::timeout(Duration::from_secs(20), state).await;
            state.unwrap().unwrap().epoch.clone()
        }
    }

    #[tokio::test]
    async fn the_counter_is_raised_by_a_write_that_nobody_else_came_before_and_changes_nothing_else()
     {
        let mut running = Running::start(50).await;
        running.server.0.lock().conflicts = 2;
        running.regressions.send_replace(Some(0));
        assert_eq!(&*running.until(1).await, "u.1");
        let writes = std::mem::take(&mut running.server.0.lock().writes);
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0]["metadata"]["annotations"], json!({"portcullis.dev/epoch": "1"}));
        assert_eq!(writes[0]["spec"]["holderIdentity"], "leader");
        // The same regression again, of an earlier epoch.
        running.regressions.send_replace(Some(0));
        running.refresh.send_replace(3);
        running.state.wait_for(|state| state.verified == 3).await.unwrap();
        assert_eq!(running.state.borrow().number, 1);
        assert!(running.server.0.lock().writes.is_empty());
    }

    #[tokio::test]
    async fn a_lease_that_is_older_than_it_was_is_raised_and_one_that_was_raised_is_followed() {
        let mut running = Running::start(50).await;
        running.server.0.lock().version = 20;
        running.refresh.send_replace(1);
        assert_eq!(&*running.until(1).await, "u.1");
        {
            let mut state = running.server.0.lock();
            state.version = 10;
            state.lease["metadata"]["annotations"]["portcullis.dev/epoch"] = "2".into();
        }
        running.refresh.send_replace(2);
        assert_eq!(&*running.until(2).await, "u.2");
        assert_eq!(running.server.0.lock().writes.len(), 1, "raised once");
    }

    #[tokio::test]
    async fn where_the_counter_cannot_be_raised_the_epoch_is_nobody_elses_until_it_can() {
        let mut running = Running::start(50).await;
        running.server.0.lock().refuses = Some(403);
        running.regressions.send_replace(Some(0));
        let alone = running.until(1).await;
        assert!(alone.starts_with("process-"), "{alone}");
        // The next restore is of another epoch.
        running.regressions.send_replace(Some(1));
        let again = running.until(2).await;
        assert!(again.starts_with("process-") && again != alone, "{again}");
        running.server.0.lock().refuses = None;
        running.refresh.send_replace(1);
        assert_eq!(&*running.until(3).await, "u.1");
    }

    #[tokio::test]
    async fn a_starting_api_server_that_refuses_for_a_moment_splits_no_replica_off() {
        let mut running = Running::start(50).await;
        running.server.0.lock().refuses = Some(403);
        running.regressions.send_replace(Some(0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        // A wake-up in the meantime does not count as a refusal that persists.
        running.refresh.send_replace(1);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(running.state.borrow().bump_due, "something is published");
        running.server.0.lock().refuses = None;
        assert_eq!(&*running.until(1).await, "u.1");
        assert!(!running.state.borrow().bump_due);
    }

    #[tokio::test]
    async fn whatever_refuses_the_counter_for_long_does_not_keep_everything_from_being_published() {
        for (code, least, most) in [(400, 2, 15), (500, 29, 45)] {
            let mut running = Running::start(50).await;
            running.server.0.lock().refuses = Some(code);
            let began = Instant::now();
            running.regressions.send_replace(Some(0));
            let state = running.state.wait_for(|state| state.number == 1);
            let state = tokio::time::timeout(Duration::from_secs(most), state).await;
            assert!(state.unwrap().unwrap().epoch.starts_with("process-"), "{code}");
            assert!(began.elapsed() >= Duration::from_secs(least), "{code}");
        }
    }

    #[tokio::test]
    async fn nothing_is_published_once_the_lease_has_shown_a_restore_until_the_counter_is_raised() {
        let mut running = Running::start(50).await;
        (running.server.0.lock().version, running.server.0.lock().refuses) = (20, Some(500));
        running.refresh.send_replace(1);
        let bump_due = running.state.wait_for(|state| state.bump_due);
        let bump_due = tokio::time::timeout(Duration::from_secs(20), bump_due).await;
        assert_eq!(bump_due.expect("goes on publishing").unwrap().number, 0);
        running.server.0.lock().refuses = None;
        assert_eq!(&*running.until(1).await, "u.1");
        assert!(!running.state.borrow().bump_due);
    }

    #[tokio::test]
    async fn lists_that_go_back_and_forth_raise_the_counter_seldom() {
        let running = Running::start(50).await;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(7) {
            let number = running.state.borrow().number;
            running.regressions.send_replace(Some(number));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let writes = running.server.0.lock().writes.len();
        assert!((2..=3).contains(&writes), "{writes} writes in 7 s");
        assert!(running.state.has_changed().unwrap());
    }

    #[test]
    fn the_counter_is_raised_after_a_restore_and_followed_where_another_has_raised_it() {
        let lease = EpochLease::for_test;
        let held = lease("a", 3, 50);
        let of =
            |read: EpochLease| [false, true].map(|bump_due| decide(Some(&held), &read, bump_due));
        assert_eq!(of(lease("a", 3, 50)), [EpochAction::Keep, EpochAction::Raise(4)]);
        assert_eq!(
            of(lease("a", 3, 60)),
            [EpochAction::Keep, EpochAction::Raise(4)],
            "renewed by its holder"
        );
        assert_eq!(
            of(lease("a", 3, 49)),
            [EpochAction::Raise(4), EpochAction::Raise(4)],
            "restored"
        );
        assert_eq!(
            of(lease("a", 1, 20)),
            [EpochAction::Raise(4), EpochAction::Raise(4)],
            "with an older counter"
        );
        assert_eq!(
            of(lease("a", 0, 60)),
            [EpochAction::Raise(4), EpochAction::Raise(4)],
            "annotation removed"
        );
        assert_eq!(
            of(lease("a", 4, 20)),
            [EpochAction::Follow, EpochAction::Follow],
            "raised by another"
        );
        assert_eq!(
            of(lease("b", 0, 60)),
            [EpochAction::Follow, EpochAction::Raise(4)],
            "made anew"
        );
        assert_eq!(
            of(lease("b", 0, 20)),
            [EpochAction::Raise(4), EpochAction::Raise(4)],
            "restored, of before"
        );
        assert_eq!(
            of(lease("b", 7, 20)),
            [EpochAction::Raise(8), EpochAction::Raise(8)],
            "restored, of before, with a larger counter"
        );
        assert_eq!(
            decide(None, &lease("a", 0, 1), true),
            EpochAction::Follow,
            "it may be read now"
        );
    }
}
