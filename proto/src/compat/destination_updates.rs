//! Changes of the endpoints of a name.

use super::destination::{encode, tcp_address};
use crate::linkerd::destination::update::Update as Change;
use crate::linkerd::destination::{AddrSet, NoEndpoints, Update, WeightedAddr, WeightedAddrSet};
use policy_core::destination::{Destination, Endpoint, ServiceName};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::net::SocketAddr;

/// Endpoints of one message: gRPC libraries refuse messages of more than 4 MiB.
const MAX_ENDPOINTS: usize = 500;

/// Lists the messages that lead from `before`, which the client has, to `now`. Absent: the client
/// has nothing, and the first message stands for all that it had on another stream.
///
/// Additions come before removals, so that a client never has less than it had and is to have.
pub fn updates(before: Option<&Destination>, now: &Destination) -> Vec<Update> {
    let had = before.map_or(&[][..], Destination::endpoints);
    let Difference { added, removed, kept } = Difference::of(had, now.endpoints());
    if added.is_empty() && !kept {
        let exists = exists(now);
        let is_known =
            before.is_some_and(|before| removed.is_empty() && exists == self::exists(before));
        return if is_known { Vec::new() } else { vec![no_endpoints(exists)] };
    }
    let additions = added.chunks(MAX_ENDPOINTS).map(|addrs| addition(now, addrs));
    let removals = removed.chunks(MAX_ENDPOINTS).map(removal);
    additions.chain(removals).collect()
}

/// A name that does not exist may be looked for elsewhere; any other may not.
fn exists(destination: &Destination) -> bool {
    match destination {
        Destination::Unknown => false,
        Destination::Node
        | Destination::UndeclaredPort(_)
        | Destination::Service(_)
        | Destination::Workload(_) => true,
    }
}

fn no_endpoints(exists: bool) -> Update {
    Update { update: Some(Change::NoEndpoints(NoEndpoints { exists })) }
}

fn addition(now: &Destination, addrs: &[WeightedAddr]) -> Update {
    let metric_labels = match now {
        Destination::Service(service) => labels(&service.service),
        Destination::Unknown
        | Destination::Node
        | Destination::UndeclaredPort(_)
        | Destination::Workload(_) => BTreeMap::new(),
    };
    let set = WeightedAddrSet { addrs: addrs.to_vec(), metric_labels };
    Update { update: Some(Change::Add(set)) }
}

fn labels(service: &ServiceName) -> BTreeMap<String, String> {
    let pairs = [("namespace", &service.namespace), ("service", &service.name)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect()
}

fn removal(addresses: &[SocketAddr]) -> Update {
    let addrs = addresses.iter().copied().map(tcp_address).collect();
    Update { update: Some(Change::Remove(AddrSet { addrs })) }
}

/// The difference between two lists of endpoints, each ordered by address.
#[derive(Default)]
struct Difference {
    added: Vec<WeightedAddr>,
    removed: Vec<SocketAddr>,
    /// True if the client has something that stays.
    kept: bool,
}

impl Difference {
    /// Goes through both lists at once. An endpoint that cannot be sent is not there.
    fn of(before: &[Endpoint], now: &[Endpoint]) -> Self {
        let mut difference = Self::default();
        let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
        loop {
            let address = match (before.peek(), now.peek()) {
                (Some(old), Some(new)) => old.address.min(new.address),
                (Some(one), None) | (None, Some(one)) => one.address,
                (None, None) => return difference,
            };
            let (old, new) = (take(&mut before, address), take(&mut now, address));
            difference.note(address, old, new);
        }
    }

    fn note(&mut self, address: SocketAddr, old: Option<&Endpoint>, new: Option<&Endpoint>) {
        let was_sent = old.and_then(encode).is_some();
        match new.and_then(encode) {
            Some(_) if was_sent && old == new => self.kept = true,
            Some(sent) => self.added.push(sent),
            None if was_sent => self.removed.push(address),
            None => {}
        }
    }
}

fn take<'a, I>(endpoints: &mut Peekable<I>, address: SocketAddr) -> Option<&'a Endpoint>
where
    I: Iterator<Item = &'a Endpoint>,
{
    endpoints.next_if(|endpoint| endpoint.address == address)
}
