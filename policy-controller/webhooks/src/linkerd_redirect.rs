//! Redirects Linkerd's proxies to this controller when their pods are created, by a webhook that
//! runs after Linkerd's injector.
//!
//! The API server calls webhooks in the order of their configurations' names, and ours again if a
//! later one changed the pod. Existing pods keep their controller.

use crate::installation::{Installation, client_config, created_pods, requirement};
use crate::review::{AdmissionRequest, NO_REQUEST, ReviewResponse, Status, version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

/// Default name of this webhook's configuration. It must sort after
/// `linkerd-proxy-injector-webhook-config`.
pub const BESIDE_CONFIGURATION: &str = policy_kube::names::BESIDE_CONFIGURATION;

/// Path of the webhook on the admission port.
pub(crate) const LINKERD_REDIRECT_PATH: &str = "/beside-linkerd";

/// The label that Linkerd's injector sets on pods with its proxy.
const INJECTED: &str = "linkerd.io/control-plane-ns";

/// The container of Linkerd's proxy, an ordinary container or a native sidecar among the init
/// containers.
const PROXY: &str = "linkerd-proxy";

/// Variables with the address of the policy controller and the identity that it must prove.
const ADDRESS: &str = "LINKERD2_PROXY_POLICY_SVC_ADDR";
const NAME: &str = "LINKERD2_PROXY_POLICY_SVC_NAME";

/// The label with its name that every namespace has, and the exempt namespace of components that
/// the node needs.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const SYSTEM: &str = "kube-system";

/// Redirects proxies to this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRedirector {
    /// Address of the policy API, as proxies reach it.
    pub address: String,
    /// Identity of the policy API.
    pub name: String,
}

impl ProxyRedirector {
    /// Responds to a review of a pod.
    pub(crate) fn review(&self, review: &Value) -> ReviewResponse {
        let version = version(review);
        let Some(request) = AdmissionRequest::read(review) else {
            return ReviewResponse::deny(version, "", Status::malformed(NO_REQUEST));
        };
        let is_pod = request.kind == "Pod" && request.group.is_empty();
        let new = request.operation == "CREATE" && request.subresource.is_empty();
        let pod = request.object.filter(|_| is_pod && new);
        let patch = pod.map(|pod| self.patch(pod)).unwrap_or_default();
        if patch.is_empty() {
            return ReviewResponse::allow(version, request.uid, Vec::new());
        }
        let patch = BASE64_STANDARD.encode(Value::Array(patch).to_string());
        ReviewResponse::patch(version, request.uid, patch, Vec::new())
    }

    /// Returns the JSON Patch (RFC 6902) that redirects a pod's proxy; empty if it has no proxy of
    /// Linkerd's or is already redirected.
    fn patch(&self, pod: &Value) -> Vec<Value> {
        let mut operations = Vec::new();
        for list in ["initContainers", "containers"] {
            let containers = pod.get("spec").and_then(|spec| spec.get(list));
            let containers = containers.and_then(Value::as_array).into_iter().flatten();
            for (index, container) in containers.enumerate() {
                if container.get("name").and_then(Value::as_str) == Some(PROXY) {
                    let path = format!("/spec/{list}/{index}/env");
                    operations.extend(self.replace(&path, container.get("env")));
                }
            }
        }
        operations
    }

    /// Returns an operation that replaces a whole environment, because variables may refer to
    /// earlier ones and must keep their order.
    fn replace(&self, path: &str, environment: Option<&Value>) -> Option<Value> {
        let mut variables = environment.and_then(Value::as_array).cloned().unwrap_or_default();
        for (name, value) in [(ADDRESS, &self.address), (NAME, &self.name)] {
            let wanted = json!({"name": name, "value": value});
            let named =
                |variable: &&mut Value| variable.get("name").and_then(Value::as_str) == Some(name);
            match variables.iter_mut().find(named) {
                Some(variable) => *variable = wanted,
                None => variables.push(wanted),
            }
        }
        let variables = Value::Array(variables);
        // In JSON Patch, `add` replaces an existing field.
        (Some(&variables) != environment)
            .then(|| json!({"op": "add", "path": path, "value": variables}))
    }
}

/// Returns the webhook configuration, for pods with Linkerd's proxy. No such pod is created while
/// the webhook is unavailable, because it would follow another policy than its neighbours.
pub fn configuration(installation: &Installation) -> MutatingWebhookConfiguration {
    let selector =
        |expressions| LabelSelector { match_expressions: Some(expressions), match_labels: None };
    let left_alone = [SYSTEM, installation.namespace.as_str()];
    let webhook = MutatingWebhook {
        name: "proxies.beside.portcullis.dev".to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(installation, LINKERD_REDIRECT_PATH),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(selector(vec![requirement(NAMESPACE_NAME, "NotIn", &left_alone)])),
        object_selector: Some(selector(vec![requirement(INJECTED, "Exists", &[])])),
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(vec![created_pods()]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(10),
        ..MutatingWebhook::default()
    };
    let mut configuration =
        MutatingWebhookConfiguration { webhooks: Some(vec![webhook]), ..Default::default() };
    configuration.metadata.name = Some(installation.name.clone());
    configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirector() -> ProxyRedirector {
        ProxyRedirector {
            address: "policy.linkerd.svc:8090".to_owned(),
            name: "controller.id".to_owned(),
        }
    }

    fn answer(pod: &Value, operation: &str) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u",
            "kind": {"group": "", "kind": "Pod"}, "operation": operation, "object": pod}});
        serde_json::to_value(redirector().review(&review)).unwrap()
    }

    fn operations(pod: &Value) -> Value {
        let answer = answer(pod, "CREATE");
        assert_eq!(answer["response"]["allowed"], true);
        let Some(patch) = answer["response"]["patch"].as_str() else { return Value::Null };
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap()
    }

    fn pod(list: &str, environment: &Value) -> Value {
        let proxy = json!({"name": "linkerd-proxy", "env": environment});
        json!({"spec": {list: [{"name": "app", "env": [{"name": ADDRESS, "value": "x"}]}, proxy]}})
    }

    #[test]
    fn linkerds_proxy_is_pointed_here_and_nothing_else_changes() {
        let before = json!([
            {"name": "_pod_ns", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": ADDRESS, "value": "linkerd-policy.linkerd.svc.cluster.local.:8090"},
            {"name": "LINKERD2_PROXY_POLICY_WORKLOAD", "value": "{\"ns\":\"$(_pod_ns)\"}"},
            {"name": NAME, "value": "linkerd-destination.id"},
        ]);
        let mut after = before.clone();
        after[1]["value"] = json!("policy.linkerd.svc:8090");
        after[3]["value"] = json!("controller.id");
        for list in ["containers", "initContainers"] {
            let path = format!("/spec/{list}/1/env");
            let expected = json!([{"op": "add", "path": path, "value": after}]);
            assert_eq!(operations(&pod(list, &before)), expected);
            // A second call changes nothing.
            assert_eq!(operations(&pod(list, &after)), Value::Null);
        }
    }

    #[test]
    fn what_is_missing_is_added() {
        let added = json!([{"name": ADDRESS, "value": "policy.linkerd.svc:8090"},
            {"name": NAME, "value": "controller.id"}]);
        let expected = json!([{"op": "add", "path": "/spec/containers/1/env", "value": added}]);
        assert_eq!(operations(&pod("containers", &Value::Null)), expected);
    }

    #[test]
    fn whatever_is_no_new_pod_with_linkerds_proxy_is_let_through() {
        assert_eq!(operations(&json!({"spec": {"containers": [{"name": "app"}]}})), Value::Null);
        assert_eq!(operations(&json!({"spec": {"containers": "none"}})), Value::Null);
        let updated = answer(&pod("containers", &json!([])), "UPDATE");
        assert!(updated["response"]["patch"].is_null() && updated["response"]["allowed"] == true);
        let malformed = serde_json::to_value(redirector().review(&json!({}))).unwrap();
        assert_eq!(malformed["response"]["allowed"], false);
    }
}
