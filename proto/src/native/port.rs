//! The policy of a port as sent to clients of one feature set, and the changes between two such.

use super::downgrade::downgrade;
use super::revision::encode_revision;
use super::{write, write_route};
use crate::hash::StableHash;
use crate::messages as m;
use crate::unsupported::Unsupported;
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::feature::{self, Feature};
use policy_core::policy::{
    Exemption, InformationalHeaders, RouteTable, ServerPolicy, UpstreamReuse,
};
use policy_core::revision::Revision;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU16;
use std::sync::Arc;

/// One port's policy, encoded. Made once for all clients of one feature set and all pods of one
/// shape; what is per pod (port number, revision) is added by [`EncodedPort::full`] and [`diff`].
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedPort {
    header: m::PortHeader,
    authorizations: BTreeMap<u64, m::Authorization>,
    server: Vec<u64>,
    routes: BTreeMap<u64, m::Route>,
    order: Vec<u64>,
    required: Vec<String>,
    content: u64,
    unsupported: Vec<Unsupported>,
}

/// Encodes `policy` for a client with `features`. A part that such a client could not enforce is
/// omitted if that permits the same or less; else the port is denied. Either way it is reported by
/// [`EncodedPort::unsupported`].
pub fn encode_port(policy: &ServerPolicy, features: &BTreeSet<Feature>) -> EncodedPort {
    let (policy, unsupported) = downgrade(policy, features);
    let ServerPolicy {
        owner,
        protocol,
        deny,
        paths,
        informational_headers,
        upstream_reuse,
        authorizations,
        exemptions,
        routes: RouteTable { routes, hosts, otherwise },
        rate_limit,
        effects,
        withheld,
    } = &*policy;
    let mut grants = GrantTable::default();
    let server = grants.keys(authorizations);
    let header = m::PortHeader {
        owner: Some(write::owner(owner)),
        protocol: Some(write::protocol(*protocol)),
        deny: deny.map(|reason| reason.as_str().to_owned()),
        paths: write::paths(*paths),
        no_informational_headers: *informational_headers == InformationalHeaders::Disabled,
        reuse_without_body: *upstream_reuse == UpstreamReuse::WithoutBody,
        exemptions: exemptions.iter().map(|exemption| grants.exemption(exemption)).collect(),
        rate_limit: rate_limit.as_ref().map(write::rate_limit),
        effects: effects.iter().map(write_route::effect).collect(),
        withheld: withheld.iter().map(write::withheld).collect(),
        hosts: hosts
            .iter()
            .map(|(host, unmatched)| m::HostRule {
                host: Some(write::host(host)),
                unmatched: Some(write::unmatched(*unmatched)),
            })
            .collect(),
        otherwise: Some(write::unmatched(*otherwise)),
    };
    let mut encoded = EncodedPort {
        header,
        authorizations: BTreeMap::new(),
        server,
        routes: BTreeMap::new(),
        order: Vec::with_capacity(routes.len()),
        required: feature::required(&policy).into_iter().map(|f| f.as_str().to_owned()).collect(),
        content: 0,
        unsupported,
    };
    for route in routes {
        let key = free_key(&write_route::origin(&route.origin).encode_to_vec(), |key| {
            encoded.routes.contains_key(&key)
        });
        let keys = grants.keys(&route.authorizations);
        encoded.routes.insert(key, write_route::route(key, keys, route));
        encoded.order.push(key);
    }
    encoded.authorizations = grants.messages;
    encoded.content = content(&encoded);
    encoded
}

impl EncodedPort {
    /// Returns the full state, for a client that has none or an unknown one.
    pub fn full(&self, port: NonZeroU16, revision: &Revision) -> m::PortUpdate {
        m::PortUpdate {
            port: u32::from(port.get()),
            revision: Some(self.revision(revision)),
            ..self.update()
        }
    }

    /// Returns the hash of the message of [`EncodedPort::full`] without port and revision: the
    /// value of `Revision::content`. Stable between versions and machines. Equal hashes do not
    /// prove equal policies.
    pub fn content(&self) -> u64 {
        self.content
    }

    /// Returns the parts that could not be sent as they are.
    pub fn unsupported(&self) -> &[Unsupported] {
        &self.unsupported
    }

    fn revision(&self, revision: &Revision) -> m::Revision {
        m::Revision { content: self.content, ..encode_revision(revision) }
    }

    fn update(&self) -> m::PortUpdate {
        m::PortUpdate {
            port: 0,
            revision: None,
            base: None,
            required_features: self.required.clone(),
            header: Some(self.header.clone()),
            authorizations: self.authorizations.values().cloned().collect(),
            removed_authorizations: Vec::new(),
            server_authorizations: Some(m::KeyList {
                keep_first: 0,
                keys: self.server.clone(),
                keep_last: 0,
            }),
            routes: self.routes.values().cloned().collect(),
            removed_routes: Vec::new(),
            route_order: Some(m::KeyList { keep_first: 0, keys: self.order.clone(), keep_last: 0 }),
        }
    }
}

/// Returns the change from `old` to `new`. Its size depends on the difference.
pub fn diff(
    old: &EncodedPort,
    new: &EncodedPort,
    port: NonZeroU16,
    revision: &Revision,
) -> m::PortUpdate {
    m::PortUpdate {
        port: u32::from(port.get()),
        revision: Some(new.revision(revision)),
        base: Some(old.content),
        required_features: new.required.clone(),
        header: (old.header != new.header).then(|| new.header.clone()),
        authorizations: changed(&old.authorizations, &new.authorizations),
        removed_authorizations: removed(&old.authorizations, &new.authorizations),
        server_authorizations: edit(&old.server, &new.server),
        routes: changed(&old.routes, &new.routes),
        removed_routes: removed(&old.routes, &new.routes),
        route_order: edit(&old.order, &new.order),
    }
}

fn changed<T: Clone + PartialEq>(old: &BTreeMap<u64, T>, new: &BTreeMap<u64, T>) -> Vec<T> {
    new.iter().filter(|(key, item)| old.get(key) != Some(*item)).map(|(_, i)| i.clone()).collect()
}

fn removed<T>(old: &BTreeMap<u64, T>, new: &BTreeMap<u64, T>) -> Vec<u64> {
    old.keys().filter(|key| !new.contains_key(key)).copied().collect()
}

/// Returns the edit from one list to another; `None` if they are the same.
fn edit(old: &[u64], new: &[u64]) -> Option<m::KeyList> {
    if old == new {
        return None;
    }
    let first = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (old.get(first..)?, new.get(first..)?);
    let last = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let keys = new.get(..new.len().saturating_sub(last))?.to_vec();
    Some(m::KeyList {
        keep_first: u32::try_from(first).unwrap_or(u32::MAX),
        keys,
        keep_last: u32::try_from(last).unwrap_or(u32::MAX),
    })
}

fn content(port: &EncodedPort) -> u64 {
    let mut hash = StableHash::new();
    hash.write(&port.update().encode_to_vec());
    hash.finish()
}

/// A key for what these bytes name. The same bytes come again where a name stands for several
/// things; those are numbered in order of appearance.
fn free_key(name: &[u8], taken: impl Fn(u64) -> bool) -> u64 {
    let mut number = 0_u64;
    loop {
        let mut hash = StableHash::new();
        hash.write(&number.to_be_bytes());
        hash.write(name);
        let key = hash.finish();
        if key != 0 && !taken(key) {
            return key;
        }
        number = number.wrapping_add(1);
    }
}

/// Grants by key, each once.
#[derive(Default)]
struct GrantTable {
    messages: BTreeMap<u64, m::Authorization>,
    /// Keys by content.
    keys: HashMap<Arc<Authorization>, u64>,
    /// Keys of whole sets by where they are stored: most sets are shared.
    sets: HashMap<usize, (AuthorizationSet, Vec<u64>)>,
}

impl GrantTable {
    fn exemption(&mut self, exemption: &Exemption) -> m::Exemption {
        let Exemption { request, authorization } = exemption;
        m::Exemption {
            request: request.as_deref().map(write::request),
            authorization: self.key(authorization),
        }
    }

    fn keys(&mut self, set: &AuthorizationSet) -> Vec<u64> {
        if set.is_empty() {
            return Vec::new();
        }
        if let Some((_, keys)) = self.sets.get(&set.address()) {
            return keys.clone();
        }
        let keys: Vec<u64> = set.iter().map(|grant| self.key(grant)).collect();
        // Kept alive with its keys, so that the address stays its own.
        self.sets.insert(set.address(), (set.clone(), keys.clone()));
        keys
    }

    fn key(&mut self, grant: &Arc<Authorization>) -> u64 {
        if let Some(key) = self.keys.get(grant) {
            return *key;
        }
        let name = write::source(&grant.source).encode_to_vec();
        let key = free_key(&name, |key| self.messages.contains_key(&key));
        self.messages.insert(key, write::authorization(key, grant));
        self.keys.insert(Arc::clone(grant), key);
        key
    }
}
