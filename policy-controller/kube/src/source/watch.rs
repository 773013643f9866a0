//! A reflector of one kind in one scope: lists, watches from there, and relists where the watch
//! cannot continue.
//!
//! ```text
//!         ┌────────── 404 ──────────┐
//!         ▼                         │
//!      discover ──▶ list ──▶ watch ─┤ ended, disconnected: resume from the last version
//!         │          ▲              │
//!         ▼          └── 410, timeout, malformed, refresh
//!       absent
//! ```
//!
//! The known keys are only replaced as a whole by a list, or changed by an event: no failure removes
//! an object.

use super::api::{self, Api, ApiError, Lines};
use super::backoff::{Backoff, jittered};
use super::custom_definition::CustomDefinition;
use super::decode::{self, KindVersion, Version, WatchEvent};
use super::discover::discover;
use super::latest_versions::LatestVersions;
use super::metrics::WatchMetrics;
use super::pages;
use super::pending_batch::WatchUpdate;
use super::unreadable::UnreadableObjects;
use super::watch_status::WatchStatus;
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::source::{Change, WatchKey};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// `timeoutSeconds` of a watch.
const WATCH_TIMEOUT: Duration = Duration::from_secs(290);

/// Interval of discovery for an absent kind.
const REDISCOVER_INTERVAL: Duration = Duration::from_secs(15);

/// Delay before the absence of a kind is checked again: an API server that has just started reports
/// it for a moment.
const ABSENCE_GRACE: Duration = Duration::from_secs(3);

/// A watch that ends sooner counts as a failure, so that a server that ends every watch at once is
/// backed off.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(5);

/// The context that all watches share.
#[derive(Clone, Debug)]
pub(super) struct WatchContext {
    /// The API server.
    pub(super) api: Api,
    /// The health of the watches.
    pub(super) watch_status: Arc<WatchStatus>,
    /// The counters.
    pub(super) metrics: WatchMetrics,
    /// The queue of the batcher.
    pub(super) updates: mpsc::Sender<WatchUpdate>,
    /// Number of the current refresh; a new one requests a relist.
    pub(super) refresh: watch::Receiver<u64>,
    /// Objects of one page of a list, at most.
    pub(super) page_size: u32,
    /// The idle timeout of a watch.
    pub(super) idle_timeout: Duration,
    /// The latest versions that have been read.
    pub(super) latest_versions: Arc<LatestVersions>,
    /// The kinds that were in use when this process started.
    pub(super) in_use: Arc<BTreeSet<Kind>>,
}

/// One watch.
pub(super) struct Watch {
    shared: WatchContext,
    /// Its index in the list of watches.
    index: usize,
    key: WatchKey,
    optional: bool,
    keys: HashSet<ObjectKey>,
    /// The uid of their definition, if known.
    definition: Option<Arc<str>>,
    /// True if it was ever listed completely, or found absent.
    listed: bool,
    unreadable: UnreadableObjects,
    resource: Option<KindVersion>,
    /// The version to resume from; `None` if it has to be listed.
    last_version: Option<Version>,
    /// The refresh that it was last listed for.
    since: u64,
    absent: bool,
    backoff: Backoff,
}

impl Watch {
    /// Creates a watch that has read nothing yet.
    pub(super) fn new(shared: WatchContext, index: usize, key: WatchKey, optional: bool) -> Self {
        Self {
            shared,
            index,
            key,
            optional,
            keys: HashSet::new(),
            definition: None,
            listed: false,
            unreadable: UnreadableObjects::default(),
            resource: None,
            last_version: None,
            since: 0,
            absent: false,
            backoff: Backoff::default(),
        }
    }

    /// Runs until the receiver of updates is dropped.
    pub(super) async fn run(mut self) {
        while !self.shared.updates.is_closed() {
            if let Err(failure) = self.step().await {
                let wait = self.handle_failure(&failure);
                sleep(wait).await;
            }
        }
    }

    /// Discovers, lists or watches, whichever is next.
    async fn step(&mut self) -> Result<(), ApiError> {
        let Some(resource) = self.resource.clone() else { return self.discover_version().await };
        let Some(last_version) = self.last_version.clone() else {
            return self.list(&resource).await;
        };
        self.watch_from(&resource, last_version).await
    }

    /// Records a failure, and returns the delay until the next attempt.
    fn handle_failure(&mut self, failure: &ApiError) -> Duration {
        self.shared.metrics.error(&self.key, failure.label());
        if failure.is_gone() {
            // Expected after a pause: the relist that follows contains what was missed.
            tracing::info!(watch = %self.key, "watch expired (410 Gone), relisting");
            self.last_version = None;
            return self.backoff.next(failure.retry_after());
        }
        if failure.is_not_found() {
            self.resource = None;
        }
        if failure.is_not_found() || failure.needs_relist() {
            self.last_version = None;
        }
        self.shared.watch_status.note_failure(&self.key, self.error_message(failure));
        self.backoff.next(failure.retry_after())
    }

    fn error_message(&self, failure: &ApiError) -> Arc<str> {
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

    /// Discovers the served version.
    async fn discover_version(&mut self) -> Result<(), ApiError> {
        let refresh = *self.shared.refresh.borrow_and_update();
        let (api, kind) = (self.shared.api.clone(), self.key.kind);
        let mut found = discover(&api, kind).await?;
        if found.is_none() && !self.absent {
            sleep(jittered(ABSENCE_GRACE)).await;
            found = discover(&api, kind).await?;
        }
        match found {
            Some(resource) => {
                self.resource = Some(resource);
                self.absent = false;
                Ok(())
            }
            None if self.is_awaited() => Err(ApiError::Lost { kind }),
            None if self.optional => {
                self.mark_absent(refresh).await;
                Ok(())
            }
            None => Err(ApiError::NotServed { kind }),
        }
    }

    /// True if this process has never listed the kind, which other replicas had in use: without its
    /// objects, policies would open.
    fn is_awaited(&self) -> bool {
        !self.listed && self.shared.in_use.contains(&self.key.kind)
    }

    /// Keeps the objects of an absent kind, and waits until the next discovery.
    async fn mark_absent(&mut self, refresh: u64) {
        let changes: Vec<Change> = self.keys.drain().map(Change::Keep).collect();
        self.report_kept(&changes);
        (self.listed, self.definition) = (true, None);
        self.absent = true;
        (self.last_version, self.since) = (None, refresh);
        self.backoff.reset();
        self.shared.watch_status.note_absent(&self.key);
        self.send(changes, None, Some(refresh)).await;
        tokio::select! {
            () = sleep(jittered(REDISCOVER_INTERVAL)) => {}
            // Fails only if the batcher has ended; the pause is over then too.
            _ = self.shared.refresh.changed() => self.shared.refresh.mark_changed(),
        }
    }

    /// Lists everything, and sends the difference to the known keys in one update.
    async fn list(&mut self, resource: &KindVersion) -> Result<(), ApiError> {
        let refresh = *self.shared.refresh.borrow_and_update();
        let before = self.shared.latest_versions.get(refresh, self.key.kind);
        let definition = CustomDefinition::read(&self.shared.api, &self.key).await;
        if self.is_awaited() && definition.is_terminating() {
            self.resource = None;
            return Err(ApiError::Lost { kind: self.key.kind });
        }
        let (objects, version) = self.list_pages(resource).await?;
        if let Some((number, before)) = version.number().zip(before)
            && number < before
        {
            self.report_regression(refresh, number, before).await;
            return Ok(());
        }
        self.since = refresh;
        self.shared.metrics.listed(&self.key, !self.keys.is_empty());
        let mut changes = replace(&mut self.keys, objects);
        let latest = self.keep_lost(&mut changes).await.unwrap_or(definition);
        self.listed = true;
        // An earlier one would make a loss of each later deletion.
        self.definition = latest.uid().cloned();
        self.shared.watch_status.note_listed(&self.key);
        self.send(changes, Some(&version), Some(refresh)).await;
        self.last_version = Some(version);
        Ok(())
    }

    async fn list_pages(&self, resource: &KindVersion) -> Result<(Vec<Object>, Version), ApiError> {
        let WatchContext { api, metrics, page_size, .. } = &self.shared;
        pages::list((api, metrics), &self.key, resource, *page_size).await
    }

    /// Reports a list that is older than what was read before it began. The batcher receives none of
    /// its objects. The watch relists when the epoch has begun that the list belongs to.
    async fn report_regression(&mut self, refresh: u64, number: u64, before: u64) {
        let error = format!(
            "listed resource version {number} after reading {before}: the storage of the API server \
             was restored"
        );
        self.shared.watch_status.note_failure(&self.key, error.into());
        // Fails only if the receiver is dropped.
        let _ = self
            .shared
            .updates
            .send(WatchUpdate::regression(self.index, self.key.kind, refresh))
            .await;
        let wait = self.backoff.next(None);
        tokio::select! {
            () = sleep(wait) => {}
            _ = self.shared.refresh.changed() => self.shared.refresh.mark_changed(),
        }
    }

    /// Watches from a version until the API server ends the watch, which it does now and then.
    async fn watch_from(
        &mut self,
        resource: &KindVersion,
        last_version: Version,
    ) -> Result<(), ApiError> {
        let namespace = self.key.namespace.as_deref();
        let collection = api::collection(resource.kind, resource.version, namespace);
        let lines = self
            .shared
            .api
            .watch(&collection, last_version.as_str(), jittered(WATCH_TIMEOUT))
            .await?;
        // An accepted watch has sent nothing yet: a stale watch stays stale until it does.
        self.shared.watch_status.note_following(&self.key);
        let began = Instant::now();
        let ended = self.stream(resource, lines).await;
        if began.elapsed() >= MIN_WATCH_DURATION {
            self.backoff.reset();
        } else if ended.is_ok() && self.last_version.is_some() {
            return Err(ApiError::Unreachable(
                "the API server closed the watch at once".to_owned(),
            ));
        }
        ended
    }

    /// Reads events until the watch ends or a refresh is requested.
    async fn stream(&mut self, resource: &KindVersion, mut lines: Lines) -> Result<(), ApiError> {
        let idle_timeout = self.shared.idle_timeout;
        let mut last_event = Instant::now();
        loop {
            let deadline = last_event.checked_add(idle_timeout).unwrap_or(last_event);
            tokio::select! {
                biased;
                refresh = self.shared.refresh.changed() => {
                    self.shared.refresh.mark_changed();
                    self.last_version = None;
                    return refresh.map_err(|_| ApiError::Unreachable("shutting down".to_owned()));
                }
                more = lines.more() => match more {
                    Ok(true) => {
                        if self.apply_events(resource, &mut lines).await? {
                            last_event = Instant::now();
                            self.shared.watch_status.note_activity(&self.key);
                        } else if deadline <= Instant::now() {
                            return Err(ApiError::TimedOut(idle_timeout));
                        }
                    }
                    Ok(false) => return Ok(()),
                    Err(failure) => return Err(failure),
                },
                () = sleep_until(deadline) => return Err(ApiError::TimedOut(idle_timeout)),
            }
        }
    }

    /// Sends the events that have arrived as one update. False if they do not show the current state.
    async fn apply_events(
        &mut self,
        resource: &KindVersion,
        lines: &mut Lines,
    ) -> Result<bool, ApiError> {
        let (mut changes, mut version) = (Vec::new(), None);
        let (mut failure, mut relist) = (None, false);
        while let Some(line) = lines.next() {
            let event = match decode::event(resource, &line) {
                Ok(event) => event,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            self.shared.metrics.event(&self.key, resource.version, event.op());
            let (change, at) = match event {
                WatchEvent::Added(object, at) | WatchEvent::Modified(object, at) => {
                    (Some(Change::Apply(object)), at)
                }
                WatchEvent::Deleted(key, at) => (Some(Change::Delete(key)), at),
                WatchEvent::Bookmark(at) => (None, at),
                WatchEvent::Nameless(at) => {
                    self.shared.metrics.nameless(&self.key, 1);
                    (None, at)
                }
                WatchEvent::Error(error) => {
                    // Resuming from the same version might end in the same error for ever.
                    (failure, relist) = (Some(error), true);
                    break;
                }
            };
            if is_older(at.as_ref(), version.as_ref().or(self.last_version.as_ref())) {
                let what = "an event that is older than the one before it";
                failure = Some(ApiError::Malformed(what.to_owned()));
                break;
            }
            match &change {
                Some(Change::Apply(object)) => _ = self.keys.insert(object.meta.key.clone()),
                Some(Change::Delete(key)) => _ = self.keys.remove(key),
                Some(Change::Keep(_) | Change::Synced) | None => {}
            }
            changes.extend(change);
            version = at.or(version);
        }
        self.keep_lost(&mut changes).await;
        let is_current = version.is_some();
        if let Some(version) = version {
            self.send(changes, Some(&version), None).await;
            self.last_version = Some(version);
        } else if !changes.is_empty() {
            self.send(changes, None, None).await;
        }
        if relist {
            self.last_version = None;
        }
        failure.map_or(Ok(is_current), Err)
    }

    /// Keeps objects that were deleted with their definition, which is returned if it was read.
    async fn keep_lost(&self, changes: &mut [Change]) -> Option<CustomDefinition> {
        let is_deletion = |change: &Change| matches!(change, Change::Delete(_));
        if !self.key.kind.is_custom() || !changes.iter().any(is_deletion) {
            return None;
        }
        let definition = CustomDefinition::read(&self.shared.api, &self.key).await;
        if !definition.shows_loss(self.definition.as_ref()) {
            return Some(definition);
        }
        for change in changes.iter_mut() {
            if let Change::Delete(key) = change {
                *change = Change::Keep(key.clone());
            }
        }
        self.report_kept(changes);
        Some(definition)
    }

    fn report_kept(&self, changes: &[Change]) {
        let kept = changes.iter().filter(|change| matches!(change, Change::Keep(_))).count();
        if kept > 0 {
            tracing::warn!(
                watch = %self.key, objects = kept,
                "the definition of the kind is gone: its objects stay in force"
            );
        }
    }

    async fn send(&mut self, changes: Vec<Change>, version: Option<&Version>, listed: Option<u64>) {
        self.unreadable.note(&changes);
        let number = version.and_then(Version::number);
        if let (Some(version), None) = (version, number) {
            let version = version.as_str();
            tracing::warn!(watch = %self.key, version, "resource version is not a number");
        }
        let (watch, kind, since) = (self.index, self.key.kind, self.since);
        if let Some(number) = number {
            self.shared.latest_versions.record(since, kind, number);
        }
        // Fails only if the receiver is dropped.
        let update =
            WatchUpdate { watch, kind, changes, version: number, listed, since, regressed: false };
        let _ = self.shared.updates.send(update).await;
    }
}

/// True if a version is known to be older than another.
fn is_older(version: Option<&Version>, other: Option<&Version>) -> bool {
    let number = |version: Option<&Version>| version.and_then(Version::number);
    number(version).zip(number(other)).is_some_and(|(version, other)| version < other)
}

/// Replaces `keys` by those of a list, and returns the changes: deletions of what is gone, and
/// everything there is (the index drops an object without a change).
pub(super) fn replace(keys: &mut HashSet<ObjectKey>, objects: Vec<Object>) -> Vec<Change> {
    let now: HashSet<ObjectKey> = objects.iter().map(|object| object.meta.key.clone()).collect();
    let mut gone: Vec<ObjectKey> = keys.difference(&now).cloned().collect();
    gone.sort();
    *keys = now;
    let exist = objects.into_iter().map(|object| Change::Apply(Arc::new(object)));
    gone.into_iter().map(Change::Delete).chain(exist).collect()
}
