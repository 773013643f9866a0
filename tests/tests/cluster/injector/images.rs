//! Images of a sidecar that are changed in a pod that exists.

use super::world::{Answer, World, pod};
use http::Method;
use serde_json::{Value, json};

async fn patch(world: &World, uri: &str, patch: &Value) -> Answer {
    world.send(Method::PATCH, uri, "application/strategic-merge-patch+json", patch).await
}

#[tokio::test]
async fn an_update_asks_the_injector_if_it_changes_an_image_of_the_sidecar_and_else_never() {
    let Some(cluster) = super::cluster().await else { return };
    let asks = cluster.namespace("asks").await.unwrap();
    let mesh = cluster.namespace("mesh").await.unwrap();
    let (name, strict) = (format!("injector-{mesh}"), ["--injector-bypass=refuse"]);
    let place = (mesh, name.as_str());
    let mut world = World::flagged(&cluster, cluster.kubeconfig(), place, &[&asks], &strict).await;
    world.mark(&asks, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&asks, Some("enabled")).await;
    let web = pod("web", json!({}));
    world.until(&asks, &web, "injected", |answer| !answer.inits().is_empty()).await;
    let stored = world.create(&asks, &web).await;
    stored.assert_injected();
    let uri = format!("/api/v1/namespaces/{asks}/pods/web");
    let image = |name: &str| json!({"spec": {"initContainers": [{"name": name, "image": "example.com/mine:1"}]}});
    for (at, name) in ["portcullis-init", "portcullis-proxy"].into_iter().enumerate() {
        let refused = patch(&world, &uri, &image(name)).await;
        let words = format!("spec.initContainers[{at}].image: differs from what is injected");
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.message().contains(&words), "{refused:?}");
    }
    let other = json!({"spec": {"containers": [{"name": "web", "image": "example.com/web:2"}]}});
    let finalizer = |list: Value| json!({"metadata": {"finalizers": list}});
    let kept = finalizer(json!(["batch.kubernetes.io/job-tracking"]));
    for change in [&other, &kept] {
        let answer = patch(&world, &uri, change).await;
        assert!(answer.is_done() && answer.warnings.is_empty(), "{answer:?}");
    }
    world.controller.kill();
    // A Job ends without us, and an image of the sidecar's waits.
    let removed = json!({"metadata": {"$deleteFromPrimitiveList/finalizers":
        ["batch.kubernetes.io/job-tracking"]}});
    let answer = patch(&world, &uri, &removed).await;
    assert!(answer.is_done(), "{answer:?}");
    assert_eq!(answer.body["metadata"]["finalizers"], Value::Null, "{answer:?}");
    let unanswered = patch(&world, &uri, &image("portcullis-proxy")).await;
    assert!(unanswered.message().contains("failed calling webhook"), "{unanswered:?}");
}
