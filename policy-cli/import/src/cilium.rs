//! CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy: their ingress rules (cilium.io/v2).

mod networks;
mod peer;
mod port;
mod request;
mod selector;

use crate::file::{ImportFile, SourceNode};
use crate::manifest::Imported;
use crate::mesh::{
    ClientCondition, DeniedClients, MeshDenial, MeshGrant, MeshPolicies, SelectedWorkloads,
    WorkloadUnits, note_unread, write_servers,
};
use crate::report::Fidelity;
use networks::ClusterNetworks;
use peer::CiliumPeers;
use policy_crds::{LabelSelector, quote};
use port::{CiliumPorts, ports};
use selector::{CiliumSelector, selector};

/// The kinds that are read.
const KINDS: &[&str] = &["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"];
const TCP_ALONE: &str = "TCP alone: keep the policy for UDP, SCTP and ICMP";
const WITH_PODS: &str = "denied from the pods and nodes of these networks, too";
const FIELDS: &[&str] = &[
    "description",
    "egress",
    "egressDeny",
    "enableDefaultDeny",
    "endpointSelector",
    "ingress",
    "ingressDeny",
    "labels",
    "nodeSelector",
];

/// One spec of a policy.
struct CiliumReading<'a> {
    name: String,
    subject: String,
    /// The namespace of the policy; absent: it is of the whole cluster.
    namespace: Option<String>,
    selection: SelectedWorkloads,
    workloads: &'a WorkloadUnits,
    networks: &'a ClusterNetworks,
    policies: &'a mut MeshPolicies,
}

/// The ingress rules of Cilium's policies in files that have the workloads, too. `namespace` is that of objects
/// without one, `cluster` the networks of pods and nodes, which are no clients of a CIDR.
///
/// # Errors
/// There is none, or one has another form than its definition says.
pub fn cilium(
    files: &[ImportFile],
    namespace: Option<&str>,
    cluster: &[String],
) -> Result<Imported, Vec<String>> {
    let networks = ClusterNetworks::read(cluster).map_err(|error| vec![error])?;
    let mut policies = MeshPolicies::default();
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let (mut errors, mut count) = (Vec::new(), 0_usize);
    for object in files.iter().flat_map(ImportFile::objects) {
        if !is_policy(&object) {
            errors.extend(foreign(&object));
            continue;
        }
        count = count.saturating_add(1);
        let read = read(&object, namespace, (&workloads, &networks), &mut policies);
        errors.extend(read.err());
    }
    note_unread(files, is_policy, &mut policies);
    if count == 0 && errors.is_empty() {
        let message = "no CiliumNetworkPolicy and no CiliumClusterwideNetworkPolicy: those of cilium.io/v2 are read";
        errors.push(ImportFile::nothing_read(files, message));
    }
    if errors.is_empty() { write_servers(policies, &workloads) } else { Err(errors) }
}

fn is_policy(object: &SourceNode<'_>) -> bool {
    let text = |key: &str| object.get(key).and_then(|it| it.value().as_str());
    text("apiVersion") == Some("cilium.io/v2") && text("kind").is_some_and(|it| KINDS.contains(&it))
}

/// The error of a policy of another system, which may deny what one of Cilium allows.
fn foreign(object: &SourceNode<'_>) -> Option<String> {
    let kind = object.get("kind")?.scalar()?;
    let version = object.get("apiVersion").and_then(|it| it.scalar()).unwrap_or_default();
    if KINDS.contains(&kind.as_str()) {
        let message = format!("version {} is not read, write `cilium.io/v2`", quote(&version));
        return Some(object.error(message));
    }
    let message = format!(
        "{} may deny what Cilium's policies allow, and is not translated: leave it in force and out of the files",
        quote(&kind)
    );
    kind.ends_with("NetworkPolicy").then(|| object.error(message))
}

fn read(
    object: &SourceNode<'_>,
    namespace: Option<&str>,
    (workloads, networks): (&WorkloadUnits, &ClusterNetworks),
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    let metadata = object.require("metadata")?;
    let name = metadata.text_of("name")?.to_owned();
    let kind = object.text_of("kind")?;
    let own = if kind == "CiliumNetworkPolicy" {
        let own = metadata.get("namespace").map(|it| it.text()).transpose()?.or(namespace);
        let missing = || object.error("names no namespace: give one with --namespace");
        Some(own.ok_or_else(missing)?.to_owned())
    } else {
        None
    };
    let mut specs: Vec<(SourceNode<'_>, String)> = Vec::new();
    specs.extend(object.get("spec").map(|spec| (spec, format!("{kind} {name}"))));
    for (number, spec) in (1_usize..).zip(object.list_of("specs")?) {
        specs.push((spec, format!("{kind} {name} spec {number}")));
    }
    if specs.is_empty() {
        return Err(object.error("`spec` or `specs` is required"));
    }
    for (spec, subject) in specs {
        let labels = LabelSelector::default();
        let selection = SelectedWorkloads::Labels { namespace: own.clone(), selector: labels };
        let (name, namespace) = (name.clone(), own.clone());
        CiliumReading { name, subject, namespace, selection, workloads, networks, policies }
            .spec(&spec)?;
    }
    Ok(())
}

impl CiliumReading<'_> {
    fn spec(&mut self, spec: &SourceNode<'_>) -> Result<(), String> {
        spec.entries()?;
        for key in ["egress", "egressDeny"] {
            if let Some(egress) = spec.get(key) {
                let note = format!("{key}: what pods may call is not decided here");
                self.policies.omit(egress.place(), &self.subject, note);
            }
        }
        let (allowed, denied) = (spec.list_of("ingress")?, spec.list_of("ingressDeny")?);
        if let Some(nodes) = spec.get("nodeSelector") {
            self.policies.omit(nodes.place(), &self.subject, "nodeSelector: nodes have no sidecar");
            return Ok(());
        }
        if let Some((_, message)) = spec.unknown(FIELDS) {
            self.withhold(spec, &message);
            return Ok(());
        }
        if allowed.is_empty() && denied.is_empty() {
            let note = "without ingress rules it decides nothing about what is received";
            self.policies.omit(spec.place(), &self.subject, note);
            return Ok(());
        }
        if let Err(reason) = self.select(&spec.require("endpointSelector")?)? {
            self.withhold(spec, &reason);
            return Ok(());
        }
        let row = self.policies.row(spec.place(), &self.subject);
        self.policies.worsen(row, Fidelity::Narrower, TCP_ALONE);
        if spec.get("enableDefaultDeny").is_some() {
            let note = "enableDefaultDeny: what nothing grants is refused all the same";
            self.policies.worsen(row, Fidelity::Narrower, note);
        }
        self.policies.closures.push((row, self.selection.clone()));
        for (number, rule) in (1_usize..).zip(&allowed) {
            let row = self.policies.row(rule.place(), &format!("{} rule {number}", self.subject));
            self.allow(rule, row)?;
        }
        for (number, rule) in (1_usize..).zip(&denied) {
            let row = self.policies.row(rule.place(), &format!("{} denial {number}", self.subject));
            self.deny(rule, row)?;
        }
        Ok(())
    }

    /// Takes the workloads of a spec; or says why they cannot be said.
    fn select(&mut self, endpoints: &SourceNode<'_>) -> Result<Result<(), String>, String> {
        let CiliumSelector { namespaces, labels, account } =
            match selector(endpoints, self.namespace.as_deref())? {
                Ok(selector) => selector,
                Err(reason) => return Ok(Err(reason)),
            };
        if account.is_some() {
            return Ok(Err("endpointSelector: pods are selected by a ServiceAccount".to_owned()));
        }
        let namespace = match namespaces.as_deref() {
            None => None,
            Some([one]) => Some(one.clone()),
            Some(_) => return Ok(Err("endpointSelector: names several namespaces".to_owned())),
        };
        // A policy of a namespace is about no pods elsewhere, whatever its labels say.
        if self.namespace.is_some() && namespace != self.namespace {
            return Ok(Err("endpointSelector: names another namespace".to_owned()));
        }
        if labels == LabelSelector::default() {
            self.close(namespace.clone());
        }
        self.selection = SelectedWorkloads::Labels { namespace, selector: labels };
        Ok(Ok(()))
    }

    /// Closes every workload that may have been meant, and grants nothing there.
    fn withhold(&mut self, spec: &SourceNode<'_>, reason: &str) {
        let row = self.policies.row(spec.place(), &self.subject);
        let note =
            format!("{reason}: what it may be about is closed, and nothing is granted there");
        self.policies.worsen(row, Fidelity::Omitted, &note);
        self.close(self.namespace.clone());
        self.deny_all(row);
    }

    /// Closes the workloads of a namespace; absent: of each.
    fn close(&mut self, namespace: Option<String>) {
        match namespace {
            Some(own) => {
                self.policies.closed_namespaces.insert(own);
            }
            None => self.policies.denies_by_default = true,
        }
    }

    /// Denies everything to the selected workloads.
    fn deny_all(&mut self, row: usize) {
        self.policies.denials.push(MeshDenial {
            row,
            selection: self.selection.clone(),
            ports: None,
            clients: DeniedClients::All,
            requests: None,
        });
    }

    fn allow(&mut self, rule: &SourceNode<'_>, row: usize) -> Result<(), String> {
        rule.entries()?;
        if rule.get("fromRequires").is_some() {
            let note =
                "fromRequires: a condition on every rule of these pods; nothing is granted to them";
            self.policies.worsen(row, Fidelity::Omitted, note);
            self.deny_all(row);
            return Ok(());
        }
        let mut peers = CiliumPeers::new(self.namespace.as_deref(), self.workloads, self.networks);
        let clients = peers.of_rule(rule)?;
        let found = ports(rule)?;
        for note in peers.notes.iter().chain(&found.notes) {
            self.policies.worsen(row, Fidelity::Narrower, note);
        }
        if clients.is_empty() || found.ports.is_empty() {
            self.policies.worsen(row, Fidelity::Omitted, "nothing of it is granted");
            return Ok(());
        }
        for clients in clients {
            self.policies.grants.extend(found.ports.iter().map(|(ports, requests)| MeshGrant {
                row,
                name: self.name.clone(),
                selection: self.selection.clone(),
                ports: ports.clone(),
                clients: clients.clone(),
                requests: requests.clone(),
            }));
        }
        Ok(())
    }

    /// Adds the denials of a rule. A part that cannot be said is of everything.
    fn deny(&mut self, rule: &SourceNode<'_>, row: usize) -> Result<(), String> {
        rule.entries()?;
        let peers = CiliumPeers::new(self.namespace.as_deref(), self.workloads, self.networks);
        let clients: Vec<DeniedClients> = match peers.denied(rule)? {
            Ok(networks) => {
                self.policies.worsen(row, Fidelity::Narrower, WITH_PODS);
                let of = |networks| ClientCondition { networks, ..ClientCondition::anyone() };
                networks.into_iter().map(|it| DeniedClients::These(of(it))).collect()
            }
            Err(None) => vec![DeniedClients::All],
            Err(Some(reason)) => {
                let note = format!("{reason}: denied from everybody");
                self.policies.worsen(row, Fidelity::Narrower, &note);
                vec![DeniedClients::All]
            }
        };
        let CiliumPorts { mut ports, notes } = ports(rule)?;
        let known = [port::OTHER_PROTOCOLS, port::ANY_PROTOCOL];
        let other = |note: &&String| !known.contains(&note.as_str());
        if notes.iter().any(|note| note == port::ANY_PROTOCOL) {
            self.policies.worsen(row, Fidelity::Narrower, port::ANY_PROTOCOL);
        }
        if let Some(note) = notes.iter().find(other) {
            let note = format!("{note}: denied on every port");
            self.policies.worsen(row, Fidelity::Narrower, &note);
            ports = vec![(None, None)];
        } else if ports.is_empty() {
            self.policies.worsen(row, Fidelity::Omitted, port::OTHER_PROTOCOLS);
        }
        for clients in clients {
            self.policies.denials.extend(ports.iter().map(|(ports, requests)| MeshDenial {
                row,
                selection: self.selection.clone(),
                ports: ports.clone(),
                clients: clients.clone(),
                requests: requests.clone(),
            }));
        }
        Ok(())
    }
}
