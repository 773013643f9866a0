//! One kind in one scope: listed, followed from there, and listed again where following ends.
//!
//! ```text
//!         ┌────────── 404 ──────────┐
//!         ▼                         │
//!      discover ──▶ list ──▶ follow ┤ ended, disconnected: follow on from the last version
//!         │          ▲              │
//!         ▼          └── 410, silent, unreadable, refresh
//!       absent
//! ```
//!
//! What is held is only ever replaced as a whole by a list, or changed by an event: no failure
//! takes anything away.

use super::api::{self, Api, Failure, Lines};
use super::backoff::{Backoff, jittered};
use super::decode::{self, Event, Page, Reading, Version};
use super::discover::discover;
use super::latest_versions::LatestVersions;
use super::metrics::WatchMetrics;
use super::pending_batch::WatchUpdate;
use super::watch_status::WatchStatus;
use policy_crds::{Object, ObjectKey};
use policy_engine::source::{Change, WatchKey};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// How long the API server is asked to keep a watch open.
const WATCH: Duration = Duration::from_secs(290);

/// How often an absent kind is looked for.
const LOOK: Duration = Duration::from_secs(15);

/// How long after the first time it is asked again whether a kind is gone: an API server that has
/// just started says so for a moment.
const BELIEVE: Duration = Duration::from_secs(3);

/// How often a list that was continued too late is begun again at once.
const RESTARTS: u32 = 3;

/// A watch that ends sooner is a failure: who ends every watch at once is asked less and less often.
const SHORT: Duration = Duration::from_secs(5);

/// What all watches share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// The API server.
    pub(super) api: Api,
    /// Where it is told how the watch does.
    pub(super) watch_status: Arc<WatchStatus>,
    /// What is counted.
    pub(super) metrics: WatchMetrics,
    /// Where changes go.
    pub(super) updates: mpsc::Sender<WatchUpdate>,
    /// A new number: list again.
    pub(super) refresh: watch::Receiver<u64>,
    /// Objects of one page of a list.
    pub(super) page_size: u32,
    /// After how long of silence a watch is given up.
    pub(super) silence: Duration,
    /// The newest versions that have been read.
    pub(super) latest_versions: Arc<LatestVersions>,
}

/// One watch.
pub(super) struct Watch {
    shared: Shared,
    /// Its place in the list of watches.
    place: usize,
    key: WatchKey,
    optional: bool,
    held: HashSet<ObjectKey>,
    reading: Option<Reading>,
    /// What has been seen; none: it has to be listed.
    seen: Option<Version>,
    /// The refresh that it was last listed for.
    since: u64,
    absent: bool,
    backoff: Backoff,
}

impl Watch {
    /// A watch that has seen nothing yet.
    pub(super) fn new(shared: Shared, place: usize, key: WatchKey, optional: bool) -> Self {
        Self {
            shared,
            place,
            key,
            optional,
            held: HashSet::new(),
            reading: None,
            seen: None,
            since: 0,
            absent: false,
            backoff: Backoff::default(),
        }
    }

    /// Runs until nobody listens.
    pub(super) async fn run(mut self) {
        while !self.shared.updates.is_closed() {
            if let Err(failure) = self.step().await {
                let wait = self.failed(&failure);
                sleep(wait).await;
            }
        }
    }

    /// Does whatever is next.
    async fn step(&mut self) -> Result<(), Failure> {
        let Some(reading) = self.reading.clone() else { return self.find().await };
        let Some(seen) = self.seen.clone() else { return self.list(&reading).await };
        self.follow(&reading, seen).await
    }

    /// Notes a failure, and says how long to wait.
    fn failed(&mut self, failure: &Failure) -> Duration {
        self.shared.metrics.error(&self.key, failure.label());
        if failure.is_gone() {
            // Expected after a pause: the list that follows tells what was missed.
            tracing::info!(watch = %self.key, "the API server has forgotten what follows: listing again");
            self.seen = None;
            return self.backoff.next(failure.retry_after());
        }
        if failure.is_missing() {
            self.reading = None;
        }
        if failure.is_missing() || failure.needs_list() {
            self.seen = None;
        }
        self.shared.watch_status.note_failure(&self.key, self.in_words(failure));
        self.backoff.next(failure.retry_after())
    }

    fn in_words(&self, failure: &Failure) -> Arc<str> {
        if !failure.is_forbidden() {
            return failure.to_string().into();
        }
        let group = match self.key.kind.group() {
            "" => "the core API group".to_owned(),
            group => format!("API group {group}"),
        };
        let scope = match &self.key.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in the whole cluster".to_owned(),
        };
        let plural = self.key.kind.plural();
        format!("may not list and watch {plural} of {group} {scope}: grant both verbs; {failure}")
            .into()
    }

    /// Finds the version that is served.
    async fn find(&mut self) -> Result<(), Failure> {
        let refresh = *self.shared.refresh.borrow_and_update();
        let (api, kind) = (self.shared.api.clone(), self.key.kind);
        let mut found = discover(&api, kind).await?;
        if found.is_none() && !self.absent {
            sleep(jittered(BELIEVE)).await;
            found = discover(&api, kind).await?;
        }
        match found {
            Some(reading) => {
                self.reading = Some(reading);
                self.absent = false;
                Ok(())
            }
            None if self.optional => {
                self.is_absent(refresh).await;
                Ok(())
            }
            None => Err(Failure::NotServed { kind }),
        }
    }

    /// The kind is not there: nothing of it is either. Looks again later.
    async fn is_absent(&mut self, refresh: u64) {
        let changes = self.held.drain().map(Change::Delete).collect();
        self.absent = true;
        (self.seen, self.since) = (None, refresh);
        self.backoff.reset();
        self.shared.watch_status.note_absent(&self.key);
        self.send(changes, None, Some(refresh)).await;
        tokio::select! {
            () = sleep(jittered(LOOK)) => {}
            // Nobody refreshes any more if this fails; the pause is over then too.
            _ = self.shared.refresh.changed() => self.shared.refresh.mark_changed(),
        }
    }

    /// Lists everything, and tells how it differs from what was there, at once.
    async fn list(&mut self, reading: &Reading) -> Result<(), Failure> {
        let refresh = *self.shared.refresh.borrow_and_update();
        let before = self.shared.latest_versions.get(refresh, self.key.kind);
        let (objects, version) = self.pages(reading).await?;
        if let Some((number, before)) = version.number().zip(before)
            && number < before
        {
            self.report_regression(refresh, number, before).await;
            return Ok(());
        }
        self.since = refresh;
        self.shared.metrics.listed(&self.key, !self.held.is_empty());
        let changes = replace(&mut self.held, objects);
        self.shared.watch_status.note_listed(&self.key);
        self.send(changes, Some(&version), Some(refresh)).await;
        self.seen = Some(version);
        Ok(())
    }

    /// What was listed is older than what was read before the list began. The batcher gets nothing
    /// of it. The watch lists again when an epoch has begun that the list belongs to.
    async fn report_regression(&mut self, refresh: u64, number: u64, before: u64) {
        let error = format!(
            "version {number} was listed after version {before} had been read: the storage of the API \
             server was restored"
        );
        self.shared.watch_status.note_failure(&self.key, error.into());
        // Nobody listens any more if this fails.
        let _ = self
            .shared
            .updates
            .send(WatchUpdate::regression(self.place, self.key.kind, refresh))
            .await;
        let wait = self.backoff.next(None);
        tokio::select! {
            () = sleep(wait) => {}
            _ = self.shared.refresh.changed() => self.shared.refresh.mark_changed(),
        }
    }

    /// Every page of a list, from one consistent state.
    async fn pages(&self, reading: &Reading) -> Result<(Vec<Object>, Version), Failure> {
        let mut restarts = 0_u32;
        loop {
            match self.pages_once(reading).await {
                // The list took longer than the API server remembers.
                Err(failure) if failure.is_gone() && restarts < RESTARTS => {
                    restarts = restarts.saturating_add(1);
                }
                listed => return listed,
            }
        }
    }

    async fn pages_once(&self, reading: &Reading) -> Result<(Vec<Object>, Version), Failure> {
        let (api, size) = (&self.shared.api, self.shared.page_size);
        let namespace = self.key.namespace.as_deref();
        let collection = api::collection(reading.kind, reading.version, namespace);
        let unreadable = |what: &str| Failure::Unreadable(what.to_owned());
        let (mut objects, mut next, mut first) = (Vec::new(), None, None);
        loop {
            let page = api.page(&collection, size, next.as_deref()).await?;
            let Page { objects: more, nameless, version, next: following } =
                decode::page(reading, &page)?;
            self.shared.metrics.nameless(&self.key, nameless);
            objects.extend(more);
            // All pages are of the state that the first is of. Only the whole tells how things are,
            // so that pages do not make the watch current.
            first = first.or(version);
            if following.is_none() {
                let version = first.ok_or_else(|| unreadable("a list without resourceVersion"))?;
                return Ok((objects, version));
            }
            if following == next {
                return Err(unreadable("a page of a list that leads to itself"));
            }
            next = following;
        }
    }

    /// Follows changes until the watch ends, which it does by itself now and then.
    async fn follow(&mut self, reading: &Reading, seen: Version) -> Result<(), Failure> {
        let namespace = self.key.namespace.as_deref();
        let collection = api::collection(reading.kind, reading.version, namespace);
        let lines = self.shared.api.watch(&collection, seen.as_str(), jittered(WATCH)).await?;
        // An accepted watch has not said anything yet: what is late stays late until it does.
        self.shared.watch_status.note_following(&self.key);
        let began = Instant::now();
        let ended = self.hear(reading, lines).await;
        if began.elapsed() >= SHORT {
            self.backoff.reset();
        } else if ended.is_ok() && self.seen.is_some() {
            return Err(Failure::Unreachable("the watch ended at once".to_owned()));
        }
        ended
    }

    /// Hears events until there are no more, or a list is wanted.
    async fn hear(&mut self, reading: &Reading, mut lines: Lines) -> Result<(), Failure> {
        let silence = self.shared.silence;
        let mut heard = Instant::now();
        loop {
            let silent = heard.checked_add(silence).unwrap_or(heard);
            tokio::select! {
                biased;
                refresh = self.shared.refresh.changed() => {
                    self.shared.refresh.mark_changed();
                    self.seen = None;
                    return refresh.map_err(|_| Failure::Unreachable("shutting down".to_owned()));
                }
                more = lines.more() => match more {
                    Ok(true) => {
                        if self.events(reading, &mut lines).await? {
                            heard = Instant::now();
                            self.shared.watch_status.note_activity(&self.key);
                        } else if silent <= Instant::now() {
                            return Err(Failure::Silent(silence));
                        }
                    }
                    Ok(false) => return Ok(()),
                    Err(failure) => return Err(failure),
                },
                () = sleep_until(silent) => return Err(Failure::Silent(silence)),
            }
        }
    }

    /// Tells the events that have arrived, together. False if they say nothing of how things are.
    async fn events(&mut self, reading: &Reading, lines: &mut Lines) -> Result<bool, Failure> {
        let (mut changes, mut version) = (Vec::new(), None);
        let (mut failure, mut relist) = (None, false);
        while let Some(line) = lines.next() {
            let event = match decode::event(reading, &line) {
                Ok(event) => event,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            self.shared.metrics.event(&self.key, reading.version, event.op());
            let (change, at) = match event {
                Event::Added(object, at) | Event::Modified(object, at) => {
                    (Some(Change::Apply(object)), at)
                }
                Event::Deleted(key, at) => (Some(Change::Delete(key)), at),
                Event::Bookmark(at) => (None, at),
                Event::Nameless(at) => {
                    self.shared.metrics.nameless(&self.key, 1);
                    (None, at)
                }
                Event::Error(error) => {
                    // Going on from the same place might end in the same error for ever.
                    (failure, relist) = (Some(error), true);
                    break;
                }
            };
            if is_older(at.as_ref(), version.as_ref().or(self.seen.as_ref())) {
                let what = "an event that is older than the one before it";
                failure = Some(Failure::Unreadable(what.to_owned()));
                break;
            }
            match &change {
                Some(Change::Apply(object)) => _ = self.held.insert(object.meta.key.clone()),
                Some(Change::Delete(key)) => _ = self.held.remove(key),
                Some(Change::Synced) | None => {}
            }
            changes.extend(change);
            version = at.or(version);
        }
        let heard = version.is_some();
        if let Some(version) = version {
            self.send(changes, Some(&version), None).await;
            self.seen = Some(version);
        } else if !changes.is_empty() {
            self.send(changes, None, None).await;
        }
        if relist {
            self.seen = None;
        }
        failure.map_or(Ok(heard), Err)
    }

    async fn send(&self, changes: Vec<Change>, version: Option<&Version>, listed: Option<u64>) {
        let number = version.and_then(Version::number);
        if let (Some(version), None) = (version, number) {
            let version = version.as_str();
            tracing::warn!(watch = %self.key, version, "resource version is not a number");
        }
        let (watch, kind, since) = (self.place, self.key.kind, self.since);
        if let Some(number) = number {
            self.shared.latest_versions.record(since, kind, number);
        }
        // Nobody listens any more if this fails.
        let update =
            WatchUpdate { watch, kind, changes, version: number, listed, since, older: false };
        let _ = self.shared.updates.send(update).await;
    }
}

/// Whether a version is known to be older than another.
fn is_older(version: Option<&Version>, other: Option<&Version>) -> bool {
    let number = |version: Option<&Version>| version.and_then(Version::number);
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

/// Makes `held` what a list says, and tells the difference: what is gone, and everything there is
/// (an object that is as it was stops at the index).
pub(super) fn replace(held: &mut HashSet<ObjectKey>, objects: Vec<Object>) -> Vec<Change> {
    let now: HashSet<ObjectKey> = objects.iter().map(|object| object.meta.key.clone()).collect();
    let mut gone: Vec<ObjectKey> = held.difference(&now).cloned().collect();
    gone.sort();
    *held = now;
    let exist = objects.into_iter().map(|object| Change::Apply(Arc::new(object)));
    gone.into_iter().map(Change::Delete).chain(exist).collect()
}
