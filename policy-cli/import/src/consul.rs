//! Consul: ServiceIntentions (consul.hashicorp.com/v1alpha1). A service is the ServiceAccount of its name, as
//! Consul requires where it verifies services.

mod permission;

use crate::file::{ImportFile, SourceNode};
use crate::manifest::Imported;
use crate::mesh::{
    ClientCondition, IdentityCondition, MeshGrant, MeshPolicies, NamedClients, RequestCondition,
    SelectedWorkloads, WorkloadUnits, note_unread, write_servers,
};
use crate::report::Fidelity;
use permission::allowed_requests;
use policy_crds::{LabelSelector, quote};
use std::collections::BTreeSet;

/// The name that stands for every service.
const ANY: &str = "*";
/// The namespace of whatever states none.
const DEFAULT_NAMESPACE: &str = "default";
/// The fields of a source; others name clusters, partitions and conditions that are not here.
const SOURCE: &[&str] = &["name", "namespace", "action", "permissions", "description"];

/// The decision of an intention about one source.
#[derive(Clone, Debug)]
struct ConsulIntention {
    row: usize,
    object: String,
    destination: String,
    source: String,
    decision: ConsulDecision,
}

#[derive(Clone, Debug)]
enum ConsulDecision {
    Allow,
    Deny,
    /// These requests.
    Requests(Vec<RequestCondition>),
}

/// The intentions in files that have the workloads, too. `namespace` is that of workloads without one.
///
/// # Errors
/// There is none, or one has another form than its definition says.
pub fn consul(files: &[ImportFile], namespace: Option<&str>) -> Result<Imported, Vec<String>> {
    let mut policies = MeshPolicies { denies_by_default: true, ..MeshPolicies::default() };
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let (mut errors, mut intentions, mut count) = (Vec::new(), Vec::new(), 0_usize);
    for object in files.iter().flat_map(ImportFile::objects) {
        if !is_intentions(&object) {
            continue;
        }
        count = count.saturating_add(1);
        errors.extend(read(&object, &workloads, &mut policies, &mut intentions).err());
    }
    note_unread(files, is_intentions, &mut policies);
    if count == 0 {
        let message = "no ServiceIntentions: those of consul.hashicorp.com are read";
        errors.push(ImportFile::nothing_read(files, message));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    put_intentions(&mut policies, &intentions, &workloads);
    write_servers(policies, &workloads)
}

fn is_intentions(object: &SourceNode<'_>) -> bool {
    object.get("kind").is_some_and(|kind| kind.value() == "ServiceIntentions")
}

/// The reason why a node does not name the service of its name in the files: it says another namespace.
fn elsewhere(
    node: &SourceNode<'_>,
    name: &str,
    workloads: &WorkloadUnits,
) -> Result<Option<String>, String> {
    let Some(stated) = node.get("namespace") else { return Ok(None) };
    let stated = stated.text()?;
    let is_it = || workloads.units.iter().any(|it| it.account == name && it.namespace == stated);
    let reason = || format!("no service {} of the namespace {}", quote(name), quote(stated));
    Ok((stated != DEFAULT_NAMESPACE && !is_it()).then(reason))
}

fn read(
    object: &SourceNode<'_>,
    workloads: &WorkloadUnits,
    policies: &mut MeshPolicies,
    intentions: &mut Vec<ConsulIntention>,
) -> Result<(), String> {
    let name = object.require("metadata")?.text_of("name")?.to_owned();
    let spec = object.require("spec")?;
    let to = spec.require("destination")?;
    let destination = to.text_of("name")?.to_owned();
    let subject = format!("ServiceIntentions {name}");
    let row = policies.row(object.place(), &subject);
    policies.closures.push((row, selected(&destination)));
    let unknown = spec.unknown(&["destination", "sources"]);
    let unknown =
        unknown.or_else(|| to.unknown(&["name", "namespace"])).map(|(_, message)| message);
    let unknown = match unknown {
        Some(message) => Some(message),
        None => elsewhere(&to, &destination, workloads)?,
    };
    if let Some(message) = unknown {
        policies.worsen(row, Fidelity::Omitted, &format!("{message}: it grants nothing"));
        let denied = (destination, ANY.to_owned(), ConsulDecision::Deny);
        let (destination, source, decision) = denied;
        intentions.push(ConsulIntention { row, object: name, destination, source, decision });
        return Ok(());
    }
    for node in spec.list_of("sources")? {
        let source = node.text_of("name")?.to_owned();
        let row = policies.row(node.place(), &format!("{subject} from {source}"));
        let unknown = match node.unknown(SOURCE) {
            Some((_, message)) => Some(message),
            None => elsewhere(&node, &source, workloads)?,
        };
        let decision = match unknown {
            Some(message) => {
                policies.worsen(row, Fidelity::Omitted, &format!("{message}: denied"));
                ConsulDecision::Deny
            }
            None => decision(&node, row, policies)?,
        };
        let (destination, object) = (destination.clone(), name.clone());
        intentions.push(ConsulIntention { row, object, destination, source, decision });
    }
    Ok(())
}

fn decision(
    node: &SourceNode<'_>,
    row: usize,
    policies: &mut MeshPolicies,
) -> Result<ConsulDecision, String> {
    if node.get("permissions").is_some() {
        let requests = allowed_requests(node, |note| {
            policies.worsen(row, Fidelity::Narrower, note);
        })?;
        return Ok(ConsulDecision::Requests(requests));
    }
    let action = node.require("action")?;
    match action.text()? {
        "allow" => Ok(ConsulDecision::Allow),
        "deny" => Ok(ConsulDecision::Deny),
        other => {
            let allowed = "`allow` and `deny` are allowed";
            Err(action.error(format!("{}: {allowed}", quote(other))))
        }
    }
}

/// The workloads of a service.
fn selected(service: &str) -> SelectedWorkloads {
    if service == ANY {
        return SelectedWorkloads::Labels { namespace: None, selector: LabelSelector::default() };
    }
    SelectedWorkloads::Account { namespace: None, name: service.to_owned() }
}

/// Adds the grants of each service of the files. What is granted to every service is left out where one has
/// an intention of its own that grants less.
fn put_intentions(
    policies: &mut MeshPolicies,
    intentions: &[ConsulIntention],
    workloads: &WorkloadUnits,
) {
    let services: BTreeSet<&str> = workloads.units.iter().map(|unit| &*unit.account).collect();
    let sources: BTreeSet<&str> = intentions.iter().map(|it| &*it.source).collect();
    for service in services {
        if account(workloads, service).is_none() {
            let applying =
                |it: &&ConsulIntention| it.destination == service || it.destination == ANY;
            for it in intentions.iter().filter(applying) {
                let note = format!(
                    "the ServiceAccount {} is in several namespaces of the files: nothing is granted on it",
                    quote(service)
                );
                policies.worsen(it.row, Fidelity::Narrower, &note);
            }
            continue;
        }
        let mut is_less_for_one = false;
        for source in sources.iter().filter(|source| **source != ANY) {
            let found = winner(policies, intentions, service, source);
            let Some((intention, is_clear)) = found else { continue };
            let clients = account(workloads, source).filter(|_| is_clear);
            let is_whole = matches!(intention.decision, ConsulDecision::Allow);
            is_less_for_one |= clients.is_none() || !is_whole;
            match clients {
                Some(clients) => put(policies, service, clients, intention),
                None if !is_clear => {}
                None => {
                    let note = format!(
                        "the ServiceAccount {} is to be in one namespace of the files",
                        quote(source)
                    );
                    policies.worsen(intention.row, Fidelity::Narrower, &note);
                }
            }
        }
        let found = winner(policies, intentions, service, ANY);
        let Some((intention, true)) = found else { continue };
        if is_less_for_one && !matches!(intention.decision, ConsulDecision::Deny) {
            let note =
                "for every service it would hold for those that another one names, too: left out";
            policies.worsen(intention.row, Fidelity::Narrower, note);
            continue;
        }
        put(policies, service, IdentityCondition::Verified, intention);
    }
}

/// The intention that counts: with the name of the destination before one about every destination, and then
/// with the name of the source. Of several none, and what remains denies.
fn winner<'a>(
    policies: &mut MeshPolicies,
    intentions: &'a [ConsulIntention],
    service: &str,
    source: &str,
) -> Option<(&'a ConsulIntention, bool)> {
    let applies = |it: &&ConsulIntention| {
        (it.destination == service || it.destination == ANY)
            && (it.source == source || it.source == ANY)
    };
    let rank = |it: &&ConsulIntention| (it.destination != ANY, it.source != ANY);
    let best = intentions.iter().filter(applies).map(|it| rank(&it)).max()?;
    let mut first = intentions.iter().filter(applies).filter(|it| rank(it) == best);
    let (one, other) = (first.next()?, first.next());
    let Some(other) = other else { return Some((one, true)) };
    for it in [one, other] {
        let note = "two intentions are about the same services: none of them grants anything";
        policies.worsen(it.row, Fidelity::Narrower, note);
    }
    Some((one, false))
}

fn put(
    policies: &mut MeshPolicies,
    service: &str,
    identity: IdentityCondition,
    intention: &ConsulIntention,
) {
    let requests = match &intention.decision {
        ConsulDecision::Deny => return,
        ConsulDecision::Allow => None,
        ConsulDecision::Requests(requests) => Some(requests.clone()),
    };
    if requests.as_ref().is_some_and(Vec::is_empty) {
        return;
    }
    policies.grants.push(MeshGrant {
        row: intention.row,
        name: intention.object.clone(),
        selection: selected(service),
        ports: None,
        clients: ClientCondition::with(identity),
        requests,
    });
}

/// The identity of a service of the files.
fn account(workloads: &WorkloadUnits, service: &str) -> Option<IdentityCondition> {
    let of = workloads.units.iter().filter(|unit| unit.account == service);
    let accounts: BTreeSet<(String, String)> =
        of.map(|unit| (unit.namespace.clone(), service.to_owned())).collect();
    let named = NamedClients { accounts, ..NamedClients::default() };
    (named.accounts.len() == 1).then_some(IdentityCondition::Named(named))
}
