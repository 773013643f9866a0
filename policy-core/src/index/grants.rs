//! Authorization sets, indexed so that finding the first that holds does not depend on how many do
//! not.
//!
//! Each authorization is indexed by its most selective condition. The postings found there are
//! verified against the other conditions by the predicates of the model. Authorizations that depend
//! on the request are separate: they are evaluated for each request, and only those before the
//! first that holds for the connection.

use crate::authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement, Scope,
};
use crate::identity::{Identity, IdentityMatch};
use crate::index::at;
use crate::index::name_table::NameTable;
use crate::index::networks::Networks;
use crate::network::{NetworkMatch, NetworkSymbol, NetworkTerm};
use crate::request::{Connection, Subject, Tls};
use ipnet::IpNet;
use std::collections::HashMap;
use std::sync::Arc;

/// Up to this number, authorizations are tried in order.
const FEW: usize = 4;

/// The indexes of sets that are too large to be tried in order, by the address of the set. The
/// owner must keep the sets alive.
#[derive(Debug, Default)]
pub(crate) struct Grants(HashMap<usize, Arc<GrantIndex>, foldhash::fast::FixedState>);

/// A posting: the number of the authorization, and the condition and alternative it is indexed by.
#[derive(Clone, Copy, Debug)]
struct Posting {
    index: u32,
    condition: u32,
    alternative: u32,
}

/// The result of a set that stays valid for the life of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionGrants {
    /// The number of the first authorization that holds, of those that do not depend on requests.
    pub(crate) first: Option<u32>,
    /// True if one that depends on the request precedes it.
    pub(crate) has_request_grants: bool,
}

/// One set: postings, each list in order of the set.
#[derive(Debug, Default)]
pub(crate) struct GrantIndex {
    exact: NameTable<Vec<Posting>>,
    suffix: NameTable<Vec<Posting>>,
    any_identity: Vec<Posting>,
    mesh_tls: Vec<Posting>,
    passthrough: Vec<Posting>,
    networks: Networks<Vec<Posting>>,
    node_local: Vec<Posting>,
    cluster: Vec<Posting>,
    unconditional: Vec<Posting>,
    /// The numbers of the authorizations that depend on the request, ascending. They have no
    /// postings.
    of_request: Box<[u32]>,
}

/// The index key of one alternative of a condition.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum GrantKey<'a> {
    Exact(&'a Arc<str>),
    Suffix(&'a Arc<str>),
    AnyIdentity,
    MeshTls,
    Passthrough,
    Net(IpNet),
    Symbol(NetworkSymbol),
}

fn keys(test: &Predicate) -> Vec<GrantKey<'_>> {
    match test {
        Predicate::Identity(names) => names
            .iter()
            .map(|name| match name {
                IdentityMatch::Any => GrantKey::AnyIdentity,
                IdentityMatch::Exact(name) => GrantKey::Exact(name),
                IdentityMatch::Suffix(name) => GrantKey::Suffix(name),
            })
            .collect(),
        Predicate::Network(networks) => networks
            .iter()
            .map(|network| match network.term {
                NetworkTerm::Net(net) => GrantKey::Net(net.trunc()),
                NetworkTerm::Symbol(symbol) => GrantKey::Symbol(symbol),
            })
            .collect(),
        Predicate::MeshTls => vec![GrantKey::MeshTls],
        Predicate::TlsPassthrough => vec![GrantKey::Passthrough],
        Predicate::Segment(_) => Vec::new(),
    }
}

fn conditions(grant: &Authorization) -> &[Condition] {
    match &grant.requirement {
        Requirement::Nothing => &[],
        Requirement::All(conditions) => conditions,
    }
}

impl Grants {
    /// Indexes the large sets among `sets`; `known` returns an index that exists already.
    pub(crate) fn new<'a>(
        sets: impl Iterator<Item = &'a AuthorizationSet>,
        known: impl Fn(&AuthorizationSet) -> Option<Arc<GrantIndex>>,
    ) -> Self {
        let mut indexes = HashMap::default();
        // Sets are mostly shared; comparing addresses first saves hashing their contents.
        let mut by_content: HashMap<&AuthorizationSet, Arc<GrantIndex>> = HashMap::new();
        for set in sets.filter(|set| set.len() > FEW) {
            indexes.entry(set.address()).or_insert_with(|| {
                let new = || known(set).unwrap_or_else(|| Arc::new(GrantIndex::new(set)));
                Arc::clone(by_content.entry(set).or_insert_with(new))
            });
        }
        Self(indexes)
    }

    /// Returns the index of this set, if there is one.
    pub(crate) fn of(&self, set: &AuthorizationSet) -> Option<&Arc<GrantIndex>> {
        self.0.get(&set.address())
    }
}

/// Returns true if a set is too small for an index.
pub(crate) fn is_small(set: &AuthorizationSet) -> bool {
    set.len() <= FEW
}

/// Evaluates a set for a connection by trying its authorizations in order.
pub(crate) fn for_connection(
    set: &AuthorizationSet,
    connection: &Connection<'_>,
) -> ConnectionGrants {
    let subject = Subject::of_connection(connection);
    let mut has_request_grants = false;
    for (index, grant) in (0_u32..).zip(set.iter()) {
        match grant.scope() {
            Scope::Request => has_request_grants = true,
            Scope::Connection if grant.holds(&subject) => {
                return ConnectionGrants { first: Some(index), has_request_grants };
            }
            Scope::Connection => {}
        }
    }
    ConnectionGrants { first: None, has_request_grants }
}

/// The number of the first authorization that depends on the request and holds, of those before number
/// `end`.
pub(crate) fn for_request(
    set: &AuthorizationSet,
    end: Option<u32>,
    subject: &Subject<'_>,
) -> Option<u32> {
    let numbered = (0..end.unwrap_or(u32::MAX)).zip(set.iter());
    let mut of_request = numbered.filter(|(_, grant)| grant.scope() == Scope::Request);
    of_request.find(|(_, grant)| grant.holds(subject)).map(|(index, _)| index)
}

impl GrantIndex {
    fn new(set: &AuthorizationSet) -> Self {
        let mut common: HashMap<GrantKey<'_>, usize> = HashMap::new();
        for condition in set.iter().flat_map(|grant| conditions(grant)) {
            for key in keys(&condition.test) {
                let count = common.entry(key).or_default();
                *count = count.saturating_add(1);
            }
        }
        let mut grants = Self::default();
        let mut of_request = Vec::new();
        for (index, grant) in (0_u32..).zip(set.iter()) {
            if grant.scope() == Scope::Request {
                of_request.push(index);
                continue;
            }
            if grant.requirement == Requirement::Nothing {
                grants.unconditional.push(Posting { index, condition: 0, alternative: 0 });
                continue;
            }
            // The condition whose most common alternative is the rarest; then the shortest.
            let selective = (0_u32..).zip(conditions(grant)).min_by_key(|(_, condition)| {
                let keys = keys(&condition.test);
                let worst = keys.iter().filter_map(|key| common.get(key).copied()).max();
                (worst, keys.len())
            });
            // An empty list of conditions holds for no client and gets no posting.
            let Some((number, condition)) = selective else { continue };
            for (alternative, key) in (0_u32..).zip(keys(&condition.test)) {
                grants.file(key, Posting { index, condition: number, alternative });
            }
        }
        grants.of_request = of_request.into();
        grants
    }

    fn file(&mut self, key: GrantKey<'_>, posting: Posting) {
        let list = match key {
            GrantKey::Exact(name) => self.exact.entry(name, Vec::new),
            GrantKey::Suffix(name) => self.suffix.entry(name, Vec::new),
            GrantKey::Net(net) => self.networks.entry(net, Vec::new),
            GrantKey::AnyIdentity => &mut self.any_identity,
            GrantKey::MeshTls => &mut self.mesh_tls,
            GrantKey::Passthrough => &mut self.passthrough,
            GrantKey::Symbol(NetworkSymbol::NodeLocal) => &mut self.node_local,
            GrantKey::Symbol(NetworkSymbol::Cluster) => &mut self.cluster,
        };
        list.push(posting);
    }

    /// Evaluates `set`, from which this index was built, for a connection.
    pub(crate) fn for_connection(
        &self,
        set: &AuthorizationSet,
        connection: &Connection<'_>,
    ) -> ConnectionGrants {
        let first = self.first(set, connection);
        let of_request = self.of_request.first();
        let before = |index: &u32| first.is_none_or(|first| *index < first);
        ConnectionGrants { first, has_request_grants: of_request.is_some_and(before) }
    }

    /// As [`of_request`] of `set`, which this was made of.
    pub(crate) fn for_request(
        &self,
        set: &AuthorizationSet,
        end: Option<u32>,
        subject: &Subject<'_>,
    ) -> Option<u32> {
        let before = self.of_request.iter().take_while(|index| end.is_none_or(|end| **index < end));
        let mut held = before.filter(|index| at(set, **index).is_some_and(|g| g.holds(subject)));
        held.next().copied()
    }

    fn first(&self, set: &AuthorizationSet, connection: &Connection<'_>) -> Option<u32> {
        let subject = Subject::of_connection(connection);
        let mut best = None;
        let mut look = |list: &[Posting]| {
            for posting in list {
                if best.is_some_and(|best| best <= posting.index) {
                    return;
                }
                let grant = at(set, posting.index);
                if grant.is_some_and(|grant| verify(grant, *posting, &subject)) {
                    best = Some(posting.index);
                    return;
                }
            }
        };
        look(&self.unconditional);
        match connection.tls {
            Tls::Terminated(identity) => {
                look(&self.mesh_tls);
                if let Some(identity) = identity {
                    look(&self.any_identity);
                    if let Some(list) = self.exact.get(identity.as_str()) {
                        look(list);
                    }
                    if let Identity::Dns(name) = identity {
                        self.suffix.suffixes(name).for_each(|list| look(list));
                    }
                }
            }
            Tls::Passthrough => look(&self.passthrough),
            Tls::Absent => {}
        }
        self.networks.containing(connection.client).for_each(|list| look(list));
        look(&self.node_local);
        look(&self.cluster);
        best
    }
}

/// Returns true if `grant` holds for a client that meets the key of its posting.
fn verify(grant: &Authorization, posting: Posting, subject: &Subject<'_>) -> bool {
    (0_u32..).zip(conditions(grant)).all(|(number, condition)| {
        if number != posting.condition {
            return condition.test.holds(subject);
        }
        match &condition.test {
            // The block contains the client; its exceptions, or the networks of the symbol, are not
            // checked yet.
            Predicate::Network(networks) => {
                let network: Option<&NetworkMatch> = at(networks, posting.alternative);
                let Connection { client, tls: _, facts } = *subject.connection;
                network.is_some_and(|n| n.admits(client, facts))
            }
            Predicate::Identity(_) | Predicate::MeshTls | Predicate::TlsPassthrough => true,
            Predicate::Segment(_) => false,
        }
    })
}
