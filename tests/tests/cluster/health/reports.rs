//! What operators of other meshes reported of clusters that they share, tried on this installation.

use super::world::{SHOP, World};
use super::{health, lines};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};
use policy_testkit::wait_until;
use serde_json::{Value, json};

/// A namespace that asks for sidecars is stuck in `Terminating`, and what was in it is gone
/// (kyverno#2623, istio#8503). Nothing can be brought there, so nothing is missing.
pub(super) async fn a_namespace_that_never_finishes_is_no_fault(world: &World) {
    let yaml = "apiVersion: v1\nkind: Namespace\nmetadata: {name: stuck, annotations: \
                {portcullis.dev/inject: enabled}}\n";
    world.cluster.apply(yaml).await.unwrap();
    let objects = world.cluster.objects();
    let roots = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "portcullis-identity-trust-roots", "namespace": "stuck"}});
    wait_until("the issuer brings the roots", async || {
        objects.get(&roots).await.unwrap().is_some()
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    namespaces.delete("stuck", &DeleteParams::default()).await.unwrap();
    objects.delete(&roots.to_string()).await.unwrap();
    // The issuer and the controller have looked.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(objects.get(&roots).await.unwrap().is_none(), "the API server takes nothing there");
    let report = health(&world.cluster, &[]).await.json();
    let about = report["findings"].as_array().unwrap().iter();
    let about: Vec<&Value> = about
        .filter(|line| {
            line["outcome"] != "pass" && line["message"].as_str().unwrap().contains("stuck")
        })
        .collect();
    assert!(about.is_empty(), "{about:?}");
    assert_eq!(report["healthy"], true, "{report:#}");
    assert_eq!(lines(&report, "roots-in-namespaces")[0].0, "pass");
    // It is finished here, so that others do not find it.
    objects.delete(yaml).await.unwrap();
}

/// A policy of the cluster asks every container for a read-only root, no escalation, a user that is not root,
/// and requests (dapr/helm-charts#17, istio#23142). What is injected keeps to it, the two capabilities of the
/// init container excepted.
pub(super) async fn what_is_injected_keeps_to_strict_rules_of_the_cluster(world: &World) {
    let every = "(object.spec.containers + (has(object.spec.initContainers) ? \
                 object.spec.initContainers : [])).all(c, has(c.securityContext)";
    let rules = [
        ("root", "c.securityContext.readOnlyRootFilesystem == true"),
        ("escalation", "c.securityContext.allowPrivilegeEscalation == false"),
        ("user", "c.securityContext.runAsNonRoot == true || c.name == 'portcullis-init'"),
        ("profile", "c.securityContext.seccompProfile.type == 'RuntimeDefault'"),
        ("drop", "c.securityContext.capabilities.drop == ['ALL']"),
    ];
    let mut validations: Vec<Value> = rules
        .iter()
        .map(|(name, rule)| json!({"expression": format!("{every} && ({rule}))"), "message": name}))
        .collect();
    let requests = every.replace(
        "has(c.securityContext)",
        "has(c.resources.requests) && 'cpu' in \
                                  c.resources.requests && 'memory' in c.resources.requests",
    );
    validations.push(json!({"expression": format!("{requests})"), "message": "requests"}));
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "strict"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "strict"},
        "spec": {"policyName": "strict", "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {
                "kubernetes.io/metadata.name": SHOP}}}},
    });
    let objects = world.cluster.objects();
    objects.apply_one(&policy).await.unwrap();
    objects.apply_one(&binding).await.unwrap();
    let pod = |name: &str, context: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SHOP},
            "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "web",
                "securityContext": context,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]},
        })
    };
    let lax = pod("lax", json!({}));
    wait_until("the policy is in force", async || {
        let made = objects.apply_one(&lax).await;
        if made.is_ok() {
            objects.delete(&lax.to_string()).await.unwrap();
        }
        made.is_err()
    })
    .await;
    let strict = json!({"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "runAsNonRoot": true, "runAsUser": 1000, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}});
    let made = objects.apply_one(&pod("strict", strict)).await.unwrap();
    let sidecar = made["spec"]["initContainers"].as_array().unwrap().iter();
    assert!(sidecar.clone().any(|container| container["name"] == "portcullis-proxy"), "{made}");
    for object in [&pod("strict", json!({})), &binding, &policy] {
        objects.delete(&object.to_string()).await.unwrap();
    }
    wait_until("the policy is gone", async || objects.apply_one(&lax).await.is_ok()).await;
    objects.delete(&lax.to_string()).await.unwrap();
}

/// Another webhook writes into the sidecar before the injector is called, and so makes a container of its
/// name that is none (gatekeeper#3858): the pod is refused with the name, or has the sidecar once.
pub(super) async fn a_container_of_the_sidecars_name_is_not_taken_for_it(world: &World) {
    let objects = world.cluster.objects();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ghost", "namespace": SHOP},
        "spec": {"serviceAccountName": "web", "containers": [
            {"name": "web", "image": "web"},
            {"name": "portcullis-proxy", "image": "other", "env": [{"name": "A", "value": "b"}]},
        ]},
    });
    let words = format!("{:?}", objects.apply_one(&pod).await.unwrap_err());
    assert!(words.contains("portcullis-proxy"), "{words}");
}
