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
const LINES_OF_STRANGERS: usize = 5;
/// First lines per second about one client.
const LINES_OF_ONE: usize = 2;
/// Lines per second with numbers, about clients with an identity and about others each.
const NUMBERS: usize = 2;
/// Kinds that are counted, and how many of them may be of clients without an identity, or of one client.
/// Permits that are audited have half of each at most, because under `audit` every client has one: they are
/// to leave room for what is denied.
const KINDS: usize = 256;
const KINDS_OF_STRANGERS: usize = 128;
const KINDS_OF_ONE: usize = 16;

/// Who is counted as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// Who proved this identity.
    Identity(Identity),
    /// The /24 or /64 of an address without an identity, by its first address.
    Network(IpAddr),
}

/// What is counted of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The workload's port.
    pub(super) port: NonZeroU16,
    /// Why it was refused; none if it was let through and audited.
    pub(super) reason: Option<Denied>,
    /// Whether it was a connection rather than a request.
    pub(super) connection: bool,
}

/// A number that is due to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) client: Client,
    pub(super) kind: Kind,
    /// How many came after the line before.
    pub(super) more: u64,
    /// Since when.
    pub(super) within: Duration,
    /// The address of the last of them.
    pub(super) last: IpAddr,
}

/// What is due to be said as time passes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) numbers: Vec<More>,
    /// How many decisions no line and no number tells of, since that was said last.
    pub(super) left_out: u64,
}

/// What has been said, and what has been counted since.
#[derive(Debug)]
pub(super) struct Digest {
    interval: Duration,
    clients: HashMap<Client, Own>,
    /// Kinds that are counted, by whether their client has no identity.
    kinds: [usize; 2],
    /// Those of them that are audited permits.
    audited: [usize; 2],
    lines: Rate<LINES>,
    lines_of_strangers: Rate<LINES_OF_STRANGERS>,
    /// By whether the client has no identity.
    numbers: [Rate<NUMBERS>; 2],
    left_out: u64,
    /// When time passed last.
    passed: Option<Instant>,
}

/// What is counted of one client.
#[derive(Debug)]
struct Own {
    firsts: Rate<LINES_OF_ONE>,
    counted: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    kind: Kind,
    /// When a line was written last.
    since: Instant,
    more: u64,
    last: IpAddr,
}

impl Client {
    /// Who a client is counted as.
    pub(super) fn of(peer: &Peer) -> Self {
        match peer.identity() {
            Some(identity) => Self::Identity(identity.clone()),
            None => Self::Network(network(peer.ip())),
        }
    }

    fn is_stranger(&self) -> bool {
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

impl fmt::Display for Client {
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
            lines_of_strangers: Rate::new(),
            numbers: [Rate::new(), Rate::new()],
            left_out: 0,
            passed: None,
        }
    }

    /// Whether a decision at `now` is to be said at once. If not, it is counted.
    pub(super) fn note(
        &mut self,
        client: Client,
        address: IpAddr,
        kind: Kind,
        now: Instant,
    ) -> bool {
        let own = self.clients.get_mut(&client);
        let known = own.and_then(|own| own.counted.iter_mut().find(|known| known.kind == kind));
        if let Some(known) = known {
            known.more = known.more.saturating_add(1);
            known.last = address;
            return false;
        }
        let said =
            self.has_room(&client, now) && (kind.reason.is_some() || self.has_audit_room(&client));
        if said {
            self.keep(client, Counted { kind, since: now, more: 0, last: address });
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
        said
    }

    /// Whether a line about another kind of `client` may be written, and the kind be counted.
    fn has_room(&self, client: &Client, now: Instant) -> bool {
        let [known, strangers] = self.kinds;
        let room = self.lines.has_room(now) && known.saturating_add(strangers) < KINDS;
        let rank = !client.is_stranger()
            || (self.lines_of_strangers.has_room(now) && strangers < KINDS_OF_STRANGERS);
        let share = |own: &Own| own.firsts.has_room(now) && own.counted.len() < KINDS_OF_ONE;
        room && rank && self.clients.get(client).is_none_or(share)
    }

    /// Whether one more of the kinds may be an audited permit of `client`.
    fn has_audit_room(&self, client: &Client) -> bool {
        let [known, strangers] = self.audited;
        let room = known.saturating_add(strangers) < KINDS / 2;
        room && (!client.is_stranger() || strangers < KINDS_OF_STRANGERS / 2)
    }

    /// Counts a kind, or no longer.
    fn count(&mut self, stranger: bool, kind: Kind, change: impl Fn(usize) -> usize) {
        let of = usize::from(stranger);
        if let Some(kinds) = self.kinds.get_mut(of) {
            *kinds = change(*kinds);
        }
        if let (None, Some(audited)) = (kind.reason, self.audited.get_mut(of)) {
            *audited = change(*audited);
        }
    }

    fn keep(&mut self, client: Client, counted: Counted) {
        let now = counted.since;
        self.written(client.is_stranger(), now);
        self.count(client.is_stranger(), counted.kind, |kinds| kinds.saturating_add(1));
        let new = || Own { firsts: Rate::new(), counted: Vec::new() };
        let own = self.clients.entry(client).or_insert_with(new);
        own.firsts.take(now);
        own.counted.push(counted);
    }

    fn written(&mut self, stranger: bool, now: Instant) {
        self.lines.take(now);
        if stranger {
            self.lines_of_strangers.take(now);
        }
    }

    /// What is due at `now`; nothing within a second of the last time. A kind of which there were no more
    /// is forgotten after an interval.
    pub(super) fn pass(&mut self, now: Instant) -> Due {
        let soon = |last| now.saturating_duration_since(last) < SECOND;
        if self.passed.is_some_and(soon) {
            return Due::default();
        }
        self.passed = Some(now);
        self.due(now, false)
    }

    /// What is left to be said in the end, as far as there is room for lines.
    pub(super) fn end(&mut self, now: Instant) -> Due {
        self.due(now, true)
    }

    fn due(&mut self, now: Instant, end: bool) -> Due {
        let mut due = Due::default();
        let mut clients = std::mem::take(&mut self.clients);
        let is_due = |counted: &Counted| {
            end || now.saturating_duration_since(counted.since) >= self.interval
        };
        // The oldest first, so that none waits for ever where more are due than there are lines.
        let mut waiting: Vec<(Instant, Client, Kind)> = Vec::new();
        for (client, own) in &clients {
            let own = own.counted.iter().filter(|counted| is_due(counted) && counted.more > 0);
            waiting.extend(own.map(|counted| (counted.since, client.clone(), counted.kind)));
        }
        waiting.sort_by_key(|(since, ..)| *since);
        waiting.retain(|(_, client, _)| self.takes_number(client.is_stranger(), now, end));
        let interval = self.interval;
        clients.retain(|client, own| {
            own.counted.retain_mut(|counted| {
                let within = now.saturating_duration_since(counted.since);
                if within < interval && !end {
                    return true;
                }
                let said =
                    waiting.iter().any(|(_, of, kind)| of == client && *kind == counted.kind);
                if said {
                    let Counted { kind, more, last, .. } = *counted;
                    due.numbers.push(More { client: client.clone(), kind, more, within, last });
                    counted.since = now;
                    counted.more = 0;
                } else if end {
                    self.left_out = self.left_out.saturating_add(counted.more);
                }
                let keep = !end && (said || counted.more > 0);
                if !keep {
                    self.count(client.is_stranger(), counted.kind, |kinds| kinds.saturating_sub(1));
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
    fn takes_number(&mut self, stranger: bool, now: Instant, end: bool) -> bool {
        let numbers = self.numbers.get_mut(usize::from(stranger));
        let own = numbers.filter(|numbers| end || numbers.has_room(now));
        let room = self.lines.has_room(now);
        let rank = !stranger || self.lines_of_strangers.has_room(now);
        let Some(own) = own.filter(|_| room && rank) else { return false };
        own.take(now);
        self.written(stranger, now);
        true
    }
}

#[cfg(test)]
mod tests;
