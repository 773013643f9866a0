//! Webhooks that nobody answers any more: of an installation that is removed while no pod of it runs, and of
//! one whose namespace somebody deleted.

use super::{NAMESPACE, cluster, namespaces, webhooks};
use policy_tests::chart::{Helm, folder, succeeded};
use serde_json::{Value, json};

/// Objects of a team, of kinds that webhooks are called about.
const TEAM: &str = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web, namespace: \
                    team}\nspec: {podSelector: {}, port: http}\n---\napiVersion: \
                    gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web, namespace: \
                    team}\nspec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: \
                    web}]}\n---\napiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\nmetadata: \
                    {name: web, namespace: team}\nspec: {virtualhost: {fqdn: web.io, targetRef: {group: \
                    policy.linkerd.io, kind: Server, name: web}}, routes: [{match: /, serve: {}}]}\n";

/// `helm uninstall` failed where a webhook with `failurePolicy: Fail` had no pods (gatekeeper#1769), and
/// namespaces never ended after somebody had deleted the control plane's (kyverno#2623, knative#2195).
#[tokio::test]
async fn webhooks_that_nobody_answers_keep_nothing_from_being_deleted() {
    let Some(cluster) = cluster().await else { return };
    let Some(helm) = Helm::or_skip(NAMESPACE) else { return };
    let helm = helm.on(cluster.kubeconfig());
    cluster.install_gateway_api().await.unwrap();
    namespaces(&cluster, &["team", "other"]).await;
    let objects = cluster.objects();
    let chart = folder().display().to_string();
    let install = ["install", "portcullis", &chart, "--create-namespace"];
    succeeded(&helm.call(&install).unwrap()).unwrap();
    let configurations = [
        webhooks(),
        json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration", "metadata": {"name": "portcullis-injector"}}),
    ];
    let mut saved = Vec::new();
    for configuration in &configurations {
        let mut found = objects.get(configuration).await.unwrap().unwrap();
        found["metadata"] = json!({"name": found["metadata"]["name"]});
        saved.push(found);
        objects.delete(&configuration.to_string()).await.unwrap();
    }
    cluster.apply(TEAM).await.unwrap();
    // Policies of the control plane's own ports become objects of the release, too.
    let upgrade = ["upgrade", "portcullis", &chart, "--reset-then-reuse-values"];
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
    let refused = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: next, namespace: \
                   team}\nspec: {podSelector: {}, port: http}\n";
    assert!(cluster.apply(refused).await.is_err(), "nobody answers");
    succeeded(&helm.call(&["uninstall", "portcullis"]).unwrap()).unwrap();
    for configuration in &configurations {
        assert!(objects.get(configuration).await.unwrap().is_none(), "{configuration}");
    }

    // As after `kubectl delete namespace portcullis`.
    for configuration in &saved {
        objects.apply_one(configuration).await.unwrap();
    }
    assert!(cluster.apply(refused).await.is_err(), "nobody answers");
    cluster.delete(TEAM).await.unwrap();
    for object in policy_tests::cluster::documents(TEAM).unwrap() {
        assert!(objects.get(&object).await.unwrap().is_none(), "{object}");
    }
    // What no webhook of ours is about goes on, also what is made in the control plane's own namespace.
    let map = |namespace: &str| -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
    };
    for namespace in ["team", "other", NAMESPACE] {
        objects.apply_one(&map(namespace)).await.unwrap();
        objects.delete(&map(namespace).to_string()).await.unwrap();
    }
}
