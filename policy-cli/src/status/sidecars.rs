//! Pods of a cluster that should have a sidecar and have none.

use super::unpulled::{UnpulledPod, unpulled_pods};
use crate::cluster::list::{one, pages};
use crate::cluster::{Cluster, Scope};
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::pod_networks::{OutsidePod, outside};
use crate::version::pod_version::of_sidecar;
use ipnet::IpNet;
use policy_webhooks::injector::{
    NamespaceContext, PodFacts, is_exempt, missing_sidecar, unguarded,
};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A pod that should have a sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UninjectedPod {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// Reason why it should have one.
    pub(crate) why: String,
}

/// A port to which connections go around the sidecar of its pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SkippedPort {
    /// Namespace of the pod.
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) name: String,
    /// The port.
    pub(crate) port: u16,
    /// The reason.
    pub(crate) why: String,
}

/// Pods that lack a sidecar, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingSidecars {
    /// The pods, in order.
    pub(crate) without: Vec<UninjectedPod>,
    /// Pods with a sidecar whose addresses no sidecar looks up, in order.
    pub(crate) outside: Vec<OutsidePod>,
    /// Pods that wait for an image of the sidecar, in order.
    pub(crate) unpulled: Vec<UnpulledPod>,
    /// Ports that are left out of redirection, in order.
    pub(crate) skipped: Vec<SkippedPort>,
    /// Reason why the others are unknown.
    pub(crate) unknown: Option<String>,
}

/// Checks the pods of the selected namespaces, by the flags of `injector`. `networks`: those whose addresses sidecars look up, if they look up any.
pub(crate) async fn of_cluster(
    cluster: &Cluster,
    injector: InstalledInjector<'_>,
    networks: Option<&[IpNet]>,
) -> MissingSidecars {
    let (namespaces, pods) = match &cluster.scope {
        Scope::All => (
            pages(&cluster.client, "/api/v1/namespaces").await,
            pages(&cluster.client, "/api/v1/pods").await,
        ),
        Scope::Namespace(name) => {
            let found = one(&cluster.client, "/api/v1/namespaces", name).await;
            let pods = format!("/api/v1/namespaces/{name}/pods");
            (found.map(|namespace| vec![namespace]), pages(&cluster.client, &pods).await)
        }
    };
    match (namespaces, pods) {
        (Ok(namespaces), Ok(pods)) => MissingSidecars {
            without: uninjected_pods(&namespaces, &pods, injector),
            outside: networks.map_or_else(Vec::new, |networks| {
                outside(pods.iter().filter(|pod| of_sidecar(pod).is_some()), networks)
            }),
            unpulled: unpulled_pods(&pods),
            skipped: skipped_ports(&pods, injector),
            unknown: None,
        },
        (Err(error), _) | (_, Err(error)) => {
            let words = format!(
                "which pods lack a sidecar is not known: namespaces and pods cannot be read: {error}"
            );
            MissingSidecars { unknown: Some(words), ..MissingSidecars::default() }
        }
    }
}

/// Returns the pods that should have a sidecar of `injector` and have none.
pub(crate) fn uninjected_pods(
    namespaces: &[Value],
    pods: &[Value],
    injector: InstalledInjector<'_>,
) -> Vec<UninjectedPod> {
    let around: BTreeMap<String, NamespaceContext> = namespaces
        .iter()
        .filter_map(|namespace| injector.context(namespace))
        .map(|around| (around.namespace.clone(), around))
        .collect();
    let mut found: Vec<UninjectedPod> = pods
        .iter()
        .filter_map(|pod| {
            let text = |field: &str| pod.get("metadata")?.get(field)?.as_str();
            let (namespace, name) = (text("namespace")?, text("name")?);
            let around = around.get(namespace)?;
            let facts = PodFacts::of(pod);
            let missing = missing_sidecar(&facts, around, injector.home).map(|why| why.to_string());
            // Elsewhere nobody expects one.
            let asks = facts.running && around.is_enabled() && !is_exempt(around, injector.home);
            let never = || unguarded(pod, around, injector.home).pod.filter(|_| asks);
            let why = missing.or_else(never)?;
            Some(UninjectedPod { namespace: namespace.to_owned(), name: name.to_owned(), why })
        })
        .collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}

/// Returns the declared ports of running pods that go around their sidecar.
fn skipped_ports(pods: &[Value], injector: InstalledInjector<'_>) -> Vec<SkippedPort> {
    let mut found = Vec::new();
    for pod in pods.iter().filter(|pod| PodFacts::of(pod).running) {
        let text = |field: &str| pod.get("metadata")?.get(field)?.as_str();
        let (Some(namespace), Some(name)) = (text("namespace"), text("name")) else { continue };
        let unguarded = unguarded(pod, &injector.unknown(namespace), injector.home);
        if unguarded.pod.is_some() {
            continue;
        }
        for port in declared(pod) {
            if let Some(why) = unguarded.port(port) {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                found.push(SkippedPort { namespace, name, port, why: why.to_owned() });
            }
        }
    }
    found
}

/// The ports that the containers of a pod declare.
fn declared(pod: &Value) -> BTreeSet<u16> {
    let list = |value: &Value, field: &str| {
        value.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let containers = list(spec, "containers").into_iter();
    let ports = containers.flat_map(|container| list(&container, "ports"));
    let number = |port: Value| u16::try_from(port.get("containerPort")?.as_u64()?).ok();
    ports.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn running_pods_without_a_sidecar_are_named_where_their_namespace_asks() {
        let namespace = |name: &str, value: &str| json!({"metadata": {"name": name, "annotations": {"portcullis.dev/inject": value}}});
        let pod = |namespace: &str, name: &str, container: &str| {
            json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "initContainers": [{"name": "portcullis-init"}],
                    "containers": [{"name": container}],
                },
                "status": {"phase": "Running"},
            })
        };
        let mut has = pod("shop", "has", "portcullis-proxy");
        has["spec"]["initContainers"][0]["args"] =
            json!(["redirect", "--inbound-port=4143", "--proxy-uid=2102"]);
        has["spec"]["containers"][0] = json!({
            "name": "portcullis-proxy", "args": ["run"], "ports": [{"containerPort": 4143}],
            "securityContext": {"runAsUser": 2102},
            "env": [{"name": "PORTCULLIS_WORKLOAD"}, {"name": "PORTCULLIS_POLICY_ADDR"}],
        });
        let mut host = pod("shop", "c", "web");
        host["spec"]["hostNetwork"] = true.into();
        let pods = [
            has,
            pod("shop", "b", "web"),
            host,
            pod("shop", "a", "web"),
            pod("silent", "a", "web"),
            pod("portcullis", "a", "web"),
        ];
        let namespaces = [
            namespace("shop", "enabled"),
            namespace("silent", "disabled"),
            namespace("portcullis", "enabled"),
        ];
        let injector = InstalledInjector { home: "portcullis", reads_linkerd: false };
        let found = uninjected_pods(&namespaces, &pods, injector);
        let names: Vec<&str> = found.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(found[2].why.starts_with("the pod has hostNetwork: true"), "{found:?}");
        assert!(found.iter().all(|pod| pod.namespace == "shop"));
    }
}
