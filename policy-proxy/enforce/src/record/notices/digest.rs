//! What is said of refusals and audited permits: the first of its kind at once, the rest as a number.
//!
//! Whoever sends requests can cause a decision at will, so everything here is bounded: lines per second,
//! kinds that are counted, and of both the share of one client and of all clients without an identity.
//! What finds no room is left out and counted. A client with an identity therefore shows at once while
//! any other client floods the sidecar.

use super::rate::{Rate, SECOND};
use policy_core::{Denied, Identity, fold_mapped};
use policy_tls::peer::Peer;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Lines per second, and how many of them may be about clients without an identity.
const LINES: usize = 10;
const ANONYMOUS_LINES: usize = 5;
/// First lines per second about one client.
const LINES_PER_CLIENT: usize = 2;
/// Lines per second with numbers, about clients with an identity and about others each.
const REPEAT_LINES: usize = 2;
/// Kinds that are counted, and how many of them may be of clients without an identity, or of one client.
/// Permits that are audited have half of each at most, because under `audit` every client has one: they are
/// to leave room for what is denied.
const KINDS: usize = 256;
const ANONYMOUS_KINDS: usize = 128;
const KINDS_PER_CLIENT: usize = 16;

/// Who is counted as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientKey {
    /// Who proved this identity.
    Identity(Identity),
    /// The /24 or /64 of an address without an identity, by its first address.
    Network(IpAddr),
}

/// What is counted of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecisionKind {
    /// The workload's port.
    pub(super) port: NonZeroU16,
    /// Why it was refused; none if it was let through and audited.
    pub(super) reason: Option<Denied>,
    /// Whether it was a connection rather than a request.
    pub(super) connection: bool,
}

/// A number that is due to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepeatCount {
    pub(super) client: ClientKey,
    pub(super) kind: DecisionKind,
    /// How many came after the line before.
    pub(super) more: u64,
    /// Since when.
    pub(super) within: Duration,
    /// The address of the last of them.
    pub(super) last: IpAddr,
}

/// What is due to be said as time passes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DueLines {
    pub(super) repeats: Vec<RepeatCount>,
    /// How many decisions no line and no number tells of, since that was said last.
    pub(super) left_out: u64,
}

/// What has been said, and what has been counted since.
#[derive(Debug)]
pub(super) struct Digest {
    interval: Duration,
    clients: HashMap<ClientKey, ClientState>,
    /// Kinds that are counted, by whether their client has no identity.
    kinds: [usize; 2],
    /// Those of them that are audited permits.
    audited: [usize; 2],
    lines: Rate<LINES>,
    anonymous_lines: Rate<ANONYMOUS_LINES>,
    /// By whether the client has no identity.
    repeats: [Rate<REPEAT_LINES>; 2],
    left_out: u64,
    /// When time passed last.
    last_tick: Option<Instant>,
}

/// What is counted of one client.
#[derive(Debug)]
struct ClientState {
    first_lines: Rate<LINES_PER_CLIENT>,
    counted: Vec<CountedKind>,
}

#[derive(Debug)]
struct CountedKind {
    kind: DecisionKind,
    /// When a line was written last.
    since: Instant,
    more: u64,
    last: IpAddr,
}

impl ClientKey {
    /// Who a client is counted as.
    pub(super) fn of(peer: &Peer) -> Self {
        match peer.identity() {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Network(network(peer.ip())),
        }
    }

    fn is_anonymous(&self) -> bool {
        matches!(self, Self::Network(_))
    }
}

/// The first address of the /24 or /64.
fn network(address: IpAddr) -> IpAddr {
    match fold_mapped(address) {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(identity) => f.write_str(identity.as_str()),
            Self::Network(first @ IpAddr::V4(_)) => write!(f, "{first}/24"),
            Self::Network(first @ IpAddr::V6(_)) => write!(f, "{first}/64"),
        }
    }
}

impl Digest {
    /// Says how many more there were of each kind once in `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            clients: HashMap::new(),
            kinds: [0; 2],
            audited: [0; 2],
            lines: Rate::new(),
            anonymous_lines: Rate::new(),
            repeats: [Rate::new(), Rate::new()],
            left_out: 0,
            last_tick: None,
        }
    }

    /// Whether a decision at `now` is to be said at once. If not, it is counted.
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

    /// Whether a line about another kind of `client` may be written, and the kind be counted.
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

    /// Whether one more of the kinds may be an audited permit of `client`.
    fn has_audit_room(&self, client: &ClientKey) -> bool {
        let [known, anonymous] = self.audited;
        let room = known.saturating_add(anonymous) < KINDS / 2;
        room && (!client.is_anonymous() || anonymous < ANONYMOUS_KINDS / 2)
    }

    /// Counts a kind, or no longer.
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

    /// What is due at `now`; nothing within a second of the last time. A kind of which there were no more
    /// is forgotten after an interval.
    pub(super) fn tick(&mut self, now: Instant) -> DueLines {
        let soon = |last| now.saturating_duration_since(last) < SECOND;
        if self.last_tick.is_some_and(soon) {
            return DueLines::default();
        }
        self.last_tick = Some(now);
        self.due(now, false)
    }

    /// What is left to be said in the end, as far as there is room for lines.
    pub(super) fn end(&mut self, now: Instant) -> DueLines {
        self.due(now, true)
    }

    fn due(&mut self, now: Instant, end: bool) -> DueLines {
        let mut due = DueLines::default();
        let mut clients = std::mem::take(&mut self.clients);
        let is_due = |counted: &CountedKind| {
            end || now.saturating_duration_since(counted.since) >= self.interval
        };
        // The oldest first, so that none waits for ever where more are due than there are lines.
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

    /// Takes the room of a line with a number, if there is some. Numbers have a bound of their own, lest
    /// those of many clients keep a new one from being seen.
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
