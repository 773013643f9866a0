//! Servers, routes and grants of the policies, for each port of each workload that they close.

use super::clients::{ClientCondition, GrantRequirement};
use super::closures::{namespace_row, widen_denials};
use super::names::MeshObjects;
use super::plan::{PortPlan, plan};
use super::policies::{MeshPolicies, PortChoice, SelectedWorkloads};
use super::requests::RequestCondition;
use super::workloads::{WorkloadUnit, WorkloadUnits};
use crate::manifest::{Imported, Manifest};
use crate::report::Fidelity;
use policy_crds::{FieldError, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The most matches of a rule of an HTTPRoute, and of one HTTPRoute.
const RULE_MATCHES: usize = 8;
const ROUTE_MATCHES: usize = 64;

const UNSELECTED: &str = "no workload of these files is selected: give their manifests, too";
const AMBIGUOUS: &str =
    "no labels tell its workload apart from others of the files: its ports are closed";

/// Writes the policies.
///
/// # Errors
/// Objects that cannot be written, such as by names that are too long.
pub(crate) fn write_servers(
    mut policies: MeshPolicies,
    workloads: &WorkloadUnits,
) -> Result<Imported, Vec<String>> {
    leave_out_invalid(&mut policies);
    widen_denials(&mut policies, workloads);
    let mut objects = MeshObjects::default();
    let mut errors = Vec::new();
    let mut touched: BTreeSet<usize> = BTreeSet::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for unit in &workloads.units {
        let is_of_it = |selection: &SelectedWorkloads| selection.selects(unit);
        let closing = policies.closures.iter().filter(|(_, it)| is_of_it(it));
        let closing: Vec<usize> = closing.map(|(row, _)| *row).collect();
        let others = policies.grants.iter().map(|it| (it.row, &it.selection));
        let others = others.chain(policies.denials.iter().map(|it| (it.row, &it.selection)));
        touched.extend(others.filter(|(_, it)| is_of_it(it)).map(|(row, _)| row));
        touched.extend(&closing);
        let denial = policies.denials.iter().find(|it| is_of_it(&it.selection));
        let everyone = denial.map(|it| it.row).filter(|_| closing.is_empty());
        if closing.is_empty() && everyone.is_none() {
            open.insert(unit.namespace.clone());
            continue;
        }
        closed.insert(unit.namespace.clone());
        let written = put_unit(&mut objects, &mut policies, unit, everyone);
        errors.extend(written.err().into_iter().flatten().map(|error| error.to_string()));
    }
    note_untouched(&mut policies, &touched);
    note_undeclared(&mut policies, workloads);
    closed.extend(policies.closed_namespaces.iter().cloned());
    if policies.denies_by_default {
        closed.extend(open.iter().cloned());
    }
    let mut manifests = Vec::new();
    for namespace in &closed {
        if let Some(object) = workloads.namespaces.get(namespace) {
            match Manifest::denying_namespace(namespace, object) {
                Ok(manifest) => manifests.push(manifest),
                Err(found) => errors.extend(found.iter().map(ToString::to_string)),
            }
        }
        let row = namespace_row(&policies, workloads, (namespace, open.contains(namespace)));
        policies.rows.push(row);
    }
    manifests.extend(objects.manifests);
    policies.rows.sort_by(|one, other| one.place.cmp(&other.place));
    if errors.is_empty() { Ok(Imported { manifests, rows: policies.rows }) } else { Err(errors) }
}

/// Rows of what selects no workload are of nothing that is translated.
fn note_untouched(policies: &mut MeshPolicies, touched: &BTreeSet<usize>) {
    let mut rows: BTreeSet<usize> = policies.grants.iter().map(|it| it.row).collect();
    rows.extend(policies.denials.iter().map(|it| it.row));
    rows.extend(policies.closures.iter().map(|(row, _)| *row));
    for row in rows.difference(touched) {
        policies.worsen(*row, Fidelity::Omitted, UNSELECTED);
    }
}

/// Notes the ports of grants that no container of their workloads declares, which therefore have no Server.
fn note_undeclared(policies: &mut MeshPolicies, workloads: &WorkloadUnits) {
    let mut notes: Vec<(usize, String)> = Vec::new();
    for grant in &policies.grants {
        let units: Vec<&WorkloadUnit> =
            workloads.units.iter().filter(|unit| grant.selection.selects(unit)).collect();
        let is_declared = |choice: &PortChoice| {
            let mut ports = units.iter().flat_map(|unit| &unit.ports);
            ports.any(|(number, name)| choice.is(*number, name.as_deref()))
        };
        let undeclared = grant.ports.iter().flatten().filter(|choice| !is_declared(choice));
        let note = |choice: &PortChoice| {
            format!("no container of its workloads declares the port {choice}: it stays closed")
        };
        notes.extend(undeclared.filter(|_| !units.is_empty()).map(|it| (grant.row, note(it))));
    }
    for (row, note) in notes {
        policies.worsen(row, Fidelity::Narrower, &note);
    }
}

/// Leaves out what the readers of routes and authentications do not take. A denial that cannot be written is
/// of every request.
fn leave_out_invalid(policies: &mut MeshPolicies) {
    let mut notes: Vec<(usize, Fidelity, String)> = Vec::new();
    let mut grants = std::mem::take(&mut policies.grants);
    grants.retain_mut(|grant| {
        if let Err(fault) = valid_clients(&grant.clients) {
            notes.push((grant.row, Fidelity::Omitted, fault));
            return false;
        }
        let Some(requests) = &mut grant.requests else { return true };
        let count = requests.len();
        requests.retain(|request| match valid_request(request) {
            Ok(()) => true,
            Err(fault) => {
                let fidelity = if count == 1 { Fidelity::Omitted } else { Fidelity::Narrower };
                notes.push((grant.row, fidelity, fault));
                false
            }
        });
        !requests.is_empty()
    });
    policies.grants = grants;
    for denial in &mut policies.denials {
        let requests = denial.requests.iter().flatten();
        let faults: Vec<String> = requests.filter_map(|it| valid_request(it).err()).collect();
        if !faults.is_empty() {
            denial.requests = None;
            notes.extend(faults.into_iter().map(|fault| (denial.row, Fidelity::Narrower, fault)));
        }
    }
    for (row, fidelity, note) in notes {
        policies.worsen(row, fidelity, &note);
    }
}

fn valid_clients(clients: &ClientCondition) -> Result<(), String> {
    for requirement in clients.requirements() {
        if let GrantRequirement::Object(kind, spec) = requirement {
            Manifest::new(kind, None, "clients", spec).map_err(|errors| joined(&errors))?;
        }
    }
    Ok(())
}

fn valid_request(request: &RequestCondition) -> Result<(), String> {
    let hosts = &request.hosts;
    let spec = route_spec("server", hosts.as_ref(), &[request.manifest()]);
    Manifest::new(Kind::PolicyHttpRoute, None, "route", spec).map_err(|errors| joined(&errors))?;
    Ok(())
}

fn joined(errors: &[FieldError]) -> String {
    let texts: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    texts.join(", ")
}

fn route_spec(server: &str, hosts: Option<&BTreeSet<String>>, matches: &[Value]) -> Value {
    let rules: Vec<Value> =
        matches.chunks(RULE_MATCHES).map(|matches| json!({"matches": matches})).collect();
    let parent = reference(Kind::Server, server);
    match hosts {
        Some(hosts) => json!({"parentRefs": [parent], "hostnames": hosts, "rules": rules}),
        None => json!({"parentRefs": [parent], "rules": rules}),
    }
}

fn reference(kind: Kind, name: &str) -> Value {
    json!({"group": kind.group(), "kind": kind.as_str(), "name": name})
}

/// Writes the ports of a workload.
fn put_unit(
    objects: &mut MeshObjects,
    policies: &mut MeshPolicies,
    unit: &WorkloadUnit,
    everyone: Option<usize>,
) -> Result<(), Vec<FieldError>> {
    if unit.is_ambiguous {
        let rows: Vec<usize> = policies
            .grants
            .iter()
            .filter(|grant| grant.selection.selects(unit))
            .map(|grant| grant.row)
            .collect();
        for row in rows {
            policies.worsen(row, Fidelity::Narrower, AMBIGUOUS);
        }
        return Ok(());
    }
    for port in unit.ports.keys() {
        let plan = plan(policies, unit, *port, everyone);
        put_port(objects, unit, *port, &plan)?;
    }
    Ok(())
}

fn put_port(
    objects: &mut MeshObjects,
    unit: &WorkloadUnit,
    port: u16,
    plan: &PortPlan,
) -> Result<(), Vec<FieldError>> {
    let namespace = &*unit.namespace;
    let server = objects.name(Kind::Server, namespace, &format!("{}-{port}", unit.name));
    let mut selector = json!({"matchLabels": labels(&unit.labels)});
    if let (false, Value::Object(fields)) = (unit.absent.is_empty(), &mut selector) {
        let expression =
            |key: &std::sync::Arc<str>| json!({"key": **key, "operator": "DoesNotExist"});
        let expressions: Vec<Value> = unit.absent.iter().map(expression).collect();
        fields.insert("matchExpressions".to_owned(), json!(expressions));
    }
    let spec = json!({"podSelector": selector, "port": port, "proxyProtocol": "unknown"});
    objects.add(Kind::Server, (namespace, &server), spec)?;
    if plan.routes.is_empty() {
        let target = reference(Kind::Server, &server);
        for number in 0..plan.grants.len() {
            put_grant(objects, (namespace, &server), (plan, number), &target)?;
        }
        return Ok(());
    }
    for ((hosts, grants), requests) in &plan.routes {
        let matches: Vec<Value> = requests.iter().map(RequestCondition::manifest).collect();
        for matches in matches.chunks(ROUTE_MATCHES) {
            let name = objects.name(Kind::PolicyHttpRoute, namespace, &server);
            let spec = route_spec(&server, hosts.as_ref(), matches);
            objects.add(Kind::PolicyHttpRoute, (namespace, &name), spec)?;
            let target = reference(Kind::PolicyHttpRoute, &name);
            for number in grants {
                put_grant(objects, (namespace, &name), (plan, *number), &target)?;
            }
        }
    }
    Ok(())
}

fn labels(labels: &BTreeMap<std::sync::Arc<str>, std::sync::Arc<str>>) -> Value {
    let labels: BTreeMap<&str, &str> =
        labels.iter().map(|(key, value)| (&**key, &**value)).collect();
    json!(labels)
}

/// Writes the AuthorizationPolicy of a grant, and what it refers to.
fn put_grant(
    objects: &mut MeshObjects,
    (namespace, of): (&str, &str),
    (plan, number): (&PortPlan, usize),
    target: &Value,
) -> Result<(), Vec<FieldError>> {
    let Some(grant) = plan.grants.get(number) else { return Ok(()) };
    let mut references = Vec::new();
    for requirement in grant.clients.requirements() {
        references.push(match requirement {
            GrantRequirement::Reference(reference) => reference,
            GrantRequirement::Object(kind, spec) => {
                objects.authentication(kind, (namespace, &grant.name), &spec)?
            }
        });
    }
    let wanted = format!("{of}-{}", grant.name);
    let name = objects.name(Kind::AuthorizationPolicy, namespace, &wanted);
    let spec = json!({"targetRef": target, "requiredAuthenticationRefs": references});
    objects.add(Kind::AuthorizationPolicy, (namespace, &name), spec)
}
