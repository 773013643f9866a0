//! The objects that are measured with: one namespace, a Server per app, pods and standing
//! AuthorizationPolicies spread evenly over the apps, and one AuthorizationPolicy that comes and goes.

use serde_json::{Value, json};

/// The namespace of everything.
pub(crate) const NAMESPACE: &str = "scale";

/// The port that the Servers own and that watchers of the compatible API ask for.
pub(crate) const PORT: u16 = 8080;

/// The other port that every pod declares.
pub(crate) const ADMIN: u16 = 9090;

/// Numbers of pods, of their apps, and of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) pods: usize,
    pub(crate) apps: usize,
    pub(crate) policies: usize,
}

impl Scale {
    /// The app of a pod.
    pub(crate) fn app(self, pod: usize) -> usize {
        pod % self.apps
    }

    /// The pods of an app.
    pub(crate) fn concerned(self, app: usize) -> impl Iterator<Item = usize> {
        (0..self.pods).filter(move |pod| self.app(*pod) == app)
    }

    /// The same with one pod of each app: every shape and every policy, and hardly any pods.
    pub(crate) fn one_of_each(self) -> Self {
        Self { pods: self.apps.min(self.pods), ..self }
    }
}

/// Everything but the pods.
pub(crate) fn frame(scale: Scale) -> Vec<Value> {
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"},
            "spec": {"podCIDR": "10.200.0.0/16"},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]},
        }),
        json!({
            "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
            "metadata": {"name": "all", "namespace": NAMESPACE},
            "spec": {"networks": [{"cidr": "10.0.0.0/8"}]},
        }),
    ];
    all.extend((0..scale.apps).map(|app| {
        json!({
            "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
            "metadata": {"name": format!("app{app}"), "namespace": NAMESPACE},
            "spec": {
                "podSelector": {"matchLabels": {"app": format!("app{app}")}},
                "port": "http", "proxyProtocol": "HTTP/1",
            },
        })
    }));
    all.extend((0..scale.policies).map(|policy| {
        let app = format!("app{}", policy % scale.apps);
        authorization(
            &format!("standing-{policy}"),
            &json!({
                "group": "policy.linkerd.io", "kind": "Server", "name": app,
            }),
        )
    }));
    all
}

/// A running pod of its app, with two ports and a readiness probe.
pub(crate) fn pod(scale: Scale, pod: usize) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(pod), "namespace": NAMESPACE,
            "labels": {
                "app": format!("app{}", scale.app(pod)),
                "linkerd.io/control-plane-ns": "linkerd",
            },
        },
        "spec": {
            "nodeName": "node", "serviceAccountName": "default",
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "c", "image": "localhost/pause:1",
                "ports": [
                    {"name": "http", "containerPort": PORT},
                    {"name": "admin", "containerPort": ADMIN},
                ],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            }],
        },
    });
    if let Some(object) = object.as_object_mut() {
        object.insert("status".to_owned(), pod_status(pod));
    }
    object
}

/// The status of a pod, which the API server takes separately.
pub(crate) fn pod_status(pod: usize) -> Value {
    let address = format!("10.200.{}.{}", pod / 250, pod % 250 + 1);
    json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]})
}

/// The name of a pod.
pub(crate) fn name(pod: usize) -> String {
    format!("p{pod}")
}

/// Workload token of a pod's proxy.
pub(crate) fn token(pod: usize) -> String {
    format!("{NAMESPACE}:{}", name(pod))
}

/// The name of a round's policy.
pub(crate) fn policy_name(round: usize) -> String {
    format!("round-{round}")
}

/// The policy of a round: it concerns one app, or without one every app.
pub(crate) fn policy(round: usize, app: Option<usize>) -> Value {
    let target = match app {
        Some(app) => json!({
            "group": "policy.linkerd.io", "kind": "Server", "name": format!("app{app}"),
        }),
        None => json!({"group": "", "kind": "Namespace", "name": NAMESPACE}),
    };
    authorization(&policy_name(round), &target)
}

fn authorization(name: &str, target: &Value) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "targetRef": target,
            "requiredAuthenticationRefs": [
                {"group": "policy.linkerd.io", "kind": "NetworkAuthentication", "name": "all"},
            ],
        },
    })
}
