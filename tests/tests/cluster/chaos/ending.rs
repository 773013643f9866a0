//! Namespaces that are being deleted, while the definitions of their objects disappear.

use super::live::Live;
use super::manifests::{CLIENT, shop, web};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams};
use policy_tests::cluster::{Cluster, cluster_or_skip};

/// What is in a namespace is kept where only its definition is gone, and ends where the namespace is being
/// deleted: before the definition goes, or afterwards. Nothing finishes a namespace here, as where a finalizer
/// holds one back.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_being_deleted_keeps_nothing_although_it_is_there() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let live = Live::start(cluster.client()).await;
    let objects = cluster.objects();
    for name in ["stays", "before", "after"] {
        let namespace =
            format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n");
        objects.apply(&namespace).await.unwrap();
        objects.apply_with_status(&shop(name)).await.unwrap();
        live.until("permitted", &web(name), CLIENT, true).await;
    }
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let delete = async |name: &str| {
        namespaces.delete(name, &DeleteParams::default()).await.unwrap();
        let found = namespaces.get(name).await.unwrap();
        assert!(found.metadata.deletion_timestamp.is_some(), "{found:?}");
    };
    delete("before").await;
    // Its objects are there for as long as nobody deletes them.
    live.until("still permitted", &web("before"), CLIENT, true).await;

    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                      metadata: {name: meshtlsauthentications.policy.linkerd.io}\n";
    objects.delete(definition).await.unwrap();
    live.until("ends with the namespace", &web("before"), CLIENT, false).await;
    // Longer than the second look at a kind that is absent.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    for name in ["stays", "after"] {
        live.until("is kept", &web(name), CLIENT, true).await;
    }
    delete("after").await;
    live.until("ends with the namespace", &web("after"), CLIENT, false).await;
    assert!(live.permits(&web("stays"), 8080, CLIENT).await, "nobody deletes this one");
}

/// A finalizer holds a policy back that was deleted: it is in force for as long as it is there, as `kubectl get`
/// shows it, and not afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_a_finalizer_holds_back_is_in_force_until_it_is_gone() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let live = Live::start(cluster.client()).await;
    let objects = cluster.objects();
    objects.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: held}\n").await.unwrap();
    objects.apply_with_status(&shop("held")).await.unwrap();
    let grant = serde_json::json!({"apiVersion": "policy.linkerd.io/v1alpha1",
        "kind": "AuthorizationPolicy", "metadata": {"name": "clients", "namespace": "held"}});
    let held = |finalizers: serde_json::Value| {
        let mut found = grant.clone();
        found["metadata"]["finalizers"] = finalizers;
        found
    };
    let stored = objects.get(&grant).await.unwrap().unwrap();
    let mut with = held(serde_json::json!(["example.com/hold"]));
    with["spec"] = stored["spec"].clone();
    objects.replace(&with).await.unwrap();
    live.until("permitted", &web("held"), CLIENT, true).await;
    objects.delete(&grant.to_string()).await.unwrap();
    let stored = objects.get(&grant).await.unwrap().unwrap();
    assert!(stored["metadata"]["deletionTimestamp"].is_string(), "{stored}");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(live.permits(&web("held"), 8080, CLIENT).await, "it is still there");
    let mut without = held(serde_json::json!([]));
    without["spec"] = stored["spec"].clone();
    // The API server answers with the object, which is gone.
    objects.replace(&without).await.unwrap();
    live.until("gone", &web("held"), CLIENT, false).await;
}
