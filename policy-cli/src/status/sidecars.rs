//! Pods of a cluster that should have a sidecar and have none.

use crate::cluster::list::{one, pages};
use crate::cluster::{Cluster, Scope};
use crate::diagnostics::pod_networks::{OutsidePod, outside};
use crate::version::pod_version::of_sidecar;
use ipnet::IpNet;
use policy_webhooks::injector::{NamespaceContext, PodFacts, missing_sidecar};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

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

/// Pods that lack a sidecar, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingSidecars {
    /// The pods, in order.
    pub(crate) without: Vec<UninjectedPod>,
    /// Pods with a sidecar whose addresses no sidecar looks up, in order.
    pub(crate) outside: Vec<OutsidePod>,
    /// Reason why the others are unknown.
    pub(crate) unknown: Option<String>,
}

/// Checks the pods of the selected namespaces. Pods of the namespace `control_plane` have no
/// sidecars. `networks`: those whose addresses sidecars look up, if they look up any.
pub(crate) async fn of_cluster(
    cluster: &Cluster,
    control_plane: &str,
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
            without: uninjected_pods(&namespaces, &pods, control_plane),
            outside: networks.map_or_else(Vec::new, |networks| {
                outside(pods.iter().filter(|pod| of_sidecar(pod).is_some()), networks)
            }),
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

/// Returns the pods that should have a sidecar and have none. Pods of `control_plane` have no
/// sidecars.
pub(crate) fn uninjected_pods(
    namespaces: &[Value],
    pods: &[Value],
    control_plane: &str,
) -> Vec<UninjectedPod> {
    let around: BTreeMap<String, NamespaceContext> = namespaces
        .iter()
        .filter_map(NamespaceContext::of)
        .map(|around| (around.namespace.clone(), around))
        .collect();
    let mut found: Vec<UninjectedPod> = pods
        .iter()
        .filter_map(|pod| {
            let text = |field: &str| pod.get("metadata")?.get(field)?.as_str();
            let (namespace, name) = (text("namespace")?, text("name")?);
            let why = missing_sidecar(&PodFacts::of(pod), around.get(namespace)?, control_plane)?;
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Some(UninjectedPod { namespace, name, why: why.to_string() })
        })
        .collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn running_pods_without_a_sidecar_are_named_where_their_namespace_asks() {
        let namespace = |name: &str, value: &str| json!({"metadata": {"name": name, "annotations": {"linkerd.io/inject": value}}});
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
        let pods = [
            has,
            pod("shop", "b", "web"),
            pod("shop", "a", "web"),
            pod("silent", "a", "web"),
            pod("portcullis", "a", "web"),
        ];
        let namespaces = [
            namespace("shop", "enabled"),
            namespace("silent", "disabled"),
            namespace("portcullis", "enabled"),
        ];
        let found = uninjected_pods(&namespaces, &pods, "portcullis");
        let names: Vec<&str> = found.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(found.iter().all(|pod| pod.namespace == "shop"));
    }
}
