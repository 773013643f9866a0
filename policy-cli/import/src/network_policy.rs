//! Kubernetes' NetworkPolicy: its ingress rules (networking.k8s.io/v1).

use crate::file::{ImportFile, SourceNode};
use crate::label_selector::{ReadSelector, label_selector, named_namespaces};
use crate::manifest::Imported;
use crate::mesh::{
    ClientCondition, DeniedClients, IdentityCondition, MeshDenial, MeshGrant, MeshPolicies,
    NamedClients, NetworkCondition, PortChoice, SelectedWorkloads, WorkloadUnits, note_unread,
    write_servers,
};
use crate::report::Fidelity;
use policy_crds::{LabelSelector, quote};

/// The label that Kubernetes gives each Namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The versions of NetworkPolicy that API servers no longer have, and none at all.
const FORMER_VERSIONS: &[&str] = &["", "v1", "extensions/v1beta1"];
const CLUSTER: &str = "pods are admitted from the networks of the NetworkSet `cluster` alone";
/// The note of rules without ports.
const EVERY_PROTOCOL: &str = "without ports it is for UDP and SCTP too, which pass no sidecar";
const TCP_ALONE: &str = "TCP alone: keep the NetworkPolicy for UDP and SCTP";
const OF_FILES: &str = "of the namespaces with these labels, those of the files alone";
const IDENTITY: &str = "by identity: a pod without a sidecar is refused";

/// A policy that is read.
struct NetworkPolicyReading<'a> {
    name: String,
    namespace: String,
    selection: SelectedWorkloads,
    workloads: &'a WorkloadUnits,
    policies: &'a mut MeshPolicies,
}

/// The ingress rules of NetworkPolicies in files that have the workloads, too. `namespace` is that of objects
/// without one.
///
/// # Errors
/// There is none, or one has another form than its definition says.
pub fn network_policies(
    files: &[ImportFile],
    namespace: Option<&str>,
) -> Result<Imported, Vec<String>> {
    let mut policies = MeshPolicies::default();
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let (mut errors, mut count) = (Vec::new(), 0_usize);
    for object in files.iter().flat_map(ImportFile::objects) {
        if !is_network_policy(&object) {
            errors.extend(foreign(&object));
            continue;
        }
        count = count.saturating_add(1);
        errors.extend(read(&object, namespace, &workloads, &mut policies).err());
    }
    note_unread(files, is_network_policy, &mut policies);
    if count == 0 && errors.is_empty() {
        let message = "no NetworkPolicy: that of networking.k8s.io/v1 is read";
        errors.push(ImportFile::nothing_read(files, message));
    }
    if errors.is_empty() { write_servers(policies, &workloads) } else { Err(errors) }
}

fn is_network_policy(object: &SourceNode<'_>) -> bool {
    let is_it = |key: &str, text: &str| object.get(key).is_some_and(|it| it.value() == text);
    is_it("kind", "NetworkPolicy") && is_it("apiVersion", "networking.k8s.io/v1")
}

/// The error of a policy of another system, which may deny what a NetworkPolicy allows.
fn foreign(object: &SourceNode<'_>) -> Option<String> {
    let kind = object.get("kind")?.scalar()?;
    let version = object.get("apiVersion").and_then(|it| it.scalar()).unwrap_or_default();
    if kind == "NetworkPolicy" && FORMER_VERSIONS.contains(&version.as_str()) {
        let message =
            format!("version {} is not read, write `networking.k8s.io/v1`", quote(&version));
        return Some(object.error(message));
    }
    let message = format!(
        "{} may deny what a NetworkPolicy allows, and is not translated: leave it in force and out of the files",
        quote(&kind)
    );
    kind.ends_with("NetworkPolicy").then(|| object.error(message))
}

fn read(
    object: &SourceNode<'_>,
    namespace: Option<&str>,
    workloads: &WorkloadUnits,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    let metadata = object.require("metadata")?;
    let name = metadata.text_of("name")?.to_owned();
    let subject = format!("NetworkPolicy {name}");
    let own = metadata.get("namespace").map(|it| it.text()).transpose()?.or(namespace);
    let own = own.ok_or_else(|| object.error("names no namespace: give one with --namespace"))?;
    let spec = object.require("spec")?;
    let types = spec.texts_of("policyTypes")?;
    if let Some(other) = types.iter().find(|it| !["Ingress", "Egress"].contains(*it)) {
        let node = spec.get("policyTypes").unwrap_or_else(|| spec.clone());
        return Err(node.error(format!("{}: `Ingress` and `Egress` are allowed", quote(other))));
    }
    if spec.get("egress").is_some() || types.contains(&"Egress") {
        let note = "egress: what pods may call is not decided here";
        let place = spec.get("egress").unwrap_or_else(|| spec.clone()).place();
        policies.omit(place, &subject, note);
    }
    if !types.is_empty() && !types.contains(&"Ingress") {
        return Ok(());
    }
    let selector = match spec.get("podSelector") {
        Some(node) => match label_selector(&node)? {
            ReadSelector::Selector(selector) => selector,
            ReadSelector::Unsayable(reason) => {
                withhold((object, &subject), own, &reason, policies);
                return Ok(());
            }
        },
        None => LabelSelector::default(),
    };
    let row = policies.row(object.place(), &subject);
    policies.worsen(row, Fidelity::Narrower, TCP_ALONE);
    if selector == LabelSelector::default() {
        policies.closed_namespaces.insert(own.to_owned());
    }
    let namespace = own.to_owned();
    let selection = SelectedWorkloads::Labels { namespace: Some(namespace.clone()), selector };
    policies.closures.push((row, selection.clone()));
    let mut reading = NetworkPolicyReading { name, namespace, selection, workloads, policies };
    for (number, rule) in (1_usize..).zip(spec.list_of("ingress")?) {
        let row = reading.policies.row(rule.place(), &format!("{subject} rule {number}"));
        reading.rule(&rule, row)?;
    }
    Ok(())
}

/// Closes a namespace and grants nothing there, because every pod may have been meant.
fn withhold(
    (object, subject): (&SourceNode<'_>, &str),
    namespace: &str,
    reason: &str,
    policies: &mut MeshPolicies,
) {
    let row = policies.row(object.place(), subject);
    let note = format!("{reason}: its namespace is closed, and nothing is granted");
    policies.worsen(row, Fidelity::Omitted, &note);
    policies.closed_namespaces.insert(namespace.to_owned());
    policies.denials.push(MeshDenial {
        row,
        selection: SelectedWorkloads::Labels {
            namespace: Some(namespace.to_owned()),
            selector: LabelSelector::default(),
        },
        ports: None,
        clients: DeniedClients::All,
        requests: None,
    });
}

impl NetworkPolicyReading<'_> {
    fn rule(&mut self, rule: &SourceNode<'_>, row: usize) -> Result<(), String> {
        rule.entries()?;
        if let Some((_, message)) = rule.unknown(&["from", "ports"]) {
            self.policies.worsen(row, Fidelity::Omitted, &message);
            return Ok(());
        }
        let stated = rule.list_of("ports")?;
        if stated.is_empty() {
            self.policies.worsen(row, Fidelity::Narrower, EVERY_PROTOCOL);
        }
        let mut ports = Vec::new();
        for node in &stated {
            match port(node)? {
                Ok(choice) => ports.push(choice),
                Err(reason) => self.policies.worsen(row, Fidelity::Narrower, &reason),
            }
        }
        let peers = rule.list_of("from")?;
        let mut clients = Vec::new();
        if peers.is_empty() {
            clients.push(ClientCondition::anyone());
        }
        for peer in &peers {
            match self.peer(peer)? {
                Ok(one) => {
                    if one.identity != IdentityCondition::Anyone {
                        self.policies.worsen(row, Fidelity::Narrower, IDENTITY);
                    }
                    if by_labels(peer)? {
                        self.policies.worsen(row, Fidelity::Narrower, OF_FILES);
                    }
                    if one.networks == NetworkCondition::Cluster {
                        self.policies.worsen(row, Fidelity::Narrower, CLUSTER);
                    }
                    clients.push(one);
                }
                Err(reason) => self.policies.worsen(row, Fidelity::Narrower, &reason),
            }
        }
        if clients.is_empty() || (ports.is_empty() && !stated.is_empty()) {
            self.policies.worsen(row, Fidelity::Omitted, "nothing of it is granted");
            return Ok(());
        }
        let ports = (!ports.is_empty()).then_some(ports);
        self.policies.grants.extend(clients.into_iter().map(|clients| MeshGrant {
            row,
            name: self.name.clone(),
            selection: self.selection.clone(),
            ports: ports.clone(),
            clients,
            requests: None,
        }));
        Ok(())
    }

    /// The clients that a peer stands for; or why nobody does.
    fn peer(&self, peer: &SourceNode<'_>) -> Result<Result<ClientCondition, String>, String> {
        if let Some((_, message)) = peer.unknown(&["ipBlock", "namespaceSelector", "podSelector"]) {
            return Ok(Err(message));
        }
        if peer.entries()?.iter().all(|(_, node)| node.value().is_null()) {
            return Err(peer.error("names nobody: `{}` is no peer, and all peers are no `from`"));
        }
        if let Some(block) = peer.get("ipBlock") {
            return addresses(peer, &block);
        }
        let namespaces = selector_of(peer, "namespaceSelector")?;
        let pods = selector_of(peer, "podSelector")?;
        let namespaces = match namespaces {
            None => vec![self.namespace.clone()],
            Some(ReadSelector::Selector(selector)) => {
                let all = ReadSelector::Selector(LabelSelector::default());
                if selector == LabelSelector::default() && pods.as_ref().is_none_or(|it| *it == all)
                {
                    let (identity, networks) =
                        (IdentityCondition::Verified, NetworkCondition::Cluster);
                    return Ok(Ok(ClientCondition { identity, networks }));
                }
                let named = named_namespaces(&selector, NAMESPACE_NAME);
                let names = named.unwrap_or_else(|| self.workloads.namespaces_with(&selector));
                if names.is_empty() {
                    let note = format!(
                        "namespaces are named by `{NAMESPACE_NAME}`: no Namespace of the files has these labels"
                    );
                    return Ok(Err(note));
                }
                names
            }
            Some(ReadSelector::Unsayable(reason)) => return Ok(Err(reason)),
        };
        let mut named = NamedClients::default();
        match pods {
            Some(ReadSelector::Selector(selector)) if selector != LabelSelector::default() => {
                for namespace in &namespaces {
                    let found =
                        self.workloads.accounts(namespace, |unit| selector.matches(&unit.labels));
                    named.accounts.extend(found.unwrap_or_default());
                }
                if named.accounts.is_empty() {
                    let note = "labels of pods: no ServiceAccount of the files is theirs alone";
                    return Ok(Err(note.to_owned()));
                }
            }
            Some(ReadSelector::Unsayable(reason)) => return Ok(Err(reason)),
            Some(ReadSelector::Selector(_)) | None => {
                named.namespaces.extend(namespaces);
            }
        }
        // The source means pods: an identity of theirs is admitted from the cluster's networks alone.
        let (identity, networks) = (IdentityCondition::Named(named), NetworkCondition::Cluster);
        Ok(Ok(ClientCondition { identity, networks }))
    }
}

/// The clients of a block of addresses.
fn addresses(
    peer: &SourceNode<'_>,
    block: &SourceNode<'_>,
) -> Result<Result<ClientCondition, String>, String> {
    if peer.get("namespaceSelector").or_else(|| peer.get("podSelector")).is_some() {
        return Err(block.error("stands alone in a peer, without selectors of pods"));
    }
    if let Some((_, message)) = block.unknown(&["cidr", "except"]) {
        return Ok(Err(message));
    }
    let except = block.texts_of("except")?.into_iter().map(str::to_owned).collect();
    let network = (block.text_of("cidr")?.to_owned(), except);
    let networks = NetworkCondition::Listed(vec![network]);
    Ok(Ok(ClientCondition { identity: IdentityCondition::Anyone, networks }))
}

/// True if a peer names namespaces by labels other than their name.
fn by_labels(peer: &SourceNode<'_>) -> Result<bool, String> {
    Ok(match selector_of(peer, "namespaceSelector")? {
        Some(ReadSelector::Selector(selector)) => {
            selector != LabelSelector::default()
                && named_namespaces(&selector, NAMESPACE_NAME).is_none()
        }
        Some(ReadSelector::Unsayable(_)) | None => false,
    })
}

fn selector_of(node: &SourceNode<'_>, key: &str) -> Result<Option<ReadSelector>, String> {
    node.get(key).map(|node| label_selector(&node)).transpose()
}

/// A port of a rule; or why it is none of TCP.
fn port(node: &SourceNode<'_>) -> Result<Result<PortChoice, String>, String> {
    node.entries()?;
    if let Some((_, message)) = node.unknown(&["port", "protocol", "endPort"]) {
        return Ok(Err(message));
    }
    let protocol = node.get("protocol").map(|it| it.text()).transpose()?.unwrap_or("TCP");
    match protocol {
        "TCP" => {}
        "UDP" | "SCTP" => return Ok(Err(format!("{} passes no sidecar", quote(protocol)))),
        other => {
            let message = format!("protocol {}: `TCP`, `UDP` and `SCTP` are allowed", quote(other));
            return Err(node.error(message));
        }
    }
    let end = node.get("endPort");
    let Some(first) = node.get("port") else {
        let Some(end) = end else { return Ok(Ok(PortChoice::Range(1, u16::MAX))) };
        return Err(end.error("`port` is required beside it"));
    };
    if let Some(name) = first.value().as_str() {
        if !name.contains(|it: char| it.is_ascii_alphabetic()) {
            let message = format!("{} is the name of no port: a number has no quotes", quote(name));
            return Err(first.error(message));
        }
        if let Some(end) = end {
            return Err(end.error("must be absent beside the name of a port"));
        }
        return Ok(Ok(PortChoice::Name(name.to_owned())));
    }
    let number = |node: &SourceNode<'_>| {
        let number =
            node.value().as_u64().and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
        number.ok_or_else(|| node.error("a port from 1 to 65535 is expected"))
    };
    let first = number(&first)?;
    let last = end.as_ref().map(number).transpose()?.unwrap_or(first);
    if let Some(end) = end.filter(|_| last < first) {
        return Err(end.error(format!("is below `port`, which is {first}")));
    }
    Ok(Ok(PortChoice::Range(first, last)))
}
