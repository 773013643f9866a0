//! Pods of what is not among the workloads that are read: of Rollouts and the like, and of Services.

use crate::cluster::api_error::explain;
use crate::cluster::owners::controller_group;
use crate::cluster::{Cluster, Scope, list};
use crate::inventory::Inventory;
use crate::workload_argument::OtherKind;
use anyhow::bail;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource, nearest};
use policy_kube::source::object_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Labels that a Service selects pods by.
type Selector = BTreeMap<Arc<str>, Arc<str>>;

/// Returns the workloads of a kind, or the pods that objects of it make, by what manifests declare.
pub(super) fn of_every(inventory: &Inventory, kind: Kind) -> BTreeSet<WorkloadKey> {
    let is_of = |object: &Object| match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let owner = pod.owner.as_deref().and_then(|owner| owner.split_once('/'));
            kind == Kind::Pod || owner.is_some_and(|(own, _)| kind.is_called(own))
        }
        Body::Valid(_) | Body::Invalid(_) => kind == object.meta.key.kind,
    };
    let in_scope =
        inventory.compiled.workloads.keys().filter(|key| inventory.scope.contains(&key.namespace));
    let objects = inventory.compiled.objects.iter().filter(|object| is_of(object));
    let named: BTreeSet<WorkloadKey> =
        objects.filter_map(|object| workload_key(&object.meta.key)).collect();
    in_scope.filter(|key| named.contains(key)).cloned().collect()
}

/// Finds the pods of a workload of another kind, by what their controllers or the manifest names.
///
/// # Errors
/// There are none.
pub(super) fn of_other_kind(
    inventory: &Inventory,
    kind: &OtherKind,
    name: &str,
) -> anyhow::Result<BTreeSet<WorkloadKey>> {
    let groups = declared_groups(inventory);
    let owned: Vec<(&str, &ObjectKey)> = pods(inventory)
        .filter_map(|pod| Some((owner(inventory, &groups, pod, kind)?, &pod.meta.key)))
        .collect();
    let of_name = owned.iter().filter(|(owner, _)| *owner == name);
    let found: BTreeSet<WorkloadKey> = of_name.map(|(_, key)| workload(key)).collect();
    if found.is_empty() {
        let known: Vec<&str> = owned.iter().map(|(owner, _)| *owner).collect();
        let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
        let near = near.unwrap_or_else(|| near_owner(inventory, name));
        bail!("no pod of {kind} {name} was found in {}{near}", inventory.source);
    }
    Ok(found)
}

/// A suggestion of a workload of another kind that has this name, or one like it.
pub(super) fn near_owner(inventory: &Inventory, name: &str) -> String {
    let owners: BTreeMap<&str, &str> = pods(inventory)
        .filter_map(|object| match &object.body {
            Body::Valid(Resource::Pod(pod)) => pod.owner.as_deref(),
            Body::Valid(_) | Body::Invalid(_) => None,
        })
        .filter_map(|owner| Some((owner.split_once('/')?.1, owner)))
        .collect();
    let known: Vec<&str> = owners.keys().copied().collect();
    let near = owners.get(name).or_else(|| owners.get(nearest(name, &known)?));
    near.map(|owner| format!("; is it {owner}?")).unwrap_or_default()
}

/// The API groups of the workloads in manifests, by namespace, kind and name.
type DeclaredGroups = BTreeMap<(String, String), String>;

/// Returns the group of every workload of another kind in the manifests, by its namespace and owner, such
/// as `rollout/web`.
fn declared_groups(inventory: &Inventory) -> DeclaredGroups {
    let found = inventory.declared().filter_map(|value| {
        let workload = policy_crds::other_workload(&value)?;
        let owner = format!("{}/{}", workload.kind.to_ascii_lowercase(), workload.name);
        Some(((workload.namespace.to_string(), owner), workload.group))
    });
    found.collect()
}

/// Finds the pods that a Service selects.
///
/// # Errors
/// There is no such Service, it selects no pod, or the API server does not list it.
pub(super) async fn of_service(
    inventory: &Inventory,
    name: &str,
) -> anyhow::Result<BTreeSet<WorkloadKey>> {
    let source = &inventory.source;
    let services: Vec<Object> = match &inventory.cluster {
        Some(cluster) => listed(cluster).await?,
        None => inventory.compiled.objects.iter().map(|object| Object::clone(object)).collect(),
    };
    let in_scope =
        services.iter().filter(|object| inventory.scope.contains(&object.meta.key.namespace));
    let all: Vec<(&ObjectKey, &Selector)> =
        in_scope.filter_map(|object| Some((&object.meta.key, selector(object)?))).collect();
    let named: Vec<_> = all.iter().filter(|(key, _)| &*key.name == name).collect();
    if named.is_empty() {
        let known: Vec<&str> = all.iter().map(|(key, _)| &*key.name).collect();
        let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
        bail!("there is no Service {name} in {source}{}", near.unwrap_or_default());
    }
    let selects = |(key, selector): &(&ObjectKey, &Selector), pod: &Object| {
        let labels = &pod.meta.labels;
        key.namespace == pod.meta.key.namespace
            && !selector.is_empty()
            && selector.iter().all(|(label, value)| labels.get(label) == Some(value))
    };
    let selected = pods(inventory).filter(|pod| named.iter().any(|service| selects(service, pod)));
    let found: BTreeSet<WorkloadKey> = selected.map(|pod| workload(&pod.meta.key)).collect();
    if found.is_empty() {
        bail!("Service {name} selects no pod in {source}");
    }
    Ok(found)
}

/// Services of a cluster.
async fn listed(cluster: &Cluster) -> anyhow::Result<Vec<Object>> {
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}/services"),
        Scope::All => "/api/v1/services".to_owned(),
    };
    let found = list::pages(&cluster.client, &path).await;
    let found = found.map_err(|error| explain(&error, &cluster.source, "list services"))?;
    let kind = Kind::Service;
    Ok(found.into_iter().filter_map(|value| object_of(kind, "v1", value)).collect())
}

fn selector(object: &Object) -> Option<&Selector> {
    match &object.body {
        Body::Valid(Resource::Service(service)) => Some(&service.selector),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The pods of the selected namespaces.
fn pods(inventory: &Inventory) -> impl Iterator<Item = &Object> {
    let objects = inventory.compiled.objects.iter().map(|object| &**object);
    objects.filter(|object| {
        matches!(object.body, Body::Valid(Resource::Pod(_)))
            && inventory.scope.contains(&object.meta.key.namespace)
    })
}

/// The name of the controller of a pod, if it is of this kind.
fn owner<'a>(
    inventory: &Inventory,
    groups: &DeclaredGroups,
    object: &'a Object,
    kind: &OtherKind,
) -> Option<&'a str> {
    let Body::Valid(Resource::Pod(pod)) = &object.body else { return None };
    let owner = pod.owner.as_deref()?;
    let (own, name) = owner.split_once('/')?;
    let ObjectKey { namespace, .. } = &object.meta.key;
    let group = groups.get(&(namespace.to_string(), owner.to_owned())).cloned();
    let group = group.or_else(|| controller_group(inventory.values.get(&object.meta.key)?, own));
    kind.is(group.as_deref(), own).then_some(name)
}

/// The workload that an object is, if it is one.
pub(super) fn workload_key(key: &ObjectKey) -> Option<WorkloadKey> {
    let ObjectKey { kind, namespace, name } = key;
    let kinds =
        [(Kind::Pod, WorkloadKind::Pod), (Kind::ExternalWorkload, WorkloadKind::ExternalWorkload)];
    let (_, kind) = kinds.into_iter().find(|(own, _)| own == kind)?;
    Some(WorkloadKey { namespace: namespace.clone(), kind, name: name.clone() })
}

fn workload(pod: &ObjectKey) -> WorkloadKey {
    WorkloadKey::pod(&pod.namespace, &pod.name)
}
