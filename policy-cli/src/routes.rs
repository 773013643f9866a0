//! Hosts, with the roots that hold them, and the trees of these: who answers which path, and who may
//! call. Claims, trees and grants are the engine's answers.

mod effects;
pub(crate) mod host;
pub(crate) mod mermaid;
mod missing;
mod refusal;
mod report;
mod text;
mod tree;
mod visibility;

#[cfg(test)]
mod tests;

pub(crate) use report::{
    ClaimItem, GrantItem, HostItem, MissingItem, ObjectItem, RefusedItem, RoutesReport, RuleEffect,
    RuleItem, ServerItem, TreeItem,
};

use crate::cluster::{Scope, undetermined};
use crate::grants::NamedObject;
use crate::inventory::Inventory;
use anyhow::bail;
use policy_core::HostPattern;
use policy_crds::{Body, Claims, Kind, Object, ObjectKey, Resource, nearest};
use policy_engine::claims::{ClaimState, HostClaim};
use policy_engine::conditions::Reason;
use refusal::refusal_words;
use report::InvalidItem;
use std::collections::{BTreeMap, BTreeSet};
use tree::TreeReader;

/// Kinds that decide who holds a host and to whom it is delegated.
const DECIDING: [Kind; 6] = [
    Kind::InboundRoute,
    Kind::RouteAdmissionPolicy,
    Kind::ReferenceGrant,
    Kind::GatewayHttpRoute,
    Kind::GrpcRoute,
    Kind::Server,
];

/// Reports a host with its trees, or all hosts of the inventory's namespaces.
///
/// # Errors
/// Nothing claims the host.
pub(crate) fn report(
    inventory: &Inventory,
    host: Option<&HostPattern>,
) -> anyhow::Result<RoutesReport> {
    let hosts = match host {
        Some(host) => vec![one(inventory, host)?],
        None => all(inventory),
    };
    Ok(RoutesReport {
        source: inventory.source.clone(),
        settings: inventory.settings.clone(),
        list_failures: inventory.list_failures(),
        not_known: not_known(inventory),
        hosts,
    })
}

/// Resources that could not be listed and that decide.
fn not_known(inventory: &Inventory) -> Vec<String> {
    undetermined::in_scope(&DECIDING, &Scope::All, &inventory.permissions)
}

/// A host with its trees, or with those of the nearest wildcard that covers it.
fn one(inventory: &Inventory, host: &HostPattern) -> anyhow::Result<HostItem> {
    let claimed = claimed(inventory);
    let named = named(inventory);
    let wildcards = host.names_above().map(|above| HostPattern::Suffix(above.into()));
    let mut candidates = std::iter::once(host.clone()).chain(wildcards);
    let Some(of) = candidates.find(|pattern| claimed.contains_key(pattern)) else {
        bail!("{}", unclaimed(inventory, host, claimed.keys(), &named));
    };
    // Without wildcards those of a wildcard are not among the host's.
    let claims = inventory.compiled.claims_on(&of);
    let claims = claims.in_order();
    let overlapping = claims.iter().copied().filter(|claim| claim.host.overlaps(host));
    let mut item = item(inventory, &of, overlapping);
    let roots = claimed.get(&of).map(Vec::as_slice).unwrap_or_default();
    let trees = trees(inventory, &of, roots, &claims);
    item.count(&trees);
    item.trees = Some(trees);
    item.covered_by = (of != *host).then(|| of.to_string());
    item.host = host.to_string();
    item.invalid = named.get(host).map(|objects| invalid(objects)).unwrap_or_default();
    Ok(item)
}

/// All hosts that roots of the selected namespaces claim.
fn all(inventory: &Inventory) -> Vec<HostItem> {
    let claimed = claimed(inventory);
    let named = named(inventory);
    let shown =
        |roots: &[&ObjectKey]| roots.iter().any(|root| inventory.scope.contains(&root.namespace));
    let of_host = |(host, roots): (&HostPattern, &Vec<&ObjectKey>)| {
        let claims = inventory.compiled.claims_on(host);
        let claims = claims.in_order();
        let own = claims.iter().copied().filter(|claim| claim.host == host);
        let mut item = item(inventory, host, own);
        let trees = trees(inventory, host, roots, &claims);
        item.count(&trees);
        item.invalid = named.get(host).map(|objects| invalid(objects)).unwrap_or_default();
        item
    };
    claimed.iter().filter(|(_, roots)| shown(roots)).map(of_host).collect()
}

/// The trees of the roots that hold a path of a host.
fn trees(
    inventory: &Inventory,
    host: &HostPattern,
    roots: &[&ObjectKey],
    claims: &[HostClaim<'_>],
) -> Vec<TreeItem> {
    let holds = |root: &&&ObjectKey| {
        let own = |claim: &HostClaim<'_>| claim.root == **root && claim.host == host;
        claims.iter().any(|claim| claim.is_active() && own(claim))
    };
    let mut reader = TreeReader::new(inventory, host);
    roots.iter().filter(holds).map(|root| reader.tree(root, claims)).collect()
}

fn item<'a>(
    inventory: &Inventory,
    host: &HostPattern,
    claims: impl Iterator<Item = HostClaim<'a>>,
) -> HostItem {
    let mut owners: Vec<NamedObject> = Vec::new();
    let mut items = Vec::new();
    for claim in claims {
        let root = NamedObject::from(claim.root);
        if claim.is_active() && claim.host == host && !owners.contains(&root) {
            owners.push(root);
        }
        items.push(claim_item(inventory, claim));
    }
    HostItem {
        host: host.to_string(),
        covered_by: None,
        owners,
        claims: items,
        invalid: Vec::new(),
        rules: 0,
        denied: 0,
        trees: None,
    }
}

fn claim_item(inventory: &Inventory, claim: HostClaim<'_>) -> ClaimItem {
    let HostClaim { root, host, path, time, state } = claim;
    let (active, reason, message) = match state {
        ClaimState::Active { shared: false, attached: false } => (true, None, None),
        ClaimState::Active { shared: false, attached: true } => {
            let words = "routes of another namespace were attached with the host, or a name that overlaps \
                         with it, earlier; the Servers of that namespace go on answering it";
            (true, Some(Reason::HostnameAttachedEarlier), Some(words.to_owned()))
        }
        ClaimState::Active { shared: true, attached: _ } => {
            let words = "a root in another namespace holds a path above or below it; the Servers of the \
                         earlier claim answer the longer path, too";
            let message = words.to_owned();
            (true, Some(Reason::SubpathClaimedByOther), Some(message))
        }
        ClaimState::Inactive(refusal) => {
            let (reason, message) = refusal_words(inventory, claim, refusal);
            (false, Some(reason), Some(message))
        }
    };
    let time = time.and_then(|time| jiff::Timestamp::from_second(time).ok());
    ClaimItem {
        root: root.into(),
        host: host.to_string(),
        path: path.to_string(),
        active,
        claimed_at: time.map(|time| time.to_string()),
        reason: reason.map(Reason::as_str),
        message,
    }
}

/// The hosts that roots claim, with the roots; those that invalid ones keep among them.
fn claimed(inventory: &Inventory) -> BTreeMap<HostPattern, Vec<&ObjectKey>> {
    let mut found: BTreeMap<HostPattern, Vec<&ObjectKey>> = BTreeMap::new();
    for object in &inventory.compiled.objects {
        for host in object.claimed_hosts() {
            found.entry(host).or_default().push(&object.meta.key);
        }
    }
    found
}

/// The hosts that vertices and invalid InboundRoutes name, or keep, with these.
fn named(inventory: &Inventory) -> BTreeMap<HostPattern, Vec<&Object>> {
    let mut found: BTreeMap<HostPattern, Vec<&Object>> = BTreeMap::new();
    for object in &inventory.compiled.objects {
        let hosts: BTreeSet<HostPattern> = match &object.body {
            Body::Valid(Resource::InboundRoute(route)) => {
                route.delegated_from.iter().map(|consent| consent.host.clone()).collect()
            }
            Body::Invalid(invalid) => {
                let Claims::InboundRoute { hosts, .. } = &invalid.claims else { continue };
                hosts.iter().cloned().chain(object.claimed_hosts()).collect()
            }
            Body::Valid(_) => continue,
        };
        for host in hosts {
            found.entry(host).or_default().push(object);
        }
    }
    found
}

fn invalid(objects: &[&Object]) -> Vec<InvalidItem> {
    let broken = objects.iter().filter_map(|object| match &object.body {
        Body::Invalid(invalid) => Some(InvalidItem {
            object: (&object.meta.key).into(),
            errors: invalid.errors.iter().map(ToString::to_string).collect(),
        }),
        Body::Valid(_) => None,
    });
    broken.collect()
}

/// The message about a host that no root claims.
fn unclaimed<'a>(
    inventory: &Inventory,
    host: &HostPattern,
    claimed: impl Iterator<Item = &'a HostPattern>,
    named: &BTreeMap<HostPattern, Vec<&Object>>,
) -> String {
    let source = &inventory.source;
    let missing =
        undetermined::in_scope(&[Kind::InboundRoute], &Scope::All, &inventory.permissions);
    if let Some(missing) = missing.first() {
        return format!(
            "whether an InboundRoute claims `{host}` in {source} is not known, because {missing} may \
             not be listed everywhere"
        );
    }
    let mut message = format!("no InboundRoute claims `{host}` in {source}");
    for object in named.get(host).into_iter().flatten() {
        let key = &object.meta.key;
        message.push_str(&match &object.body {
            Body::Valid(_) => format!("; {key} consents to it, but nothing delegates to {key}"),
            Body::Invalid(_) => format!("; {key} names it and is invalid, see `portcullis check`"),
        });
    }
    let hosts: Vec<String> = claimed.map(ToString::to_string).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    if let Some(meant) = nearest(&host.to_string(), &hosts) {
        message.push_str(&format!("; did you mean `{meant}`?"));
    }
    message
}
