//! Causes outside of policy: pods without a sidecar, ports that go around it, NetworkPolicies.

use super::cause::Cause;
use super::client::ClientArgument;
use super::judge::Question;
use super::place::{place, place_of_other};
use super::target::{object_key, pod};
use crate::diagnostics::network_policy::{Direction, includes, matches, named, selects};
use crate::inventory::Inventory;
use crate::unguarded::{self, UnguardedWorkloads};
use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use policy_core::{Protocol, WorkloadKey, WorkloadKind, fold_mapped};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use policy_engine::enforcement::Enforcement;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The port of the sidecar, which connections to opaque ports take.
const INBOUND_PORT: u16 = 4143;
/// Its name in a pod.
const INBOUND_PORT_NAME: &str = "proxy-inbound";

/// The label of each namespace that is its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The injector's account of the pods, found once.
pub(super) struct Sidecars {
    unguarded: UnguardedWorkloads,
    plaintext: BTreeMap<WorkloadKey, String>,
}

impl Sidecars {
    /// The account of those that are called and of their callers, for a port.
    pub(super) fn of(
        inventory: &Inventory,
        called: &BTreeSet<&WorkloadKey>,
        callers: &CallerPods<'_>,
        port: NonZeroU16,
    ) -> Self {
        let callers: BTreeSet<WorkloadKey> = callers.keys().into_iter().collect();
        let is_caller = |pod: &WorkloadKey| callers.contains(pod);
        Self {
            unguarded: unguarded::of_these(inventory, |pod| called.contains(pod)),
            plaintext: unguarded::plaintext_callers(inventory, is_caller, port.get()),
        }
    }

    /// Returns the reason why nothing decides about a port: no sidecar guards it.
    pub(super) fn unguarded(
        &self,
        inventory: &Inventory,
        workload: &WorkloadKey,
        port: NonZeroU16,
    ) -> Option<String> {
        let found = self.unguarded.get(workload).and_then(|found| found.port(port.get()));
        if let Some(reason) = found {
            return Some(reason.to_owned());
        }
        let object = inventory.object(&object_key(workload))?;
        let is_bare = inventory.cluster.is_some() && Enforcement::of(object) == Enforcement::Bare;
        is_bare.then(|| "the pod has no sidecar".to_owned())
    }
}

/// Pods that may be the client.
pub(super) struct CallerPods<'a> {
    pods: Vec<&'a Arc<Object>>,
    /// True if the client is known to be no pod.
    is_outside: bool,
}

impl<'a> CallerPods<'a> {
    /// The pods of the client's ServiceAccount, or with its address.
    pub(super) fn of(inventory: &'a Inventory, question: &Question) -> Self {
        let account = question.from.account(&inventory.settings.config);
        let is_client = |object: &&Arc<Object>| {
            let key = &object.meta.key;
            let Body::Valid(Resource::Pod(pod)) = &object.body else { return false };
            match (&account, &question.from) {
                (Some((namespace, name)), _) => {
                    *key.namespace == **namespace && *pod.service_account == **name
                }
                (None, ClientArgument::Address(address)) => pod.addresses.contains(address),
                (None, ClientArgument::Account(..) | ClientArgument::Identity(_)) => false,
            }
        };
        let pods: Vec<&Arc<Object>> = inventory.compiled.objects.iter().filter(is_client).collect();
        let address = match (&question.from, question.address) {
            (ClientArgument::Address(address), _) => Some(*address),
            (ClientArgument::Account(..) | ClientArgument::Identity(_), address) => address,
        };
        let are_known =
            inventory.cluster.is_some() && inventory.permissions.can_list_everywhere(Kind::Pod);
        let networks = &inventory.settings.config.cluster_networks;
        let is_no_pod = |address: IpAddr| {
            let address = fold_mapped(address);
            are_known || !networks.iter().any(|net| net.contains(&address))
        };
        let is_outside = pods.is_empty() && account.is_none() && address.is_some_and(is_no_pod);
        Self { pods, is_outside }
    }

    /// The keys of these pods.
    pub(super) fn keys(&self) -> Vec<WorkloadKey> {
        let keys = self.pods.iter().map(|object| &object.meta.key);
        keys.map(|key| WorkloadKey::pod(&key.namespace, &key.name)).collect()
    }

    /// The namespaces of these pods.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.pods.iter().map(|object| &*object.meta.key.namespace)
    }

    /// Returns the reason why every one of these pods calls the port in plaintext, with the first pod.
    /// `None` if one may prove its identity, or there is none.
    pub(super) fn plaintext(&self, inventory: &Inventory, sidecars: &Sidecars) -> Option<Cause> {
        let mut first = None;
        for object in &self.pods {
            let key = &object.meta.key;
            let workload = WorkloadKey {
                namespace: key.namespace.clone(),
                kind: WorkloadKind::Pod,
                name: key.name.clone(),
            };
            let is_bare =
                inventory.cluster.is_some() && Enforcement::of(object) == Enforcement::Bare;
            let bare = is_bare.then(|| "it has no sidecar".to_owned());
            let reason = sidecars.plaintext.get(&workload).cloned().or(bare)?;
            first.get_or_insert_with(|| Cause {
                summary: format!("{key} proves no identity: {reason}"),
                object: Some(key.to_string()),
                place: place(inventory, key, ""),
            });
        }
        first
    }
}

/// NetworkPolicies, as far as they may be listed.
#[derive(Default)]
pub(crate) struct NetworkPolicyList {
    /// Those that were listed.
    pub(crate) items: Vec<NetworkPolicy>,
    /// The namespaces of which they were.
    pub(crate) extent: NetworkPolicyExtent,
}

/// The namespaces of which NetworkPolicies were listed.
#[derive(Default)]
pub(crate) enum NetworkPolicyExtent {
    All,
    Namespace(Arc<str>),
    #[default]
    None,
}

impl NetworkPolicyList {
    /// The resource, if it may not be listed in one of these namespaces.
    pub(super) fn not_listed<'a>(
        &self,
        mut namespaces: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let resource = "networkpolicies.networking.k8s.io";
        match &self.extent {
            NetworkPolicyExtent::All => None,
            NetworkPolicyExtent::None => Some(resource.to_owned()),
            NetworkPolicyExtent::Namespace(only) => namespaces
                .find(|namespace| **namespace != **only)
                .map(|namespace| format!("{resource} of namespace {namespace}")),
        }
    }
}

/// A connection that NetworkPolicies look at.
pub(super) struct Wire<'a> {
    /// The pod that is called.
    pub(super) to: &'a Object,
    /// The pods that may be the client.
    pub(super) from: &'a CallerPods<'a>,
    /// The client's address, where it is known.
    pub(super) address: Option<IpAddr>,
    /// The port in question.
    pub(super) port: NonZeroU16,
    /// Its name in the pod.
    pub(super) port_name: &'a str,
    /// The protocol of the port.
    pub(super) protocol: Protocol,
    /// True if the client proves an identity.
    pub(super) meshed: bool,
}

/// The effect of NetworkPolicies on a connection.
#[derive(Default)]
pub(super) struct Reachability {
    /// Those that forbid it from every pod that may be the client.
    pub(super) forbidden: Option<Cause>,
    /// Remarks: those that are undecided, and those that hold for some of the client's pods alone.
    pub(super) remarks: Vec<Cause>,
}

/// The effect of NetworkPolicies on the connection of one pod.
enum Passage {
    Admitted,
    Forbidden(Cause),
    NotKnown(Cause),
}

/// Returns what NetworkPolicies do to a connection, from whichever of the client's pods it comes.
pub(super) fn reachability(
    inventory: &Inventory,
    policies: &[NetworkPolicy],
    wire: &Wire<'_>,
) -> Reachability {
    let pods = wire.from.pods.iter().map(|object| Some(&***object));
    let nobody = wire.from.pods.is_empty().then_some(None);
    let (mut admitted, mut forbidden, mut not_known) = (false, None, None);
    for caller in pods.chain(nobody) {
        match passage(inventory, policies, wire, caller) {
            Passage::Admitted => admitted = true,
            Passage::Forbidden(cause) => {
                forbidden.get_or_insert(cause);
            }
            Passage::NotKnown(cause) => {
                not_known.get_or_insert(cause);
            }
        }
    }
    if !admitted && not_known.is_none() {
        return Reachability { forbidden, remarks: Vec::new() };
    }
    let of_some = forbidden.map(|cause| Cause {
        summary: format!("from some pods of the client alone, {}", cause.summary),
        ..cause
    });
    let remarks = not_known.into_iter().chain(of_some).collect();
    Reachability { forbidden: None, remarks }
}

fn passage(
    inventory: &Inventory,
    policies: &[NetworkPolicy],
    wire: &Wire<'_>,
    caller: Option<&Object>,
) -> Passage {
    let (port, name) = match wire.meshed && wire.protocol == Protocol::Opaque {
        true => (INBOUND_PORT, INBOUND_PORT_NAME),
        false => (wire.port.get(), wire.port_name),
    };
    let reach = Reach { wire, caller, port, name };
    let ends = [
        (Direction::Ingress, Some(wire.to), "may receive"),
        (Direction::Egress, caller, "may open"),
    ];
    let mut not_known = None;
    for (direction, end, verb) in ends {
        let Some(end) = end else { continue };
        let own = |policy: &&NetworkPolicy| {
            policy.metadata.namespace.as_deref() == Some(&*end.meta.key.namespace)
                && selects(policy, direction, |key| end.meta.labels.get(key).map(|value| &**value))
        };
        let selecting: Vec<&NetworkPolicy> = policies.iter().filter(own).collect();
        let answers: Vec<Option<bool>> =
            selecting.iter().map(|policy| admits(inventory, policy, direction, &reach)).collect();
        if selecting.is_empty() || answers.contains(&Some(true)) {
            continue;
        }
        let names: Vec<String> = selecting.iter().map(|policy| named(policy)).collect();
        let names = names.join(" and ");
        if answers.contains(&None) {
            let words =
                format!("whether NetworkPolicy {names} lets the connection through is not known");
            not_known.get_or_insert(of_policy(inventory, &selecting, words));
            continue;
        }
        let by = match port == INBOUND_PORT {
            true => format!("port {INBOUND_PORT}, which opaque connections of the mesh take,"),
            false => format!("port {port}"),
        };
        let who = match selecting.len() {
            1 => format!("NetworkPolicy {names} leaves"),
            _ => format!("NetworkPolicies {names} leave"),
        };
        let words =
            format!("{who} {by} out of what {} {verb}: the connection never arrives", end.meta.key);
        return Passage::Forbidden(of_policy(inventory, &selecting, words));
    }
    not_known.map_or(Passage::Admitted, Passage::NotKnown)
}

/// A cause that the first of these NetworkPolicies set.
fn of_policy(inventory: &Inventory, policies: &[&NetworkPolicy], summary: String) -> Cause {
    let first = policies.first().map(|policy| &policy.metadata);
    let name = |part: Option<&String>| part.cloned().unwrap_or_default();
    let namespace = name(first.and_then(|metadata| metadata.namespace.as_ref()));
    let name = name(first.and_then(|metadata| metadata.name.as_ref()));
    Cause {
        summary,
        object: Some(format!("NetworkPolicy {namespace}/{name}")),
        place: place_of_other(inventory, "NetworkPolicy", &namespace, &name),
    }
}

/// The port that a connection takes, and the pod that it comes from.
struct Reach<'a> {
    wire: &'a Wire<'a>,
    caller: Option<&'a Object>,
    port: u16,
    name: &'a str,
}

/// True if a NetworkPolicy admits the connection; `None`: it depends on what is not known.
fn admits(
    inventory: &Inventory,
    policy: &NetworkPolicy,
    direction: Direction,
    reach: &Reach<'_>,
) -> Option<bool> {
    let Some(spec) = &policy.spec else { return Some(false) };
    type Rule<'a> = (Option<&'a Vec<NetworkPolicyPort>>, Option<&'a Vec<NetworkPolicyPeer>>);
    let rules: Vec<Rule<'_>> = match direction {
        Direction::Ingress => spec
            .ingress
            .iter()
            .flatten()
            .map(|rule| (rule.ports.as_ref(), rule.from.as_ref()))
            .collect(),
        Direction::Egress => spec
            .egress
            .iter()
            .flatten()
            .map(|rule| (rule.ports.as_ref(), rule.to.as_ref()))
            .collect(),
    };
    let own = policy.metadata.namespace.as_deref().unwrap_or_default();
    let mut known = true;
    for (ports, peers) in rules {
        let ports = ports.map(Vec::as_slice).unwrap_or_default();
        if !ports.is_empty() && !ports.iter().any(|one| includes(one, reach.port, reach.name)) {
            continue;
        }
        let peers = peers.map(Vec::as_slice).unwrap_or_default();
        if peers.is_empty() {
            return Some(true);
        }
        for peer in peers {
            match is_peer(inventory, peer, own, direction, reach) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => known = false,
            }
        }
    }
    known.then_some(false)
}

/// True if the other end of a connection is a peer; `None`: not known.
fn is_peer(
    inventory: &Inventory,
    peer: &NetworkPolicyPeer,
    own: &str,
    direction: Direction,
    reach: &Reach<'_>,
) -> Option<bool> {
    let wire = reach.wire;
    let other = match direction {
        Direction::Ingress => reach.caller,
        Direction::Egress => Some(wire.to),
    };
    if let Some(block) = &peer.ip_block {
        let mut addresses = other.map(|object| addresses(inventory, object)).unwrap_or_default();
        if addresses.is_empty() && direction == Direction::Ingress {
            addresses.extend(wire.address);
        }
        let contains =
            |cidr: &str, of: &IpAddr| cidr.parse::<IpNet>().is_ok_and(|net| net.contains(of));
        let except = block.except.as_deref().unwrap_or_default();
        let mut is_in = addresses.iter().map(|address| {
            contains(&block.cidr, address) && !except.iter().any(|cidr| contains(cidr, address))
        });
        // A pod calls by one of its addresses.
        let first = is_in.next()?;
        return is_in.all(|other| other == first).then_some(first);
    }
    let Some(other) = other else {
        // A client outside the cluster is no pod.
        return wire.from.is_outside.then_some(false);
    };
    let of_pod = peer.pod_selector.as_ref().is_none_or(|selector| {
        matches(selector, |label| other.meta.labels.get(label).map(|value| &**value))
    });
    if !of_pod {
        return Some(false);
    }
    match &peer.namespace_selector {
        None => Some(*other.meta.key.namespace == *own),
        Some(selector) => is_namespace(inventory, selector, &other.meta.key.namespace),
    }
}

/// The addresses of a pod, as far as they are known.
pub(super) fn addresses(inventory: &Inventory, object: &Object) -> Vec<IpAddr> {
    let key = &object.meta.key;
    let pod = pod(inventory, &WorkloadKey::pod(&key.namespace, &key.name));
    pod.map(|pod| pod.addresses.clone()).unwrap_or_default()
}

/// True if a selector selects a namespace; `None`: it asks for labels of one that is not known.
fn is_namespace(inventory: &Inventory, selector: &LabelSelector, name: &Arc<str>) -> Option<bool> {
    let key = ObjectKey { kind: Kind::Namespace, namespace: "".into(), name: name.clone() };
    let labels = inventory.object(&key).map(|object| &object.meta.labels);
    let by_labels = selector.match_labels.iter().flatten().map(|(label, _)| label);
    let by_expressions = selector.match_expressions.iter().flatten().map(|one| &one.key);
    if labels.is_none() && by_labels.chain(by_expressions).any(|label| label != NAME_LABEL) {
        return None;
    }
    Some(matches(selector, |label| match label {
        NAME_LABEL => Some(&**name),
        label => labels.and_then(|labels| labels.get(label)).map(|value| &**value),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_policies_that_may_not_be_listed_are_not_known() {
        let list = |extent| NetworkPolicyList { items: Vec::new(), extent };
        let missing = |extent, of: [&'static str; 2]| list(extent).not_listed(of.into_iter());
        assert_eq!(missing(NetworkPolicyExtent::All, ["shop", "bank"]), None);
        let shop = || NetworkPolicyExtent::Namespace("shop".into());
        assert_eq!(missing(shop(), ["shop", "shop"]), None);
        let words = "networkpolicies.networking.k8s.io";
        let bank = missing(shop(), ["shop", "bank"]);
        assert_eq!(bank, Some(format!("{words} of namespace bank")));
        assert_eq!(missing(NetworkPolicyExtent::None, ["shop", "shop"]), Some(words.to_owned()));
    }
}
