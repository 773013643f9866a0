//! The promises, spelled out one object after another.

use super::world::{Action, Inbound, Leaf, Place, SERVERS, World, contains};

/// A claim of a root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The namespace and name of the root, by number.
    pub root: (usize, usize),
    /// The host.
    pub host: &'static str,
    /// The path.
    pub path: &'static str,
    /// True if the root holds the path of the host.
    pub active: bool,
}

/// Returns true if a pattern names a host.
pub(super) fn names(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern == host,
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|head| head.ends_with('.')),
    }
}

/// Returns true if some name has both patterns.
fn overlap(a: &str, b: &str) -> bool {
    let wide = |wide: &str, other: &str| {
        wide.starts_with("*.") && names(wide, other.trim_start_matches("*."))
    };
    a == b || wide(a, b) || wide(b, a)
}

/// Every claim of a world, decided one after another by all earlier ones.
pub fn claims(world: &World) -> Vec<Claim> {
    let (strict, wildcards) =
        world.admission.as_ref().map_or((true, false), |rules| (rules.strict, rules.wildcards));
    let mut roots: Vec<(&Inbound, &super::world::Root)> = world
        .inbound
        .iter()
        // An invalid one keeps what its status records.
        .filter(|object| object.valid || object.recorded)
        .filter_map(|object| Some((object, object.root.as_ref()?)))
        .collect();
    roots.sort_by_key(|(object, _)| {
        let timeless = object.edited && !object.recorded;
        (timeless, if timeless { 0 } else { object.created }, object.at)
    });
    let mut decided: Vec<Claim> = Vec::new();
    for (object, root) in roots {
        let outside = world.admission.as_ref().is_some_and(|rules| {
            !rules.namespaces.is_empty() && !rules.namespaces.contains(&object.at.0)
        });
        for host in &root.hosts {
            for (path, _) in &object.rules {
                let lost = decided.iter().filter(|other| other.active).any(|other| {
                    let foreign =
                        strict && other.root.0 != object.at.0 && overlap(other.host, host);
                    let same =
                        other.root != object.at && other.host == *host && other.path == *path;
                    foreign || same
                });
                let wild = host.starts_with('*') && !wildcards;
                let active = !outside && !wild && !lost;
                // What is not admitted has no time, and an invalid root keeps nothing without one.
                if !object.valid && (outside || wild) {
                    continue;
                }
                decided.push(Claim { root: object.at, host, path, active });
            }
        }
    }
    decided
}

/// Returns true if a Server may answer a path of a host: if a chain of objects leads to a rule
/// that names it, each of which contains the path, consents, and is granted. `claims` are those of the
/// world.
pub fn may_answer(
    (world, claims): (&World, &[Claim]),
    server: (usize, usize),
    host: &str,
    path: &str,
) -> bool {
    let near = |claim: &Claim| (!claim.host.starts_with('*'), claim.host.len());
    let of_host = |claim: &&Claim| claim.active && names(claim.host, host);
    let mut held: Vec<(usize, &Claim)> = claims.iter().enumerate().collect();
    held.retain(|(_, claim)| of_host(claim) && contains(claim.path, path));
    held.iter().any(|(at, claim)| {
        let Some(root) = world.inbound(claim.root) else { return false };
        // Within a namespace a name has all paths, and a longer claim has its own.
        let mut nearer = claims.iter().filter(of_host).filter(|other| near(other) > near(claim));
        let hidden = nearer.any(|other| other.root.0 == claim.root.0);
        // A nearer or longer claim takes nothing from the Servers of an earlier one of another namespace.
        let place = |claim: &Claim| (near(claim), claim.path.len());
        let longer = held.iter().filter(|(_, other)| place(other) > place(claim));
        let mut longer = longer.map(|(other_at, other)| (other_at, other.root.0 != claim.root.0));
        !hidden
            && longer.all(|(place, foreign)| foreign && place > at)
            && root.valid
            && longest(root, path).is_some_and(|(own, _)| *own == claim.path)
            && leads(world, &Way { claim, server, path }, root, &[claim.root])
    })
}

struct Way<'w> {
    claim: &'w Claim,
    server: Place,
    path: &'w str,
}

/// The rule of an object that has a path: its longest, because a delegator keeps what it lists.
fn longest<'o>(object: &'o Inbound, path: &str) -> Option<&'o (&'static str, Action)> {
    let own = object.rules.iter().filter(|(own, _)| contains(own, path));
    own.max_by_key(|(own, _)| own.len())
}

fn leads(world: &World, way: &Way<'_>, object: &Inbound, chain: &[Place]) -> bool {
    let Some((prefix, action)) = longest(object, way.path) else { return false };
    let target = world.inbound(way.claim.root).and_then(|root| root.root.as_ref()?.target);
    let of_root = target.map(|number| (way.claim.root.0, number));
    match action {
        Action::Servers(numbers) => object.at.0 == way.server.0 && numbers.contains(&way.server.1),
        Action::Serve => of_root == Some(way.server),
        Action::Inbound(at) => enters((world, way), object, *at, prefix, chain),
        Action::Selected(namespace) => {
            let with_label = world.inbound.iter().filter(|child| {
                child.labelled && child.at.0 == *namespace && granted(world, object, child.at)
            });
            let children: Vec<&Inbound> = with_label.collect();
            let root = children.iter().any(|child| child.root.is_some());
            // They are one set of rules: what one of them lists, no other hands down.
            let takes_part =
                |child: &&&Inbound| takes_part((world, way), object, child, prefix, chain);
            let own = |child: &Inbound| longest(child, way.path).map(|(own, _)| own.len());
            let of_set = children.iter().filter(takes_part).filter_map(|child| own(child)).max();
            let enters = |child: &&Inbound| {
                own(child) == of_set && enters((world, way), object, child.at, prefix, chain)
            };
            !root && children.iter().any(enters)
        }
        Action::Leaf(namespace) => {
            let granted = *namespace == object.at.0
                || world.grants.contains(&(object.at.0, *namespace, true, None));
            let leaf = world.leaves.iter().find(|leaf| leaf.namespace == *namespace);
            let agrees = |leaf: &&Leaf| {
                leaf.valid
                    && leaf.parents.contains(&object.at)
                    && leaf.hosts.iter().any(|own| {
                        // A name below it, or a wildcard.
                        *own == way.claim.host
                            || (own.starts_with('*')
                                && names(own, way.claim.host.trim_start_matches("*.")))
                    })
                    && leaf.matches.iter().all(|(own, _)| contains(prefix, own))
            };
            granted
                && leaf.filter(agrees).is_some_and(|leaf| {
                    let own = leaf.server.map(|number| (leaf.namespace, number));
                    own.or(of_root) == Some(way.server) && matches(leaf, way.path)
                })
        }
    }
}

fn matches(leaf: &Leaf, path: &str) -> bool {
    leaf.matches.iter().any(|(own, exact)| match exact {
        true => own == &path,
        false => contains(own, path),
    })
}

fn granted(world: &World, from: &Inbound, to: Place) -> bool {
    let grant = |name| world.grants.contains(&(from.at.0, to.0, false, name));
    from.at.0 == to.0 || grant(None) || grant(Some(to.1))
}

fn enters(
    (world, way): (&World, &Way<'_>),
    parent: &Inbound,
    at: Place,
    prefix: &str,
    chain: &[Place],
) -> bool {
    let Some(child) = world.inbound(at) else { return false };
    let below: Vec<Place> = chain.iter().copied().chain([at]).collect();
    takes_part((world, way), parent, child, prefix, chain) && leads(world, way, child, &below)
}

fn takes_part(
    (world, way): (&World, &Way<'_>),
    parent: &Inbound,
    child: &Inbound,
    prefix: &str,
    chain: &[Place],
) -> bool {
    let consents = child.consents.iter().any(|(host, named)| {
        *host == way.claim.host && named.is_none_or(|named| named == parent.at)
    });
    child.valid
        && child.root.is_none()
        && granted(world, parent, child.at)
        && consents
        && !chain.contains(&child.at)
        && child.rules.iter().all(|(own, _)| contains(prefix, own))
}

/// Returns true if objects of its namespace bind a Server to trees.
pub(super) fn is_bound(world: &World, server: Place) -> bool {
    naming(world, server).next().is_some() || leaves(world, server).next().is_some()
}

/// Returns true if an object of its namespace that names a Server names the host too.
pub(super) fn is_tree_host(world: &World, server: Place, host: &str) -> bool {
    let own = naming(world, server).flat_map(|object| {
        let consented = object.consents.iter().map(|(host, _)| *host);
        object.root.iter().flat_map(|root| root.hosts.iter().copied()).chain(consented)
    });
    let children = leaves(world, server).flat_map(|leaf| leaf.hosts.iter().copied());
    own.chain(children).any(|pattern| names(pattern, host))
}

fn naming(world: &World, server: Place) -> impl Iterator<Item = &Inbound> {
    world.inbound.iter().filter(move |object| {
        let target = object.root.as_ref().and_then(|root| root.target);
        let named = object
            .rules
            .iter()
            .any(|(_, action)| matches!(action, Action::Servers(all) if all.contains(&server.1)));
        object.at.0 == server.0 && (target == Some(server.1) || named)
    })
}

fn leaves(world: &World, server: Place) -> impl Iterator<Item = &Leaf> {
    world.leaves.iter().filter(move |leaf| {
        leaf.namespace == server.0 && leaf.server == Some(server.1) && !leaf.parents.is_empty()
    })
}

/// A world with a root less, whose claims no other root gets.
pub struct Fewer {
    /// The world without the root.
    pub world: World,
    /// The namespace and name of the root, by number.
    pub root: (usize, usize),
    /// Hosts and paths that it took: all paths of a host, if its namespace has a wildcard above.
    taken: Vec<(&'static str, &'static str)>,
    /// The Servers that it names.
    servers: Vec<Place>,
}

impl Fewer {
    /// Returns true if the root has nothing to do with a request.
    pub fn leaves(&self, server: (usize, usize), host: &str, path: &str) -> bool {
        let taken = |(own, from): &(&str, &str)| names(own, host) && contains(from, path);
        !self.servers.contains(&server) && !self.taken.iter().any(taken)
    }
}

/// Every world with a root less, whose claims no other root gets.
pub fn without_a_holder(world: &World) -> Vec<Fewer> {
    let before = claims(world);
    let roots = world.inbound.iter().enumerate().filter(|(_, object)| object.root.is_some());
    let fewer = roots.filter_map(|(i, object)| {
        let mut less = world.clone();
        less.inbound.remove(i);
        let (own, others): (Vec<Claim>, Vec<Claim>) =
            before.iter().cloned().partition(|claim| claim.root == object.at);
        let servers = (0..SERVERS.len()).map(|number| (object.at.0, number));
        let named = |server: &Place| naming(world, *server).any(|one| one.at == object.at);
        let servers = servers.filter(named).collect();
        let taken = own.iter().filter(|claim| claim.active).map(|claim| {
            let above = |other: &Claim| {
                other.active && other.root.0 == object.at.0 && other.host != claim.host
            };
            let hides = before.iter().any(|other| above(other) && overlap(other.host, claim.host));
            (claim.host, if hides { "/" } else { claim.path })
        });
        let taken = taken.collect();
        (claims(&less) == others).then_some(Fewer { world: less, root: object.at, taken, servers })
    });
    fewer.collect()
}

/// Every world with a root less that holds nothing, with the namespace of the root.
pub fn without_idle_roots(world: &World) -> Vec<(usize, World)> {
    let claims = claims(world);
    let idle = world.inbound.iter().enumerate().filter(|(_, object)| {
        object.root.is_some() && !claims.iter().any(|claim| claim.active && claim.root == object.at)
    });
    let less = idle.map(|(i, object)| {
        let mut less = world.clone();
        less.inbound.remove(i);
        (object.at.0, less)
    });
    less.collect()
}
