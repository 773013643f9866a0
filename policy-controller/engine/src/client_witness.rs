//! Clients and requests made of the conditions and matches of policies, about which policies decide.

use crate::witness::SampleRequest;
use ipnet::IpNet;
use policy_core::{
    Authorization, Connection, Facts, Identity, IdentityMatch, NetworkTerm, Predicate,
    RequestMatch, Requirement, Route, SegmentCondition, SegmentOperator, ServerPolicy, Tls,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Addresses of no cluster (RFC 5737, RFC 3849).
const OUTSIDE: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77)),
];
/// The most networks of one port of which each gets an address that is in no smaller one.
pub(crate) const MAX_NETWORKS: usize = 256;
/// The most clients and requests of one port that are made, so that few are held while they are counted.
pub(crate) const MAX_CLIENTS: usize = 40_000;
const MAX_REQUESTS: usize = 20_000;
/// The most texts of a condition on a path segment that requests are made with.
const MAX_TEXTS: usize = 4;

/// A client.
pub(crate) struct ClientWitness {
    pub(crate) words: String,
    address: IpAddr,
    tls: WitnessTls,
}

enum WitnessTls {
    Absent,
    Passthrough,
    Mesh(Option<Identity>),
}

impl ClientWitness {
    /// The client of an access.
    pub(crate) fn question(connection: &Connection<'_>) -> Self {
        let address = connection.client;
        let place = IpNet::from(address);
        let (words, tls) = match connection.tls {
            Tls::Absent => (format!("plaintext from {place}"), WitnessTls::Absent),
            Tls::Passthrough => {
                (format!("TLS for the application from {place}"), WitnessTls::Passthrough)
            }
            Tls::Terminated(None) => {
                (format!("{NO_IDENTITY} from {place}"), WitnessTls::Mesh(None))
            }
            Tls::Terminated(Some(identity)) => {
                (identity.as_str().to_owned(), WitnessTls::Mesh(Some(identity.clone())))
            }
        };
        Self { words, address, tls }
    }

    /// A client outside of the cluster with an identity that no grant names.
    pub(crate) fn any_identity() -> Self {
        let [address, ..] = OUTSIDE;
        let tls = WitnessTls::Mesh(Some(Identity::Dns(NOBODY.into())));
        Self { words: ANY_IDENTITY.to_owned(), address, tls }
    }

    /// The client with an identity that no grant names, of one in mesh TLS without any.
    pub(crate) fn with_any_identity(&self) -> Option<Self> {
        let WitnessTls::Mesh(None) = &self.tls else { return None };
        let place = self.words.strip_prefix(NO_IDENTITY)?;
        let words = format!("{ANY_IDENTITY}{place}");
        let tls = WitnessTls::Mesh(Some(Identity::Dns(NOBODY.into())));
        Some(Self { words, address: self.address, tls })
    }

    /// The client without its name and address, which grants of other namespaces may state.
    pub(crate) fn kind_in_words(&self) -> &'static str {
        match &self.tls {
            WitnessTls::Absent => "without an identity",
            WitnessTls::Passthrough => "in TLS for the application",
            WitnessTls::Mesh(None) => "in mesh TLS without an identity",
            WitnessTls::Mesh(Some(_)) if self.words == ANY_IDENTITY => "with any identity",
            WitnessTls::Mesh(Some(_)) => "with an identity that a policy names",
        }
    }

    pub(crate) fn connection<'a>(&'a self, facts: &'a Facts) -> Connection<'a> {
        let tls = match &self.tls {
            WitnessTls::Absent => Tls::Absent,
            WitnessTls::Passthrough => Tls::Passthrough,
            WitnessTls::Mesh(identity) => Tls::Terminated(identity.as_ref()),
        };
        Connection { client: self.address, tls, facts }
    }
}

/// The identity of nobody, and the words for a client of whom no grant asks a name.
const NOBODY: &str = "client.invalid";
pub(crate) const ANY_IDENTITY: &str = "any identity";
/// The words for a client in mesh TLS that proves none.
const NO_IDENTITY: &str = "mesh TLS without an identity";

/// One client of each name, suffix, network and state of TLS that grants of the two policies tell apart, of
/// those that `counts`, those without a name first; false if some network has no address that is in no
/// smaller one, or there were too many.
pub(crate) fn clients(
    policies: [&ServerPolicy; 2],
    facts: &Facts,
    counts: &dyn Fn(&Authorization) -> bool,
) -> (Vec<ClientWitness>, bool) {
    let mut names: BTreeSet<(String, String)> = BTreeSet::new();
    let mut networks: BTreeSet<IpNet> = BTreeSet::new();
    let grants = policies.into_iter().flat_map(grants).filter(|grant| counts(grant));
    for condition in grants.flat_map(conditions) {
        match condition {
            Predicate::Identity(list) => names.extend(list.iter().map(|name| match name {
                IdentityMatch::Any => (NOBODY.to_owned(), ANY_IDENTITY.to_owned()),
                IdentityMatch::Exact(name) => (name.to_string(), name.to_string()),
                IdentityMatch::Suffix(suffix) => (format!("x.{suffix}"), name.to_string()),
            })),
            Predicate::Network(list) => networks.extend(list.iter().flat_map(|one| {
                let nets = match one.term {
                    NetworkTerm::Net(net) => vec![net],
                    NetworkTerm::Symbol(symbol) => facts.resolve(symbol).to_vec(),
                };
                nets.into_iter().chain(one.except.iter().copied()).map(|net| net.trunc())
            })),
            Predicate::MeshTls | Predicate::TlsPassthrough | Predicate::Segment(_) => {}
        }
    }
    let (places, mut complete) = places(&networks);
    let identity = |name: &str| match name.starts_with("spiffe://") {
        true => Identity::Spiffe(name.into()),
        false => Identity::Dns(name.into()),
    };
    let mut all = Vec::new();
    for (address, place) in &places {
        let from = |words: &str| format!("{words} from {place}");
        let client = |words: String, tls| ClientWitness { words, address: *address, tls };
        all.push(client(from("plaintext"), WitnessTls::Absent));
        all.push(client(from("TLS for the application"), WitnessTls::Passthrough));
        all.push(client(from(NO_IDENTITY), WitnessTls::Mesh(None)));
    }
    complete &= places.len().saturating_mul(names.len()) <= MAX_CLIENTS;
    let named =
        names.iter().flat_map(|name| places.iter().map(move |(address, _)| (name, address)));
    all.extend(named.take(MAX_CLIENTS).map(|((name, words), address)| {
        let tls = WitnessTls::Mesh(Some(identity(name)));
        ClientWitness { words: words.clone(), address: *address, tls }
    }));
    (all, complete)
}

/// An address of each network, in none that is nested in it, and one outside of all; false if some
/// network has none, as of those beyond [`MAX_NETWORKS`].
fn places(networks: &BTreeSet<IpNet>) -> (BTreeSet<(IpAddr, String)>, bool) {
    let mut complete = networks.len() <= MAX_NETWORKS;
    let mut places: BTreeSet<(IpAddr, String)> = BTreeSet::new();
    let is_named = |address: &IpAddr| networks.iter().any(|net| net.contains(address));
    let words = "an address outside every network that is named";
    let outside = OUTSIDE.into_iter().find(|address| !is_named(address));
    places.extend(outside.map(|address| (address, words.to_owned())));
    for net in networks.iter().take(MAX_NETWORKS) {
        let own = match networks.len() <= MAX_NETWORKS {
            true => address_of(*net, networks),
            false => Some(net.addr()),
        };
        complete &= own.is_some();
        places.extend(own.map(|address| (address, net.to_string())));
    }
    (places, complete)
}

/// An address of a network that is in none of those that are nested in it.
fn address_of(net: IpNet, networks: &BTreeSet<IpNet>) -> Option<IpAddr> {
    let nested: Vec<&IpNet> =
        networks.iter().filter(|other| **other != net && net.contains(*other)).collect();
    let behind = nested.iter().filter_map(|other| next(other.broadcast()));
    let all = [net.addr(), net.broadcast()].into_iter().chain(behind);
    let mut free = all.filter(|address| net.contains(address));
    free.find(|address| !nested.iter().any(|other| other.contains(address)))
}

/// The address after another; none after the last.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_add(1).map(|one| IpAddr::V4(one.into())),
        IpAddr::V6(address) => u128::from(address).checked_add(1).map(|one| IpAddr::V6(one.into())),
    }
}

/// Every grant of a policy.
fn grants(policy: &ServerPolicy) -> impl Iterator<Item = &Arc<Authorization>> {
    let of_routes = policy.routes.routes.iter().flat_map(|route| route.authorizations.iter());
    policy.authorizations.iter().chain(of_routes)
}

fn conditions(grant: &Arc<Authorization>) -> impl Iterator<Item = &Predicate> {
    let all = match &grant.requirement {
        Requirement::Nothing => &[],
        Requirement::All(conditions) => &conditions[..],
    };
    all.iter().map(|condition| &condition.test)
}

/// Requests of each match of both policies, of the routes that `counts`, and one of no particular route;
/// false if some match has none, or there were too many.
pub(crate) fn requests(
    policies: [&ServerPolicy; 2],
    counts: &dyn Fn(&Route) -> bool,
) -> (Vec<SampleRequest>, bool) {
    let everything = RequestMatch::everything();
    let mut all: Vec<SampleRequest> = SampleRequest::of(&everything, &[]);
    let mut complete = true;
    let mut known: BTreeSet<String> = BTreeSet::new();
    let routes = policies.into_iter().flat_map(|policy| &policy.routes.routes);
    for route in routes.filter(|route| counts(route)) {
        for rule in &route.rules {
            let stated = &rule.matches[..];
            let stated = if stated.is_empty() { std::slice::from_ref(&everything) } else { stated };
            for wanted in stated {
                let made = SampleRequest::of(wanted, &route.hosts);
                let hosts: BTreeSet<_> = made.iter().map(|one| &one.host).collect();
                complete &= !made.is_empty() && hosts.len() >= route.hosts.len();
                if all.len() < MAX_REQUESTS {
                    all.extend(made.into_iter().filter(|one| known.insert(format!("{one:?}"))));
                }
            }
        }
    }
    let segments: BTreeSet<&SegmentCondition> = policies
        .into_iter()
        .flat_map(grants)
        .flat_map(conditions)
        .filter_map(|test| match test {
            Predicate::Segment(condition) => Some(condition),
            Predicate::Network(_)
            | Predicate::MeshTls
            | Predicate::Identity(_)
            | Predicate::TlsPassthrough => None,
        })
        .collect();
    complete &= segments
        .iter()
        .all(|one| one.operator != SegmentOperator::In || one.values().len() <= MAX_TEXTS);
    let with_texts: Vec<SampleRequest> = segments
        .into_iter()
        .filter(|condition| condition.operator == SegmentOperator::In)
        .flat_map(|condition| all.iter().flat_map(|one| with_segment(one, condition)))
        .take(MAX_REQUESTS)
        .collect();
    all.extend(with_texts);
    complete &= all.len() < MAX_REQUESTS;
    (all, complete)
}

/// The request with each of the texts that a condition asks for.
fn with_segment(one: &SampleRequest, condition: &SegmentCondition) -> Vec<SampleRequest> {
    let Some(inner) = one.path.strip_prefix('/') else { return Vec::new() };
    let segments: Vec<&str> = inner.split('/').collect();
    let Ok(place) = usize::try_from(condition.place) else { return Vec::new() };
    if place >= segments.len() {
        return Vec::new();
    }
    let texts = condition.values().iter().take(MAX_TEXTS);
    let made = texts.map(|text| {
        let numbered = segments.iter().enumerate();
        let parts = numbered.map(|(at, own)| if at == place { &**text } else { *own });
        SampleRequest { path: format!("/{}", parts.collect::<Vec<_>>().join("/")), ..one.clone() }
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_network_is_in_no_network_that_is_nested_in_it() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let all = BTreeSet::from(["10.0.0.0/8", "10.0.0.0/16", "10.0.0.1/32"].map(net));
        let (found, complete) = places(&all);
        assert!(complete);
        for (address, words) in found {
            let Ok(own) = words.parse::<IpNet>() else { continue };
            let smaller = all.iter().filter(|other| own != **other && own.contains(*other));
            assert!(own.contains(&address), "{words}: {address}");
            assert!(!smaller.into_iter().any(|other| other.contains(&address)), "{words}");
        }
        let halves = BTreeSet::from(["10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9"].map(net));
        assert!(!places(&halves).1);
        let (everything, _) = places(&BTreeSet::from(["0.0.0.0/0", "::/0"].map(net)));
        assert_eq!(everything.len(), 2, "nothing is outside: {everything:?}");
    }
}
