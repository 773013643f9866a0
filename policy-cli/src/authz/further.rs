//! Pods of what is not among the workloads that are read: of Rollouts and the like, and of Services.

use crate::cluster::api_error::explain;
use crate::cluster::{Cluster, Scope, list};
use crate::inventory::Inventory;
use anyhow::bail;
use policy_core::WorkloadKey;
use policy_crds::{Body, Object, ObjectKey, Resource, nearest};
use policy_kube::source::object_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Labels that a Service selects pods by.
type Selector = BTreeMap<Arc<str>, Arc<str>>;

/// Finds the pods of a workload of another kind, by what their controllers or the manifest names.
///
/// # Errors
/// There are none.
pub(super) fn of_other_kind(
    inventory: &Inventory,
    kind: &str,
    name: &str,
) -> anyhow::Result<BTreeSet<WorkloadKey>> {
    let owned: Vec<(&str, &ObjectKey)> =
        pods(inventory).filter_map(|pod| Some((owner(pod, kind)?, &pod.meta.key))).collect();
    let of_name = owned.iter().filter(|(owner, _)| *owner == name);
    let found: BTreeSet<WorkloadKey> = of_name.map(|(_, key)| workload(key)).collect();
    if found.is_empty() {
        let known: Vec<&str> = owned.iter().map(|(owner, _)| *owner).collect();
        let near = nearest(name, &known).map(|near| format!("; is it {near}?"));
        let near = near.unwrap_or_default();
        bail!("no pod of {kind} {name} was found in {}{near}", inventory.source);
    }
    Ok(found)
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
    let kind = policy_crds::Kind::Service;
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
fn owner<'a>(pod: &'a Object, kind: &str) -> Option<&'a str> {
    let Body::Valid(Resource::Pod(pod)) = &pod.body else { return None };
    let (own, name) = pod.owner.as_deref()?.split_once('/')?;
    let is_plural = kind.strip_suffix('s') == Some(own);
    (own == kind || is_plural).then_some(name)
}

fn workload(pod: &ObjectKey) -> WorkloadKey {
    WorkloadKey::pod(&pod.namespace, &pod.name)
}
