//! What must hold of a world, and of one with less in it.

use super::oracle::{claims, is_bound, is_tree_host, may_answer};
use super::world::{ANSWERED_HOSTS, HOSTS, NAMESPACES, PATHS, Place, SERVERS, World};
use crate::contributions::{contributor, without};
use crate::query::claims::HostClaim;
use crate::{Compiled, ControllerConfig, compile_objects};
use policy_core::{
    Connection, Decision, Facts, HostPattern, Identity, Origin, RequestView, ServerPolicy, Tls,
    WorkloadKey, naive,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::sync::{Arc, LazyLock};

/// A request that a Server permits: the Server, the host, the path, and whether the client is meshed.
pub type Permitted = ((usize, usize), &'static str, &'static str, bool);

fn paths() -> &'static [String] {
    static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
        let below = PATHS.iter().map(|path| format!("{}/x", path.trim_end_matches('/')));
        PATHS.iter().map(|path| (*path).to_owned()).chain(below).collect()
    });
    &ALL
}

/// The requests that the Servers of a world permit, on Servers that are bound by trees and on the
/// hosts of these trees.
pub fn permitted(world: &World, compiled: &Compiled) -> BTreeSet<Permitted> {
    Decided::default().permitted(world, compiled)
}

/// The decisions of the Servers of one world after the other. A policy that is as it was decides as it did.
#[derive(Default)]
struct Decided(BTreeMap<Place, DecidedByPolicy>);

/// The paths that a policy permits on each host that was looked at, with and without a meshed client.
struct DecidedByPolicy {
    policy: Arc<ServerPolicy>,
    on_host: BTreeMap<&'static str, Vec<(&'static str, bool)>>,
}

impl Decided {
    fn permitted(&mut self, world: &World, compiled: &Compiled) -> BTreeSet<Permitted> {
        let mut found = BTreeSet::new();
        for (n, namespace) in NAMESPACES.iter().enumerate() {
            let key = WorkloadKey::pod(namespace, "web");
            let facts = &compiled.workloads[&key].state.facts;
            for s in (0..SERVERS.len()).filter(|s| is_bound(world, (n, *s))) {
                let port = NonZeroU16::new(8080 + u16::try_from(s).unwrap()).unwrap();
                let policy = compiled.port(&key, port).unwrap();
                let own = self.of((n, s), policy);
                for host in ANSWERED_HOSTS {
                    if is_tree_host(world, (n, s), host) {
                        let permitted = own.permitted(facts, host).iter();
                        found
                            .extend(permitted.map(|(path, meshed)| ((n, s), host, *path, *meshed)));
                    }
                }
            }
        }
        found
    }

    /// The decisions of the policy of a Server.
    fn of(&mut self, server: Place, policy: Arc<ServerPolicy>) -> &mut DecidedByPolicy {
        let new = || DecidedByPolicy { policy: Arc::clone(&policy), on_host: BTreeMap::new() };
        let own = self.0.entry(server).or_insert_with(new);
        if own.policy != policy {
            *own = new();
        }
        own
    }
}

impl DecidedByPolicy {
    fn permitted(&mut self, facts: &Facts, host: &'static str) -> &[(&'static str, bool)] {
        let policy = &*self.policy;
        self.on_host.entry(host).or_insert_with(|| {
            let all = paths().iter().flat_map(|path| [(path.as_str(), false), (path, true)]);
            let is_permitted = |(path, meshed): &(&'static str, bool)| {
                matches!(decide((policy, facts), host, path, *meshed), Decision::Permit(_))
            };
            all.filter(is_permitted).collect()
        })
    }
}

fn decide(
    (policy, facts): (&ServerPolicy, &Facts),
    host: &str,
    path: &str,
    meshed: bool,
) -> Decision {
    static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::Dns("a.b".into()));
    let tls = if meshed { Tls::Terminated(Some(&IDENTITY)) } else { Tls::Absent };
    let connection = Connection { client: Ipv4Addr::new(10, 9, 9, 9).into(), tls, facts };
    let headers = http::HeaderMap::new();
    let method = &http::Method::GET;
    let view = RequestView { method, host: Some(host), path, query: None, headers: &headers };
    naive::decide_request(policy, &connection, &view)
}

/// Holds the routes that are no children to the ownership of hosts: one with hostnames answers no host
/// that another namespace holds, if ownership is strict. Returns the number of requests that such
/// routes answer.
///
/// # Errors
/// The first request that one does.
pub fn routes_leave_hosts_to_their_owners(
    world: &World,
    compiled: &Compiled,
) -> Result<usize, String> {
    let held = claims(world);
    let mut answered = 0;
    let leaves = world.leaves.iter().filter(|leaf| leaf.parents.is_empty());
    for (leaf, s) in leaves.filter_map(|leaf| Some((leaf, leaf.server?))) {
        let n = leaf.namespace;
        let key = WorkloadKey::pod(NAMESPACES[n], "web");
        let port = NonZeroU16::new(8080 + u16::try_from(s).unwrap()).unwrap();
        let policy = compiled.port(&key, port).unwrap();
        let facts = &compiled.workloads[&key].state.facts;
        for host in ANSWERED_HOSTS {
            let foreign = held.iter().find(|claim| {
                claim.active && claim.root.0 != n && super::oracle::names(claim.host, host)
            });
            for path in paths() {
                let Decision::Permit(permit) = decide((&policy, facts), host, path, false) else {
                    continue;
                };
                let by = permit.route().map(|by| &policy.routes.routes[by.route as usize]);
                let own = by.filter(|route| {
                    matches!(route.origin, Origin::Objects(_)) && !route.hosts.is_empty()
                });
                answered += usize::from(own.is_some());
                if let (true, Some(route), Some(claim)) = (world.is_strict(), own, foreign) {
                    let origin = &route.origin;
                    return Err(format!("{origin:?} answers {host} {path}, held by {claim:?}"));
                }
            }
        }
    }
    Ok(answered)
}

/// Holds the policies of a world's ports to what is left of them without the contributions of these
/// namespaces: a request is permitted if and only if it was, by a rule of the rest.
///
/// # Errors
/// The first request that is not.
pub fn less_is_the_rest(compiled: &Compiled, namespaces: &[&str]) -> Result<usize, String> {
    let gone: BTreeSet<&str> = namespaces.iter().copied().collect();
    let mut changed = 0;
    for (n, namespace) in NAMESPACES.iter().enumerate() {
        let key = WorkloadKey::pod(namespace, "web");
        for s in 0..SERVERS.len() {
            let port = NonZeroU16::new(8080 + u16::try_from(s).unwrap()).unwrap();
            let policy = compiled.port(&key, port).unwrap();
            let facts = &compiled.workloads[&key].state.facts;
            let less = without(&policy, &gone);
            for (host, path) in
                ANSWERED_HOSTS.iter().flat_map(|h| paths().iter().map(move |p| (h, p)))
            {
                let before = decide((&policy, facts), host, path, true);
                let after = decide((&less, facts), host, path, true);
                let by = |policy: &ServerPolicy, decision: &Decision| match decision {
                    Decision::Permit(permit) => Some(
                        permit
                            .route()
                            .map(|by| policy.routes.routes[by.route as usize].origin.clone()),
                    ),
                    Decision::Deny(_) => None,
                };
                let (was, is) = (by(&policy, &before), by(&less, &after));
                let lost = was.as_ref().is_some_and(|origin| {
                    let origin = origin.as_ref();
                    origin
                        .and_then(|o| contributor(&policy.owner, o))
                        .is_some_and(|c| gone.contains(c))
                });
                changed += usize::from(lost);
                if is != (if lost { None } else { was.clone() }) {
                    return Err(format!("{n}/{s} {host} {path}: {was:?}, then {is:?}"));
                }
            }
        }
    }
    Ok(changed)
}

/// Holds a world to containment: what a Server permits on the host of a tree was handed to it.
///
/// # Errors
/// The first request that was not.
pub fn contained(world: &World, compiled: &Compiled) -> Result<(), String> {
    all_given(world, &permitted(world, compiled))
}

/// Holds what a world permits to what its Servers were handed.
fn all_given(world: &World, permitted: &BTreeSet<Permitted>) -> Result<(), String> {
    let claims = claims(world);
    for (server, host, path, _) in permitted {
        if !may_answer((world, &claims), *server, host, path) {
            return Err(format!("Server {server:?} answers {host} {path}, which nobody gave it"));
        }
    }
    Ok(())
}

/// Holds the claims on all hosts to those that are decided one after another.
///
/// # Errors
/// The first difference, or the first host or path that two hold.
pub fn claims_are_those_of_the_objects(world: &World, compiled: &Compiled) -> Result<(), String> {
    let expected = claims(world);
    let strict = world.is_strict();
    let found = HOSTS.map(|host| (host, compiled.claims_on(&HostPattern::parse(host))));
    let mut active: Vec<HostClaim<'_>> = Vec::new();
    for (host, found) in &found {
        let pattern = HostPattern::parse(host);
        let own = found.in_order().into_iter().filter(|claim| *claim.host == pattern);
        let mut own: Vec<(String, String, bool)> = own
            .map(|claim| {
                let root = format!("{}/{}", claim.root.namespace, claim.root.name);
                (root, claim.path.as_str().to_owned(), claim.is_active())
            })
            .collect();
        let wanted = expected.iter().filter(|claim| claim.host == *host);
        let mut wanted: Vec<(String, String, bool)> = wanted
            .map(|claim| {
                let root = format!("{}/r{}", NAMESPACES[claim.root.0], claim.root.1);
                (root, claim.path.to_owned(), claim.active)
            })
            .collect();
        own.sort();
        wanted.sort();
        if own != wanted {
            return Err(format!("{host}: claims are {own:?}, not {wanted:?}"));
        }
        active.extend(found.in_order().into_iter().filter(|c| *c.host == pattern && c.is_active()));
    }
    for (i, one) in active.iter().enumerate() {
        for other in active.iter().skip(i + 1) {
            let foreign = one.root.namespace != other.root.namespace;
            if strict && foreign && one.host.overlaps(other.host) {
                return Err(format!("two namespaces hold a host: {one:?} {other:?}"));
            }
            if one.host == other.host && one.path == other.path {
                return Err(format!("two roots hold a path: {one:?} {other:?}"));
            }
        }
    }
    Ok(())
}

/// Holds any bytes, read as a world, to containment, to the order of claims, and to removals that
/// permit nothing. The engine is told of each removal as of an event.
///
/// # Errors
/// The promise that is broken, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let first = World::read(data);
    let compiled = compile_objects(first.objects(), &ControllerConfig::default());
    let mut decided = Decided::default();
    let before = decided.permitted(&first, &compiled);
    all_given(&first, &before)?;
    claims_are_those_of_the_objects(&first, &compiled)?;
    routes_leave_hosts_to_their_owners(&first, &compiled)?;
    let mut world = first.clone();
    let mut permitted_by = |next: World| {
        compiled.change(world.changes_to(&next));
        world = next;
        decided.permitted(&world, &compiled)
    };
    for less in first.with_less_permission() {
        if let Some(added) = permitted_by(less).difference(&before).next() {
            return Err(format!("without a policy or an authentication {added:?} is permitted"));
        }
    }
    let alone = first.alone();
    let before = permitted_by(alone.clone());
    for less in alone.with_less_delegation() {
        if let Some(added) = permitted_by(less).difference(&before).next() {
            return Err(format!("without a grant or a consent {added:?} is permitted"));
        }
    }
    Ok(())
}
