//! The label of namespaces, by which the API server selects.

use super::world::World;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use policy_testkit::wait_for;
use serde_json::json;

#[tokio::test]
async fn the_label_follows_the_annotation_and_what_people_label_stays() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("follows").await.unwrap();
    let by_hand = cluster.namespace("by-hand").await.unwrap();
    let linkerds = cluster.namespace("linkerds").await.unwrap();
    let world = World::start(&cluster, &[&namespace, &by_hand, &linkerds]).await;
    world.mark(&by_hand, json!({"labels": {"portcullis.dev/inject": "enabled"}})).await;
    world.mark(&linkerds, json!({"annotations": {"linkerd.io/inject": "enabled"}})).await;
    for (annotation, label) in [
        (json!("enabled"), Some("enabled")),
        (json!("disabled"), Some("disabled")),
        // What cannot be read is asked about, so that whoever creates a pod is told.
        (json!("yes"), Some("enabled")),
        (json!(null), None),
    ] {
        world.mark(&namespace, json!({"annotations": {"portcullis.dev/inject": annotation}})).await;
        world.labelled(&namespace, label).await;
    }
    // The leader has looked at every namespace since.
    world.labelled(&by_hand, Some("enabled")).await;
    // What asks Linkerd's injector alone is covered by no webhook of ours, save where it was before.
    world.labelled(&linkerds, None).await;
    world.mark(&linkerds, json!({"labels": {"portcullis.dev/inject": "enabled"}})).await;
    // One that is edited by hand is set right.
    world.mark(&namespace, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&namespace, Some("enabled")).await;
    world.mark(&namespace, json!({"labels": {"portcullis.dev/inject": null}})).await;
    world.labelled(&namespace, Some("enabled")).await;
    world.labelled(&linkerds, Some("enabled")).await;
}

#[tokio::test]
async fn a_namespace_that_cannot_be_read_refuses_pods_and_says_where() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("wrong").await.unwrap();
    let world = World::start(&cluster, &[&namespace]).await;
    world.mark(&namespace, json!({"annotations": {"portcullis.dev/inject": "ingress"}})).await;
    let pod = super::world::pod("web", json!({}));
    let answer = world.until(&namespace, &pod, "refused", |answer| !answer.is_done()).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let words = format!(
        "Namespace {namespace}: metadata.annotations[\"portcullis.dev/inject\"]: `ingress` is not supported"
    );
    assert!(answer.message().contains(&words), "{answer:?}");
    // Its own word counts before.
    let own = super::world::pod("own", json!({"portcullis.dev/inject": "enabled"}));
    world.create(&namespace, &own).await.assert_injected();
}

#[tokio::test]
async fn a_label_of_an_earlier_version_outlives_linkerds_annotation_and_leaders() {
    let Some(cluster) = super::cluster().await else { return };
    let kept = cluster.namespace("kept").await.unwrap();
    let own = cluster.namespace("own").await.unwrap();
    let fresh = cluster.namespace("fresh").await.unwrap();
    // As a version that read Linkerd's annotation left it.
    let labelled = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": kept, "labels": {"portcullis.dev/inject": "enabled"}},
    });
    let api: Api<Namespace> = Api::all(cluster.client());
    let earlier = PatchParams::apply("portcullis-injector");
    api.patch(&kept, &PatchParams::default(), &Patch::Merge(linkerds(json!("enabled"))))
        .await
        .unwrap();
    api.patch(&kept, &earlier, &Patch::Apply(&labelled)).await.unwrap();
    let holders = || async {
        let found = api.get_metadata(&kept).await.unwrap().metadata.managed_fields;
        let mut entries = found.unwrap_or_default().into_iter();
        entries
            .any(|entry| entry.manager.as_deref() == Some("portcullis-injector-kept"))
            .then_some(())
    };

    let mut world = World::start(&cluster, &[&kept, &own, &fresh]).await;
    wait_for("another field manager holds the label", holders).await;
    world.mark(&own, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&own, Some("enabled")).await;
    world.controller.kill();
    world.mark(&kept, linkerds(json!(null))["metadata"].clone()).await;
    world.mark(&own, json!({"annotations": {"portcullis.dev/inject": null}})).await;

    let world = World::start(&cluster, &[&kept, &own, &fresh]).await;
    world.labelled(&own, None).await;
    world.mark(&fresh, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&fresh, Some("enabled")).await;
    assert_eq!(world.label(&kept).await.as_deref(), Some("enabled"));
    // The documented way takes it away, and no leader brings it back.
    world.mark(&kept, json!({"labels": {"portcullis.dev/inject": null}})).await;
    world.mark(&fresh, json!({"annotations": {"portcullis.dev/inject": "disabled"}})).await;
    world.labelled(&fresh, Some("disabled")).await;
    assert_eq!(world.label(&kept).await, None);
}

/// A patch of Linkerd's annotation.
fn linkerds(answer: serde_json::Value) -> serde_json::Value {
    json!({"metadata": {"annotations": {"linkerd.io/inject": answer}}})
}
