//! Random worlds, made of any bytes.

use crate::testing::choices::Choices;
use std::collections::BTreeSet;

/// The namespaces; each has a pod with both Servers.
pub const NAMESPACES: [&str; 3] = ["n0", "n1", "n2"];
/// The Servers of each namespace.
pub const SERVERS: [&str; 2] = ["s", "t"];
/// The hosts that objects name.
pub const HOSTS: [&str; 5] = ["a.io", "x.a.io", "*.a.io", "*.x.a.io", "b.io"];
/// The hosts that are queried.
pub const ANSWERED_HOSTS: [&str; 5] = ["a.io", "x.a.io", "z.a.io", "y.x.a.io", "b.io"];
/// The paths that objects name.
pub const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/b", "/b/a"];
/// InboundRoutes of a namespace.
pub(super) const OBJECTS: usize = 3;

/// The namespace and name of an object, by number.
pub(super) type Place = (usize, usize);

/// A ReferenceGrant: from a namespace, to another, for HTTPRoutes instead of InboundRoutes, and for
/// objects of one name alone.
pub(super) type Grant = (usize, usize, bool, Option<usize>);

/// A world of few objects that are often connected.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) inbound: Vec<Inbound>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) grants: BTreeSet<Grant>,
    pub(super) admission: Option<Admission>,
    /// Open Servers grant every client everything.
    pub(super) open: bool,
    /// Policies: namespace, the number of an InboundRoute or none for Server `s`, and whether they
    /// ask for mesh TLS.
    pub(super) policies: BTreeSet<(usize, Option<usize>, bool)>,
    /// Namespaces with the authentication that policies ask for.
    pub(super) authentications: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Admission {
    pub(super) strict: bool,
    pub(super) wildcards: bool,
    pub(super) namespaces: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inbound {
    pub(super) at: Place,
    pub(super) created: usize,
    pub(super) edited: bool,
    pub(super) labelled: bool,
    pub(super) valid: bool,
    /// The status records its claims, if it is a root.
    pub(super) recorded: bool,
    pub(super) root: Option<Root>,
    pub(super) consents: Vec<(&'static str, Option<Place>)>,
    pub(super) rules: Vec<(&'static str, Action)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Root {
    pub(super) hosts: Vec<&'static str>,
    pub(super) target: Option<usize>,
    pub(super) mesh: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Servers(Vec<usize>),
    Serve,
    Inbound(Place),
    Leaf(usize),
    Selected(usize),
}

/// HTTPRoute `h` of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub(super) namespace: usize,
    pub(super) valid: bool,
    pub(super) parents: Vec<Place>,
    pub(super) server: Option<usize>,
    pub(super) hosts: Vec<&'static str>,
    /// Paths, each with whether it is exact.
    pub(super) matches: Vec<(&'static str, bool)>,
}

impl Choices<'_> {
    fn place(&mut self) -> Place {
        (self.below(NAMESPACES.len()), self.below(OBJECTS))
    }

    fn hosts(&mut self) -> Vec<&'static str> {
        let mut hosts = vec!["a.io"];
        match self.below(4) {
            0 | 1 => {}
            2 => hosts.push(HOSTS[1 + self.below(HOSTS.len() - 1)]),
            _ => hosts = vec![HOSTS[self.below(HOSTS.len())]],
        }
        hosts
    }

    fn paths_inside(&mut self, base: &str) -> Vec<&'static str> {
        let inside: Vec<_> = PATHS.into_iter().filter(|path| contains(base, path)).collect();
        let first = if self.one_in(2) { 0 } else { self.below(inside.len()) };
        let mut paths = vec![inside[first]];
        for _ in 0..self.below(3) {
            let path = inside[self.below(inside.len())];
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

/// Returns true if a path is another or above it.
pub(super) fn contains(above: &str, path: &str) -> bool {
    let mut own = path.split('/').filter(|one| !one.is_empty());
    above.split('/').filter(|one| !one.is_empty()).all(|one| own.next() == Some(one))
}

impl World {
    /// Reads a world from any bytes.
    pub fn read(data: &[u8]) -> Self {
        let mut from = Choices(data);
        let admission = (!from.one_in(6)).then(|| Admission {
            strict: from.one_in(4),
            wildcards: !from.one_in(3),
            namespaces: if from.one_in(6) { [from.below(3)].into() } else { BTreeSet::new() },
        });
        let open = !from.one_in(3);
        let mut inbound = Vec::new();
        for namespace in 0..NAMESPACES.len() {
            for name in 0..OBJECTS {
                if !from.one_in(6) {
                    inbound.push(one(&mut from, (namespace, name)));
                }
            }
        }
        let mut leaves = Vec::new();
        for namespace in 0..NAMESPACES.len() {
            if from.one_in(2) {
                leaves.push(leaf(&mut from, namespace));
            }
        }
        let mut grants = BTreeSet::new();
        let mut policies = BTreeSet::new();
        for to in 0..NAMESPACES.len() {
            for source in (0..NAMESPACES.len()).filter(|source| *source != to) {
                for route in [false, true] {
                    if !from.one_in(8) {
                        let named = !route && from.one_in(5);
                        let name = named.then(|| from.below(OBJECTS));
                        grants.insert((source, to, route, name));
                    }
                }
            }
            for _ in 0..from.below(4) {
                let target = (!from.one_in(3)).then(|| from.below(OBJECTS));
                policies.insert((to, target, from.one_in(2)));
            }
        }
        let authentications = (0..NAMESPACES.len()).filter(|_| !from.one_in(5)).collect();
        // Read last: what a world was before does not change.
        for object in inbound.iter_mut().filter(|object| object.root.is_some()) {
            object.recorded = from.below(3) == 1;
            object.valid &= from.below(8) != 1;
        }
        Self { inbound, leaves, grants, admission, open, policies, authentications }
    }

    pub(super) fn inbound(&self, at: Place) -> Option<&Inbound> {
        self.inbound.iter().find(|object| object.at == at)
    }

    /// Returns true if a namespace owns its hosts as a whole.
    pub(super) fn is_strict(&self) -> bool {
        self.admission.as_ref().is_none_or(|rules| rules.strict)
    }

    /// Every world with one ReferenceGrant or one consent less.
    pub fn with_less_delegation(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        for grant in &self.grants {
            let mut less = self.clone();
            less.grants.remove(grant);
            worlds.push(less);
        }
        for (i, object) in self.inbound.iter().enumerate() {
            for j in 0..object.consents.len().saturating_sub(1) {
                let mut less = self.clone();
                less.inbound[i].consents.remove(j);
                worlds.push(less);
            }
        }
        worlds
    }

    /// Every world with one policy or authentication less.
    pub fn with_less_permission(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        for policy in &self.policies {
            let mut less = self.clone();
            less.policies.remove(policy);
            worlds.push(less);
        }
        for namespace in &self.authentications {
            let mut less = self.clone();
            less.authentications.remove(namespace);
            worlds.push(less);
        }
        worlds
    }

    /// Every world whose RouteAdmissionPolicy admits roots of fewer namespaces, or no wildcards.
    pub fn with_narrower_admission(&self) -> Vec<Self> {
        let own = self.admission.clone().unwrap_or(Admission {
            strict: true,
            wildcards: false,
            namespaces: BTreeSet::new(),
        });
        let all = || {
            (0..NAMESPACES.len())
                .filter(|one| own.namespaces.is_empty() || own.namespaces.contains(one))
        };
        let alone = all().map(|one| Admission { namespaces: [one].into(), ..own.clone() });
        let named = Admission { wildcards: false, ..own.clone() };
        let narrower = alone.chain([named]);
        narrower.map(|admission| Self { admission: Some(admission), ..self.clone() }).collect()
    }

    /// Every world in which a root is invalid, with the one in which it was corrected then.
    pub fn with_a_broken_root(&self) -> Vec<(Self, Self)> {
        let roots = self.inbound.iter().enumerate();
        let roots = roots.filter(|(_, object)| object.root.is_some() && object.valid);
        let worlds = roots.map(|(i, _)| {
            let (mut broken, mut corrected) = (self.clone(), self.clone());
            broken.inbound[i].valid = false;
            corrected.inbound[i].edited = true;
            (broken, corrected)
        });
        worlds.collect()
    }

    /// Keeps the first valid root, and makes the selectors name one object. Then no path is given to
    /// several, and none falls to another if one loses it.
    pub fn alone(mut self) -> Self {
        let first = self.inbound.iter().position(|object| object.root.is_some());
        let mut at = 0;
        self.inbound.retain(|object| {
            let keep = object.root.is_none() || Some(at) == first;
            at += 1;
            keep
        });
        self.without_selectors()
    }

    /// Makes each selector name one object.
    pub fn without_selectors(mut self) -> Self {
        for object in &mut self.inbound {
            for (_, action) in &mut object.rules {
                if let Action::Selected(namespace) = action {
                    *action = Action::Inbound((*namespace, 0));
                }
            }
        }
        self
    }
}

fn one(from: &mut Choices<'_>, at: Place) -> Inbound {
    // Mostly a root, a child of its own, and a child of that.
    let root = (from.one_in(6) == (at.1 > 0)).then(|| Root {
        hosts: from.hosts(),
        target: (!from.one_in(3)).then(|| from.below(SERVERS.len())),
        mesh: from.one_in(6),
    });
    let mut consents: Vec<(&'static str, Option<Place>)> = Vec::new();
    if root.is_none() {
        let mut hosts = from.hosts();
        if from.one_in(2) && !hosts.contains(&"a.io") {
            hosts.push("a.io");
        }
        for host in hosts {
            consents.push((host, from.one_in(6).then(|| from.place())));
        }
    }
    let number = if from.one_in(4) { from.below(4) } else { at.1 };
    let base = if root.is_some() { "/" } else { PATHS[number] };
    let paths = from.paths_inside(base).into_iter();
    let rules = paths.map(|path| (path, action(from, &root, at))).collect();
    Inbound {
        at,
        created: from.below(3),
        edited: from.one_in(6),
        labelled: from.one_in(2),
        valid: !from.one_in(20),
        recorded: false,
        root,
        consents,
        rules,
    }
}

fn action(from: &mut Choices<'_>, root: &Option<Root>, at: Place) -> Action {
    match from.below(14) {
        0 => Action::Servers(vec![0]),
        1 => Action::Servers(vec![1, 0]),
        // A root cannot serve without a target.
        2 if root.as_ref().is_none_or(|root| root.target.is_some()) => Action::Serve,
        3 => Action::Leaf(from.below(NAMESPACES.len())),
        4 | 6 => Action::Selected(from.below(NAMESPACES.len())),
        5 => Action::Inbound(from.place()),
        // The farther down, the more is answered.
        n if n >= 14 - at.1 * 3 => Action::Servers(vec![from.below(SERVERS.len())]),
        _ => {
            let elsewhere = from.one_in(2);
            let namespace = if elsewhere { from.below(NAMESPACES.len()) } else { at.0 };
            Action::Inbound((namespace, (at.1 + 1) % OBJECTS))
        }
    }
}

fn leaf(from: &mut Choices<'_>, namespace: usize) -> Leaf {
    let base = PATHS[from.below(4)];
    let valid = !from.one_in(20);
    // Without any it is an ordinary route of its Server.
    let parents: Vec<Place> = (0..from.below(4)).map(|_| from.place()).collect();
    let wide = parents.is_empty() && from.one_in(2);
    Leaf {
        namespace,
        valid,
        server: (parents.is_empty() || from.one_in(2)).then(|| from.below(SERVERS.len())),
        parents,
        hosts: if wide { vec!["*.a.io"] } else { from.hosts() },
        matches: from.paths_inside(base).into_iter().map(|path| (path, from.one_in(3))).collect(),
    }
}
