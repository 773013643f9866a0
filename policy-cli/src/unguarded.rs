//! Workloads and ports that no sidecar guards, by the injector's own account.

use crate::diagnostics::installed_injector::InstalledInjector;
use crate::inventory::Inventory;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource, name_with_kind};
use policy_webhooks::injector::{
    NamespaceContext, Unguarded, plaintext_call, templates, unguarded,
};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Pods and ports that no sidecar guards, by workload. Workloads without an entry may be guarded whole.
pub(crate) type UnguardedWorkloads = BTreeMap<WorkloadKey, Unguarded>;

/// Returns what no sidecar guards of the pods that were read.
pub(crate) fn workloads(inventory: &Inventory) -> UnguardedWorkloads {
    of_these(inventory, |_| true)
}

/// Returns the same of some pods alone.
pub(crate) fn of_these(
    inventory: &Inventory,
    is_wanted: impl Fn(&WorkloadKey) -> bool,
) -> UnguardedWorkloads {
    per_pod(inventory, is_wanted, |pod, context, control_plane| {
        Some(unguarded(pod, context, control_plane)).filter(|found| !found.is_nothing())
    })
}

/// Returns those of some pods whose connections to this port of others carry no identity, with the reason.
pub(crate) fn plaintext_callers(
    inventory: &Inventory,
    is_wanted: impl Fn(&WorkloadKey) -> bool,
    port: u16,
) -> BTreeMap<WorkloadKey, String> {
    per_pod(inventory, is_wanted, |pod, context, control_plane| {
        plaintext_call(pod, context, control_plane, port)
    })
}

/// The objects by which pods are declared.
struct DeclaringObjects<'a> {
    keys: BTreeSet<&'a ObjectKey>,
    names: BTreeSet<&'a str>,
}

/// Returns what the injector says of pods that were read. `of` gets the JSON of a pod or template, the
/// context of its namespace and the injector's own namespace.
fn per_pod<T: Clone>(
    inventory: &Inventory,
    is_wanted: impl Fn(&WorkloadKey) -> bool,
    of: impl Fn(&Value, &NamespaceContext, &str) -> Option<T>,
) -> BTreeMap<WorkloadKey, T> {
    let pods = inventory.compiled.objects.iter().map(|object| &object.meta.key);
    let pods = pods.filter(|key| key.kind == Kind::Pod).map(|key| {
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        let declared = inventory.locations.get(key).map_or(key, |place| &place.declared);
        (WorkloadKey { namespace, kind: WorkloadKind::Pod, name }, declared)
    });
    let wanted: Vec<(WorkloadKey, &ObjectKey)> =
        pods.filter(|(workload, _)| is_wanted(workload)).collect();
    let keys: BTreeSet<&ObjectKey> = wanted.iter().map(|(_, declared)| *declared).collect();
    let names = keys.iter().map(|key| &*key.name).collect();
    let declaring = DeclaringObjects { keys, names };
    let of_cluster = inventory.values.values().map(Cow::Borrowed);
    let values: Vec<Cow<'_, Value>> = of_cluster.chain(inventory.declared()).collect();
    let settings = &inventory.settings;
    let (home, reads_linkerd) = (&*settings.config.control_plane_namespace, settings.reads_linkerd);
    let injector = InstalledInjector { home, reads_linkerd };
    let namespaces = namespaces(&values, injector);
    // A pod that is written has its name, whatever workloads there are.
    let is_pod = |value: &&Value| value.get("kind").and_then(Value::as_str) == Some("Pod");
    let (written, others): (Vec<&Value>, Vec<&Value>) =
        values.iter().map(|value| &**value).partition(is_pod);
    let all = others.into_iter().chain(written);
    let of_pod = |pod: &Value, context: &NamespaceContext| of(pod, context, home);
    // What is guarded counts as well: a pod that is written replaces a template's of its name.
    let by_object: BTreeMap<ObjectKey, Option<T>> =
        all.flat_map(|value| of_object(value, &declaring, &namespaces, injector, of_pod)).collect();
    let found = wanted.into_iter().filter_map(|(workload, declared)| {
        Some((workload, by_object.get(declared)?.as_ref()?.clone()))
    });
    found.collect()
}

fn namespaces(
    values: &[Cow<'_, Value>],
    injector: InstalledInjector<'_>,
) -> BTreeMap<String, NamespaceContext> {
    let is = |value: &&Value| value.get("kind").and_then(Value::as_str) == Some("Namespace");
    let values = values.iter().map(|value| &**value);
    let found = values.filter(is).filter_map(|it| injector.context(it));
    found.map(|context| (context.namespace.clone(), context)).collect()
}

/// The keys that a pod of a template may have: its own, and the one beside another workload's pod.
fn names_of_pod(pod: &Object) -> Vec<ObjectKey> {
    let key = &pod.meta.key;
    let owner = match &pod.body {
        Body::Valid(Resource::Pod(pod)) => pod.owner.as_deref(),
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    let other = owner.and_then(|owner| name_with_kind(owner, &key.name));
    let other = other.map(|name| ObjectKey { name: name.into(), ..key.clone() });
    std::iter::once(key.clone()).chain(other).collect()
}

/// Returns what is said of an object's pods, if anything, by the keys under which they are declared.
fn of_object<T: Clone>(
    value: &Value,
    declaring: &DeclaringObjects<'_>,
    namespaces: &BTreeMap<String, NamespaceContext>,
    injector: InstalledInjector<'_>,
    of: impl Fn(&Value, &NamespaceContext) -> Option<T>,
) -> Vec<(ObjectKey, Option<T>)> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let is_named = || text("/metadata/name").is_some_and(|name| declaring.names.contains(name));
    if text("/kind") == Some("Pod") && !is_named() {
        return Vec::new();
    }
    let Some(template) = templates(value).into_iter().next() else { return Vec::new() };
    let Some(pod) = value.pointer(&template.pointer) else { return Vec::new() };
    let keys = match policy_crds::parse(value) {
        Ok(object) => vec![object.meta.key],
        Err(_) => policy_crds::other_workload(value)
            .map(|workload| workload.pods.iter().flat_map(names_of_pod).collect())
            .unwrap_or_default(),
    };
    let Some(first) = keys.first() else { return Vec::new() };
    if !keys.iter().any(|key| declaring.keys.contains(key)) {
        return Vec::new();
    }
    let unknown = || injector.unknown(&first.namespace);
    let context = namespaces.get(&*first.namespace).cloned().unwrap_or_else(unknown);
    let found = of(pod, &context);
    keys.into_iter().map(|key| (key, found.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Scope;
    use crate::cluster::settings::Settings;
    use policy_engine::ControllerConfig;
    use policy_engine::source::directory::Manifests;

    #[test]
    fn a_pod_that_is_written_has_no_fault_of_a_template_with_a_pod_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let text = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n\
                    metadata: {name: web, namespace: shop}\n\
                    spec: {template: {metadata: {annotations: {fault: a}}, \
                    spec: {containers: [{name: a, image: a}]}}}\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {name: web-0, namespace: shop}\n\
                    spec: {containers: [{name: a, image: a}]}\n";
        std::fs::write(directory.path().join("all.yaml"), text).unwrap();
        let inputs = [Manifests::Path(directory.path().to_owned())];
        let settings = Settings::from_config(ControllerConfig::default());
        let inventory = Inventory::of_manifests(&inputs, Scope::All, settings).unwrap();
        let fault = |pod: &Value, _: &NamespaceContext, _: &str| {
            pod.pointer("/metadata/annotations/fault").map(|_| ())
        };
        let found = per_pod(&inventory, |_| true, fault);
        let names: Vec<&str> = found.keys().map(|workload| &*workload.name).collect();
        assert_eq!(names, ["web-rollout-0"]);
    }
}
