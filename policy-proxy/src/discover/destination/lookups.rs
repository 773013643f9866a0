//! The lookups of one stream.

use super::super::stream_end::{StreamEnd, TARGET};
use crate::outbound::table::Demand;
use policy_proto::DecodeError;
use policy_proto::messages::destination_request::Kind as Request;
use policy_proto::messages::destination_response::Kind as Response;
use policy_proto::messages::{DestinationResponse, Release};
use policy_proto::native::destination::{DestinationState, encode_lookup};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which a lookup without a readable answer is made again.
const RETRY: Duration = Duration::from_secs(5);

/// Part of the time that comparing with what is wanted may take.
const SYNC_SHARE: u32 = 10;

/// The lookups of one stream, and what is to be said of them.
pub(super) struct Lookups<'a> {
    table: &'a dyn Demand,
    by_id: HashMap<u32, Lookup>,
    ids: HashMap<SocketAddr, u32>,
    last_id: u32,
    /// The times of lookups without an answer. The numbers are in the order of time.
    unanswered: BTreeMap<u32, Instant>,
    requests: VecDeque<Request>,
    /// Counts the comparisons with what is wanted.
    round: u64,
    next_sync: Instant,
    retry: Option<Instant>,
    has_warned: bool,
}

struct Lookup {
    address: SocketAddr,
    /// The number of the demand that it was made for.
    serial: u64,
    state: DestinationState,
    /// True if the server refused it, or sent what cannot be read: no answer of it counts.
    has_failed: bool,
    /// The last round in which it was wanted.
    round: u64,
}

impl<'a> Lookups<'a> {
    pub(super) fn new(table: &'a dyn Demand) -> Self {
        Self {
            table,
            by_id: HashMap::new(),
            ids: HashMap::new(),
            last_id: 0,
            unanswered: BTreeMap::new(),
            requests: VecDeque::new(),
            round: 0,
            next_sync: Instant::now(),
            retry: None,
            has_warned: false,
        }
    }

    pub(super) fn has_request(&self) -> bool {
        !self.requests.is_empty()
    }

    pub(super) fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// The earliest time of the next comparison.
    pub(super) fn next_sync(&self) -> Instant {
        self.next_sync
    }

    /// The time at which failed lookups are to be made again.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// The time of the oldest lookup without an answer.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.unanswered.first_key_value().map(|(_, since)| *since)
    }

    /// Compares the lookups with what is wanted. Releases go first, so that the server's bound is that of
    /// the table.
    pub(super) fn sync(&mut self) -> Result<(), StreamEnd> {
        let now = Instant::now();
        let again = self.retry.take_if(|at| *at <= now).is_some();
        self.round = self.round.wrapping_add(1);
        let round = self.round;
        let mut wanted = self.table.wanted();
        wanted.retain(|(address, serial)| {
            let known = self.ids.get(address).and_then(|id| self.by_id.get_mut(id));
            match known {
                Some(lookup) if lookup.serial == *serial && !(again && lookup.has_failed) => {
                    lookup.round = round;
                    false
                }
                Some(_) | None => true,
            }
        });
        let Self { by_id, ids, unanswered, requests, .. } = self;
        by_id.retain(|id, lookup| {
            let keep = lookup.round == round;
            if !keep {
                ids.remove(&lookup.address);
                unanswered.remove(id);
                requests.push_back(Request::Release(Release { id: *id }));
            }
            keep
        });
        for (address, serial) in wanted {
            self.look_up(address, serial, now)?;
        }
        let taken = now.elapsed().saturating_mul(SYNC_SHARE);
        self.next_sync = now.checked_add(taken).unwrap_or(now);
        Ok(())
    }

    fn look_up(&mut self, address: SocketAddr, serial: u64, now: Instant) -> Result<(), StreamEnd> {
        if address.port() == 0 {
            self.table.refuse(address, "0 is not a port");
            return Ok(());
        }
        // Numbers are never used again, so that no message is taken for an answer to another lookup.
        let next = self.last_id.checked_add(1);
        let id = next.ok_or_else(|| StreamEnd::Protocol("the numbers are used up".to_owned()))?;
        self.last_id = id;
        let (state, round) = (DestinationState::new(), self.round);
        self.by_id.insert(id, Lookup { address, serial, state, has_failed: false, round });
        self.ids.insert(address, id);
        self.unanswered.insert(id, now);
        self.requests.push_back(Request::Lookup(encode_lookup(id, address)));
        Ok(())
    }

    /// Takes a message of the server.
    pub(super) fn handle(&mut self, message: DestinationResponse) -> Result<(), StreamEnd> {
        let DestinationResponse { id, kind } = message;
        // Of a lookup that was released meanwhile, or that is to be made again.
        let Some(lookup) = self.by_id.get_mut(&id).filter(|lookup| !lookup.has_failed) else {
            return Ok(());
        };
        let address = lookup.address;
        let answer = match kind {
            Some(Response::Found(found)) => lookup.state.found(&found),
            Some(Response::More(more)) => lookup.state.more(&more),
            Some(Response::Changed(changed)) => lookup.state.changed(&changed),
            Some(Response::Refused(refused)) => {
                self.table.refuse(address, &refused.reason);
                self.failed(id);
                return Ok(());
            }
            Some(Response::Released(_)) => {
                let wrong = format!("{address} was released, and nobody asked for it");
                return Err(StreamEnd::Protocol(wrong));
            }
            None => {
                let (path, message) = ("kind".to_owned(), "not set, or not known".to_owned());
                Err(DecodeError { path, message })
            }
        };
        match answer {
            Ok(Some(destination)) => {
                self.unanswered.remove(&id);
                self.table.answer(address, destination);
            }
            Ok(None) => {}
            Err(error) => {
                self.warn(address, &error);
                self.table.lose(address);
                self.failed(id);
            }
        }
        Ok(())
    }

    fn failed(&mut self, id: u32) {
        self.unanswered.remove(&id);
        if let Some(lookup) = self.by_id.get_mut(&id) {
            lookup.has_failed = true;
            lookup.state = DestinationState::new();
        }
        let now = Instant::now();
        self.retry.get_or_insert_with(|| now.checked_add(RETRY).unwrap_or(now));
    }

    /// Logs what cannot be read, once a stream: most of it has one cause.
    fn warn(&mut self, address: SocketAddr, error: &DecodeError) {
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                target: TARGET, %address, %error,
                "answer about a destination rejected, keeping the last good one"
            );
        }
    }
}
