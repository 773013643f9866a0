//! The record of refusals and audited permits: facts in groups, bounded in number and size.
//!
//! A decision is recorded on the worker's thread, under a lock that is held for a look-up and a few
//! writes. Readers copy a few groups at a time. Nothing is explained here.

mod group;
mod table;

pub use group::{DecisionGroup, DecisionSample, GroupKey, GroupReason, GroupSubject, SampleTls};

use super::client_key::ClientKey;
use super::entry::OutboundRefusal;
use super::request_info::DecisionInfo;
use super::request_line::RequestLine;
use super::visible::{MAX_METHOD, MAX_TEXT, path, plain};
use parking_lot::Mutex;
use policy_core::{DecisionId, PodPart};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use table::GroupTable;

/// The extent of the record of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecisionMode {
    /// Nothing.
    Off,
    /// Groups without samples: no address of a client with an identity, no method, host or path.
    Counts,
    /// Groups with samples.
    #[default]
    Full,
}

impl DecisionMode {
    /// Every value, in the order of the variants.
    pub const ALL: [Self; 3] = [Self::Off, Self::Counts, Self::Full];

    /// The value as settings spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Counts => "counts",
            Self::Full => "full",
        }
    }
}

/// The record of a sidecar's decisions.
#[derive(Debug)]
pub struct Decisions {
    mode: DecisionMode,
    since: SystemTime,
    table: Mutex<GroupTable>,
}

/// State of the record beside its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionsState {
    /// Its extent.
    pub mode: DecisionMode,
    /// Time since when decisions are recorded.
    pub since: SystemTime,
    /// The pod's part of the ids.
    pub pod: PodPart,
    /// The part of the ids that says the sidecar's process.
    pub process: u8,
    /// Number of decisions that belong to no group, because there was no room.
    pub left_out: u64,
    /// Number of groups that gave their place to another client's.
    pub replaced: u64,
}

/// Groups that are copied under one lock.
const PORTION: usize = 16;
/// Maximum number of samples of a group.
const SAMPLES: usize = 3;
/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of a recorded explanation, in bytes.
pub(super) const MAX_EXPLANATION: usize = 4096;

impl Decisions {
    /// Creates the record of a pod's sidecar. `uid`: the pod's uid, or the workload's name where none is
    /// known. `started` tells one process of the sidecar from another.
    pub fn new(mode: DecisionMode, uid: &str, started: SystemTime) -> Self {
        let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mixed = since_epoch.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
        let process = u8::try_from(mixed & 31).unwrap_or_default();
        let table = Mutex::new(GroupTable::new(PodPart::of(uid), process));
        Self { mode, since: started, table }
    }

    /// Returns what is recorded.
    pub fn mode(&self) -> DecisionMode {
        self.mode
    }

    /// Records a decision at `now` on a client's request, or on its connection. Returns the id of its
    /// group; `None` if nothing is recorded or there is no room.
    pub(super) fn inbound(
        &self,
        client: &ClientKey,
        decided: &DecisionInfo<'_>,
        request: Option<&RequestLine<'_>>,
        now: Instant,
    ) -> Option<DecisionId> {
        if self.mode == DecisionMode::Off {
            return None;
        }
        let subject = GroupSubject::Client(client.clone());
        let (reason, route) = match &decided.decision {
            Ok(permit) => (GroupReason::Audited, permit.route()),
            Err(denial) => (GroupReason::Denied(denial.reason), denial.route),
        };
        let generation = decided.policy.map_or(0, |policy| policy.generation);
        let (port, connection) = (decided.port.get(), request.is_none());
        let key = GroupKey { port, reason, route, generation, connection };
        let mut table = self.table.lock();
        let group = table.enter(&subject, &key, now, |id| {
            let record = decided.record("", None);
            DecisionGroup {
                origin: record.route.cloned(),
                http_route: record.http_route.map(|label| plain(label, MAX_TEXT).into()),
                authorization: record.authorization.cloned(),
                revision: decided.policy.map(|policy| policy.revision.content),
                ..empty(id, (subject.clone(), key), (decided.at, now))
            }
        })?;
        group.add(decided.at, now);
        if self.mode == DecisionMode::Full && group.wants_sample(now) {
            group.sample(sample(decided, request), now);
        }
        Some(group.id)
    }

    /// Records that a connection of the workload was refused at `now`. Returns the id of its group.
    pub fn outbound(&self, refused: &OutboundRefusal<'_>, now: Instant) -> Option<DecisionId> {
        if self.mode == DecisionMode::Off {
            return None;
        }
        let (subject, key, at) = (refused.subject(), refused.key(), SystemTime::now());
        let mut table = self.table.lock();
        let new = |id| empty(id, (subject.clone(), key), (at, now));
        let group = table.enter(&subject, &key, now, new)?;
        group.add(at, now);
        if self.mode == DecisionMode::Full && group.wants_sample(now) {
            let (address, tls) = (refused.address, SampleTls::Absent);
            let sample = DecisionSample { at, address, tls, method: None, host: None, path: None };
            group.sample(sample, now);
        }
        Some(group.id)
    }

    /// Returns copies of all groups, the latest first.
    pub fn groups(&self) -> Vec<DecisionGroup> {
        let mut groups = Vec::new();
        let mut from = 0_usize;
        loop {
            // Workers have their turn between two portions.
            let table = self.table.lock();
            let (all, to) = (table.slots(), from.saturating_add(PORTION));
            groups.extend(table.copy(from..to.min(all)));
            drop(table);
            if to >= all {
                break;
            }
            from = to;
        }
        groups.sort_by(|a: &DecisionGroup, b| b.last.cmp(&a.last).then(a.id.cmp(&b.id)));
        groups
    }

    /// Returns the group of an id.
    pub fn group(&self, id: DecisionId) -> Option<DecisionGroup> {
        self.table.lock().by_id(id).cloned()
    }

    /// Returns the state of the record.
    pub fn state(&self) -> DecisionsState {
        let table = self.table.lock();
        let (left_out, replaced) = (table.left_out, table.replaced);
        let (pod, process) = (table.pod, table.process);
        DecisionsState { mode: self.mode, since: self.since, pod, process, left_out, replaced }
    }

    /// Takes a new group that has no explanation yet, the newest first; each is returned once. Of the
    /// oldest beyond a bound, none is.
    pub fn take_unexplained(&self) -> Option<DecisionGroup> {
        self.table.lock().take_unexplained()
    }

    /// Keeps the explanation of a group, as JSON; one that is too long is dropped.
    pub fn explain(&self, id: DecisionId, explanation: Arc<str>) {
        if explanation.len() > MAX_EXPLANATION {
            return;
        }
        if let Some(group) = self.table.lock().by_id(id) {
            group.explanation = Some(explanation);
        }
    }
}

fn empty(
    id: DecisionId,
    (subject, key): (GroupSubject, GroupKey),
    (at, now): (SystemTime, Instant),
) -> DecisionGroup {
    DecisionGroup {
        id,
        subject,
        key,
        origin: None,
        http_route: None,
        authorization: None,
        revision: None,
        first: at,
        last: at,
        count: 0,
        samples: Vec::new(),
        explanation: None,
        last_at: now,
        sample_due: now,
        is_churn: false,
    }
}

fn sample(decided: &DecisionInfo<'_>, request: Option<&RequestLine<'_>>) -> DecisionSample {
    let host = request.and_then(|request| request.host);
    DecisionSample {
        at: decided.at,
        address: Some(decided.peer.address()),
        tls: SampleTls::of(decided.peer),
        method: request.map(|request| plain(request.method.as_str(), MAX_METHOD).into()),
        host: host.map(|host| plain(host, MAX_TEXT).into()),
        path: request.map(|request| path(request.path, request.canonical).into()),
    }
}

impl DecisionGroup {
    fn add(&mut self, at: SystemTime, now: Instant) {
        self.count = self.count.saturating_add(1);
        (self.last, self.last_at) = (at, now);
    }

    fn wants_sample(&self, now: Instant) -> bool {
        now >= self.sample_due
    }

    /// Keeps the first sample and the last ones.
    fn sample(&mut self, sample: DecisionSample, now: Instant) {
        self.sample_due = now.checked_add(SAMPLE_INTERVAL).unwrap_or(now);
        if self.samples.len() >= SAMPLES {
            self.samples.remove(1);
        }
        self.samples.push(sample);
    }
}

#[cfg(test)]
mod tests;
