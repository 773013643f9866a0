//! Requests that an edit of a route permits and that were refused before, because a match of it is gone
//! or broader.
//!
//! Requests are made of the matches of both versions, and each is decided by the policies of before and
//! after. What is quoted is therefore true of that very request. Not every edit is found out: nothing is
//! asked about regular expressions, nor on Servers of other namespaces.

use crate::config::ControllerConfig;
use crate::incremental::Memo;
use crate::index::Index;
use crate::query::policy::ServerBaseOf;
use crate::witness::{SampleRequest, paths};
use policy_core::{
    Authorization, Connection, Evaluator, Facts, HostPattern, Identity, IdentityMatch, Predicate,
    RequestMatch, Requirement, ServerPolicy, Tls,
};
use policy_crds::resource::RouteResource;
use policy_crds::{Body, FieldError, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The most matches of a version, and identities, that requests are made of.
const MAX_MATCHES: usize = 32;
const MAX_IDENTITIES: usize = 8;

/// The most Servers that are looked at.
pub(crate) const MAX_SERVERS: usize = 4;
/// The most decisions of a review, which keeps a thread busy.
pub(crate) const MAX_DECISIONS: usize = 20_000;

/// The most requests that a warning quotes.
const MAX_QUOTED: usize = 3;

/// An address of no cluster (RFC 5737).
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77));

/// An edit of a route, with the policies before it.
pub(crate) struct RouteEdit {
    old: RouteResource,
    new: RouteResource,
    servers: Vec<(ObjectKey, Arc<ServerPolicy>)>,
}

impl RouteEdit {
    /// An edit of a valid route; `None` for any other object, or one that is not there yet.
    pub(crate) fn new(index: &Index, config: &ControllerConfig, object: &Object) -> Option<Self> {
        let key = &object.meta.key;
        let (old, new) = (route(index.object(key)?)?.clone(), route(object)?.clone());
        let named = old.parents.iter().chain(&new.parents);
        let named = named.filter_map(|parent| ObjectKey::server_of(parent, &key.namespace));
        let servers: BTreeSet<ObjectKey> =
            named.filter(|server| server.namespace == key.namespace).take(MAX_SERVERS).collect();
        let mut memo = Memo::default();
        let servers = servers.into_iter().map(|server| {
            let policy = memo.query(&ServerBaseOf(server.clone()), index, config).0;
            (server, policy)
        });
        Some(Self { servers: servers.collect(), old, new })
    }

    /// The warning, if a request is permitted that was refused. `index` has the new version.
    pub(crate) fn widened(
        &self,
        index: &Index,
        memo: &mut Memo,
        config: &ControllerConfig,
    ) -> Option<FieldError> {
        let asked = self.requests();
        let mut texts = BTreeSet::new();
        let mut left = MAX_DECISIONS;
        for (server, before) in &self.servers {
            let after = memo.query(&ServerBaseOf(server.clone()), index, config).0;
            let facts = Facts { cluster: config.cluster_networks.clone(), ..Facts::default() };
            let clients = clients(&facts, &after);
            let [Ok(before), Ok(after)] = [before, &after].map(|one| Evaluator::build(one.clone()))
            else {
                continue;
            };
            for client in &clients {
                let connection = client.connection(&facts);
                let Some(rest) = left.checked_sub(asked.len().saturating_mul(2)) else { break };
                left = rest;
                let opened =
                    asked.iter().filter(|one| one.is_opened([&before, &after], &connection));
                texts.extend(opened.map(|request| format!("{request} {}", client.words)));
            }
        }
        let fact = "permits what was refused before, because a match is gone or broader";
        warning(&texts, "spec.rules", fact)
    }

    /// Requests of the matches that are gone, and of those that are broader than one of these.
    fn requests(&self) -> Vec<SampleRequest> {
        let (old, new): (Vec<_>, Vec<_>) =
            (self.old.matches().collect(), self.new.matches().collect());
        let same_hosts = self.old.hostnames == self.new.hostnames;
        let gone = old.iter().filter(|one| !same_hosts || !new.contains(one));
        let gone: Vec<&RequestMatch> = gone.copied().take(MAX_MATCHES).collect();
        let broader =
            |one: &&RequestMatch| !old.contains(one) && gone.iter().any(|gone| covers(one, gone));
        let broader = new.iter().copied().filter(broader).take(MAX_MATCHES);
        let of = |one: &RequestMatch, hosts: &[HostPattern]| SampleRequest::of(one, hosts);
        let mut all: Vec<SampleRequest> =
            gone.iter().flat_map(|one| of(one, &self.old.hostnames)).collect();
        all.extend(broader.flat_map(|one| of(one, &self.new.hostnames)));
        // Without hostnames it is for every host.
        if self.new.hostnames.is_empty() && !same_hosts {
            all.extend(new.iter().take(MAX_MATCHES).flat_map(|one| of(one, &[])));
        }
        all
    }
}

/// The warning about a field by which these requests are permitted; none without any.
pub(crate) fn warning(texts: &BTreeSet<String>, field: &str, fact: &str) -> Option<FieldError> {
    let quoted: Vec<&str> = texts.iter().map(String::as_str).take(MAX_QUOTED).collect();
    let more = match texts.len().saturating_sub(quoted.len()) {
        0 => String::new(),
        more => format!(", and {more} more like these"),
    };
    let message = format!("{fact}: {}{more}", quoted.join(", "));
    (!texts.is_empty()).then(|| FieldError { field: field.to_owned(), message })
}

fn route(object: &Object) -> Option<&RouteResource> {
    match &object.body {
        Body::Valid(Resource::Route(route)) => Some(route),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// True if a match takes all that another one takes, as far as requests that are made of it tell.
fn covers(wide: &RequestMatch, narrow: &RequestMatch) -> bool {
    let (path, method, headers, query) = wide.parts();
    let (_, own_method, own_headers, own_query) = narrow.parts();
    let paths = paths(&narrow.path);
    !paths.is_empty()
        && paths.iter().all(|own| path.admits(own))
        && method.is_none_or(|method| own_method == Some(method))
        && headers.iter().all(|header| own_headers.contains(header))
        && query.iter().all(|parameter| own_query.contains(parameter))
}

/// A client.
struct Client {
    address: IpAddr,
    identity: Option<Identity>,
    words: &'static str,
}

impl Client {
    fn connection<'a>(&'a self, facts: &'a Facts) -> Connection<'a> {
        let tls = match &self.identity {
            Some(identity) => Tls::Terminated(Some(identity)),
            None => Tls::Absent,
        };
        Connection { client: self.address, tls, facts }
    }
}

/// Clients of each kind, and those that grants of a policy name. The identities themselves are not quoted,
/// because a grant may name some of other namespaces.
fn clients(facts: &Facts, policy: &ServerPolicy) -> Vec<Client> {
    let plain = |address, words| Client { address, identity: None, words };
    let meshed = |name: &str, words| {
        let dns = || Identity::Dns(name.into());
        let is_spiffe = name.starts_with("spiffe://");
        let identity = if is_spiffe { Identity::Spiffe(name.into()) } else { dns() };
        Client { address: OUTSIDE, identity: Some(identity), words }
    };
    let mut all = vec![plain(OUTSIDE, "without an identity")];
    let inside = facts.cluster.first().map(|network| network.addr());
    all.extend(
        inside.map(|address| plain(address, "from inside the cluster, without an identity")),
    );
    all.push(meshed("client.invalid", "with any identity"));
    let own = policy.routes.routes.iter().flat_map(|route| route.authorizations.iter());
    let named: BTreeSet<String> =
        policy.authorizations.iter().chain(own).flat_map(|grant| identities(grant)).collect();
    let named = named.iter().take(MAX_IDENTITIES);
    all.extend(named.map(|name| meshed(name, "with an identity that a policy names")));
    all
}

/// Identities that a grant names.
fn identities(grant: &Authorization) -> Vec<String> {
    let Requirement::All(conditions) = &grant.requirement else { return Vec::new() };
    let named = conditions.iter().flat_map(|condition| match &condition.test {
        Predicate::Identity(names) => &names[..],
        Predicate::Network(_)
        | Predicate::MeshTls
        | Predicate::TlsPassthrough
        | Predicate::Segment(_) => &[],
    });
    let name = |one: &IdentityMatch| match one {
        IdentityMatch::Any => None,
        IdentityMatch::Exact(name) => Some(name.to_string()),
        IdentityMatch::Suffix(name) => Some(format!("x.{name}")),
    };
    named.filter_map(name).collect()
}
