//! Peers of rules: clients by CIDR, by labels of pods, and by entity.

use super::networks::{ClusterNetworks, ListedNetwork, with_length};
use super::selector::{CiliumSelector, selector};
use crate::file::SourceNode;
use crate::mesh::{
    ClientCondition, IdentityCondition, NamedClients, NetworkCondition, WorkloadUnits,
};
use policy_crds::{LabelSelector, quote};

const PODS: &str = "pods by identity, from the networks of the NetworkSet `cluster` alone";
const FIELDS: &[&str] = &["fromCIDR", "fromCIDRSet", "fromEndpoints", "fromEntities", "toPorts"];

/// A reader of peers, with what is lost.
pub(super) struct CiliumPeers<'a> {
    namespace: Option<&'a str>,
    workloads: &'a WorkloadUnits,
    networks: &'a ClusterNetworks,
    /// The differences.
    pub(super) notes: Vec<String>,
}

impl<'a> CiliumPeers<'a> {
    /// A reader for a policy of a namespace, or of the cluster.
    pub(super) fn new(
        namespace: Option<&'a str>,
        workloads: &'a WorkloadUnits,
        networks: &'a ClusterNetworks,
    ) -> Self {
        Self { namespace, workloads, networks, notes: Vec::new() }
    }

    /// The list that names the peers of a rule; absent: none does. Cilium refuses a rule with two.
    fn list<'n>(rule: &SourceNode<'n>) -> Result<Option<(&'n str, Vec<SourceNode<'n>>)>, String> {
        if let Some((_, message)) = rule.unknown(FIELDS) {
            return Err(message);
        }
        let mut found = None;
        for (key, node) in rule.entries()? {
            if key == "toPorts" || node.value().is_null() {
                continue;
            }
            if found.is_some() {
                return Err("a rule with two lists of peers is none of Cilium's".to_owned());
            }
            found = Some((key, node.list()?));
        }
        Ok(found)
    }

    /// The clients of a rule that allows.
    ///
    /// # Errors
    /// It has another form.
    pub(super) fn of_rule(
        &mut self,
        rule: &SourceNode<'_>,
    ) -> Result<Vec<ClientCondition>, String> {
        let (key, peers) = match Self::list(rule) {
            Ok(Some(found)) => found,
            // A rule without peers and ports allows nothing: it closes its pods.
            Ok(None) if rule.get("toPorts").is_none() => return Ok(Vec::new()),
            Ok(None) => return Ok(vec![ClientCondition::anyone()]),
            Err(reason) => {
                self.notes.push(reason);
                return Ok(Vec::new());
            }
        };
        let mut clients = Vec::new();
        for peer in &peers {
            let one = match key {
                "fromEndpoints" => self.endpoints(peer)?,
                "fromEntities" => self.entity(peer.text()?),
                _ => self.outside(peer)?.map(|networks| {
                    vec![ClientCondition { networks, ..ClientCondition::anyone() }]
                }),
            };
            match one {
                Ok(found) => clients.extend(found),
                Err(reason) => self.notes.push(reason),
            }
        }
        if clients.iter().any(|it| it.identity != IdentityCondition::Anyone) {
            self.notes.push(PODS.to_owned());
        }
        Ok(clients)
    }

    /// The networks of a rule that denies; `Err(None)`: everybody; otherwise the reason why they cannot be said.
    ///
    /// # Errors
    /// It has another form.
    pub(super) fn denied(
        &self,
        rule: &SourceNode<'_>,
    ) -> Result<Result<Vec<NetworkCondition>, Option<String>>, String> {
        let (key, peers) = match Self::list(rule) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Err(None)),
            Err(reason) => return Ok(Err(Some(reason))),
        };
        if !matches!(key, "fromCIDR" | "fromCIDRSet") {
            return Ok(Err(Some(format!("{key} names pods by their labels"))));
        }
        let mut networks = Vec::new();
        for peer in &peers {
            match cidr(peer)? {
                // With the pods and nodes in it: the networks of the cluster may be stated too wide.
                Ok(listed) => networks.push(NetworkCondition::Listed(vec![listed])),
                Err(reason) => return Ok(Err(Some(reason))),
            }
        }
        Ok(Ok(networks))
    }

    fn outside(&self, peer: &SourceNode<'_>) -> Result<Result<NetworkCondition, String>, String> {
        let outside = |(cidr, except): ListedNetwork| self.networks.outside(&cidr, except);
        let listed = |network| NetworkCondition::Listed(vec![network]);
        Ok(cidr(peer)?.and_then(outside).map(listed))
    }

    fn entity(&self, name: &str) -> Result<Vec<ClientCondition>, String> {
        let world = |cidr: &str| {
            let network = self.networks.outside(cidr, Vec::new())?;
            let networks = NetworkCondition::Listed(vec![network]);
            Ok(ClientCondition { networks, ..ClientCondition::anyone() })
        };
        match name {
            "all" => Ok(vec![ClientCondition::anyone()]),
            "cluster" => Ok(vec![pods(IdentityCondition::Verified)]),
            "world" => ["0.0.0.0/0", "::/0"].into_iter().map(world).collect(),
            "world-ipv4" => Ok(vec![world("0.0.0.0/0")?]),
            "world-ipv6" => Ok(vec![world("::/0")?]),
            _ => Err(format!("the entity {} has no identity here", quote(name))),
        }
    }

    fn endpoints(
        &self,
        peer: &SourceNode<'_>,
    ) -> Result<Result<Vec<ClientCondition>, String>, String> {
        let CiliumSelector { namespaces, labels, account } = match selector(peer, self.namespace)? {
            Ok(selector) => selector,
            Err(reason) => return Ok(Err(reason)),
        };
        let everybody = labels == LabelSelector::default();
        let Some(namespaces) = namespaces else {
            let all = everybody && account.is_none();
            let note = "labels of pods of every namespace: no ServiceAccount is theirs alone";
            let found = vec![pods(IdentityCondition::Verified)];
            return Ok(if all { Ok(found) } else { Err(note.to_owned()) });
        };
        let mut named = NamedClients::default();
        match (account, everybody) {
            (Some(account), true) => {
                let of = |namespace| (namespace, account.clone());
                named.accounts.extend(namespaces.into_iter().map(of));
            }
            (Some(_), false) => {
                let note = "a ServiceAccount and labels of pods: not all of its pods are meant";
                return Ok(Err(note.to_owned()));
            }
            (None, true) => {
                named.namespaces.extend(namespaces);
            }
            (None, false) => {
                let of = |namespace: &String| {
                    self.workloads.accounts(namespace, |unit| labels.matches(&unit.labels))
                };
                named.accounts.extend(namespaces.iter().filter_map(of).flatten());
                if named.accounts.is_empty() {
                    let note = "labels of pods: no ServiceAccount of the files is theirs alone";
                    return Ok(Err(note.to_owned()));
                }
            }
        }
        Ok(Ok(vec![pods(IdentityCondition::Named(named))]))
    }
}

/// A CIDR with its exceptions, each with a length; or why it cannot be said.
fn cidr(peer: &SourceNode<'_>) -> Result<Result<ListedNetwork, String>, String> {
    if let Some(cidr) = peer.value().as_str() {
        return Ok(with_length(cidr).map(|cidr| (cidr, Vec::new())));
    }
    peer.entries()?;
    if let Some((_, message)) = peer.unknown(&["cidr", "except"]) {
        return Ok(Err(message));
    }
    let except = peer.texts_of("except")?.into_iter().map(str::to_owned).collect();
    Ok(with_length(peer.text_of("cidr")?).map(|cidr| (cidr, except)))
}

/// Pods with an identity: from the cluster's networks alone.
fn pods(identity: IdentityCondition) -> ClientCondition {
    ClientCondition { identity, networks: NetworkCondition::Cluster }
}
