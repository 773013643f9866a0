//! TrafficTargets of the Service Mesh Interface (docs/smi.md): the pods of each are closed to everybody, and it
//! grants what `policy_crds` says that it allows. An invalid one grants nothing and closes its pods; where these
//! are not known, every pod of its namespace.

use crate::incremental::{Context, query};
use crate::query::grant::CreationOrder;
use crate::query::smi::{
    TargetGrant, TargetGrantOf, TargetSize, TargetSizeOf, TargetedPods, TargetedTraffic, Targets,
    TargetsIn, TargetsWithoutRoom,
};
use policy_core::{
    Authorization, Condition, IdentityMatch, Predicate, Requirement, Source, UnresolvedGrant,
};
use policy_crds::resource::{
    AllowedTraffic, IdentityBinding, SmiSpecs, TargetClient, TargetDestination, TargetRule,
    TargetSource, TrafficTarget,
};
use policy_crds::{Body, Claims, Invalid, Kind, Object, ObjectKey, Resource, principal};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

query!(TargetsIn, Arc<Targets>, targets_in);
query!(TargetGrantOf, Arc<TargetGrant>, target_grant);
query!(TargetSizeOf, TargetSize, target_size);
query!(TargetsWithoutRoom, Arc<BTreeSet<Arc<str>>>, without_room);

/// The most requests that the TrafficTargets of a namespace allow together. Each port that they name has them
/// all, and a sidecar compares a request with one after the other.
const MAX_REQUESTS: usize = 4096;
/// The most identities that they name together.
const MAX_IDENTITIES: usize = 16_384;
/// The most ports that they name together; each pod of theirs has a policy for each.
const MAX_PORTS: usize = 1024;

fn targets_in(query: &TargetsIn, cx: &mut Context<'_>) -> Arc<Targets> {
    let targets = cx.list(Kind::TrafficTarget, &query.0);
    let closed = targets.filter_map(|target| {
        let pods = pods(cx, target)?;
        Some((target.meta.key.name.clone(), pods))
    });
    Arc::new(closed.collect())
}

/// The pods that a TrafficTarget closes; `None`: none of its namespace.
fn pods(cx: &mut Context<'_>, target: &Object) -> Option<TargetedPods> {
    let destination = match &target.body {
        Body::Valid(Resource::TrafficTarget(target)) => Some(&target.destination),
        Body::Invalid(Invalid { claims: Claims::TrafficTarget { destination }, .. }) => {
            destination.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    Some(match destination {
        None => TargetedPods::Every,
        Some(TargetDestination::Account(name)) => TargetedPods::Account(name.clone()),
        Some(TargetDestination::Binding(name)) => {
            match binding(cx, &target.meta.key.beside(Kind::IdentityBinding, name)) {
                Some(IdentityBinding { account: Some(account), .. }) => {
                    TargetedPods::Account(account.clone())
                }
                Some(binding) if binding.selects_pods() => {
                    TargetedPods::Labels(binding.selectors.clone())
                }
                Some(_) | None => TargetedPods::Every,
            }
        }
    })
}

/// A valid IdentityBinding.
fn binding<'a>(cx: &mut Context<'a>, key: &ObjectKey) -> Option<&'a IdentityBinding> {
    match &cx.object(key)?.body {
        Body::Valid(Resource::IdentityBinding(binding)) => Some(binding),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The TrafficTargets that close a pod, by name.
pub(crate) fn targets_of(cx: &mut Context<'_>, object: &Object) -> BTreeSet<Arc<str>> {
    let Body::Valid(Resource::Pod(pod)) = &object.body else { return BTreeSet::new() };
    let targets = cx.query(&TargetsIn(object.meta.key.namespace.clone()));
    let selects = |pods: &TargetedPods| match pods {
        TargetedPods::Account(account) => *account == pod.service_account,
        TargetedPods::Labels(selectors) => {
            selectors.iter().any(|selector| selector.matches(&object.meta.labels))
        }
        TargetedPods::Every => true,
    };
    targets.iter().filter(|(_, pods)| selects(pods)).map(|(name, _)| name.clone()).collect()
}

/// The grant of each of these TrafficTargets of a namespace, with its name.
pub(crate) fn grants(
    cx: &mut Context<'_>,
    namespace: &Arc<str>,
    targets: &BTreeSet<Arc<str>>,
) -> Vec<(ObjectKey, Arc<TargetGrant>)> {
    let grant = |name: &Arc<str>| {
        let (namespace, name) = (namespace.clone(), name.clone());
        let key = ObjectKey { kind: Kind::TrafficTarget, namespace, name };
        let grant = cx.query(&TargetGrantOf(key.clone()));
        (key, grant)
    };
    targets.iter().map(grant).collect()
}

/// The ports that these TrafficTargets name.
pub(crate) fn named_ports(
    cx: &mut Context<'_>,
    namespace: &Arc<str>,
    targets: &BTreeSet<Arc<str>>,
) -> BTreeSet<NonZeroU16> {
    let grants = grants(cx, namespace, targets);
    let traffic = grants.iter().filter_map(|(_, grant)| grant.outcome.as_ref().ok());
    traffic.filter_map(|traffic| traffic.ports.as_deref()).flatten().copied().collect()
}

fn target_grant(query: &TargetGrantOf, cx: &mut Context<'_>) -> Arc<TargetGrant> {
    let nothing =
        |reason: String| Arc::new(TargetGrant { outcome: Err(reason.into()), lost: Arc::from([]) });
    let Some(object) = cx.object(&query.0) else { return nothing("it does not exist".to_owned()) };
    let target = match &object.body {
        Body::Valid(Resource::TrafficTarget(target)) => target,
        Body::Invalid(Invalid { errors, .. }) => {
            let first = errors.first().map_or_else(String::new, |error| format!(": {error}"));
            return nothing(format!("it is invalid{first}"));
        }
        Body::Valid(_) => return nothing("it is invalid".to_owned()),
    };
    let without_room = cx.query(&TargetsWithoutRoom(query.0.namespace.clone()));
    if without_room.contains(&query.0.name) {
        return nothing(format!(
            "the older TrafficTargets of its namespace leave no room for it: together they may allow \
             {MAX_REQUESTS} requests, each method of a match counted, and name {MAX_IDENTITIES} identities and \
             {MAX_PORTS} ports"
        ));
    }
    let mut lost = Vec::new();
    let outcome = traffic(cx, &query.0, target, &mut lost);
    Arc::new(TargetGrant { outcome: outcome.map_err(Into::into), lost: lost.into() })
}

fn target_size(query: &TargetSizeOf, cx: &mut Context<'_>) -> TargetSize {
    let object = cx.object(&query.0).map(|object| &object.body);
    let Some(Body::Valid(Resource::TrafficTarget(target))) = object else {
        return TargetSize::default();
    };
    let Ok(traffic) = traffic(cx, &query.0, target, &mut Vec::new()) else {
        return TargetSize::default();
    };
    let TargetedTraffic { authorization, ports, requests } = traffic;
    let identities = match &authorization.requirement {
        Requirement::All(conditions) => conditions.iter().map(|one| match &one.test {
            Predicate::Identity(names) => names.len(),
            Predicate::Network(_)
            | Predicate::Segment(_)
            | Predicate::MeshTls
            | Predicate::TlsPassthrough => 0,
        }),
        Requirement::Nothing => return TargetSize::default(),
    };
    let identities = identities.sum();
    TargetSize { requests: requests.map_or(0, |requests| requests.len()), identities, ports }
}

fn without_room(query: &TargetsWithoutRoom, cx: &mut Context<'_>) -> Arc<BTreeSet<Arc<str>>> {
    let mut targets: Vec<_> = cx.list(Kind::TrafficTarget, &query.0).collect();
    targets.sort_by_cached_key(|target| CreationOrder::of(&target.meta));
    let (mut requests, mut identities) = (0_usize, 0_usize);
    let mut ports = BTreeSet::new();
    let mut without = BTreeSet::new();
    for key in targets.iter().map(|target| &target.meta.key) {
        let size = cx.query(&TargetSizeOf(key.clone()));
        let own = size.ports.as_deref().into_iter().flatten();
        let more = own.clone().filter(|port| !ports.contains(*port)).count();
        let all_requests = requests.saturating_add(size.requests);
        let all_identities = identities.saturating_add(size.identities);
        if all_requests > MAX_REQUESTS
            || all_identities > MAX_IDENTITIES
            || ports.len().saturating_add(more) > MAX_PORTS
        {
            without.insert(key.name.clone());
        } else {
            (requests, identities) = (all_requests, all_identities);
            ports.extend(own.copied());
        }
    }
    Arc::new(without)
}

fn traffic(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    target: &TrafficTarget,
    lost: &mut Vec<String>,
) -> Result<TargetedTraffic, String> {
    if let TargetDestination::Binding(name) = &target.destination {
        let binding = binding(cx, &key.beside(Kind::IdentityBinding, name));
        if !binding.is_some_and(IdentityBinding::selects_pods) {
            return Err(format!("no valid IdentityBinding `{name}` selects its pods"));
        }
    }
    let bindings = source_bindings(cx, key, target);
    let clients = target.clients(&key.namespace, &bindings, lost);
    if clients.is_empty() {
        return Err("none of its sources has an identity".to_owned());
    }
    let specs = specs(cx, key, target);
    let AllowedTraffic { ports, requests } = target.allowed(&specs, lost)?;
    let identities = clients.iter().map(|client| identity(cx, client)).collect();
    let source = Source::Object(key.to_ref());
    let condition = Condition { source: source.clone(), test: Predicate::Identity(identities) };
    let requirement = Requirement::All([condition].into());
    let authorization = Arc::new(Authorization { source, requirement, audit: false });
    Ok(TargetedTraffic {
        authorization,
        ports: ports.map(Arc::new),
        requests: requests.map(Into::into),
    })
}

/// The valid HTTPRouteGroups and TCPRoutes that a TrafficTarget names.
fn specs<'a>(cx: &mut Context<'a>, key: &ObjectKey, target: &TrafficTarget) -> SmiSpecs<'a> {
    let mut specs = SmiSpecs::default();
    for rule in &target.rules {
        let (kind, name) = match rule {
            TargetRule::Http { group, .. } => (Kind::SmiHttpRouteGroup, group),
            TargetRule::Tcp(name) => (Kind::SmiTcpRoute, name),
            TargetRule::Unknown(_) => continue,
        };
        let Some(object) = cx.object(&key.beside(kind, name)) else { continue };
        if let Body::Valid(Resource::SmiRouteGroup(group)) = &object.body {
            specs.groups.insert(name.clone(), group);
        } else if let Body::Valid(Resource::SmiTcpRoute(route)) = &object.body {
            specs.tcp.insert(name.clone(), route);
        }
    }
    specs
}

/// The valid IdentityBindings that a TrafficTarget names among its sources, by namespace and name.
fn source_bindings<'a>(
    cx: &mut Context<'a>,
    key: &ObjectKey,
    target: &TrafficTarget,
) -> BTreeMap<(Arc<str>, Arc<str>), &'a IdentityBinding> {
    let mut bindings = BTreeMap::new();
    for source in &target.sources {
        let TargetSource::Binding(name) = source else { continue };
        let named = key.elsewhere(Kind::IdentityBinding, name);
        if let Some(binding) = binding(cx, &named) {
            bindings.insert((named.namespace, named.name), binding);
        }
    }
    bindings
}

/// The name in a client's certificate. A SPIFFE id of the mesh's own domain in the usual form is that of the
/// ServiceAccount.
fn identity(cx: &Context<'_>, client: &TargetClient) -> IdentityMatch {
    let account = |namespace: &Arc<str>, name: &Arc<str>| {
        IdentityMatch::Exact(cx.config.service_account_identity(namespace, name))
    };
    match client {
        TargetClient::Account(namespace, name) => account(namespace, name),
        TargetClient::Identity(identity) => {
            let own = match identity {
                IdentityMatch::Exact(text) => own_account(text, &cx.config.identity_domain),
                IdentityMatch::Any | IdentityMatch::Suffix(_) => None,
            };
            own.map_or_else(
                || identity.clone(),
                |(namespace, name)| account(&namespace.into(), &name.into()),
            )
        }
    }
}

/// The namespace and the name in `spiffe://DOMAIN/ns/NAMESPACE/sa/NAME`.
fn own_account<'a>(text: &'a str, domain: &str) -> Option<(&'a str, &'a str)> {
    let (of, namespace, name) = principal(text.strip_prefix("spiffe://")?)?;
    let is_own = of == domain && !namespace.contains('/') && !name.contains('/');
    is_own.then_some((namespace, name))
}

/// The grant of a TrafficTarget that is not in force on a port, with the reason.
pub(crate) fn withheld(key: &ObjectKey, reason: &str) -> UnresolvedGrant {
    UnresolvedGrant { source: key.to_ref(), reason: reason.into() }
}
