//! Effective authorization of a workload: for every port and route, the grants, the clients that
//! each grant admits, the effects on what is permitted, and the object that each comes from. Read from the policies that the
//! controller would serve, never computed a second time.

mod access_table;
pub(crate) mod clients;
mod effects;
mod effects_table;
mod further;
mod grants;
mod report;
mod requests;
pub(crate) mod select;
mod text;

pub(crate) use grants::{grant_row, requirement};
pub(crate) use report::{
    Access, AuthzReport, ClientRequirement, Port, Sidecar, UnresolvedGrantEntry, WorkloadGroup,
};

use crate::cluster::undetermined;
use crate::inventory::Inventory;
use crate::probes::{self, RefusedProbe};
use crate::unguarded;
use effects::effects;
use grants::{refused_row, rows};
use policy_core::{
    ObjectRef, Owner, RouteTable, ServerPolicy, Undeclared, UndeclaredPorts, UnresolvedGrant,
    WorkloadKey, WorkloadKind,
};
use policy_crds::{Kind, Object, ObjectKey, ObjectMeta};
use policy_engine::CompiledWorkload;
use policy_engine::enforcement::Enforcement;
use policy_engine::view::{PolicyView, protocol_name, shadowed};
use policy_webhooks::injector::Unguarded;
use select::WorkloadTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Ports of the proxy itself: inbound, control and admin.
const PROXY_PORTS: [u16; 3] = [4143, 4190, 4191];

/// Reports the effective authorization of the selected workloads. The proxy's own ports are
/// included only with `all_ports`.
pub(crate) fn report(
    inventory: &Inventory,
    target: &WorkloadTarget,
    pods: &select::WorkloadSelection,
    all_ports: bool,
) -> AuthzReport {
    let standings = standings(inventory);
    let unguarded = unguarded::workloads(inventory);
    let mut refused = probes::refused(inventory, &unguarded);
    let mut groups: BTreeMap<Group, (&CompiledWorkload, Vec<String>)> = BTreeMap::new();
    for (key, workload) in &inventory.compiled.workloads {
        let shown = inventory.scope.contains(&key.namespace) && pods.contains(key);
        if shown {
            let sidecar = standings.get(key).map(|standing| Sidecar::from(*standing));
            let unguarded = unguarded.get(key).cloned().unwrap_or_default();
            let refused = refused.remove(key).unwrap_or_default();
            let group = Group { sidecar, unguarded, refused, ..Group::of(key, workload) };
            let (_, names) = groups.entry(group).or_insert((workload, Vec::new()));
            names.push(key.name.to_string());
        }
    }
    let hidden = match all_ports {
        true => BTreeSet::new(),
        false => PROXY_PORTS.into_iter().filter_map(NonZeroU16::new).collect(),
    };
    let builder = ReportBuilder { inventory, target, hidden };
    let mut workloads: Vec<WorkloadGroup> = groups
        .into_iter()
        .filter_map(|(group, (workload, names))| builder.workloads(&group, workload, names))
        .collect();
    workloads.sort_by(|a, b| (&a.namespace, &a.names).cmp(&(&b.namespace, &b.names)));
    AuthzReport {
        source: inventory.source.clone(),
        settings: inventory.settings.clone(),
        list_failures: inventory.list_failures(),
        workloads,
    }
}

/// State of the sidecar of each workload in a cluster. Empty for manifests, which are read before
/// injection.
fn standings(inventory: &Inventory) -> BTreeMap<WorkloadKey, Enforcement> {
    let objects = inventory.cluster.iter().flat_map(|_| &inventory.compiled.objects);
    let standing = |object: &Arc<Object>| {
        let ObjectMeta { key, .. } = &object.meta;
        let kind = if key.kind == Kind::Pod {
            WorkloadKind::Pod
        } else if key.kind == Kind::ExternalWorkload {
            WorkloadKind::ExternalWorkload
        } else {
            return None;
        };
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        Some((WorkloadKey { namespace, kind, name }, Enforcement::of(object)))
    };
    objects.filter_map(standing).collect()
}

/// Key by which workloads are grouped. Equal policies of one compilation share one allocation, so
/// comparing their addresses is enough.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    namespace: Arc<str>,
    kind: WorkloadKind,
    ports: Vec<(NonZeroU16, usize)>,
    annotated: Vec<(u16, u16, usize)>,
    rest: usize,
    sidecar: Option<Sidecar>,
    unguarded: Unguarded,
    refused: Vec<RefusedProbe>,
}

impl Group {
    fn of(key: &WorkloadKey, workload: &CompiledWorkload) -> Self {
        let CompiledWorkload { policy, annotated, .. } = workload;
        let address = |policy: &Arc<ServerPolicy>| Arc::as_ptr(policy).addr();
        Self {
            namespace: key.namespace.clone(),
            kind: key.kind,
            ports: policy.ports.iter().map(|(port, policy)| (*port, address(policy))).collect(),
            annotated: annotated
                .iter()
                .map(|(range, policy)| (*range.start(), *range.end(), address(policy)))
                .collect(),
            rest: match &policy.undeclared {
                Undeclared::Policy(policy) => address(policy),
                Undeclared::Deny => 0,
            },
            sidecar: None,
            unguarded: Unguarded::default(),
            refused: Vec::new(),
        }
    }
}

struct ReportBuilder<'a> {
    inventory: &'a Inventory,
    target: &'a WorkloadTarget,
    /// Ports of the proxy itself, if they are hidden.
    hidden: BTreeSet<NonZeroU16>,
}

impl ReportBuilder<'_> {
    /// Returns the entry of a group, or `None` if the target selects nothing of it.
    fn workloads(
        &self,
        group: &Group,
        workload: &CompiledWorkload,
        names: Vec<String>,
    ) -> Option<WorkloadGroup> {
        let CompiledWorkload { policy, annotated, state } = workload;
        let server = self.target.server();
        let owned = |policy: &ServerPolicy| match (server, &policy.owner) {
            (None, _) => true,
            (Some(name), Owner::Server(owner)) => owner.name() == &**name,
            (Some(_), Owner::Default(_)) => false,
        };
        let ports: Vec<Port> = policy
            .ports
            .iter()
            .filter(|(port, policy)| owned(policy) && !self.is_hidden(**port, policy))
            .map(|(port, policy)| {
                let unguarded = group.unguarded.port(port.get()).map(str::to_owned);
                let mut entry = Port { unguarded, ..self.port(Some(*port), policy) };
                let refused = group.refused.iter().filter(|refused| refused.probe.port == *port);
                entry.access.extend(refused.map(refused_row));
                entry
            })
            .collect();
        let annotated = annotated.iter().filter(|(_, policy)| owned(policy));
        let annotated_ports = self.annotated(annotated);
        let other_ports = match (&policy.undeclared, server) {
            (Undeclared::Policy(policy), _) => owned(policy).then(|| self.port(None, policy)),
            // Annotations name every port that is not declared.
            (Undeclared::Deny, None) if state.undeclared == UndeclaredPorts::Default => None,
            (Undeclared::Deny, None) => Some(undeclared()),
            (Undeclared::Deny, Some(_)) => None,
        };
        if ports.is_empty() && annotated_ports.is_empty() && other_ports.is_none() {
            return None;
        }
        let Inventory { permissions, compiled, .. } = self.inventory;
        Some(WorkloadGroup {
            not_known: undetermined::of_ports(&group.namespace, permissions, &compiled.objects),
            namespace: group.namespace.to_string(),
            kind: match group.kind {
                WorkloadKind::Pod => "Pod",
                WorkloadKind::ExternalWorkload => "ExternalWorkload",
            },
            names,
            sidecar: group.sidecar,
            unguarded: group.unguarded.pod.clone(),
            ports,
            annotated_ports,
            other_ports,
        })
    }

    /// True if this is one of the proxy's own ports and is left out. A port that a Server owns is
    /// always shown.
    fn is_hidden(&self, port: NonZeroU16, policy: &ServerPolicy) -> bool {
        self.hidden.contains(&port) && matches!(policy.owner, Owner::Default(_))
    }

    /// Ports named only by annotations, with ports of equal policy merged.
    fn annotated<'a>(
        &self,
        named: impl Iterator<Item = &'a (RangeInclusive<u16>, Arc<ServerPolicy>)>,
    ) -> Vec<Port> {
        let mut by_policy: Vec<(&Arc<ServerPolicy>, Vec<String>)> = Vec::new();
        for (range, policy) in named {
            let range = match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            match by_policy.iter_mut().find(|(known, _)| Arc::ptr_eq(known, policy)) {
                Some((_, ranges)) => ranges.push(range),
                None => by_policy.push((policy, vec![range])),
            }
        }
        by_policy
            .into_iter()
            .map(|(policy, ranges)| Port { ranges, ..self.port(None, policy) })
            .collect()
    }

    fn port(&self, port: Option<NonZeroU16>, policy: &ServerPolicy) -> Port {
        let RouteTable { routes, hosts, .. } = &policy.routes;
        let shadowed = shadowed(routes, hosts, policy.paths);
        let (access, otherwise) = rows(policy, &shadowed);
        let own = policy.withheld.iter().map(|withheld| self.withheld(None, withheld));
        let routes = policy.routes.routes.iter().flat_map(|route| {
            let origin = route.origin.to_string();
            route.withheld.iter().map(move |w| self.withheld(Some(origin.clone()), w))
        });
        Port {
            port,
            ranges: Vec::new(),
            owner: match &policy.owner {
                Owner::Server(server) => server.to_string(),
                Owner::Default(policy) => format!("default {}", policy.as_str()),
            },
            of_server: matches!(policy.owner, Owner::Server(_)),
            protocol: protocol_name(policy.protocol),
            unguarded: None,
            denied: policy.deny.map(policy_core::Denied::as_str),
            access,
            otherwise,
            effects: effects(policy, &shadowed),
            limits: PolicyView::from(policy).rate_limits,
            withheld: own.chain(routes).collect(),
        }
    }

    fn withheld(&self, route: Option<String>, withheld: &UnresolvedGrant) -> UnresolvedGrantEntry {
        let object = key(&withheld.source).and_then(|key| self.inventory.object(&key));
        let missing = object
            .map(|object| undetermined::of_object(object, &self.inventory.permissions))
            .unwrap_or_default();
        let reason = if missing.is_empty() {
            withheld.reason.to_string()
        } else {
            let missing: Vec<String> = missing.into_iter().collect();
            format!("not known, because {} may not be listed", missing.join(" and "))
        };
        UnresolvedGrantEntry {
            route,
            by: withheld.source.to_string(),
            not_known: reason != *withheld.reason,
            reason,
        }
    }
}

fn key(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = Kind::find(object.group(), object.kind())?;
    Some(ObjectKey { kind, namespace: object.namespace().into(), name: object.name().into() })
}

/// Entry for undeclared ports where these are denied.
fn undeclared() -> Port {
    Port {
        port: None,
        ranges: Vec::new(),
        owner: "none".to_owned(),
        of_server: false,
        protocol: protocol_name(policy_core::Protocol::Opaque),
        unguarded: None,
        denied: Some(policy_core::Denied::PortUndeclared.as_str()),
        access: Vec::new(),
        otherwise: None,
        effects: Vec::new(),
        limits: Vec::new(),
        withheld: Vec::new(),
    }
}
