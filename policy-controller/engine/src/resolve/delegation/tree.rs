//! The tree of a root: the walk along its delegations.

use super::child::{Child, ChildContent, Delegator, children, fault, inbound_parent, unlisted};
use super::claims::valid;
use super::closed::closed;
use super::kept::{RuleSet, beside, together};
use super::serving::served;
use crate::incremental::{Context, query};
use crate::query::condition::Reason;
use crate::query::delegation::{
    ActiveClaims, DelegationTree, EdgeFault, NodeEffect, TreeNode, TreeOf,
};
use crate::query::policy::CompiledRoute;
use crate::resolve::carried::uncarried;
use policy_core::{
    Condition, DelegatedPath, HostPattern, IdentityMatch, Origin, Predicate, Route, RouteKind,
    Source,
};
use policy_crds::resource::{
    Delegate, InboundAction, InboundRoute, InboundRule, ParentRef, PathPrefix, RequiredTls,
    VirtualHost,
};
use policy_crds::{Kind, ObjectKey};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

query!(TreeOf, Arc<DelegationTree>, tree);

/// The most objects in a chain, the root included.
const MAX_DEPTH: usize = 16;
/// The most objects that the walk from one root visits, because every event in the tree costs a walk.
const MAX_VISITS: usize = 1024;
/// The most pairs of a host and a path in a tree, with those that others have.
const MAX_PATHS: usize = 65_536;

fn tree(query: &TreeOf, cx: &mut Context<'_>) -> Arc<DelegationTree> {
    let Some(object) = cx.object(&query.0) else { return Arc::default() };
    let Some(root) = valid(object) else { return Arc::new(closed(cx, object)) };
    let Some(own) = &root.virtual_host else { return Arc::default() };
    let target = own.target.as_ref().map(|name| query.0.beside(Kind::Server, name));
    let allow_regex = own.allow_regex_children;
    let mut walk = Walk {
        target,
        allow_regex,
        nodes: Vec::new(),
        taken: HashSet::new(),
        handed: HashSet::new(),
        visits: 0,
        paths: 0,
    };
    let paths = root.routes.iter().map(|rule| &rule.path).collect();
    let set = [RuleSet { hosts: own.hosts.clone(), paths }];
    let rules = of_root(cx, &query.0, root, own);
    let places = rules.iter().filter_map(|(_, place)| place.as_ref());
    walk.paths = places.map(|place| place.hosts.len()).sum();
    for (rule, place) in rules {
        match place {
            Some(place) => walk.rule(cx, &set, rule, place),
            None => walk.nodes.push(inactive(&query.0, rule)),
        }
    }
    Arc::new(DelegationTree::new(constraints(&query.0, own), walk.nodes))
}

/// The conditions that a root puts on every grant in its tree.
fn constraints(root: &ObjectKey, own: &VirtualHost) -> Arc<[Condition]> {
    let networks = own.access_list.clone().map(Predicate::Network);
    let tls = match own.tls {
        RequiredTls::Optional => None,
        RequiredTls::Required => Some(Predicate::MeshTls),
        RequiredTls::MutualRequired => Some(Predicate::Identity(vec![IdentityMatch::Any])),
    };
    let condition = |test| Condition { source: Source::Object(root.to_ref()), test };
    networks.into_iter().chain(tls).map(condition).collect()
}

/// The rules of a root, each with the hosts of which it holds the path; `None` if it holds none.
fn of_root<'r>(
    cx: &mut Context<'_>,
    key: &ObjectKey,
    root: &'r InboundRoute,
    own: &VirtualHost,
) -> Vec<(&'r InboundRule, Option<Place>)> {
    let mut places: Vec<(&InboundRule, Option<Place>)> =
        root.routes.iter().map(|rule| (rule, None)).collect();
    for host in &own.hosts {
        let claims = cx.query(&ActiveClaims(host.clone()));
        for claim in claims.iter().filter(|claim| claim.root == *key) {
            let Some((_, place)) = places.iter_mut().find(|(rule, _)| rule.path == claim.path)
            else {
                continue;
            };
            match place {
                Some(place) => place.hosts.push(host.clone()),
                None => {
                    let (chain, hosts) = (Arc::from([key.clone()]), vec![host.clone()]);
                    *place = Some(Place { chain, by: None, hosts, kept: Arc::default() });
                }
            }
        }
    }
    places
}

fn inactive(root: &ObjectKey, rule: &InboundRule) -> TreeNode {
    TreeNode {
        chain: Arc::from([root.clone()]),
        path: rule.path.clone(),
        hosts: Vec::new(),
        effect: NodeEffect::Inactive,
    }
}

/// The place at which an object is reached.
#[derive(Clone)]
struct Place {
    /// The objects from the root to it.
    chain: Arc<[ObjectKey]>,
    /// The number of the node that delegates to it; `None` for the root.
    by: Option<usize>,
    /// The hosts that reach it.
    hosts: Vec<HostPattern>,
    /// Paths that ancestors keep, although they are inside what is delegated.
    kept: Arc<BTreeSet<PathPrefix>>,
}

impl Place {
    /// The place from which a rule of a set hands its path down, on the hosts of the set; `None` if it
    /// has none of them.
    fn handing(&self, set: &RuleSet<'_>, path: &PathPrefix) -> Option<Self> {
        let hosts = self.hosts.iter().filter(|host| set.hosts.contains(host));
        let hosts: Vec<HostPattern> = hosts.cloned().collect();
        let inside = set.paths.iter().copied().filter(|own| *own != path);
        let kept = self.kept.iter().chain(inside).filter(|kept| path.contains(kept));
        let kept = Arc::new(kept.cloned().collect());
        (!hosts.is_empty()).then(|| Self { chain: self.chain.clone(), by: self.by, hosts, kept })
    }
}

/// The state of a walk through one tree.
struct Walk {
    target: Option<ObjectKey>,
    allow_regex: bool,
    nodes: Vec<TreeNode>,
    /// Paths of hosts that a rule has, apart from those that delegate.
    taken: HashSet<(HostPattern, PathPrefix)>,
    /// Paths of hosts that rules hand down, each with the node that delegates to the rule's object.
    handed: HashSet<(Option<usize>, HostPattern, PathPrefix)>,
    visits: usize,
    /// Pairs of a host and a path of what takes part so far, with those that others have.
    paths: usize,
}

impl Walk {
    /// Adds a rule of an object, and what it leads to. `sets`: the rules of the object, with those of
    /// the objects that are selected with it.
    fn rule(
        &mut self,
        cx: &mut Context<'_>,
        sets: &[RuleSet<'_>],
        rule: &InboundRule,
        place: Place,
    ) {
        let kept = rule.path.and_above().any(|above| place.kept.contains(above));
        let place = self.free(place, &rule.path);
        if kept || place.hosts.is_empty() {
            self.push(&rule.path, &place, NodeEffect::Shadowed);
            return;
        }
        let servers = match &rule.action {
            InboundAction::Servers(names) => {
                let own = place.chain.last();
                let own = own.into_iter().flat_map(|object| {
                    names.iter().map(move |name| object.beside(Kind::Server, name))
                });
                own.collect()
            }
            InboundAction::Serve => match &self.target {
                Some(server) => vec![server.clone()],
                None => {
                    let message = "the root names no Server in `virtualhost.targetRef`".into();
                    let reason = Reason::NoMatchingTarget;
                    let fault = EdgeFault { reason, message, child: None, hosts: Vec::new() };
                    self.take(&place.hosts, &rule.path);
                    self.push(&rule.path, &place, NodeEffect::Denied(vec![fault]));
                    return;
                }
            },
            InboundAction::Delegate(delegate) => {
                let handed = place.hosts.iter();
                let handed = handed.map(|host| (place.by, host.clone(), rule.path.clone()));
                self.handed.extend(handed);
                // On different hosts the set may keep different paths.
                for place in sets.iter().filter_map(|set| place.handing(set, &rule.path)) {
                    self.delegate(cx, delegate, &rule.path, &place);
                }
                return;
            }
        };
        self.take(&place.hosts, &rule.path);
        let effect = served(cx, servers, rule, place.chain.last());
        self.push(&rule.path, &place, effect);
    }

    /// Adds a rule that delegates, with the children that take part behind it.
    fn delegate(
        &mut self,
        cx: &mut Context<'_>,
        delegate: &Delegate,
        path: &PathPrefix,
        place: &Place,
    ) {
        let at = self.nodes.len();
        let from = Delegator {
            chain: &place.chain,
            path,
            hosts: &place.hosts,
            // An expression could match what an ancestor keeps.
            allow_regex: self.allow_regex && place.kept.is_empty(),
        };
        if self.visits > MAX_VISITS {
            let message = format!("the tree has {MAX_VISITS} objects without it");
            self.push(
                path,
                place,
                NodeEffect::Denied(vec![fault(Reason::TooLarge, message, None)]),
            );
            return;
        }
        let found = match children(cx, &from, delegate) {
            Ok(found) => found,
            Err(fault) => {
                self.push(path, place, NodeEffect::Denied(vec![fault]));
                return;
            }
        };
        self.push(path, place, NodeEffect::Shadowed);
        let of = place.chain.last().map(|object| &*object.namespace);
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        let mut closed: BTreeSet<HostPattern> = place.hosts.iter().cloned().collect();
        for child in found {
            // Refused ones cost too.
            self.visits = self.visits.saturating_add(1);
            let child = child.and_then(|child| self.carried(cx, &child, of).map(|()| child));
            let child = child.and_then(|child| self.bounded(&child, place).map(|()| child));
            match child {
                Ok(child) => {
                    closed.retain(|host| !child.hosts.contains(host));
                    accepted.push(child);
                }
                Err(fault) => refused.push(fault),
            }
        }
        // A path that the set keeps is one that a rule has: of children that take part.
        let each: Vec<RuleSet<'_>> = accepted.iter().map(Child::rules).collect();
        let sets = together(&place.hosts, &each);
        let children: Vec<ObjectKey> = accepted.iter().map(|child| child.key.clone()).collect();
        for child in accepted {
            self.enter(cx, child, &sets, (path, (at, place)));
        }
        refused.extend(unlisted(place.chain.last(), &children, closed));
        if let Some(node) = self.nodes.get_mut(at) {
            node.effect = if children.is_empty() {
                NodeEffect::Denied(refused)
            } else {
                NodeEffect::Delegates { children, refused }
            };
        }
    }

    /// Checks that a Server can answer for a route.
    fn carried(
        &self,
        cx: &mut Context<'_>,
        child: &Child<'_>,
        parent: Option<&str>,
    ) -> Result<(), EdgeFault> {
        let servers = match &child.content {
            ChildContent::Vertex(_) => return Ok(()),
            ChildContent::Route(route) => self.servers_of(&route.parents, child.key),
            ChildContent::Group(_) => self.servers_of(&[], child.key),
        };
        let of = || Some(child.key.clone());
        let fault = |reason, message| EdgeFault { reason, message, child: of(), hosts: Vec::new() };
        let Some(object) = cx.object(child.key) else { return Ok(()) };
        let mut refused = None;
        for server in &servers {
            match uncarried(cx, object, server) {
                // The delegator and the route do not learn of a Server in another namespace.
                Some((reason, _)) if server.namespace != child.key.namespace => {
                    let message = "the Server of the root cannot answer for it".into();
                    refused = Some((reason, message));
                }
                Some((reason, _)) if Some(&*server.namespace) != parent => {
                    let message = format!("no Server that {} names can answer for it", child.key);
                    refused = Some((reason, message.into()));
                }
                Some(why) => refused = Some(why),
                None => return Ok(()),
            }
        }
        Err(match refused {
            Some((reason, message)) => fault(reason, message),
            None => {
                let message = format!(
                    "{} names no Server of its namespace, and the root none in \
                     `virtualhost.targetRef`",
                    child.key
                );
                fault(Reason::NoMatchingTarget, message.into())
            }
        })
    }

    /// The Servers that are to answer for a route or group: its own, or that of the root.
    fn servers_of(&self, parents: &[ParentRef], key: &ObjectKey) -> Vec<ObjectKey> {
        if !parents.iter().any(ParentRef::is_server) {
            return self.target.clone().into_iter().collect();
        }
        let own = parents.iter();
        own.filter(|parent| parent.port.is_none() && parent.section.is_none())
            .filter_map(|parent| ObjectKey::server_of(parent, &key.namespace))
            .filter(|server| server.namespace == key.namespace)
            .collect()
    }

    /// Checks the bounds before a child is visited; what was visited before stays as it is.
    fn bounded(&mut self, child: &Child<'_>, place: &Place) -> Result<(), EdgeFault> {
        let fault = |reason, message| fault(reason, message, Some(child.key));
        if place.chain.len() >= MAX_DEPTH {
            let message = format!("{} would be below {MAX_DEPTH} other objects", child.key);
            return Err(fault(Reason::TooDeep, message));
        }
        let own = child.content.paths();
        let paths = self.paths.saturating_add(own.saturating_mul(child.hosts.len()));
        if self.visits > MAX_VISITS || paths > MAX_PATHS {
            let message = format!(
                "the tree has {MAX_VISITS} objects or {MAX_PATHS} paths of hosts without {}",
                child.key
            );
            return Err(fault(Reason::TooLarge, message));
        }
        self.paths = paths;
        Ok(())
    }

    fn enter(
        &mut self,
        cx: &mut Context<'_>,
        child: Child<'_>,
        sets: &[RuleSet<'_>],
        (path, (by, place)): (&PathPrefix, (usize, &Place)),
    ) {
        let chain = place.chain.iter().chain([child.key]).cloned().collect();
        let place = Place { chain, by: Some(by), hosts: child.hosts, kept: place.kept.clone() };
        match child.content {
            ChildContent::Vertex(vertex) => {
                for rule in &vertex.routes {
                    self.rule(cx, sets, rule, place.clone());
                }
            }
            ChildContent::Route(route) => self.route(cx, &route.parents, path, place),
            ChildContent::Group(_) => self.route(cx, &[], path, place),
        }
    }

    /// Adds an HTTPRoute, a GRPCRoute or a group at the path that is delegated to it.
    fn route(
        &mut self,
        cx: &mut Context<'_>,
        parents: &[ParentRef],
        path: &PathPrefix,
        place: Place,
    ) {
        let Some(key) = place.chain.last().cloned() else { return };
        let place = self.free(place, path);
        let mut servers = self.servers_of(parents, &key);
        if let Some(object) = cx.object(&key) {
            servers.retain(|server| uncarried(cx, object, server).is_none());
        }
        let compiled = cx.query(&CompiledRoute(key.clone()));
        let (Some(compiled), false) = (compiled, place.hosts.is_empty()) else {
            self.push(path, &place, NodeEffect::Shadowed);
            return;
        };
        self.take(&place.hosts, path);
        let route = Arc::new(in_tree(&compiled, path, &place));
        self.push(path, &place, NodeEffect::Route { servers, route });
    }

    /// A place with the hosts of which nobody has the path yet, and no sibling hands it down.
    fn free(&self, place: Place, path: &PathPrefix) -> Place {
        let free = |host: &HostPattern| {
            !self.taken.contains(&(host.clone(), path.clone()))
                && !self.handed.contains(&(place.by, host.clone(), path.clone()))
        };
        let hosts = place.hosts.iter().filter(|host| free(host)).cloned().collect();
        Place { hosts, ..place }
    }

    fn take(&mut self, hosts: &[HostPattern], path: &PathPrefix) {
        self.taken.extend(hosts.iter().map(|host| (host.clone(), path.clone())));
    }

    fn push(&mut self, path: &PathPrefix, place: &Place, effect: NodeEffect) {
        self.nodes.push(TreeNode {
            chain: place.chain.clone(),
            path: path.clone(),
            hosts: place.hosts.clone(),
            effect,
        });
    }
}

/// A route as a tree has it: for the hosts of the tree, and without matches inside what ancestors
/// keep.
fn in_tree(route: &Route, path: &PathPrefix, place: &Place) -> Route {
    Route {
        origin: Origin::Delegated(delegated_path(&place.chain, path)),
        kind: route.kind,
        created: route.created,
        label: route.label.clone(),
        hosts: place.hosts.clone().into(),
        rules: beside(&route.rules, &*place.kept),
        authorizations: route.authorizations.clone(),
        inherits_server: route.inherits_server,
        withheld: route.withheld.clone(),
    }
}

/// The origin of a rule that a chain leads to.
pub(super) fn delegated_path(chain: &[ObjectKey], path: &PathPrefix) -> Arc<DelegatedPath> {
    let chain: Vec<_> = chain.iter().map(ObjectKey::to_ref).collect();
    Arc::new(DelegatedPath { chain: chain.into(), prefix: path.as_str().into() })
}

/// True if a route is a child of InboundRoutes: then it counts on its Servers through them alone.
pub(crate) fn is_child(parents: &[ParentRef], key: &ObjectKey) -> bool {
    parents.iter().any(|parent| inbound_parent(parent, key).is_some())
}

/// The kind of a route whose object is an InboundRoute.
pub(super) const KIND: RouteKind = RouteKind::Http;
