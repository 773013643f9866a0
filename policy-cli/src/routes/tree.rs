//! The tree of a root as one host sees it.

use super::effects::effects;
use super::missing::Missing;
use super::refusal::refusal_words;
use super::report::{
    GrantItem, ObjectItem, RefusedItem, RuleEffect, RuleItem, ServerItem, TreeItem, WithheldItem,
};
use super::visibility::{hidden, hidden_grants, withheld_reason};
use crate::authz::clients::who;
use crate::authz::{grant_row, requirement};
use crate::inventory::Inventory;
use policy_core::{Authorization, DelegatedPath, HostPattern, Route, ServerPolicy};
use policy_crds::{Kind, ObjectKey};
use policy_engine::claims::{ClaimState, HostClaim};
use policy_engine::trees::{EdgeFault, NodeEffect, TreeNode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the trees of a host.
pub(super) struct TreeReader<'a> {
    inventory: &'a Inventory,
    host: &'a HostPattern,
    missing: Missing<'a>,
}

/// What is the same for all rules of a tree.
struct Whole<'t> {
    /// The rules that have a path of the host, by path.
    holding: BTreeMap<&'t str, Vec<&'t TreeNode>>,
    claims: &'t [HostClaim<'t>],
}

/// The way in which a host reaches a rule.
enum Reached {
    /// It does.
    Yes,
    /// Another rule has the path on this host.
    Shadowed,
    /// The root does not hold the path of this host.
    Lost,
    /// An object on the way does not consent to the host.
    No,
}

/// The effect of a rule that leads to nobody.
fn denied(refused: &[RefusedItem]) -> RuleEffect {
    match refused.iter().any(|refused| refused.not_known) {
        true => RuleEffect::NotKnown,
        false => RuleEffect::Denied,
    }
}

impl<'a> TreeReader<'a> {
    /// A reader of the trees of this host.
    pub(super) fn new(inventory: &'a Inventory, host: &'a HostPattern) -> Self {
        Self { inventory, host, missing: Missing::new(inventory) }
    }

    /// The tree of a root.
    pub(super) fn tree(&mut self, root: &ObjectKey, claims: &[HostClaim<'_>]) -> TreeItem {
        let tree = self.inventory.compiled.tree_of(root);
        let mut holding: BTreeMap<&str, Vec<&TreeNode>> = BTreeMap::new();
        let has_path = |node: &&TreeNode| {
            let nothing = matches!(node.effect, NodeEffect::Shadowed | NodeEffect::Inactive);
            !nothing && node.hosts.contains(self.host)
        };
        for node in tree.nodes.iter().filter(has_path) {
            holding.entry(node.path.as_str()).or_default().push(node);
        }
        let whole = Whole { holding, claims };
        let rules =
            subtrees(&tree.nodes).filter_map(|(node, below)| self.rule(&whole, node, below));
        let rules = rules.collect();
        let requires = tree.constraints.iter().map(requirement).collect();
        TreeItem { requires, root: ObjectItem { object: root.into(), rules } }
    }

    /// A rule, with the nodes that it leads to; `None` if the host does not reach it.
    fn rule(&mut self, whole: &Whole<'_>, node: &TreeNode, below: &[TreeNode]) -> Option<RuleItem> {
        let item = |effect| RuleItem {
            path: node.path.to_string(),
            effect,
            matches: Vec::new(),
            servers: Vec::new(),
            children: Vec::new(),
            refused: Vec::new(),
            note: None,
        };
        let effect = match self.reached(node) {
            Reached::Yes => &node.effect,
            Reached::Shadowed => &NodeEffect::Shadowed,
            Reached::Lost => &NodeEffect::Inactive,
            Reached::No => return None,
        };
        Some(match effect {
            NodeEffect::Shadowed => {
                RuleItem { note: self.holder(whole, node), ..item(RuleEffect::Shadowed) }
            }
            NodeEffect::Inactive => {
                RuleItem { note: self.lost(whole, node), ..item(RuleEffect::Inactive) }
            }
            NodeEffect::Serves { servers, refused, .. } => {
                let servers = servers.iter().map(|server| self.server(server, node, None));
                let servers = servers.collect();
                RuleItem {
                    servers,
                    refused: self.refused(node, refused),
                    ..item(RuleEffect::Serves)
                }
            }
            NodeEffect::Route { servers, routes } => {
                let rules = routes.iter().flat_map(|route| &route.rules);
                let servers = servers.iter().map(|server| self.server(server, node, Some(routes)));
                RuleItem {
                    servers: servers.collect(),
                    matches: rules
                        .flat_map(|rule| rule.matches.iter().map(ToString::to_string))
                        .collect(),
                    ..item(RuleEffect::Serves)
                }
            }
            NodeEffect::Denied(faults) => {
                let refused = self.refused(node, faults);
                let effect = denied(&refused);
                RuleItem { refused, ..item(effect) }
            }
            NodeEffect::Delegates { refused, .. } => {
                let found = self.children(whole, below);
                let refused = self.refused(node, refused);
                let effect = match found.is_empty() {
                    true => denied(&refused),
                    false => RuleEffect::Delegates,
                };
                let children = found.into_iter().map(|(_, child)| child).collect();
                RuleItem { children, refused, ..item(effect) }
            }
        })
    }

    /// The objects that a rule leads to, with their rules.
    fn children(&mut self, whole: &Whole<'_>, below: &[TreeNode]) -> Vec<(ObjectKey, ObjectItem)> {
        let mut found: Vec<(ObjectKey, ObjectItem)> = Vec::new();
        for (node, deeper) in subtrees(below) {
            let Some(key) = node.object() else { continue };
            let Some(rule) = self.rule(whole, node, deeper) else { continue };
            match found.iter_mut().find(|(known, _)| known == key) {
                Some((_, object)) => object.rules.push(rule),
                None => {
                    let object = ObjectItem { object: key.into(), rules: vec![rule] };
                    found.push((key.clone(), object));
                }
            }
        }
        found
    }

    fn refused(&mut self, node: &TreeNode, faults: &[EdgeFault]) -> Vec<RefusedItem> {
        let concerns =
            |fault: &&EdgeFault| fault.hosts.is_empty() || fault.hosts.contains(self.host);
        faults
            .iter()
            .filter(concerns)
            .map(|fault| self.missing.refused(node, fault, self.host))
            .collect()
    }

    /// The loss of a root's claim on a path of the host, in words.
    fn lost(&self, whole: &Whole<'_>, node: &TreeNode) -> Option<String> {
        let root = node.object()?;
        let own = whole.claims.iter().find(|claim| {
            claim.root == root && claim.host == self.host && *claim.path == node.path
        });
        let own = own?;
        match own.state {
            ClaimState::Inactive(refusal) => Some(refusal_words(self.inventory, *own, refusal).1),
            ClaimState::Active { .. } => None,
        }
    }

    /// The way in which the host reaches a rule. Hosts on which another rule has the path are not among
    /// its hosts, so that the consent of its object says if it is one of those.
    fn reached(&self, node: &TreeNode) -> Reached {
        let mut chain = node.chain.iter().rev();
        if node.hosts.contains(self.host) {
            return Reached::Yes;
        }
        match chain.next().zip(chain.next()) {
            None => Reached::Lost,
            Some((child, parent)) => {
                match self.inventory.compiled.consents(child, parent, self.host) {
                    true => Reached::Shadowed,
                    false => Reached::No,
                }
            }
        }
    }

    /// The rule that has the path of one that is shadowed.
    fn holder(&self, whole: &Whole<'_>, node: &TreeNode) -> Option<String> {
        let delegates = |other: &TreeNode| matches!(other.effect, NodeEffect::Delegates { .. });
        let holds = |other: &&&TreeNode| {
            let leads_here =
                delegates(other) && node.chain.starts_with(&other.chain) && other.path == node.path;
            !leads_here
        };
        let nearest = node.path.and_above().find_map(|path| {
            let holding = whole.holding.get(path)?.iter().filter(holds);
            holding.max_by_key(|other| !delegates(other))
        })?;
        Some(format!("{} has {}", nearest.object()?, nearest.path))
    }

    /// A Server that answers a rule, with the grants that it compiles to.
    fn server(
        &self,
        server: &ObjectKey,
        node: &TreeNode,
        routes: Option<&[Arc<Route>]>,
    ) -> ServerItem {
        let item = |problem: Option<&str>| ServerItem {
            server: server.into(),
            problem: problem.map(str::to_owned),
            grants: Vec::new(),
            effects: Vec::new(),
            withheld: Vec::new(),
            not_known: Vec::new(),
        };
        let Some(policy) = self.inventory.compiled.server_policy(server) else {
            let hidden = hidden(self.inventory, Kind::Server, &server.namespace);
            let hidden = hidden.map(|hidden| format!("is {hidden}"));
            return item(Some(hidden.as_deref().unwrap_or("does not exist")));
        };
        if let Some(reason) = policy.deny {
            return item(Some(&format!("denies everything, {}", reason.as_str())));
        }
        // Of the parts of a route, the one that is served.
        let own = policy.routes.routes.iter().filter(|route| self.is_of(route, node));
        let is_served = |route: &&Arc<Route>| route.inherits_server;
        let Some(own) = own.clone().find(is_served).or_else(|| own.clone().next()) else {
            return item(Some("does not answer it"));
        };
        let of_own = std::slice::from_ref(own);
        let mut withheld: Vec<WithheldItem> = Vec::new();
        for one in routes.unwrap_or(of_own).iter().flat_map(|route| &route.withheld) {
            let reason = withheld_reason(self.inventory, one);
            let item = WithheldItem { by: one.source.to_string(), reason };
            if !withheld.contains(&item) {
                withheld.push(item);
            }
        }
        let holder = node.object();
        let not_known = holder.map(|holder| hidden_grants(self.inventory, holder, server));
        ServerItem {
            grants: grants(&policy, own),
            effects: effects(own),
            withheld,
            not_known: not_known.unwrap_or_default(),
            ..item(None)
        }
    }

    /// True if a compiled route is what a rule became on a Server.
    fn is_of(&self, route: &Route, node: &TreeNode) -> bool {
        let same_chain = |path: &DelegatedPath| {
            path.chain.len() == node.chain.len()
                && path.chain.iter().zip(node.chain.iter()).all(|(name, key)| *name == key.to_ref())
        };
        let path = route.origin.delegated_path();
        route.origin.refusal().is_none()
            && route.hosts.contains(self.host)
            && path.is_some_and(|path| *path.prefix == *node.path.as_str() && same_chain(path))
    }
}

/// The grants of a route on a Server, inherited ones included.
fn grants(policy: &ServerPolicy, route: &Route) -> Vec<GrantItem> {
    let inherited = |grant: &Authorization| {
        policy.authorizations.iter().any(|on_server| on_server.source == grant.source)
    };
    let of_server = policy.authorizations.iter().filter(|_| route.inherits_server);
    let all = route.authorizations.iter().chain(of_server);
    all.map(|grant| {
        let row = grant_row(grant);
        GrantItem {
            by: grant.source.to_string(),
            inherited: inherited(grant),
            granted: row.granted,
            who: who(&row).replace('\n', " "),
            requires: row.requires,
        }
    })
    .collect()
}

/// The nodes of the first level, each with those that it leads to.
fn subtrees(nodes: &[TreeNode]) -> impl Iterator<Item = (&TreeNode, &[TreeNode])> {
    let mut rest = nodes;
    std::iter::from_fn(move || {
        let (node, after) = rest.split_first()?;
        let end = after.iter().position(|other| other.chain.len() <= node.chain.len());
        let (below, next) = after.split_at_checked(end.unwrap_or(after.len()))?;
        rest = next;
        Some((node, below))
    })
}
