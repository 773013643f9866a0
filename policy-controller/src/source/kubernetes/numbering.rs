//! Names the epochs: raises the counter in the Lease where the storage was restored, and follows where
//! another replica has.
//!
//! ```text
//! watch ──older──▶ gather ──older──▶ numbering ◀──Lease──▶ API server
//!                    ▲                   │
//!                    └────── epoch ──────┘
//! ```
//!
//! **Invariants.** The counter never goes down while a replica lives that has seen it. It is raised
//! above everything that the replica has read of it, by a write that fails where somebody has written
//! since, before anything is published of what shows the restore.

use super::api::{Api, Failure};
use super::backoff::{Backoff, jittered};
use super::epoch::{self, Lease, Names};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often the Lease is looked at. Each refresh has it looked at too.
const LOOK: Duration = Duration::from_secs(5);

/// The same where the API server does not allow it.
const REFUSED: Duration = Duration::from_secs(60);

/// How often the Lease is read again at once because somebody has written meanwhile.
const CONFLICTS: u32 = 5;

/// The epoch, and up to which refresh it is known to be the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Its name.
    pub(super) epoch: Arc<str>,
    /// Counts the epochs of this process.
    pub(super) number: u64,
    /// The last refresh since whose beginning the Lease was looked at.
    pub(super) looked: u64,
}

/// Looks at the Lease for as long as the source runs.
pub(super) struct Numbering {
    api: Api,
    names: Names,
    /// The Lease as it was last read; none: its epoch is not the one that goes on.
    lease: Option<Lease>,
    /// True while the counter has to be raised.
    owes: bool,
    /// True while the epoch is this process's own, because the counter could not be raised.
    alone: bool,
    told: watch::Sender<Numbered>,
    refresh: watch::Receiver<u64>,
    older: watch::Receiver<Option<u64>>,
    /// What of that has been taken note of.
    noticed: Option<u64>,
    backoff: Backoff,
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The epoch goes on.
    Keep,
    /// The Lease names another epoch.
    Follow,
    /// The counter has to become this.
    Raise(u64),
}

impl Numbering {
    /// Goes on from the epoch that `told` holds and the Lease that named it, if one did. `older` says
    /// in which epoch something was read that is older than what was read before.
    pub(super) fn new(
        (api, names): (Api, Names),
        lease: Option<Lease>,
        told: watch::Sender<Numbered>,
        refresh: watch::Receiver<u64>,
        older: watch::Receiver<Option<u64>>,
    ) -> Self {
        let (owes, alone, noticed, backoff) = (false, false, None, Backoff::default());
        Self { api, names, lease, owes, alone, told, refresh, older, noticed, backoff }
    }

    /// Runs until nobody asks any more.
    pub(super) async fn run(mut self) {
        loop {
            let refresh = *self.refresh.borrow_and_update();
            self.note_older();
            let wait = match self.look().await {
                Ok(()) => {
                    self.backoff.reset();
                    self.looked(refresh);
                    jittered(LOOK)
                }
                Err(failure) if failure.is_final() => {
                    self.refused(&failure);
                    self.looked(refresh);
                    jittered(REFUSED)
                }
                Err(failure) => {
                    tracing::debug!(error = %failure, "the Lease cannot be looked at");
                    self.backoff.next(failure.retry_after())
                }
            };
            let goes_on = tokio::select! {
                () = sleep(wait) => true,
                changed = self.refresh.changed() => changed.is_ok(),
                changed = self.older.changed() => changed.is_ok(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Takes note of what was read that is older than what was read before, in the epoch that goes on.
    fn note_older(&mut self) {
        let older = *self.older.borrow_and_update();
        if older == Some(self.told.borrow().number) && older != self.noticed {
            (self.owes, self.alone, self.noticed) = (true, false, older);
            tracing::warn!(
                "the API server lists older versions than it did before, as after a restored backup: \
                 revisions are numbered anew"
            );
        }
    }

    /// Looks at the Lease, and does what it takes.
    async fn look(&mut self) -> Result<(), Failure> {
        for _ in 0..CONFLICTS {
            let read = epoch::read(&self.api, &self.names).await?;
            match decide(self.lease.as_ref(), &read, self.owes) {
                Step::Keep => {
                    self.lease = Some(read);
                    return Ok(());
                }
                Step::Follow => {
                    self.begin(read);
                    return Ok(());
                }
                Step::Raise(counter) => {
                    self.owes = true;
                    match epoch::write(&self.api, &self.names, &read, counter).await {
                        Err(failure) if failure.is_conflict() => {}
                        written => {
                            self.begin(written?);
                            return Ok(());
                        }
                    }
                }
            }
        }
        Err(Failure::Unreachable("the Lease is written by others again and again".to_owned()))
    }

    /// Begins the epoch that a Lease names.
    fn begin(&mut self, lease: Lease) {
        let epoch = lease.epoch();
        tracing::info!(%epoch, "everything is listed again for another epoch");
        (self.owes, self.alone, self.lease) = (false, false, Some(lease));
        self.tell(epoch);
    }

    /// Begins an epoch of this process alone where a restore was noticed and the counter cannot be
    /// raised.
    fn refused(&mut self, failure: &Failure) {
        if self.owes && !self.alone {
            self.alone = true;
            tracing::warn!(
                reason = %failure,
                "the Lease cannot be written: revisions of replicas cannot be compared until it can"
            );
            self.tell(epoch::of_this_process());
        }
    }

    fn tell(&self, epoch: Arc<str>) {
        self.told.send_modify(|told| {
            (told.epoch, told.number) = (epoch, told.number.saturating_add(1));
        });
    }

    fn looked(&self, refresh: u64) {
        self.told.send_if_modified(|told| {
            let later = refresh > told.looked;
            told.looked = told.looked.max(refresh);
            later
        });
    }
}

/// What a Lease that was `held` and has been `read` now asks for, where the counter has to be raised or
/// not.
pub(super) fn decide(held: Option<&Lease>, read: &Lease, owes: bool) -> Step {
    let Some(held) = held else { return Step::Follow };
    // The replica that raised it has noticed the restore.
    if read.counter > held.counter {
        return Step::Follow;
    }
    let older = read.version.zip(held.version).is_some_and(|(read, held)| read < held);
    let same = read.uid == held.uid;
    if owes || older || (same && read.counter < held.counter) {
        return Step::Raise(held.counter.saturating_add(1));
    }
    if same { Step::Keep } else { Step::Follow }
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
        /// How many writes of somebody else come between a read and a write.
        conflicts: u32,
        writable: bool,
        writes: Vec<Value>,
    }

    impl Server {
        fn new(version: u64) -> Self {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "l", "namespace": "n", "uid": "u"},
                "spec": {"holderIdentity": "leader"},
            });
            let (conflicts, writable, writes) = (0, true, Vec::new());
            Self(Arc::new(Mutex::new(State { lease, version, conflicts, writable, writes })))
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
                code = if !state.writable {
                    403
                } else if current {
                    200
                } else {
                    409
                };
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
        told: watch::Receiver<Numbered>,
        refresh: watch::Sender<u64>,
        older: watch::Sender<Option<u64>>,
    }

    impl Running {
        async fn start(version: u64) -> Self {
            let server = Server::new(version);
            let api = Api::new(server.client());
            let names = Names { namespace: "n".into(), lease: "l".into(), fallback: Vec::new() };
            let lease = epoch::read(&api, &names).await.unwrap();
            let numbered = Numbered { epoch: lease.epoch(), number: 0, looked: 0 };
            let (sender, told) = watch::channel(numbered);
            let (refresh, refreshes) = watch::channel(0);
            let (older, noticed) = watch::channel(None);
            let numbering = Numbering::new((api, names), Some(lease), sender, refreshes, noticed);
            tokio::spawn(numbering.run());
            Self { server, told, refresh, older }
        }

        async fn until(&mut self, number: u64) -> Arc<str> {
            let told = self.told.wait_for(|told| told.number == number);
            let told = tokio::time::timeout(Duration::from_secs(20), told).await;
            told.unwrap().unwrap().epoch.clone()
        }
    }

    #[tokio::test]
    async fn the_counter_is_raised_by_a_write_that_nobody_else_came_before_and_changes_nothing_else()
     {
        let mut running = Running::start(50).await;
        running.server.0.lock().conflicts = 2;
        running.older.send_replace(Some(0));
        assert_eq!(&*running.until(1).await, "u.1");
        let writes = std::mem::take(&mut running.server.0.lock().writes);
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0]["metadata"]["annotations"], json!({"portcullis.dev/epoch": "1"}));
        assert_eq!(writes[0]["spec"]["holderIdentity"], "leader");
        // Noticed once more, in an epoch that is over.
        running.older.send_replace(Some(0));
        running.refresh.send_replace(3);
        running.told.wait_for(|told| told.looked == 3).await.unwrap();
        assert_eq!(running.told.borrow().number, 1);
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
        running.server.0.lock().writable = false;
        running.older.send_replace(Some(0));
        let alone = running.until(1).await;
        assert!(alone.starts_with("process-"), "{alone}");
        // The next restore is not of the same epoch.
        running.older.send_replace(Some(1));
        let again = running.until(2).await;
        assert!(again.starts_with("process-") && again != alone, "{again}");
        running.server.0.lock().writable = true;
        running.refresh.send_replace(1);
        assert_eq!(&*running.until(3).await, "u.1");
    }

    #[test]
    fn the_counter_is_raised_after_a_restore_and_followed_where_another_has_raised_it() {
        let lease = Lease::for_test;
        let held = lease("a", 3, 50);
        let of = |read: Lease| [false, true].map(|owes| decide(Some(&held), &read, owes));
        assert_eq!(of(lease("a", 3, 50)), [Step::Keep, Step::Raise(4)]);
        assert_eq!(of(lease("a", 3, 60)), [Step::Keep, Step::Raise(4)], "renewed by its holder");
        assert_eq!(of(lease("a", 3, 49)), [Step::Raise(4), Step::Raise(4)], "restored");
        assert_eq!(
            of(lease("a", 1, 20)),
            [Step::Raise(4), Step::Raise(4)],
            "with an older counter"
        );
        assert_eq!(of(lease("a", 0, 60)), [Step::Raise(4), Step::Raise(4)], "annotation removed");
        assert_eq!(of(lease("a", 4, 20)), [Step::Follow, Step::Follow], "raised by another");
        assert_eq!(of(lease("b", 0, 60)), [Step::Follow, Step::Raise(4)], "made anew");
        assert_eq!(of(lease("b", 0, 20)), [Step::Raise(4), Step::Raise(4)], "restored, of before");
        assert_eq!(decide(None, &lease("a", 0, 1), true), Step::Follow, "it may be read now");
    }
}
