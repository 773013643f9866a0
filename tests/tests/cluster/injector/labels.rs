//! The label of namespaces, by which the API server selects.

use super::world::World;
use serde_json::json;

#[tokio::test]
async fn the_label_follows_the_annotation_and_what_people_label_stays() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("follows").await.unwrap();
    let by_hand = cluster.namespace("by-hand").await.unwrap();
    let world = World::start(&cluster, &[&namespace, &by_hand]).await;
    world.mark(&by_hand, json!({"labels": {"portcullis.dev/inject": "enabled"}})).await;
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
    // One that is edited by hand is set right.
    world.mark(&namespace, json!({"annotations": {"linkerd.io/inject": "enabled"}})).await;
    world.labelled(&namespace, Some("enabled")).await;
    world.mark(&namespace, json!({"labels": {"portcullis.dev/inject": null}})).await;
    world.labelled(&namespace, Some("enabled")).await;
}

#[tokio::test]
async fn a_namespace_that_cannot_be_read_refuses_pods_and_says_where() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("wrong").await.unwrap();
    let world = World::start(&cluster, &[&namespace]).await;
    world.mark(&namespace, json!({"annotations": {"linkerd.io/inject": "ingress"}})).await;
    let pod = super::world::pod("web", json!({}));
    let answer = world.until(&namespace, &pod, "refused", |answer| !answer.is_done()).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let words = format!(
        "Namespace {namespace}: metadata.annotations[\"linkerd.io/inject\"]: `ingress` is not supported"
    );
    assert!(answer.message().contains(&words), "{answer:?}");
    // Its own word counts before.
    let own = super::world::pod("own", json!({"linkerd.io/inject": "enabled"}));
    world.create(&namespace, &own).await.assert_injected();
}
