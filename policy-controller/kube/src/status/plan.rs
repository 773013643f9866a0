//! Plans the writes of status: compares the desired status of every object with the last reported
//! one. No tasks, no clocks.

mod overwritten;

use self::overwritten::Overwritten;
use super::api::{Outcome, StatusApiError, StatusSupport};
use super::debounce::Debounce;
use super::degradations::degradations;
use super::desired::{DesiredCondition, DesiredStatus, Fingerprint, Level, STOPPED_MATCHING};
use super::item::Item;
use super::merge;
use super::queue::{Queue, backoff};
use super::settings::{ReportChannel, StatusSettings};
use policy_crds::{Kind, ObjectKey};
use policy_engine::desired_conditions::DesiredConditionTable;
use policy_engine::programmed::ProgrammedTable;
use policy_server::Limiter;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after a replica began to lead in which its clients, and those of others, connect again.
pub(crate) const COUNTS_INCOMPLETE: Duration = Duration::from_secs(30);
/// Minimum interval between two writes of one object for mere progress of `Programmed`.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Backoff of an object that the API server refused, at first and at most.
const OBJECT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Backoff of all objects while the API server is overloaded, at first and at most.
const SERVER_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Delay of an object whose write found this replica not leading. If leadership is lost, all of this
/// is dropped.
const LEADERSHIP_RETRY: Duration = Duration::from_secs(1);
/// Time by which a list has to be younger than the last write of an object to show it.
const LIST_LAG: Duration = Duration::from_secs(60);
/// Time that the API server keeps Events; after this they are repeated.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// A write of one object.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The object.
    pub(crate) key: ObjectKey,
    /// Channel by which it is reported.
    pub(crate) channel: ReportChannel,
    /// The desired status.
    pub(crate) desired: DesiredStatus,
    /// True if a fault was reported before, and there is none any more.
    pub(crate) recovered: bool,
    /// True if the condition about what clients are not sent has changed.
    pub(crate) unsent_changed: bool,
    fingerprint: Fingerprint,
}

/// The next action of the writer.
#[derive(Debug)]
pub(crate) enum NextAction {
    /// Start this job.
    Job(Box<Job>),
    /// Wait until this time; `None`: until an input changes.
    Wait(Option<Instant>),
}

#[derive(Clone, Copy, Debug)]
struct LastReported {
    fingerprint: Fingerprint,
    at: Instant,
}

/// The plan of all objects.
pub(crate) struct Plan {
    settings: Arc<StatusSettings>,
    stated: DesiredConditionTable,
    counts: Arc<ProgrammedTable>,
    channels: BTreeMap<Kind, ReportChannel>,
    /// The last reported status of each object.
    reported: BTreeMap<ObjectKey, LastReported>,
    /// Objects with an Event about a fault.
    faulty: BTreeSet<ObjectKey>,
    debounce: Debounce,
    queue: Queue,
    limiter: Limiter,
    in_flight: usize,
    failures: BTreeMap<ObjectKey, u32>,
    overloads: u32,
    paused_until: Option<Instant>,
    logged: BTreeSet<(Kind, u16)>,
    jitter: RandomState,
    enqueued: u64,
    dropped: u64,
    pub(crate) overwritten: Overwritten,
    /// True while clients may not have connected to this leader yet.
    counts_incomplete: bool,
}

impl Plan {
    pub(crate) fn new(settings: Arc<StatusSettings>) -> Self {
        let rate = settings.writes_per_second;
        Self {
            settings,
            stated: DesiredConditionTable::new(),
            counts: Arc::default(),
            channels: BTreeMap::new(),
            reported: BTreeMap::new(),
            faulty: BTreeSet::new(),
            debounce: Debounce::default(),
            queue: Queue::default(),
            limiter: Limiter::new(rate, rate),
            in_flight: 0,
            failures: BTreeMap::new(),
            overloads: 0,
            paused_until: None,
            logged: BTreeSet::new(),
            jitter: RandomState::new(),
            enqueued: 0,
            dropped: 0,
            overwritten: Overwritten::default(),
            counts_incomplete: true,
        }
    }

    /// Sets the conditions and counts of all objects.
    pub(crate) fn update(
        &mut self,
        stated: DesiredConditionTable,
        counts: Arc<ProgrammedTable>,
        now: Instant,
    ) {
        let before = std::mem::replace(&mut self.stated, stated);
        let counted = std::mem::replace(&mut self.counts, counts);
        for key in before.keys().filter(|key| !self.stated.contains_key(key)) {
            self.reported.remove(key);
            self.failures.remove(key);
            self.faulty.remove(key);
            self.debounce.forget(key);
        }
        let differs = |key: &&ObjectKey| {
            let same = match (before.get(*key), self.stated.get(*key)) {
                (Some(before), Some(after)) => before.is_same(after),
                _ => false,
            };
            !same || counted.get(*key) != self.counts.get(*key)
        };
        let changed: Vec<ObjectKey> = self.stated.keys().filter(differs).cloned().collect();
        for key in changed {
            self.enqueue_if_changed(&key, now);
        }
    }

    /// Sets the support of a kind. Kinds with a status are enqueued once they have been listed:
    /// returns the version to list them in.
    pub(crate) fn set_support(
        &mut self,
        kind: Kind,
        support: StatusSupport,
        now: Instant,
    ) -> Option<&'static str> {
        let channel = match support {
            StatusSupport::Status(version) if self.settings.is_written(kind) => {
                ReportChannel::Status(version)
            }
            StatusSupport::Status(version) | StatusSupport::NoStatus(version) => {
                ReportChannel::Events(version)
            }
            StatusSupport::Absent => ReportChannel::Nothing,
        };
        if self.channels.get(&kind) != Some(&channel) {
            // A report by the other channel does not count in this one.
            self.reported.retain(|key, _| key.kind != kind);
            self.channels.remove(&kind);
        }
        if let ReportChannel::Status(version) = channel {
            return Some(version);
        }
        self.channels.insert(kind, channel);
        self.enqueue_kind(kind, now);
        None
    }

    /// True if objects of this kind are reported by their status.
    pub(crate) fn has_status(&self, kind: Kind) -> bool {
        matches!(self.channels.get(&kind), Some(ReportChannel::Status(_)))
    }

    /// Compares a page of a list: objects with the desired status need no write.
    pub(crate) fn observe_page(&mut self, kind: Kind, items: &[Item], now: Instant) {
        let wall = jiff::Timestamp::now();
        for item in items {
            let key = ObjectKey {
                kind,
                namespace: item.metadata.namespace.as_str().into(),
                name: item.metadata.name.as_str().into(),
            };
            let Some(desired) = self.desired(&key) else { continue };
            if !super::api::is_current(item, &desired) {
                continue;
            }
            let controller = &self.settings.controller_name;
            let status = merge::status(kind, item, &desired, controller, wall);
            let Some(status) = status else {
                let fingerprint = desired.fingerprint();
                let known = self.reported.get(&key);
                // An object that was written differently since the list is written again.
                if known.is_none_or(|known| known.fingerprint.full == fingerprint.full) {
                    self.reported.insert(key, LastReported { fingerprint, at: now });
                }
                continue;
            };
            let mut degraded = degradations(&item.status, &status, controller).into_iter();
            if degraded.any(|one| one.reason == STOPPED_MATCHING) {
                self.debounce.delay_loss(&key, now);
            }
            self.note_overwritten(&key, desired.fingerprint(), now);
            self.reported.remove(&key);
        }
    }

    /// Ends the time in which counts may be incomplete.
    pub(crate) fn complete_counts(&mut self, now: Instant) {
        self.counts_incomplete = false;
        for key in self.counts.keys().cloned().collect::<Vec<ObjectKey>>() {
            self.enqueue_if_changed(&key, now);
        }
    }

    /// Notes a status that another client has changed.
    fn note_overwritten(&mut self, key: &ObjectKey, desired: Fingerprint, now: Instant) {
        let written = self.reported.get(key).is_some_and(|known| {
            let before = now.saturating_duration_since(known.at) > LIST_LAG;
            before && known.fingerprint.full == desired.full
        });
        if written {
            self.overwritten.note(key, &self.settings.controller_name);
        }
    }

    /// Ends the list of a kind, or gives it up: enqueues the objects that are not known to be as
    /// desired.
    pub(crate) fn finish_list(&mut self, kind: Kind, version: &'static str, now: Instant) {
        self.channels.insert(kind, ReportChannel::Status(version));
        self.enqueue_kind(kind, now);
    }

    fn enqueue_kind(&mut self, kind: Kind, now: Instant) {
        let keys = self.stated.keys().filter(|key| key.kind == kind);
        for key in keys.cloned().collect::<Vec<ObjectKey>>() {
            self.enqueue_if_changed(&key, now);
        }
    }

    /// Repeats Events that have expired at the API server.
    pub(crate) fn repeat_events(&mut self, now: Instant) {
        self.debounce.expire(now);
        let old = |key: &&ObjectKey| {
            self.reported
                .get(*key)
                .is_some_and(|known| now.saturating_duration_since(known.at) > EVENT_TTL)
        };
        let old: Vec<ObjectKey> = self.faulty.iter().filter(old).cloned().collect();
        for key in old {
            self.reported.remove(&key);
            self.enqueue_if_changed(&key, now);
        }
    }

    fn desired(&self, key: &ObjectKey) -> Option<DesiredStatus> {
        let stated = self.stated.get(key)?;
        let desired = DesiredStatus::new(key, stated, self.counts.get(key));
        Some(if self.counts_incomplete { desired.while_incomplete() } else { desired })
    }

    fn enqueue_if_changed(&mut self, key: &ObjectKey, now: Instant) {
        let Some(channel) = self.channels.get(&key.kind).copied() else { return };
        let Some(desired) = self.desired(key) else { return };
        let fingerprint = desired.fingerprint();
        let known = self.reported.get(key).copied();
        if known.is_some_and(|known| known.fingerprint.full == fingerprint.full) {
            self.debounce.settle(key, now);
            return;
        }
        let silent = match channel {
            ReportChannel::Status(_) => false,
            ReportChannel::Events(_) => {
                !desired.all().any(DesiredCondition::is_warning) && !self.faulty.contains(key)
            }
            ReportChannel::Nothing => true,
        };
        if silent {
            self.reported.insert(key.clone(), LastReported { fingerprint, at: now });
            return;
        }
        let before = known.map(|known| known.fingerprint);
        if let Some(until) = self.debounce.delay_until(key, before, fingerprint, now) {
            self.enqueued = self.enqueued.saturating_add(1);
            return self.queue.postpone(key, until);
        }
        let lags = known.filter(|known| known.fingerprint.urgent == fingerprint.urgent);
        let earliest = lags.and_then(|known| known.at.checked_add(PROGRESS_INTERVAL));
        self.enqueued = self.enqueued.saturating_add(1);
        self.queue.push(key, earliest);
    }

    /// Returns the next action.
    pub(crate) fn next(&mut self, now: Instant) -> NextAction {
        if self.in_flight >= self.settings.parallelism {
            return NextAction::Wait(None);
        }
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return NextAction::Wait(Some(until));
        }
        loop {
            match self.queue.next(now) {
                Some(when) if when <= now => {}
                when => return NextAction::Wait(when),
            }
            if let Err(when) = self.limiter.take(now) {
                return NextAction::Wait(Some(when));
            }
            let Some(key) = self.queue.take(now) else { return NextAction::Wait(None) };
            if let Some(job) = self.job(&key) {
                if let Some(until) = self.loss_delay(&job, now) {
                    self.queue.done(&key, None);
                    self.queue.postpone(&key, until);
                    continue;
                }
                self.in_flight = self.in_flight.saturating_add(1);
                return NextAction::Job(Box::new(job));
            }
            self.dropped = self.dropped.saturating_add(1);
            self.queue.done(&key, None);
        }
    }

    /// The time until which a loss is delayed although its turn has come: it was noticed while
    /// another status was written.
    fn loss_delay(&mut self, job: &Job, now: Instant) -> Option<Instant> {
        if job.fingerprint.level != Level::Nowhere {
            return None;
        }
        let before = self.reported.get(&job.key).map(|known| known.fingerprint);
        let until = self.debounce.delay_until(&job.key, before, job.fingerprint, now)?;
        (until > now).then_some(until)
    }

    fn job(&self, key: &ObjectKey) -> Option<Job> {
        let channel = self.channels.get(&key.kind).copied()?;
        let desired = self.desired(key)?;
        let fingerprint = desired.fingerprint();
        let known = self.reported.get(key);
        if known.is_some_and(|known| known.fingerprint.full == fingerprint.full) {
            return None;
        }
        let recovered =
            self.faulty.contains(key) && !desired.all().any(DesiredCondition::is_warning);
        let unsent_before = known.and_then(|known| known.fingerprint.unsent);
        let unsent_changed = unsent_before != fingerprint.unsent;
        let key = key.clone();
        Some(Job { key, channel, desired, recovered, unsent_changed, fingerprint })
    }

    /// Handles the outcome of a job.
    pub(crate) fn done(&mut self, job: &Job, outcome: &Outcome, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let key = &job.key;
        match outcome {
            Outcome::Written | Outcome::Unchanged => {
                self.overloads = 0;
                self.failures.remove(key);
                self.logged.retain(|(kind, _)| *kind != key.kind);
                if self.stated.contains_key(key) {
                    let before = self.reported.get(key).map(|known| known.fingerprint);
                    self.debounce.written(key, before, job.fingerprint);
                    self.reported.insert(
                        key.clone(),
                        LastReported { fingerprint: job.fingerprint, at: now },
                    );
                    if matches!(job.channel, ReportChannel::Events(_)) {
                        match job.recovered {
                            true => self.faulty.remove(key),
                            false => self.faulty.insert(key.clone()),
                        };
                    }
                }
                self.queue.done(key, None);
            }
            Outcome::Superseded => self.queue.done(key, None),
            Outcome::NotLeading => self.queue.done(key, now.checked_add(LEADERSHIP_RETRY)),
            Outcome::NoStatus => {
                self.queue.done(key, None);
                if let ReportChannel::Status(version) = job.channel {
                    self.set_support(key.kind, StatusSupport::NoStatus(version), now);
                }
            }
            Outcome::Failed(failure) => {
                let retry = self.failed(key, failure, now);
                self.queue.done(key, Some(retry));
            }
        }
    }

    /// The time at which an object that failed is retried.
    fn failed(&mut self, key: &ObjectKey, failure: &StatusApiError, now: Instant) -> Instant {
        // Of the faults of single objects each is logged, once.
        let first = failure.is_too_large() && !self.failures.contains_key(key);
        if self.logged.insert((key.kind, failure.code())) || first {
            tracing::warn!(object = %key, %failure, "cannot write the status");
        }
        let jitter = self.jitter.hash_one((key, self.overloads));
        let later = |wait: Duration| now.checked_add(wait).unwrap_or(now);
        if failure.is_overload() {
            // Requests that were in flight when the backoff began prove nothing new.
            let paused = self.paused_until.filter(|until| *until > now);
            return paused.unwrap_or_else(|| {
                self.overloads = self.overloads.saturating_add(1);
                let advised = match failure {
                    StatusApiError::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
                    StatusApiError::Timeout(_) | StatusApiError::Unreachable(_) => Duration::ZERO,
                };
                let wait = backoff(self.overloads, SERVER_BACKOFF.0, SERVER_BACKOFF.1, jitter);
                let until = later(wait.max(advised.min(SERVER_BACKOFF.1)));
                self.paused_until = Some(until);
                until
            });
        }
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        later(backoff(*failures, OBJECT_BACKOFF.0, OBJECT_BACKOFF.1, jitter))
    }

    /// Releases the slot of a job that panicked.
    pub(crate) fn abort(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Number of objects in the queue.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }
    /// Number of objects whose status is known.
    pub(crate) fn len(&self) -> usize {
        self.stated.len()
    }

    /// Takes the numbers of enqueued and of dropped objects since the last call.
    pub(crate) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.enqueued), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests;
