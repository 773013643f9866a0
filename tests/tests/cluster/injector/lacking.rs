//! Pods that ought to have a sidecar and have none.

use super::world::{World, pod};
use http::Method;
use policy_testkit::wait_for;
use serde_json::json;

#[tokio::test]
async fn a_pod_that_is_older_than_its_namespace_s_annotation_is_counted_and_told_once() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("older").await.unwrap();
    let world = World::start(&cluster, &[&namespace]).await;
    world.create(&namespace, &pod("old", json!({}))).await.assert_left_alone();
    let path = format!("/api/v1/namespaces/{namespace}/pods/old");
    let running = json!({"status": {"phase": "Running"}});
    let content = "application/merge-patch+json";
    let answer = world.send(Method::PATCH, &format!("{path}/status"), content, &running).await;
    assert!(answer.is_done(), "{answer:?}");
    world.mark(&namespace, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;

    let line = format!("injector_pods_without_sidecar{{namespace=\"{namespace}\"}} 1");
    let counted = || async {
        let metrics = world.controller.metrics().await;
        metrics.lines().any(|metric| metric == line).then_some(())
    };
    wait_for(&line, counted).await;
    let events = || async {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let list = world.get(&path).await;
        let all = list["items"].as_array().unwrap().clone();
        let ours = all.into_iter().filter(|event| event["reason"] == "SidecarMissing");
        let ours: Vec<_> = ours.collect();
        (!ours.is_empty()).then_some(ours)
    };
    let told = wait_for("an event", events).await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["regarding"]["name"], &told[0]["type"]),
        (&json!("old"), &json!("Warning"))
    );
    let note = told[0]["note"].as_str().unwrap();
    assert!(note.starts_with("its namespace asks for sidecars and it has none"), "{note}");

    // Asked not to, or gone, it is missed no longer.
    let off = json!({"metadata": {"annotations": {"portcullis.dev/inject": "disabled"}}});
    let answer = world.send(Method::PATCH, &path, content, &off).await;
    assert!(answer.is_done(), "{answer:?}");
    let gone = || async {
        let metrics = world.controller.metrics().await;
        (!metrics.contains(&format!("namespace=\"{namespace}\"}} 1")) || !metrics.contains(&line))
            .then_some(())
    };
    wait_for("not counted", gone).await;
    assert_eq!(events().await.unwrap().len(), 1, "told once");
}
