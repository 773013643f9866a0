//! Requests that an edit of an object of policy permits and that were refused before, because it restricts
//! less. Routes, which have matches of their own to compare, are [`crate::widened`]'s.
//!
//! Requests are made of the routes of the object's own namespace before the edit, and clients of the
//! conditions of grants that it had part in before: whom an edit admits by name was meant. Each request is
//! decided by the policies of before and after, so that what is quoted is true of it. Not every edit is found
//! out: nothing is decided on Servers of other namespaces.

use crate::client_witness::{ClientWitness, clients, requests};
use crate::config::ControllerConfig;
use crate::incremental::Memo;
use crate::index::Index;
use crate::query::effective_servers::EffectiveServersOf;
use crate::query::policy::{PolicyOf, ServerBaseOf};
use crate::query::workload::{WorkloadOf, workload_key};
use crate::widened::{MAX_DECISIONS, MAX_SERVERS, warning};
use policy_core::{
    Authorization, Evaluator, Facts, Origin, Requirement, Route, ServerPolicy, Source, WorkloadKey,
};
use policy_crds::resource::{Server, WorkloadSelector};
use policy_crds::spec::ReferenceTarget::One;
use policy_crds::{Body, Field, FieldError, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Kinds whose objects decide who may do what, but for routes.
const KINDS: [Kind; 14] = [
    Kind::Server,
    Kind::ServerAuthorization,
    Kind::AuthorizationPolicy,
    Kind::MeshTlsAuthentication,
    Kind::NetworkAuthentication,
    Kind::ReferenceGrant,
    Kind::InboundRoute,
    Kind::HttpRouteGroup,
    Kind::HttpRouteBinding,
    Kind::HttpRouteClass,
    Kind::GrpcService,
    Kind::GrpcServiceBinding,
    Kind::GrpcServiceClass,
    Kind::RouteAdmissionPolicy,
];

/// Kinds that say who a client has to be. Their edits are tried with the clients of their own grants.
const OF_CLIENTS: [Kind; 4] = [
    Kind::ServerAuthorization,
    Kind::AuthorizationPolicy,
    Kind::MeshTlsAuthentication,
    Kind::NetworkAuthentication,
];

/// The most workloads of a Server that are looked at.
const MAX_WORKLOADS: usize = 64;

/// The fewest clients that every request is tried with: any identity, none, and both kinds of TLS without.
const LEAST_CLIENTS: usize = 4;

/// An edit of an object, with the policies before it.
pub(crate) struct PolicyEdit {
    key: ObjectKey,
    before: Vec<(ComparedPolicy, Arc<ServerPolicy>)>,
}

/// A policy that is compared.
enum ComparedPolicy {
    /// The policy that a Server gives its ports.
    Server(ObjectKey),
    /// A port of a workload, which an edit of its Server may leave to its default policy.
    Port(WorkloadKey, NonZeroU16),
}

impl ComparedPolicy {
    fn policy(
        &self,
        index: &Index,
        memo: &mut Memo,
        config: &ControllerConfig,
    ) -> Option<Arc<ServerPolicy>> {
        Some(match self {
            Self::Server(key) => memo.query(&ServerBaseOf(key.clone()), index, config).0,
            Self::Port(workload, port) => {
                let resolved = memo.query(&WorkloadOf(workload.clone()), index, config).0?;
                let of = PolicyOf { shape: resolved.shape.clone(), port: *port };
                memo.query(&of, index, config).0
            }
        })
    }
}

impl PolicyEdit {
    /// An edit of a valid object; `None` for one that is not there yet or decides nothing.
    pub(crate) fn new(index: &Index, config: &ControllerConfig, object: &Object) -> Option<Self> {
        let key = &object.meta.key;
        let stored = index.object(key).filter(|_| KINDS.contains(&key.kind))?;
        let (Body::Valid(old), Body::Valid(new)) = (&stored.body, &object.body) else {
            return None;
        };
        // Grants select Servers by their labels.
        let relabelled = key.kind == Kind::Server && stored.meta.labels != object.meta.labels;
        if old == new && !relabelled {
            return None;
        }
        let mut memo = Memo::default();
        let places = if let Resource::Server(server) = old {
            ports(index, &mut memo, config, (key, server))
        } else {
            servers(index, &mut memo, config, key)
        };
        let compiled = places.into_iter().filter_map(|place| {
            let policy = place.policy(index, &mut memo, config)?;
            Some((place, policy))
        });
        Some(Self { key: key.clone(), before: compiled.collect() })
    }

    /// The warning, if a request is permitted that was refused. `index` has the new version.
    pub(crate) fn widened(
        &self,
        index: &Index,
        memo: &mut Memo,
        config: &ControllerConfig,
    ) -> Option<FieldError> {
        let (mut opened, mut left) = (BTreeSet::new(), MAX_DECISIONS);
        let mut known: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (at, (place, before)) in self.before.iter().enumerate() {
            let Some(after) = place.policy(index, memo, config) else { continue };
            let pair = (Arc::as_ptr(before).addr(), Arc::as_ptr(&after).addr());
            if *before == after || !known.insert(pair) {
                continue;
            }
            let places = self.before.len().saturating_sub(at);
            let share = left.checked_div(places).unwrap_or_default();
            let made = self.compare([before, &after], config, share, &mut opened);
            left = left.saturating_sub(made);
        }
        warning(&opened, "spec", "permits what was refused before")
    }

    /// Adds the requests that the second policy permits and the first refuses; returns the number of
    /// decisions, at most `share`. Clients of every name and of none come before those of one name.
    fn compare(
        &self,
        [before, after]: [&Arc<ServerPolicy>; 2],
        config: &ControllerConfig,
        share: usize,
        opened: &mut BTreeSet<String>,
    ) -> usize {
        let [Ok(old), Ok(new)] = [before, after].map(|one| Evaluator::build(one.clone())) else {
            return 0;
        };
        let facts = Facts { cluster: config.cluster_networks.clone(), ..Facts::default() };
        let (clients, _) = clients([before; 2], &facts, &|grant| self.has_part_in(grant));
        let (mut requests, _) = requests([before; 2], &|route| self.may_name(route));
        requests.truncate(share.checked_div(LEAST_CLIENTS.saturating_mul(2)).unwrap_or_default());
        let mut made = 0_usize;
        for client in std::iter::once(&ClientWitness::any_identity()).chain(&clients) {
            let more = made.saturating_add(requests.len().saturating_mul(2));
            if more > share {
                break;
            }
            made = more;
            let connection = client.connection(&facts);
            let found = requests.iter().filter(|one| one.is_opened([&old, &new], &connection));
            opened.extend(found.map(|request| format!("{request} {}", client.kind_in_words())));
        }
        made
    }

    /// True if clients are made of the conditions of a grant.
    fn has_part_in(&self, grant: &Authorization) -> bool {
        if !OF_CLIENTS.contains(&self.key.kind) {
            return true;
        }
        let own = Source::Object(self.key.to_ref());
        let conditions = match &grant.requirement {
            Requirement::Nothing => &[],
            Requirement::All(conditions) => &conditions[..],
        };
        grant.source == own || conditions.iter().any(|condition| condition.source == own)
    }

    /// True if requests may be made of a route: its author need not be allowed to read those of others.
    fn may_name(&self, route: &Route) -> bool {
        match &route.origin {
            Origin::Objects(objects) => {
                objects.iter().all(|object| *object.namespace() == *self.key.namespace)
            }
            Origin::Unreadable(object) => *object.namespace() == *self.key.namespace,
            Origin::Default | Origin::Probe | Origin::Guard | Origin::Deny(_) => true,
            Origin::Delegated(_) | Origin::Undelegated(_) => false,
        }
    }
}

/// The Servers of the namespace of an object, first those through which it takes effect. An edit may bring
/// it to others.
fn servers(
    index: &Index,
    memo: &mut Memo,
    config: &ControllerConfig,
    key: &ObjectKey,
) -> Vec<ComparedPolicy> {
    let names_it = |object: &Object| {
        let mut references = object.references().into_iter();
        references.any(|it| it.field == Field::Authentication && it.what == One(key.clone()))
    };
    let policies = index.list(Kind::AuthorizationPolicy, &key.namespace);
    let users = policies.filter(|policy| names_it(policy)).map(|policy| policy.meta.key.clone());
    let mut servers: Vec<ObjectKey> = Vec::new();
    let mut known = BTreeSet::new();
    let mut add = |server: &ObjectKey| {
        if server.namespace == key.namespace && known.insert(server.clone()) {
            servers.push(server.clone());
        }
        servers.len() < MAX_SERVERS
    };
    for object in std::iter::once(key.clone()).chain(users) {
        let effective = memo.query(&EffectiveServersOf(object), index, config).0;
        if !effective.servers.iter().all(&mut add) {
            break;
        }
    }
    let mut others = index.list(Kind::Server, &key.namespace);
    others.all(|server| add(&server.meta.key));
    servers.truncate(MAX_SERVERS);
    servers.into_iter().map(ComparedPolicy::Server).collect()
}

/// The ports that a Server owns, or would own: one of those that have the same policy.
fn ports(
    index: &Index,
    memo: &mut Memo,
    config: &ControllerConfig,
    (key, server): (&ObjectKey, &Server),
) -> Vec<ComparedPolicy> {
    let (kind, selector) = match &server.workloads {
        WorkloadSelector::Pods(selector) => (Kind::Pod, selector),
        WorkloadSelector::ExternalWorkloads(selector) => (Kind::ExternalWorkload, selector),
    };
    let inside = index.list(kind, &key.namespace);
    let selected = inside.filter(|object| selector.matches(&object.meta.labels));
    let keys = selected.filter_map(|object| workload_key(&object.meta.key)).take(MAX_WORKLOADS);
    let (mut places, mut known) = (Vec::new(), BTreeSet::new());
    for workload in keys {
        let Some(resolved) = memo.query(&WorkloadOf(workload.clone()), index, config).0 else {
            continue;
        };
        for port in resolved.shape.ports_meant(&server.port).iter() {
            let of = PolicyOf { shape: resolved.shape.clone(), port: *port };
            if places.len() < MAX_SERVERS && known.insert(of) {
                places.push(ComparedPolicy::Port(workload.clone(), *port));
            }
        }
    }
    places
}
