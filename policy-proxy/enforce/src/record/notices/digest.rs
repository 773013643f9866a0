//! Aggregates denials and audited permits: the first of a kind is logged at once, repeats as a
//! number.
//!
//! Clients can cause decisions at will, so everything here is bounded: lines per second, counted
//! kinds, and of both the share of one client and of all clients without an identity. Decisions
//! beyond the bounds are suppressed and counted. So a client with an identity shows up at once
//! while any other client floods the sidecar.

use super::rate::{Rate, SECOND};
use crate::record::client_key::ClientKey;
use foldhash::HashMap;
use policy_core::Denied;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Maximum lines per second, and the part for clients without an identity.
const LINES: usize = 10;
const ANONYMOUS_LINES: usize = 5;
/// Maximum first lines per second about one client.
const LINES_PER_CLIENT: usize = 2;
/// Maximum repeat lines per second, for clients with an identity and for others each.
const REPEAT_LINES: usize = 2;
/// Maximum number of counted kinds, of those of clients without an identity, and of one client's.
/// Audited permits get at most half of each, because under `audit` every client has one: they have
/// to leave space for denials.
const KINDS: usize = 256;
const ANONYMOUS_KINDS: usize = 128;
const KINDS_PER_CLIENT: usize = 16;

/// Kind of a client's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecisionKind {
    /// The workload's port.
    pub(super) port: NonZeroU16,
    /// The reason of the denial; `None` for an audited permit.
    pub(super) reason: Option<Denied>,
    /// True for a connection, false for a request.
    pub(super) connection: bool,
}

/// A repeat count that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepeatCount {
    pub(super) client: ClientKey,
    pub(super) kind: DecisionKind,
    /// Number of decisions since the last line.
    pub(super) more: u64,
    /// Time since the last line.
    pub(super) within: Duration,
    /// Address of the last decision.
    pub(super) last: IpAddr,
}

/// The log lines that are due.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DueLines {
    pub(super) repeats: Vec<RepeatCount>,
    /// Number of decisions that were neither logged nor counted since the last report.
    pub(super) left_out: u64,
}

/// State of the aggregation.
#[derive(Debug)]
pub(super) struct Digest {
    interval: Duration,
    clients: HashMap<ClientKey, ClientState>,
    /// Number of counted kinds, indexed by whether the client is anonymous.
    kinds: [usize; 2],
    /// Number of audited permits among them.
    audited: [usize; 2],
    lines: Rate<LINES>,
    anonymous_lines: Rate<ANONYMOUS_LINES>,
    /// Indexed by whether the client is anonymous.
    repeats: [Rate<REPEAT_LINES>; 2],
    left_out: u64,
    /// Time of the last tick.
    last_tick: Option<Instant>,
}

/// State of one client.
#[derive(Debug)]
struct ClientState {
    first_lines: Rate<LINES_PER_CLIENT>,
    counted: Vec<CountedKind>,
}

#[derive(Debug)]
struct CountedKind {
    kind: DecisionKind,
    /// Time of the last line.
    since: Instant,
    more: u64,
    last: IpAddr,
}

impl Digest {
    /// Creates a digest that reports repeats once per `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            clients: HashMap::default(),
            kinds: [0; 2],
            audited: [0; 2],
            lines: Rate::new(),
            anonymous_lines: Rate::new(),
            repeats: [Rate::new(), Rate::new()],
            left_out: 0,
            last_tick: None,
        }
    }

    /// Returns true if a decision at `now` is to be logged at once. Else it is counted.
    pub(super) fn admit(
        &mut self,
        client: ClientKey,
        address: IpAddr,
        kind: DecisionKind,
        now: Instant,
    ) -> bool {
        let own = self.clients.get_mut(&client);
        let known = own.and_then(|own| own.counted.iter_mut().find(|known| known.kind == kind));
        if let Some(known) = known {
            known.more = known.more.saturating_add(1);
            known.last = address;
            return false;
        }
        let logged =
            self.has_room(&client, now) && (kind.reason.is_some() || self.has_audit_room(&client));
        if logged {
            self.keep(client, CountedKind { kind, since: now, more: 0, last: address });
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
        logged
    }

    /// Returns true if a line about another kind of `client` may be written and the kind be
    /// counted.
    fn has_room(&self, client: &ClientKey, now: Instant) -> bool {
        let [known, anonymous] = self.kinds;
        let room = self.lines.has_room(now) && known.saturating_add(anonymous) < KINDS;
        let stranger_room = !client.is_anonymous()
            || (self.anonymous_lines.has_room(now) && anonymous < ANONYMOUS_KINDS);
        let share = |own: &ClientState| {
            own.first_lines.has_room(now) && own.counted.len() < KINDS_PER_CLIENT
        };
        room && stranger_room && self.clients.get(client).is_none_or(share)
    }

    /// Returns true if another kind may be an audited permit of `client`.
    fn has_audit_room(&self, client: &ClientKey) -> bool {
        let [known, anonymous] = self.audited;
        let room = known.saturating_add(anonymous) < KINDS / 2;
        room && (!client.is_anonymous() || anonymous < ANONYMOUS_KINDS / 2)
    }

    /// Changes the number of counted kinds.
    fn count(&mut self, anonymous: bool, kind: DecisionKind, change: impl Fn(usize) -> usize) {
        let of = usize::from(anonymous);
        if let Some(kinds) = self.kinds.get_mut(of) {
            *kinds = change(*kinds);
        }
        if let (None, Some(audited)) = (kind.reason, self.audited.get_mut(of)) {
            *audited = change(*audited);
        }
    }

    fn keep(&mut self, client: ClientKey, counted: CountedKind) {
        let now = counted.since;
        self.line_written(client.is_anonymous(), now);
        self.count(client.is_anonymous(), counted.kind, |kinds| kinds.saturating_add(1));
        let new = || ClientState { first_lines: Rate::new(), counted: Vec::new() };
        let own = self.clients.entry(client).or_insert_with(new);
        own.first_lines.take(now);
        own.counted.push(counted);
    }

    fn line_written(&mut self, anonymous: bool, now: Instant) {
        self.lines.take(now);
        if anonymous {
            self.anonymous_lines.take(now);
        }
    }

    /// Returns the lines due at `now`; none within a second of the last tick. A kind without
    /// repeats is dropped after an interval.
    pub(super) fn tick(&mut self, now: Instant) -> DueLines {
        let soon = |last| now.saturating_duration_since(last) < SECOND;
        if self.last_tick.is_some_and(soon) {
            return DueLines::default();
        }
        self.last_tick = Some(now);
        self.due(now, false)
    }

    /// Returns the lines that remain at the end, within the limit of lines.
    pub(super) fn end(&mut self, now: Instant) -> DueLines {
        self.due(now, true)
    }

    fn due(&mut self, now: Instant, end: bool) -> DueLines {
        let mut due = DueLines::default();
        let mut clients = std::mem::take(&mut self.clients);
        let is_due = |counted: &CountedKind| {
            end || now.saturating_duration_since(counted.since) >= self.interval
        };
        // Oldest first, so that none starves if more are due than there are lines.
        let mut pending: Vec<(Instant, ClientKey, DecisionKind)> = Vec::new();
        for (client, own) in &clients {
            let own = own.counted.iter().filter(|counted| is_due(counted) && counted.more > 0);
            pending.extend(own.map(|counted| (counted.since, client.clone(), counted.kind)));
        }
        pending.sort_by_key(|(since, ..)| *since);
        pending.retain(|(_, client, _)| self.take_number(client.is_anonymous(), now, end));
        let interval = self.interval;
        clients.retain(|client, own| {
            own.counted.retain_mut(|counted| {
                let within = now.saturating_duration_since(counted.since);
                if within < interval && !end {
                    return true;
                }
                let logged =
                    pending.iter().any(|(_, of, kind)| of == client && *kind == counted.kind);
                if logged {
                    let CountedKind { kind, more, last, .. } = *counted;
                    due.repeats.push(RepeatCount {
                        client: client.clone(),
                        kind,
                        more,
                        within,
                        last,
                    });
                    counted.since = now;
                    counted.more = 0;
                } else if end {
                    self.left_out = self.left_out.saturating_add(counted.more);
                }
                let keep = !end && (logged || counted.more > 0);
                if !keep {
                    self.count(client.is_anonymous(), counted.kind, |kinds| {
                        kinds.saturating_sub(1)
                    });
                }
                keep
            });
            !own.counted.is_empty()
        });
        self.clients = clients;
        due.left_out = std::mem::take(&mut self.left_out);
        due
    }

    /// Takes a slot for a repeat line. Repeat lines have a limit of their own, so that those of
    /// many clients cannot suppress a first line.
    fn take_number(&mut self, anonymous: bool, now: Instant, end: bool) -> bool {
        let repeats = self.repeats.get_mut(usize::from(anonymous));
        let own = repeats.filter(|repeats| end || repeats.has_room(now));
        let room = self.lines.has_room(now);
        let stranger_room = !anonymous || self.anonymous_lines.has_room(now);
        let Some(own) = own.filter(|_| room && stranger_room) else { return false };
        own.take(now);
        self.line_written(anonymous, now);
        true
    }
}

#[cfg(test)]
mod tests;
