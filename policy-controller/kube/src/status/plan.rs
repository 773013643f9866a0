//! What is to be written next: what every object should be told against what it is known to be told.
//! No tasks, no clocks.

use super::api::{Failure, Found, Outcome};
use super::desired::{Desired, Fingerprint, Level, Told};
use super::merge::{self, Item, stopped::REASON as STOPPED};
use super::queue::{Queue, backoff};
use super::quiet::Quiet;
use super::settings::StatusSettings;
use super::worse::worse;
use policy_crds::{Kind, ObjectKey};
use policy_engine::desired_conditions::DesiredConditionTable;
use policy_engine::programmed::ProgrammedTable;
use policy_server::Limiter;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long mere progress of what is in force waits since the last write of the same object.
const PROGRESS: Duration = Duration::from_secs(5);
/// How long an object waits that the API server refused, at first and at most.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How long everything waits while the API server cannot do more, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How long an object waits where it is in doubt whether this replica still leads: if it does not, all
/// of this is forgotten.
const DOUBT: Duration = Duration::from_secs(1);
/// How much older than a list the last write of an object has to be, for the list to show it.
const SHOWN: Duration = Duration::from_secs(60);
/// How long after an event the same is told again: API servers forget events after an hour.
const REPEAT: Duration = Duration::from_secs(3600);

/// How objects of a kind are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// By their status, in this version.
    Status(&'static str),
    /// By Events, which name this version.
    Events(&'static str),
    /// Not at all: the kind is not there.
    Nothing,
}

/// Something to do for one object.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The object.
    pub(crate) key: ObjectKey,
    /// How it is told.
    pub(crate) means: Means,
    /// What it is to be told.
    pub(crate) desired: Desired,
    /// Whether it was told of a fault before, and there is none any more.
    pub(crate) recovered: bool,
    /// Whether what clients are not sent of it is something else than it was told before.
    pub(crate) unsent_changed: bool,
    fingerprint: Fingerprint,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// This.
    Job(Box<Job>),
    /// Nothing before this time; none: before something happens.
    Wait(Option<Instant>),
}

#[derive(Clone, Copy, Debug)]
struct Known {
    fingerprint: Fingerprint,
    at: Instant,
}

/// See the module.
pub(crate) struct Plan {
    settings: Arc<StatusSettings>,
    stated: DesiredConditionTable,
    counts: Arc<ProgrammedTable>,
    means: BTreeMap<Kind, Means>,
    /// What each object is known to be told, or need not be.
    known: BTreeMap<ObjectKey, Known>,
    /// Objects with an event about a fault.
    troubled: BTreeSet<ObjectKey>,
    quiet: Quiet,
    queue: Queue,
    limiter: Limiter,
    busy: usize,
    failures: BTreeMap<ObjectKey, u32>,
    overloads: u32,
    paused_until: Option<Instant>,
    complained: BTreeSet<(Kind, u16)>,
    noise: RandomState,
    enqueued: u64,
    dropped: u64,
    /// Statuses that somebody else has changed, since they were counted last; and whether that was said.
    overwritten: (u64, bool),
}

impl Plan {
    pub(crate) fn new(settings: Arc<StatusSettings>) -> Self {
        let rate = settings.writes_per_second;
        Self {
            settings,
            stated: DesiredConditionTable::new(),
            counts: Arc::default(),
            means: BTreeMap::new(),
            known: BTreeMap::new(),
            troubled: BTreeSet::new(),
            quiet: Quiet::default(),
            queue: Queue::default(),
            limiter: Limiter::new(rate, rate),
            busy: 0,
            failures: BTreeMap::new(),
            overloads: 0,
            paused_until: None,
            complained: BTreeSet::new(),
            noise: RandomState::new(),
            enqueued: 0,
            dropped: 0,
            overwritten: (0, false),
        }
    }

    /// What every object should be told from now on.
    pub(crate) fn tell(
        &mut self,
        stated: DesiredConditionTable,
        counts: Arc<ProgrammedTable>,
        now: Instant,
    ) {
        let before = std::mem::replace(&mut self.stated, stated);
        let counted = std::mem::replace(&mut self.counts, counts);
        for key in before.keys().filter(|key| !self.stated.contains_key(key)) {
            self.known.remove(key);
            self.failures.remove(key);
            self.troubled.remove(key);
            self.quiet.forget(key);
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
            self.consider(&key, now);
        }
    }

    /// How objects of a kind are told has been found out. Those with a status are considered once
    /// they have been listed: then this is the version to list them in.
    pub(crate) fn found(&mut self, kind: Kind, found: Found, now: Instant) -> Option<&'static str> {
        let means = match found {
            Found::Status(version) if self.settings.is_written(kind) => Means::Status(version),
            Found::Status(version) | Found::NoStatus(version) => Means::Events(version),
            Found::Absent => Means::Nothing,
        };
        if self.means.get(&kind) != Some(&means) {
            // What was told in another way has not been told in this one.
            self.known.retain(|key, _| key.kind != kind);
            self.means.remove(&kind);
        }
        if let Means::Status(version) = means {
            return Some(version);
        }
        self.means.insert(kind, means);
        self.reconsider(kind, now);
        None
    }

    /// The kinds of which objects are told by their status.
    pub(crate) fn is_by_status(&self, kind: Kind) -> bool {
        matches!(self.means.get(&kind), Some(Means::Status(_)))
    }

    /// Some objects of a kind as they are: those that are as they should be need no writing.
    pub(crate) fn page(&mut self, kind: Kind, items: &[Item], now: Instant) {
        let wall = jiff::Timestamp::now();
        for item in items {
            let key = ObjectKey {
                kind,
                namespace: item.metadata.namespace.as_str().into(),
                name: item.metadata.name.as_str().into(),
            };
            let Some(desired) = self.desired(&key) else { continue };
            if !super::api::is_about(item, &desired) {
                continue;
            }
            let controller = &self.settings.controller_name;
            let status = merge::status(kind, item, &desired, controller, wall);
            let Some(status) = status else {
                let fingerprint = desired.fingerprint();
                let known = self.known.get(&key);
                // What was told something else since it was listed is going to be told again.
                if known.is_none_or(|known| known.fingerprint.full == fingerprint.full) {
                    self.known.insert(key, Known { fingerprint, at: now });
                }
                continue;
            };
            let mut told = worse(&item.status, &status, controller).into_iter();
            if told.any(|worse| worse.reason == STOPPED) {
                self.quiet.losing(&key, now);
            }
            self.note_overwritten(&key, desired.fingerprint(), now);
            self.known.remove(&key);
        }
    }

    /// Somebody else has changed what was written: that is put right, and told, because two
    /// installations of one controller name would do it for ever.
    fn note_overwritten(&mut self, key: &ObjectKey, desired: Fingerprint, now: Instant) {
        let written = self.known.get(key).is_some_and(|known| {
            let before = now.saturating_duration_since(known.at) > SHOWN;
            before && known.fingerprint.full == desired.full
        });
        if !written {
            return;
        }
        let (count, said) = &mut self.overwritten;
        *count = count.saturating_add(1);
        if !std::mem::replace(said, true) {
            let controller = &*self.settings.controller_name;
            tracing::warn!(
                object = %key,
                controller,
                "the conditions that this controller wrote were changed by somebody else: is there \
                 another installation of this controller name?"
            );
        }
    }

    /// How many statuses somebody else has changed, since the last call.
    pub(crate) fn overwritten(&mut self) -> u64 {
        std::mem::take(&mut self.overwritten.0)
    }

    /// All objects of a kind have been listed, or cannot be: what is not known to be as it should be
    /// is looked at.
    pub(crate) fn listed(&mut self, kind: Kind, version: &'static str, now: Instant) {
        self.means.insert(kind, Means::Status(version));
        self.reconsider(kind, now);
    }

    fn reconsider(&mut self, kind: Kind, now: Instant) {
        let keys = self.stated.keys().filter(|key| key.kind == kind);
        for key in keys.cloned().collect::<Vec<ObjectKey>>() {
            self.consider(&key, now);
        }
    }

    /// Tells anew what the API server has forgotten.
    pub(crate) fn repeat(&mut self, now: Instant) {
        self.quiet.expire(now);
        let old = |key: &&ObjectKey| {
            self.known
                .get(*key)
                .is_some_and(|known| now.saturating_duration_since(known.at) > REPEAT)
        };
        let old: Vec<ObjectKey> = self.troubled.iter().filter(old).cloned().collect();
        for key in old {
            self.known.remove(&key);
            self.consider(&key, now);
        }
    }

    fn desired(&self, key: &ObjectKey) -> Option<Desired> {
        let stated = self.stated.get(key)?;
        Some(Desired::new(key, stated, self.counts.get(key)))
    }

    fn consider(&mut self, key: &ObjectKey, now: Instant) {
        let Some(means) = self.means.get(&key.kind).copied() else { return };
        let Some(desired) = self.desired(key) else { return };
        let fingerprint = desired.fingerprint();
        let known = self.known.get(key).copied();
        if known.is_some_and(|known| known.fingerprint.full == fingerprint.full) {
            self.quiet.settled(key, now);
            return;
        }
        let silent = match means {
            Means::Status(_) => false,
            Means::Events(_) => {
                !desired.all().any(Told::is_warning) && !self.troubled.contains(key)
            }
            Means::Nothing => true,
        };
        if silent {
            self.known.insert(key.clone(), Known { fingerprint, at: now });
            return;
        }
        let before = known.map(|known| known.fingerprint);
        if let Some(until) = self.quiet.until(key, before, fingerprint, now) {
            self.enqueued = self.enqueued.saturating_add(1);
            return self.queue.postpone(key, until);
        }
        let lags = known.filter(|known| known.fingerprint.urgent == fingerprint.urgent);
        let earliest = lags.and_then(|known| known.at.checked_add(PROGRESS));
        self.enqueued = self.enqueued.saturating_add(1);
        self.queue.push(key, earliest);
    }

    /// What to do next.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if self.busy >= self.settings.parallelism {
            return Next::Wait(None);
        }
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Next::Wait(Some(until));
        }
        loop {
            match self.queue.next(now) {
                Some(when) if when <= now => {}
                when => return Next::Wait(when),
            }
            if let Err(when) = self.limiter.take(now) {
                return Next::Wait(Some(when));
            }
            let Some(key) = self.queue.take(now) else { return Next::Wait(None) };
            if let Some(job) = self.job(&key) {
                if let Some(until) = self.loses(&job, now) {
                    self.queue.done(&key, None);
                    self.queue.postpone(&key, until);
                    continue;
                }
                self.busy = self.busy.saturating_add(1);
                return Next::Job(Box::new(job));
            }
            self.dropped = self.dropped.saturating_add(1);
            self.queue.done(&key, None);
        }
    }

    /// Until when a loss waits although its turn has come: it came while something else was written.
    fn loses(&mut self, job: &Job, now: Instant) -> Option<Instant> {
        if job.fingerprint.level != Level::Lost {
            return None;
        }
        let before = self.known.get(&job.key).map(|known| known.fingerprint);
        let until = self.quiet.until(&job.key, before, job.fingerprint, now)?;
        (until > now).then_some(until)
    }

    fn job(&self, key: &ObjectKey) -> Option<Job> {
        let means = self.means.get(&key.kind).copied()?;
        let desired = self.desired(key)?;
        let fingerprint = desired.fingerprint();
        let known = self.known.get(key);
        if known.is_some_and(|known| known.fingerprint.full == fingerprint.full) {
            return None;
        }
        let recovered = self.troubled.contains(key) && !desired.all().any(Told::is_warning);
        let unsent_before = known.and_then(|known| known.fingerprint.unsent);
        let unsent_changed = unsent_before != fingerprint.unsent;
        let key = key.clone();
        Some(Job { key, means, desired, recovered, unsent_changed, fingerprint })
    }

    /// What became of a job.
    pub(crate) fn done(&mut self, job: &Job, outcome: &Outcome, now: Instant) {
        self.busy = self.busy.saturating_sub(1);
        let key = &job.key;
        match outcome {
            Outcome::Written | Outcome::Unchanged => {
                self.overloads = 0;
                self.failures.remove(key);
                self.complained.retain(|(kind, _)| *kind != key.kind);
                if self.stated.contains_key(key) {
                    let before = self.known.get(key).map(|known| known.fingerprint);
                    self.quiet.written(key, before, job.fingerprint);
                    self.known.insert(key.clone(), Known { fingerprint: job.fingerprint, at: now });
                    if matches!(job.means, Means::Events(_)) {
                        match job.recovered {
                            true => self.troubled.remove(key),
                            false => self.troubled.insert(key.clone()),
                        };
                    }
                }
                self.queue.done(key, None);
            }
            Outcome::Superseded => self.queue.done(key, None),
            Outcome::NotLeading => self.queue.done(key, now.checked_add(DOUBT)),
            Outcome::NoStatus => {
                self.queue.done(key, None);
                if let Means::Status(version) = job.means {
                    self.found(key.kind, Found::NoStatus(version), now);
                }
            }
            Outcome::Failed(failure) => {
                let retry = self.failed(key, failure, now);
                self.queue.done(key, Some(retry));
            }
        }
    }

    /// When an object that failed is tried again.
    fn failed(&mut self, key: &ObjectKey, failure: &Failure, now: Instant) -> Instant {
        if self.complained.insert((key.kind, failure.code())) {
            tracing::warn!(object = %key, %failure, "its status cannot be written");
        }
        let noise = self.noise.hash_one((key, self.overloads));
        let later = |wait: Duration| now.checked_add(wait).unwrap_or(now);
        if failure.is_overload() {
            // Whatever was under way when the pause began says nothing new.
            let paused = self.paused_until.filter(|until| *until > now);
            return paused.unwrap_or_else(|| {
                self.overloads = self.overloads.saturating_add(1);
                let asked = match failure {
                    Failure::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
                    Failure::Timeout(_) | Failure::Unreachable(_) => Duration::ZERO,
                };
                let wait = backoff(self.overloads, PAUSE.0, PAUSE.1, noise);
                let until = later(wait.max(asked.min(PAUSE.1)));
                self.paused_until = Some(until);
                until
            });
        }
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        later(backoff(*failures, REFUSED.0, REFUSED.1, noise))
    }

    /// A job ended without saying how.
    pub(crate) fn lost(&mut self) {
        self.busy = self.busy.saturating_sub(1);
    }

    /// How many objects wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many objects have been put into the queue, and how many of them were dropped, since the
    /// last call.
    pub(crate) fn counted(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.enqueued), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests;
