//! The tree of a root: the walk along its delegations.

use super::admitted::Admitted;
use super::child::{Child, ChildContent, Delegator, children, fault, unlisted};
use super::claims::valid;
use super::closed::closed;
use super::filters::Allowed;
use super::kept::{RuleSet, together};
use super::origin::{constraints, in_tree};
use super::place::{ReachedPlace, inactive, of_root, those};
use super::serving::served;
use super::shares::{Branch, Share, branches};
use crate::incremental::{Context, query};
use crate::query::condition::Reason;
use crate::query::delegation::{DelegationTree, EdgeFault, NodeEffect, TreeNode, TreeOf};
use crate::query::policy::CompiledRoute;
use crate::resolve::carried::uncarried;
use policy_core::HostPattern;
use policy_crds::resource::{Delegate, InboundAction, InboundRule, ParentRef, PathPrefix};
use policy_crds::{Kind, ObjectKey};
use std::collections::HashSet;
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
    let paths = root.routes.iter().map(|rule| &rule.path).collect();
    let set = [RuleSet { hosts: own.hosts.clone().into(), paths }];
    let rules = of_root(cx, &query.0, root, own);
    let held = rules.iter().filter_map(|(_, place)| place.as_ref());
    let held = held.map(|place| place.hosts.len()).fold(0, usize::saturating_add);
    let bound = Share { visits: MAX_VISITS, paths: MAX_PATHS.saturating_sub(held) };
    let target = own.target.as_ref().map(|name| query.0.beside(Kind::Server, name));
    let mut walk = |(rule, place): &(&InboundRule, Option<ReachedPlace>), share| {
        let allowed = Allowed {
            owner: query.0.namespace.clone(),
            filters: &rule.allowed_filters,
            path: &rule.path,
            hosts: place.as_ref().map(|place| &place.hosts[..]).unwrap_or_default(),
        };
        let mut walk = Walk::new(target.clone(), own.allow_regex_children, (share, allowed));
        match place {
            Some(place) => walk.rule(cx, &set, rule, place.clone()),
            None => walk.nodes.push(inactive(&query.0, rule)),
        }
        walk.branch()
    };
    let delegates = |(rule, _): &(&InboundRule, Option<ReachedPlace>)| {
        matches!(rule.action, InboundAction::Delegate(_))
    };
    let handed: Vec<_> = rules.iter().filter(|rule| delegates(rule)).collect();
    let mut handed = branches(&handed, bound, |rule, share| walk(rule, share)).into_iter();
    let none = Share { visits: 0, paths: 0 };
    let mut nodes = Vec::new();
    for rule in &rules {
        let branch = if delegates(rule) { handed.next() } else { Some(walk(rule, none)) };
        nodes.extend(branch.into_iter().flat_map(|branch| branch.nodes));
    }
    Arc::new(DelegationTree::new(constraints(&query.0, own), nodes))
}

/// The state of a walk from one rule of a root. What rules of a root lead to has no path in common, because
/// each keeps its own path from all others.
struct Walk<'r> {
    allowed: Allowed<'r>,
    target: Option<ObjectKey>,
    allow_regex: bool,
    nodes: Vec<TreeNode>,
    /// Paths of hosts that a rule has, apart from those that delegate.
    taken: HashSet<(HostPattern, PathPrefix)>,
    /// Paths of hosts that rules hand down, each with the node that delegates to the rule's object.
    handed: HashSet<(Option<usize>, HostPattern, PathPrefix)>,
    /// Objects that were visited, and pairs of a host and a path of what takes part so far, with those
    /// that others have.
    used: Share,
    /// The most of both.
    share: Share,
    is_cut: bool,
}

impl<'r> Walk<'r> {
    fn new(
        target: Option<ObjectKey>,
        allow_regex: bool,
        (share, allowed): (Share, Allowed<'r>),
    ) -> Self {
        Self {
            allowed,
            target,
            allow_regex,
            nodes: Vec::new(),
            taken: HashSet::new(),
            handed: HashSet::new(),
            used: Share { visits: 0, paths: 0 },
            share,
            is_cut: false,
        }
    }

    /// Returns the nodes that were found. The root learns of a child below which something is left out.
    fn branch(mut self) -> Branch {
        let Share { visits, paths } = self.share;
        if let (true, Some(TreeNode { effect, .. })) = (self.is_cut, self.nodes.first_mut())
            && let NodeEffect::Delegates { children, refused } = effect
            && refused.iter().all(|fault| fault.reason != Reason::TooLarge)
        {
            let named: Vec<String> = children.iter().map(ToString::to_string).collect();
            let message = format!(
                "{} leads to more than the share of this rule, which is {visits} objects and {paths} \
                 paths of hosts: what is beyond is denied there",
                named.join(", ")
            );
            refused.push(fault(Reason::TooLarge, message, None));
        }
        let Self { nodes, used, is_cut, .. } = self;
        Branch { nodes, used, is_cut }
    }

    /// Adds a rule of an object, and what it leads to. `sets`: the rules of the object, with those of
    /// the objects that are selected with it.
    fn rule(
        &mut self,
        cx: &mut Context<'_>,
        sets: &[RuleSet<'_>],
        rule: &InboundRule,
        place: ReachedPlace,
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
        place: &ReachedPlace,
    ) {
        let at = self.nodes.len();
        let from = Delegator {
            chain: &place.chain,
            path,
            hosts: &place.hosts,
            // An expression could match what an ancestor keeps.
            allow_regex: self.allow_regex && place.kept.is_empty(),
        };
        if self.used.visits > self.share.visits {
            self.is_cut = true;
            let fault = fault(Reason::TooLarge, self.share.too_large("it"), None);
            self.push(path, place, NodeEffect::Denied(vec![fault]));
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
        let Admitted { accepted, children, mut refused, closed, whole } =
            self.admit(cx, found, place);
        if let (Some(fault), Some(node)) = (whole, self.nodes.get_mut(at)) {
            node.effect = NodeEffect::Denied(vec![fault]);
            return;
        }
        // A path that the set keeps is one that a rule has: of children that take part.
        let each: Vec<RuleSet<'_>> = accepted.iter().map(Child::rules).collect();
        let sets = together(&place.hosts, &each);
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

    /// Tells the children that take part from those that are refused.
    fn admit<'a>(
        &mut self,
        cx: &mut Context<'_>,
        found: Vec<Result<Child<'a>, EdgeFault>>,
        place: &ReachedPlace,
    ) -> Admitted<'a> {
        let of = place.chain.last().map(|object| &*object.namespace);
        let mut all = Admitted::of(&place.hosts);
        let is_selection = found.len() > 1;
        for child in found {
            // Refused ones cost too.
            self.used.visits = self.used.visits.saturating_add(1);
            let vertex = child.as_ref().ok().filter(|_| is_selection).and_then(Child::vertex);
            let child = child.and_then(|child| self.carried(cx, &child, of).map(|()| child));
            let child = child.and_then(|child| self.filtered(cx, &child).map(|()| child));
            let child = child.and_then(|child| self.bounded(&child, place).map(|()| child));
            match child {
                Ok(child) => {
                    if let ChildContent::Broken(_, fault) = &child.content {
                        all.refused.push(fault.clone());
                    } else {
                        all.closed.retain(|host| !child.hosts.contains(host));
                        all.children.push(child.key.clone());
                    }
                    all.accepted.push(child);
                }
                Err(fault) => all.refuse(fault, vertex),
            }
        }
        all
    }

    /// Checks that a Server can answer for a route.
    fn carried(
        &self,
        cx: &mut Context<'_>,
        child: &Child<'_>,
        parent: Option<&str>,
    ) -> Result<(), EdgeFault> {
        let servers = match &child.content {
            ChildContent::Vertex(_) | ChildContent::Broken(..) | ChildContent::Refused(..) => {
                return Ok(());
            }
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

    /// Checks that the root allows the filters of a child.
    fn filtered(&self, cx: &mut Context<'_>, child: &Child<'_>) -> Result<(), EdgeFault> {
        let route = match &child.content {
            ChildContent::Route(route) => Some(*route),
            ChildContent::Vertex(_)
            | ChildContent::Broken(..)
            | ChildContent::Refused(..)
            | ChildContent::Group(_) => None,
        };
        let Some(words) = self.allowed.refused(cx, child.key, route) else { return Ok(()) };
        let message = format!(
            "{} has a filter that `allowFilters` of the root's delegation does not allow: {words}",
            child.key
        );
        Err(fault(Reason::FilterNotAllowed, message, Some(child.key)))
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
    fn bounded(&mut self, child: &Child<'_>, place: &ReachedPlace) -> Result<(), EdgeFault> {
        let fault = |reason, message| fault(reason, message, Some(child.key));
        if place.chain.len() >= MAX_DEPTH {
            let message = format!("{} would be below {MAX_DEPTH} other objects", child.key);
            return Err(fault(Reason::TooDeep, message));
        }
        let own = child.content.paths();
        let paths = self.used.paths.saturating_add(own.saturating_mul(child.hosts.len()));
        if self.used.visits > self.share.visits || paths > self.share.paths {
            self.is_cut = true;
            return Err(fault(Reason::TooLarge, self.share.too_large(&child.key.to_string())));
        }
        self.used.paths = paths;
        Ok(())
    }

    fn enter(
        &mut self,
        cx: &mut Context<'_>,
        child: Child<'_>,
        sets: &[RuleSet<'_>],
        (path, (by, place)): (&PathPrefix, (usize, &ReachedPlace)),
    ) {
        let chain = place.chain.iter().chain([child.key]).cloned().collect();
        let place =
            ReachedPlace { chain, by: Some(by), hosts: child.hosts, kept: place.kept.clone() };
        match child.content {
            ChildContent::Vertex(vertex) => {
                for rule in &vertex.routes {
                    self.rule(cx, sets, rule, place.clone());
                }
            }
            ChildContent::Broken(paths, fault) => {
                for own in paths.iter().filter(|own| path.contains(own)) {
                    self.close(own, place.clone(), &fault);
                }
            }
            ChildContent::Refused(vertex, fault) => {
                let own = vertex.routes.iter().map(|rule| &rule.path);
                for own in own.filter(|own| path.contains(own)) {
                    self.close(own, place.clone(), &fault);
                }
            }
            ChildContent::Route(route) => self.route(cx, &route.parents, path, place),
            ChildContent::Group(_) => self.route(cx, &[], path, place),
        }
    }

    /// Adds a path that an invalid object keeps.
    fn close(&mut self, path: &PathPrefix, place: ReachedPlace, fault: &EdgeFault) {
        let kept = path.and_above().any(|above| place.kept.contains(above));
        let place = self.free(place, path);
        if !kept && !place.hosts.is_empty() {
            self.take(&place.hosts, path);
            self.push(path, &place, NodeEffect::Denied(vec![fault.clone()]));
        }
    }

    /// Adds an HTTPRoute, a GRPCRoute or a group at the path that is delegated to it.
    fn route(
        &mut self,
        cx: &mut Context<'_>,
        parents: &[ParentRef],
        path: &PathPrefix,
        place: ReachedPlace,
    ) {
        let Some(key) = place.chain.last().cloned() else { return };
        let place = self.free(place, path);
        let mut servers = self.servers_of(parents, &key);
        if let Some(object) = cx.object(&key) {
            servers.retain(|server| uncarried(cx, object, server).is_none());
        }
        let compiled = cx.query(&CompiledRoute(key.clone()));
        if compiled.is_empty() || place.hosts.is_empty() {
            self.push(path, &place, NodeEffect::Shadowed);
            return;
        }
        self.take(&place.hosts, path);
        let own = (&place.hosts[..], &*place.kept);
        let each = compiled.iter();
        let routes = each.map(|route| Arc::new(in_tree(route, path, &place.chain, own))).collect();
        self.push(path, &place, NodeEffect::Route { servers, routes });
    }

    /// A place with the hosts of which nobody has the path yet, and no sibling hands it down.
    fn free(&self, place: ReachedPlace, path: &PathPrefix) -> ReachedPlace {
        if self.taken.is_empty() && self.handed.is_empty() {
            return place;
        }
        let free = |host: &HostPattern| {
            !self.taken.contains(&(host.clone(), path.clone()))
                && !self.handed.contains(&(place.by, host.clone(), path.clone()))
        };
        let hosts = those(&place.hosts, free);
        ReachedPlace { hosts, ..place }
    }

    fn take(&mut self, hosts: &[HostPattern], path: &PathPrefix) {
        self.taken.extend(hosts.iter().map(|host| (host.clone(), path.clone())));
    }

    fn push(&mut self, path: &PathPrefix, place: &ReachedPlace, effect: NodeEffect) {
        self.nodes.push(TreeNode {
            chain: place.chain.clone(),
            path: path.clone(),
            hosts: place.hosts.clone(),
            effect,
        });
    }
}
