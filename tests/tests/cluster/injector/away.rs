//! Creation of pods while no replica answers.

use super::world::{Answer, World, pod};
use serde_json::json;

#[tokio::test]
async fn an_outage_stops_pods_that_would_be_open_and_no_others() {
    let Some(cluster) = super::cluster().await else { return };
    let asks = cluster.namespace("asks").await.unwrap();
    let silent = cluster.namespace("silent").await.unwrap();
    let mut world = World::start(&cluster, &[&asks, &silent]).await;
    world.mark(&asks, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&asks, Some("enabled")).await;
    let web = pod("web", json!({}));
    let injected = |answer: &Answer| answer.is_done() && !answer.inits().is_empty();
    world.until(&asks, &web, "injected", injected).await;
    world.controller.kill();

    let unanswered = |answer: &Answer| answer.message().contains("failed calling webhook");
    world.until(&asks, &web, "refused", unanswered).await;
    let answer = world.create(&asks, &web).await;
    assert!(unanswered(&answer), "{answer:?}");
    // Who wants none needs nobody.
    let off = pod("off", json!({"linkerd.io/inject": "disabled"}));
    world.create(&asks, &off).await.assert_left_alone();
    let torn =
        pod("torn", json!({"linkerd.io/inject": "disabled", "portcullis.dev/inject": "enabled"}));
    assert!(unanswered(&world.create(&asks, &torn).await));
    // Elsewhere everything goes on.
    world.create(&silent, &web).await.assert_left_alone();
    let own = pod("own", json!({"portcullis.dev/inject": "enabled"}));
    world.create(&silent, &own).await.assert_left_alone();
}
