//! Namespaces whose owners keep the roots out of them, while an authority is rotated.

use super::ask::identity;
use super::{Plane, count, events};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use policy_issuer as issuer;
use policy_testkit::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

/// Makes a ConfigMap of the plane's name that nobody may change, in place of what is there.
async fn fix(plane: &Plane<'_>, namespace: &str, finalizers: &[&str]) {
    let api = plane.maps(namespace);
    // It may be there or not.
    _ = api.delete(&plane.map, &DeleteParams::default()).await;
    let fixed: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": plane.map, "finalizers": finalizers},
        "data": {issuer::BUNDLE: "mine"}, "immutable": true,
    }))
    .unwrap();
    // If the issuer is faster, its copy is deleted again.
    while api.create(&PostParams::default(), &fixed).await.is_err() {
        _ = api.delete(&plane.map, &DeleteParams::default()).await;
    }
}

async fn ask_for_injection(plane: &Plane<'_>, namespace: &str) {
    let label = format!(
        "apiVersion: v1\nkind: Namespace\n\
         metadata: {{name: {namespace}, labels: {{portcullis.dev/inject: enabled}}}}\n"
    );
    plane.cluster.apply(&label).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_immutable_copy_of_the_roots_is_made_anew() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "fixed").await;
    let _replica = plane.issuer(&[]).await;
    let roots = plane.roots(&plane.home).await.unwrap();
    let (asking, _) = plane.workload("fixing").await;
    fix(&plane, &asking, &[]).await;
    ask_for_injection(&plane, &asking).await;
    wait_until("it has the roots", async || plane.roots(&asking).await.as_ref() == Some(&roots))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_refuses_the_roots_delays_a_rotation_by_a_minute_alone() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "refuse").await;
    let replica = plane.issuer(&["--root-settle=2s"]).await;
    let (honest, token) = plane.workload("honest").await;
    let (evil, _) = plane.workload("evil").await;
    fix(&plane, &evil, &["example.com/stays"]).await;
    for namespace in [&honest, &evil] {
        ask_for_injection(&plane, namespace).await;
    }
    let first_root = plane.roots(&plane.home).await.unwrap();
    wait_until("the honest one has the roots", async || {
        plane.roots(&honest).await.as_ref() == Some(&first_root)
    })
    .await;
    let annotation = json!({"metadata": {"annotations": {issuer::ROTATE: "now"}}});
    plane.patch_secret(annotation).await;
    let name = identity("web", &honest, &plane.home);
    let begun = Instant::now();
    while plane.held("ca.crt").await.as_ref() == Some(&first_root) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", replica.logs());
        // Clients are served meanwhile.
        let published = plane.roots(&plane.home).await.unwrap();
        let known = plane.known(&replica).await;
        known.certificate(&name, token.clone()).await.verify(&published).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(count(&plane.roots(&honest).await.unwrap()), 2);
    assert_eq!(plane.roots(&evil).await.as_deref(), Some("mine"));
    let metrics = replica.metrics().await;
    let behind = "issuer_roots_namespaces{state=\"left_behind\"} 1\n";
    assert!(metrics.contains(behind), "{metrics}");
    let told = events(&plane).await.join("\n");
    let words = format!("Warning RootsRefused: namespace {evil} keeps refusing the ConfigMap");
    assert!(told.contains(&words), "{told}");

    // It comes back as soon as it lets the roots in.
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    plane.maps(&evil).patch(&plane.map, &PatchParams::default(), &patch).await.unwrap();
    wait_until("it has both roots", async || {
        plane.roots(&evil).await.is_some_and(|roots| count(&roots) == 2)
    })
    .await;
}
