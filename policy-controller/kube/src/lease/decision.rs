//! Decisions of leader election, from the Lease as read, the replica's own identity and its own
//! clock.
//!
//! Clocks of replicas are never compared. A holder has expired once its record has not *changed* for
//! the lease duration, by the clock of the observer. A holder stops leading earlier than that by its
//! own clock, counted from before it requested its last renewal. So two replicas lead at once only if
//! their clocks run at speeds that differ by more than the ratio of the two times, however far apart
//! the clocks are.

use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A time of the replica's monotonic clock: the duration since it started.
pub type MonotonicTime = Duration;

/// The election fields of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The holder's identity; empty: the Lease is free.
    pub holder: Arc<str>,
    /// The lease duration of the holder.
    pub lease_duration: Option<Duration>,
    /// Time of acquisition, by the holder's clock. Informational only.
    pub acquire_time: Option<Timestamp>,
    /// Time of the last renewal, by the holder's clock. Only a change of it matters.
    pub renew_time: Option<Timestamp>,
    /// Number of times that the holder has changed.
    pub transitions: i32,
}

/// Durations of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time after which a holder that does not renew may be replaced.
    pub lease_duration: Duration,
    /// Time that a holder leads after the request of its last successful renewal. Less than
    /// `lease_duration`.
    pub renew_deadline: Duration,
    /// The interval at which the Lease is read, and renewed.
    pub retry_period: Duration,
}

impl Timing {
    /// The usual proportions (two thirds, two fifteenths) for a Lease of this duration.
    pub fn of(duration: Duration) -> Self {
        let part = |numerator: u32, denominator: u32| {
            duration.saturating_mul(numerator).checked_div(denominator).unwrap_or(duration)
        };
        Self { lease_duration: duration, renew_deadline: part(2, 3), retry_period: part(2, 15) }
    }
}

/// The next step of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this record, guarded by the version that was read, and lead.
    Acquire(LeaderElectionRecord),
    /// Write this record, guarded by the version that was read, and go on leading.
    Renew(LeaderElectionRecord),
    /// Another replica leads: read again when its lease may have expired.
    Wait(Duration),
    /// Another replica has acquired it: stop leading.
    Lost,
}

/// The election as one replica has observed it.
#[derive(Clone, Debug)]
pub struct ElectionState {
    identity: Arc<str>,
    timing: Timing,
    /// The record as last read, and when it was first read like that.
    observed: Option<(LeaderElectionRecord, MonotonicTime)>,
    leads_until: Option<MonotonicTime>,
}

impl ElectionState {
    /// A replica that has read nothing yet. Identities must differ, also between two runs of one
    /// replica.
    pub fn new(identity: Arc<str>, timing: Timing) -> Self {
        Self { identity, timing, observed: None, leads_until: None }
    }

    /// Decides what to do about the Lease as it was just read. `wall` is written for information.
    pub fn decide(
        &mut self,
        read: &LeaderElectionRecord,
        now: MonotonicTime,
        wall: Timestamp,
    ) -> Action {
        let since = match &self.observed {
            Some((observed, since)) if observed == read => *since,
            Some(_) | None => {
                self.observed = Some((read.clone(), now));
                now
            }
        };
        if read.holder == self.identity {
            // A replica that holds the Lease without knowing that it leads (the response to its write
            // was lost or late) acquires it anew: no other replica has taken it since.
            return match self.leads(now) {
                true => Action::Renew(self.renewed(read, wall)),
                false => Action::Acquire(self.renewed(read, wall)),
            };
        }
        if self.leads_until.take().is_some() {
            return Action::Lost;
        }
        let duration = read.lease_duration.unwrap_or_default().max(self.timing.lease_duration);
        let remaining = since.saturating_add(duration).saturating_sub(now);
        if !read.holder.is_empty() && !remaining.is_zero() {
            return Action::Wait(remaining);
        }
        Action::Acquire(LeaderElectionRecord {
            acquire_time: Some(wall),
            transitions: read.transitions.saturating_add(1),
            ..self.renewed(read, wall)
        })
    }

    fn renewed(&self, read: &LeaderElectionRecord, wall: Timestamp) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder: self.identity.clone(),
            lease_duration: Some(self.timing.lease_duration),
            acquire_time: read.acquire_time,
            renew_time: Some(wall),
            transitions: read.transitions,
        }
    }

    /// Notes that the record has been written, by a request that was sent at `requested_at`.
    pub fn note_written(&mut self, record: LeaderElectionRecord, requested_at: MonotonicTime) {
        self.observed = Some((record, requested_at));
        self.leads_until = Some(requested_at.saturating_add(self.timing.renew_deadline));
    }

    /// The end of leadership without another renewal.
    pub fn leads_until(&self) -> Option<MonotonicTime> {
        self.leads_until
    }

    /// True while it leads.
    pub fn leads(&self, now: MonotonicTime) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }

    /// Stops leading, and returns the record to write so that a successor need not wait; `None` if it
    /// did not lead.
    pub fn release(
        &mut self,
        read: &LeaderElectionRecord,
        wall: Timestamp,
    ) -> Option<LeaderElectionRecord> {
        self.leads_until = None;
        (read.holder == self.identity).then(|| LeaderElectionRecord {
            holder: "".into(),
            lease_duration: Some(Duration::from_secs(1)),
            renew_time: Some(wall),
            ..read.clone()
        })
    }
}
