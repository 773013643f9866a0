//! Workloads and ports that no sidecar guards, by the injector's own account.

use crate::inventory::Inventory;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Kind, ObjectKey};
use policy_webhooks::injector::{NamespaceContext, Unguarded, templates, unguarded};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Pods and ports that no sidecar guards, by workload. Workloads without an entry may be guarded whole.
pub(crate) type UnguardedWorkloads = BTreeMap<WorkloadKey, Unguarded>;

/// Returns what no sidecar guards of the pods that were read.
pub(crate) fn workloads(inventory: &Inventory) -> UnguardedWorkloads {
    let of_cluster = inventory.values.values().cloned();
    let declared = inventory.declared().map(Cow::into_owned);
    let values: Vec<Value> = of_cluster.chain(declared).collect();
    let namespaces = namespaces(&values);
    let by_object: BTreeMap<ObjectKey, Unguarded> =
        values.iter().flat_map(|value| of_object(value, &namespaces)).collect();
    let pods = inventory.compiled.objects.iter().map(|object| &object.meta.key);
    let found = pods.filter(|key| key.kind == Kind::Pod).filter_map(|key| {
        let declared = inventory.locations.get(key).map_or(key, |place| &place.declared);
        let unguarded = by_object.get(declared).filter(|found| !found.is_nothing())?;
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        Some((WorkloadKey { namespace, kind: WorkloadKind::Pod, name }, unguarded.clone()))
    });
    found.collect()
}

fn namespaces(values: &[Value]) -> BTreeMap<String, NamespaceContext> {
    let is = |value: &&Value| value.get("kind").and_then(Value::as_str) == Some("Namespace");
    let found = values.iter().filter(is).filter_map(NamespaceContext::of);
    found.map(|context| (context.namespace.clone(), context)).collect()
}

/// Returns what no sidecar guards of an object, by the keys under which its pods are declared.
fn of_object(
    value: &Value,
    namespaces: &BTreeMap<String, NamespaceContext>,
) -> Vec<(ObjectKey, Unguarded)> {
    let Some(template) = templates(value).into_iter().next() else { return Vec::new() };
    let Some(pod) = value.pointer(&template.pointer) else { return Vec::new() };
    let keys = match policy_crds::parse(value) {
        Ok(object) => vec![object.meta.key],
        Err(_) => policy_crds::other_workload(value)
            .map(|workload| workload.pods.into_iter().map(|pod| pod.meta.key).collect())
            .unwrap_or_default(),
    };
    let Some(first) = keys.first() else { return Vec::new() };
    let unknown = || NamespaceContext::unknown(&first.namespace);
    let context = namespaces.get(&*first.namespace).cloned().unwrap_or_else(unknown);
    let found = unguarded(pod, &context);
    keys.into_iter().map(|key| (key, found.clone())).collect()
}
