//! Workloads and ports that no sidecar guards, by the injector's own account.

use crate::inventory::Inventory;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Kind, ObjectKey, document};
use policy_webhooks::injector::{NamespaceContext, Unguarded, templates, unguarded};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pods and ports that no sidecar guards, by workload. Workloads without an entry may be guarded whole.
pub(crate) type UnguardedWorkloads = BTreeMap<WorkloadKey, Unguarded>;

/// Returns what no sidecar guards of the pods that were read.
pub(crate) fn workloads(inventory: &Inventory) -> UnguardedWorkloads {
    let of_cluster = inventory.values.values().cloned();
    let values: Vec<Value> = of_cluster.chain(declared(inventory)).collect();
    let namespaces = namespaces(&values);
    let by_object: BTreeMap<ObjectKey, Unguarded> =
        values.iter().filter_map(|value| of_object(value, &namespaces)).collect();
    let pods = inventory.compiled.objects.iter().map(|object| &object.meta.key);
    let found = pods.filter(|key| key.kind == Kind::Pod).filter_map(|key| {
        let declared = inventory.locations.get(key).map_or(key, |place| &place.declared);
        let unguarded = by_object.get(declared).filter(|found| !found.is_nothing())?;
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        Some((WorkloadKey { namespace, kind: WorkloadKind::Pod, name }, unguarded.clone()))
    });
    found.collect()
}

/// The objects in the files that were read.
fn declared(inventory: &Inventory) -> Vec<Value> {
    let files: BTreeSet<&Arc<str>> =
        inventory.locations.values().map(|place| &place.file).collect();
    let mut values = Vec::new();
    for file in files {
        // A file that has gone since was read before: its pods are shown without this.
        let documents = document::read_bytes(&std::fs::read(&**file).unwrap_or_default());
        for value in documents.into_iter().filter_map(|document| document.value.ok()) {
            values.extend(policy_crds::parts(&value).into_iter().map(|it| it.value.into_owned()));
        }
    }
    values
}

fn namespaces(values: &[Value]) -> BTreeMap<String, NamespaceContext> {
    let is = |value: &&Value| value.get("kind").and_then(Value::as_str) == Some("Namespace");
    let found = values.iter().filter(is).filter_map(NamespaceContext::of);
    found.map(|context| (context.namespace.clone(), context)).collect()
}

fn of_object(
    value: &Value,
    namespaces: &BTreeMap<String, NamespaceContext>,
) -> Option<(ObjectKey, Unguarded)> {
    let template = templates(value).into_iter().next()?;
    let pod = value.pointer(&template.pointer)?;
    let key = policy_crds::parse(value).ok()?.meta.key;
    let unknown = || NamespaceContext::unknown(&key.namespace);
    let context = namespaces.get(&*key.namespace).cloned().unwrap_or_else(unknown);
    let found = unguarded(pod, &context);
    Some((key, found))
}
