//! TrafficTargets: who may send what to the pods of a ServiceAccount.

use super::objects::{ReadTarget, SmiName, SmiObjects, faults, first_place, subject};
use crate::mesh::{
    ClientCondition, IdentityCondition, MeshGrant, MeshPolicies, NamedClients, PathCondition,
    PortChoice, RequestCondition, SelectedWorkloads,
};
use crate::report::Fidelity;
use policy_core::matching::Segment;
use policy_core::{IdentityMatch, PathPattern, RequestMatch, ValueMatch};
use policy_crds::resource::{SmiSpecs, TargetClient, TargetDestination};
use policy_crds::{Body, Claims, FieldError, Invalid, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Translates a TrafficTarget. An invalid one grants nothing and closes its destination.
///
/// # Errors
/// Nobody can say which pods it closes.
pub(super) fn translate(
    target: &ReadTarget<'_>,
    objects: &SmiObjects<'_>,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    let key = &target.object.meta.key;
    let invalid = match &target.object.body {
        Body::Valid(_) => None,
        Body::Invalid(invalid) => Some(invalid),
    };
    let errors: &[FieldError] = invalid.map_or(&[], |invalid| &invalid.errors);
    let place = first_place(&target.node, errors);
    let destination = match &target.object.body {
        Body::Valid(Resource::TrafficTarget(target)) => &target.destination,
        Body::Invalid(Invalid {
            claims: Claims::TrafficTarget { destination: Some(destination) },
            ..
        }) => destination,
        Body::Invalid(Invalid { claims: Claims::TrafficTarget { destination: None }, .. }) => {
            let first = errors.first();
            return Err(first.map_or_else(
                || target.node.error("cannot be read"),
                |error| target.node.error_below(&error.field, &error.message),
            ));
        }
        // Of another namespace: policies live with the server.
        Body::Valid(_) | Body::Invalid(_) => {
            policies.omit(place, &subject(key.kind, &key.name), faults(errors));
            return Ok(());
        }
    };
    let row = policies.row(place, &subject(key.kind, &key.name));
    let selections = selections(destination, &key.namespace, objects);
    if selections.is_empty() {
        // Nobody knows which pods were meant: every pod of the namespace is closed.
        policies.closed_namespaces.insert(key.namespace.to_string());
    }
    policies.closures.extend(selections.iter().map(|selection| (row, selection.clone())));
    let granted = match invalid {
        Some(invalid) => Err(faults(&invalid.errors)),
        None if selections.is_empty() => {
            Err("its destination is no valid IdentityBinding of the files that selects pods".into())
        }
        None => grant(target, objects, (row, &mut *policies)),
    };
    match granted {
        Err(reason) => {
            let note = format!("{reason}: it grants nothing and closes its destination");
            policies.worsen(row, Fidelity::Omitted, &note);
        }
        Ok(grant) => policies.grants.extend(
            selections.into_iter().map(|selection| MeshGrant { selection, ..grant.clone() }),
        ),
    }
    Ok(())
}

/// The pods of a destination; none if nobody knows which.
fn selections(
    destination: &TargetDestination,
    namespace: &Arc<str>,
    objects: &SmiObjects<'_>,
) -> Vec<SelectedWorkloads> {
    let account = |name: &Arc<str>| SelectedWorkloads::Account {
        namespace: Some(namespace.to_string()),
        name: name.to_string(),
    };
    match destination {
        TargetDestination::Account(name) => vec![account(name)],
        TargetDestination::Binding(name) => {
            let Some(binding) = objects.bindings.get(&(namespace.clone(), name.clone())) else {
                return Vec::new();
            };
            let labels = binding.selectors.iter().map(|selector| SelectedWorkloads::Labels {
                namespace: Some(namespace.to_string()),
                selector: selector.clone(),
            });
            binding.account.iter().map(account).chain(labels).collect()
        }
    }
}

/// The grant of a valid target, for pods that are still to be named.
///
/// # Errors
/// It grants nothing.
fn grant(
    target: &ReadTarget<'_>,
    objects: &SmiObjects<'_>,
    (row, policies): (usize, &mut MeshPolicies),
) -> Result<MeshGrant, String> {
    let key = &target.object.meta.key;
    let Body::Valid(Resource::TrafficTarget(own)) = &target.object.body else {
        return Err("it is invalid".to_owned());
    };
    let mut lost = Vec::new();
    let bindings: BTreeMap<SmiName, _> =
        objects.bindings.iter().map(|(name, binding)| (name.clone(), binding)).collect();
    let clients = own.clients(&key.namespace, &bindings, &mut lost);
    let specs = specs(objects, &key.namespace);
    let allowed = own.allowed(&specs, &mut lost);
    for note in lost {
        policies.worsen(row, Fidelity::Narrower, &note);
    }
    if clients.is_empty() {
        return Err("none of its sources has an identity".to_owned());
    }
    let allowed = allowed?;
    let ports = allowed.ports.map(|ports| {
        ports.into_iter().map(|port| PortChoice::Range(port.get(), port.get())).collect()
    });
    Ok(MeshGrant {
        row,
        name: key.name.to_string(),
        selection: SelectedWorkloads::Account { namespace: None, name: String::new() },
        ports,
        clients: named(clients),
        requests: allowed
            .requests
            .map(|requests| requests.iter().map(|wanted| condition(wanted)).collect()),
    })
}

/// The objects of a namespace that targets name.
fn specs<'a>(objects: &'a SmiObjects<'_>, namespace: &Arc<str>) -> SmiSpecs<'a> {
    let groups = objects.groups.iter().filter(|((of, _), _)| of == namespace);
    let tcp = objects.tcp.iter().filter(|((of, _), _)| of == namespace);
    SmiSpecs {
        groups: groups.map(|((_, name), group)| (name.clone(), group)).collect(),
        tcp: tcp.map(|((_, name), route)| (name.clone(), route)).collect(),
    }
}

fn named(clients: Vec<TargetClient>) -> ClientCondition {
    let mut named = NamedClients::default();
    for client in clients {
        match client {
            TargetClient::Account(namespace, name) => {
                named.accounts.insert((namespace.to_string(), name.to_string()));
            }
            TargetClient::Identity(IdentityMatch::Exact(identity)) => {
                named.identities.insert(identity.to_string());
            }
            // A binding names single identities.
            TargetClient::Identity(IdentityMatch::Any | IdentityMatch::Suffix(_)) => {}
        }
    }
    ClientCondition::with(IdentityCondition::Named(named))
}

/// A match of a group in the terms of the imports.
fn condition(wanted: &RequestMatch) -> RequestCondition {
    let (path, method, headers, _) = wanted.parts();
    let path = match path {
        every if every.is_every_path() => PathCondition::Any,
        PathPattern::Segments { segments, rest: _ } => {
            let texts = segments.iter().map(|segment| match segment {
                Segment::Literal(text) | Segment::Parameter(text) => format!("/{text}"),
            });
            PathCondition::Exact(texts.collect())
        }
        PathPattern::Regex(pattern) => PathCondition::Expression(pattern.source().to_owned()),
    };
    let headers = headers.iter().filter_map(|header| match &header.value {
        ValueMatch::Regex(pattern) => {
            Some((header.name.as_str().to_owned(), pattern.source().to_owned()))
        }
        // A group has expressions alone.
        ValueMatch::Exact(_) => None,
    });
    RequestCondition {
        path,
        method: method.map(|method| method.as_str().to_owned()),
        headers: headers.collect(),
        hosts: None,
    }
}
