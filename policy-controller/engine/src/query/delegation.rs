//! Host ownership and route delegation: rules in effect, claims, trees, and what they give a Server.

use super::claims::ClaimOrder;
use super::condition::Reason;
use super::tree_places::TreePlaces;
use policy_core::{Condition, HostPattern, Route};
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The admission of hosts in effect: the RouteAdmissionPolicy `default`, or the strict rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AdmissionRules;

/// The claims of a root before others are looked at, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RootClaims(pub(crate) ObjectKey);

/// True if a root that may claims the wildcard with this suffix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClaimedWildcard(pub(crate) Arc<str>);

/// The owners of hosts under the wildcard with this suffix, which no claimed wildcard covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnersUnder(pub(crate) Arc<str>);

/// The owners of other hosts that overlap with a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnersAround(pub(crate) HostPattern);

/// True if a host below a name belongs to another namespace than this one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnedBelow {
    /// The name.
    pub(crate) suffix: Arc<str>,
    /// The namespace.
    pub(crate) namespace: Arc<str>,
}

/// The claims on a host, none marked as shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DecidedClaims(pub(crate) HostPattern);

/// The active claims on a host, none marked as shared. Claims that are lost change nothing here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ActiveClaims(pub(crate) HostPattern);

/// The claims on a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClaimsOn(pub(crate) HostPattern);

/// The claims on a host and on all hosts that overlap with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OverlappingClaims(pub(crate) HostPattern);

/// The roots with an active claim on a host, in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HoldersOf(pub(crate) HostPattern);

/// The roots with a valid host below this name, each with those hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RootsUnder(pub(crate) Arc<str>);

/// The InboundRoutes of a namespace with these labels, by name; whatever they say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Labelled {
    /// The namespace.
    pub(crate) namespace: Arc<str>,
    /// The labels.
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// The tree of a root.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TreeOf(pub(crate) ObjectKey);

/// The objects that the tree of a root reaches, or refuses to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectsIn(pub(crate) ObjectKey);

/// The paths of a host, over all trees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathsOf(pub(crate) HostPattern);

/// The hosts of which trees decide on a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TreeHostsOf(pub(crate) ObjectKey);

/// True if trees decide of a host on a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct IsTreeHost {
    /// The Server.
    pub(crate) server: ObjectKey,
    /// The host.
    pub(crate) host: HostPattern,
}

/// The routes that one tree gives a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TreeRoutesOf {
    /// The root.
    pub(crate) root: ObjectKey,
    /// The Server.
    pub(crate) server: ObjectKey,
}

/// The same, met with the constraints of the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConstrainedRoutesOf {
    /// The root.
    pub(crate) root: ObjectKey,
    /// The Server.
    pub(crate) server: ObjectKey,
}

/// The routes that trees give a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DelegatedRoutesOf(pub(crate) ObjectKey);

/// The owner of a host whose ownership is strict: the root of the claim by which its namespace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostOwner {
    /// The root.
    pub(crate) root: ObjectKey,
    /// The host.
    pub(crate) host: HostPattern,
    /// The place of its claim.
    pub(crate) order: ClaimOrder,
}

/// The owners under a wildcard that others have to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerTable {
    /// Those of wildcards, by suffix.
    pub(crate) wildcards: HashMap<Arc<str>, HostOwner>,
    /// Of those below each name, the first two of different namespaces.
    pub(crate) below: HashMap<Arc<str>, Vec<HostOwner>>,
}

/// The tree of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegationTree {
    /// Conditions that every grant in the tree is met with.
    pub constraints: Arc<[Condition]>,
    /// The rules of the root and of everything that it delegates to, each behind the rule that leads
    /// to it.
    pub nodes: Vec<TreeNode>,
    /// The places of objects in `nodes`, so that the state of one does not cost a pass over all.
    places: TreePlaces,
}

/// One rule of an object, as one chain reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The objects from the root to the one that holds the rule.
    pub chain: Arc<[ObjectKey]>,
    /// Its match. Of a route: the path that is delegated to it.
    pub path: PathPrefix,
    /// The hosts that reach it, in the order of the root.
    pub hosts: Arc<[HostPattern]>,
    /// Its effect.
    pub effect: NodeEffect,
}

/// The effect of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEffect {
    /// These Servers answer.
    Serves {
        /// Servers of the namespace of the object, or the one of the root.
        servers: Vec<ObjectKey>,
        /// Those that cannot answer, of several that are named.
        refused: Vec<EdgeFault>,
        /// True if grants on the Server count.
        inherits_server: bool,
    },
    /// These Servers answer what a route matches, and deny the rest of the path.
    Route {
        /// Servers of the namespace of the route, or the one of the root.
        servers: Vec<ObjectKey>,
        /// The parts of the route without what belongs to its ancestors; shared by all Servers.
        routes: Arc<[Arc<Route>]>,
    },
    /// Others answer. What they do not match is denied.
    Delegates {
        /// The objects that take part.
        children: Vec<ObjectKey>,
        /// Those that do not, of several that are selected, and hosts that none of them lists.
        refused: Vec<EdgeFault>,
    },
    /// The path is denied, for these reasons; there is at least one.
    Denied(Vec<EdgeFault>),
    /// An ancestor, or an older object, has the path.
    Shadowed,
    /// Another root holds the path of every host.
    Inactive,
}

/// The reason why a delegation is refused, or why a Server cannot answer a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeFault {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: Arc<str>,
    /// The object, where the delegator may know of it.
    pub child: Option<ObjectKey>,
    /// The hosts on which the path is denied for it; empty: the object takes no part at all.
    pub hosts: Vec<HostPattern>,
}

/// The hosts that roots hold below the wildcard with this suffix, as Servers have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamesBelowOf(pub(crate) Arc<str>);

/// See [`NamesBelowOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamesBelow {
    /// The hosts.
    pub(crate) listed: BTreeSet<HostPattern>,
    /// True if there are more that were claimed before the wildcard than a Server has: it is denied as a whole.
    pub(crate) is_crowded: bool,
}

/// See [`TreeHostsOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeHosts {
    /// True if an InboundRoute of its namespace names the Server, valid or not.
    pub(crate) bound: bool,
    /// The hosts on which nothing counts but trees.
    pub(crate) hosts: BTreeSet<HostPattern>,
}

/// See [`TreeRoutesOf`]. Equal parts of two answers are one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeRoutes {
    /// The conditions that grants are met with.
    pub(crate) constraints: Arc<[Condition]>,
    /// The routes of what it answers.
    pub(crate) answered: Vec<Arc<Route>>,
    /// Those that deny what it would answer otherwise.
    pub(crate) denied: Vec<Arc<Route>>,
}

/// The routes that trees give a Server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelegatedRoutes {
    /// See [`TreeHosts`].
    pub(crate) hosts: Arc<TreeHosts>,
    /// The part of each tree, by root.
    pub(crate) parts: Vec<(ObjectKey, Arc<TreeRoutes>)>,
}

impl HostOwner {
    /// True if it is in another namespace.
    pub(crate) fn is_foreign(&self, namespace: &str) -> bool {
        *self.root.namespace != *namespace
    }
}

impl DelegationTree {
    pub(crate) fn new(constraints: Arc<[Condition]>, nodes: Vec<TreeNode>) -> Self {
        let mut places = TreePlaces::default();
        let mut at = 0_usize;
        // Rules of one object, reached by one chain, follow one another.
        for group in nodes.chunk_by(|one, next| Arc::ptr_eq(&one.chain, &next.chain)) {
            let chain = group.first().map_or(&[][..], |node| &node.chain);
            let end = at.saturating_add(group.len());
            places.add(chain, at..end, group.iter().flat_map(TreeNode::servers));
            for (number, node) in (at..end).zip(group) {
                node.named().for_each(|child| places.add_naming(child, number));
            }
            at = end;
        }
        Self { constraints, nodes, places }
    }

    /// The objects that it says something about.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.places.objects()
    }

    /// The rules of an object.
    pub(crate) fn of(&self, object: &ObjectKey) -> impl Iterator<Item = &TreeNode> {
        self.places.own(object).iter().filter_map(|number| self.nodes.get(*number))
    }

    /// The rules that delegate to an object, or would if the delegation were not refused.
    pub(crate) fn naming(&self, object: &ObjectKey) -> impl Iterator<Item = &TreeNode> {
        self.places.naming(object).iter().filter_map(|number| self.nodes.get(*number))
    }

    /// The Servers that answer the rules of an object, or rules that these lead to.
    pub(crate) fn servers_through(&self, object: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.places.servers(object)
    }
}

impl TreeNode {
    /// The objects that the rule delegates to, or would.
    fn named(&self) -> impl Iterator<Item = &ObjectKey> {
        let children: &[ObjectKey] = match &self.effect {
            NodeEffect::Delegates { children, .. } => children,
            NodeEffect::Serves { .. }
            | NodeEffect::Route { .. }
            | NodeEffect::Denied(_)
            | NodeEffect::Shadowed
            | NodeEffect::Inactive => &[],
        };
        children.iter().chain(self.faults().iter().filter_map(|fault| fault.child.as_ref()))
    }

    /// True of a path that an invalid object keeps.
    pub(crate) fn is_invalid(&self) -> bool {
        self.faults().iter().any(|fault| fault.reason == Reason::Invalid)
    }

    /// The object that holds the rule.
    pub fn object(&self) -> Option<&ObjectKey> {
        self.chain.last()
    }

    /// The Servers that answer.
    pub fn servers(&self) -> &[ObjectKey] {
        match &self.effect {
            NodeEffect::Serves { servers, .. } | NodeEffect::Route { servers, .. } => servers,
            NodeEffect::Delegates { .. }
            | NodeEffect::Denied(_)
            | NodeEffect::Shadowed
            | NodeEffect::Inactive => &[],
        }
    }

    /// True if a route, which may match a part of the path alone, answers.
    pub(crate) fn is_route(&self) -> bool {
        matches!(self.effect, NodeEffect::Route { .. })
    }

    /// The delegations of the rule that are refused, and the Servers that cannot answer it.
    pub(crate) fn faults(&self) -> &[EdgeFault] {
        match &self.effect {
            NodeEffect::Denied(faults)
            | NodeEffect::Delegates { refused: faults, .. }
            | NodeEffect::Serves { refused: faults, .. } => faults,
            NodeEffect::Route { .. } | NodeEffect::Shadowed | NodeEffect::Inactive => &[],
        }
    }

    /// True if it has its path, if only by denying it.
    pub(crate) fn has_path(&self) -> bool {
        match self.effect {
            NodeEffect::Serves { .. }
            | NodeEffect::Route { .. }
            | NodeEffect::Delegates { .. }
            | NodeEffect::Denied(_) => true,
            NodeEffect::Shadowed | NodeEffect::Inactive => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile_objects;
    use crate::config::ControllerConfig;
    use crate::testing::trees::World;
    use policy_crds::Kind;

    /// The rules of a tree that are of this kind, by a pass over all.
    fn scan(tree: &DelegationTree, is: impl Fn(&TreeNode) -> bool) -> Vec<&TreeNode> {
        tree.nodes.iter().filter(|node| is(node)).collect()
    }

    #[test]
    fn the_places_of_an_object_are_those_that_a_pass_over_the_tree_finds() {
        let (mut own, mut naming, mut through) = (0, 0, 0);
        let mut state = 1_u32;
        for _ in 0..200 {
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            };
            let data: Vec<u8> = (0..600).map(|_| byte()).collect();
            let objects = World::read(&data).objects();
            let keys: Vec<ObjectKey> = objects.iter().map(|o| o.meta.key.clone()).collect();
            let compiled = compile_objects(objects, &ControllerConfig::default());
            for root in keys.iter().filter(|key| key.kind == Kind::InboundRoute) {
                let tree = compiled.tree_of(root);
                for key in &keys {
                    let found: Vec<_> = tree.of(key).collect();
                    assert_eq!(found, scan(&tree, |node| node.object() == Some(key)));
                    own += found.len();
                    let found: Vec<_> = tree.naming(key).collect();
                    assert_eq!(found, scan(&tree, |node| node.named().any(|named| named == key)));
                    naming += found.len();
                    let below = scan(&tree, |node| node.chain.contains(key));
                    let servers: BTreeSet<_> =
                        below.into_iter().flat_map(|n| n.servers()).collect();
                    assert_eq!(tree.servers_through(key).collect::<BTreeSet<_>>(), servers);
                    through += servers.len();
                }
            }
        }
        assert!(own > 100 && naming > 100 && through > 100, "{own} {naming} {through}");
    }
}
