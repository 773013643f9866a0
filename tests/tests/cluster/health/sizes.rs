//! Bounds of a namespace on sizes: with the annotations of docs/injection.md the API server takes injected pods.

use super::world::World;
use policy_testkit::wait_until;
use serde_json::{Value, json};

/// The annotations of the sidecar's sizes.
fn sizes(requests: [&str; 2], limits: [&str; 2]) -> Value {
    json!({
        "portcullis.dev/proxy-cpu-request": requests[0],
        "portcullis.dev/proxy-memory-request": requests[1],
        "portcullis.dev/proxy-cpu-limit": limits[0],
        "portcullis.dev/proxy-memory-limit": limits[1],
    })
}

fn pod(name: &str, annotations: &Value, requests: [&str; 2], limits: [&str; 2]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "sized", "annotations": annotations},
        "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "web",
            "resources": {"requests": {"cpu": requests[0], "memory": requests[1]},
                "limits": {"cpu": limits[0], "memory": limits[1]}}}]},
    })
}

/// Creates a pod with its sidecar, and returns it after it is gone again.
async fn made(world: &World, pod: &Value) -> Result<Value, String> {
    let objects = world.cluster.objects();
    let made = objects.apply_one(pod).await.map_err(|error| format!("{error:?}"))?;
    let mut all = made["spec"]["initContainers"].as_array().into_iter().flatten();
    assert!(all.any(|container| container["name"] == "portcullis-proxy"), "{made}");
    objects.delete(&pod.to_string()).await.unwrap();
    Ok(made)
}

/// A quota on limits, minima of a LimitRange, and a pod that is to be Guaranteed.
pub(super) async fn bounds_of_a_namespace_can_be_met(world: &World) {
    let yaml = "apiVersion: v1\nkind: Namespace\nmetadata: {name: sized, annotations: \
                {portcullis.dev/inject: enabled}}\n---\napiVersion: v1\nkind: ServiceAccount\n\
                metadata: {name: web, namespace: sized}\n";
    world.cluster.apply(yaml).await.unwrap();
    let objects = world.cluster.objects();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sized"}});
    wait_until("the namespace is labelled", async || {
        let found = objects.get(&namespace).await.unwrap().unwrap();
        found["metadata"]["labels"]["portcullis.dev/inject"] == "enabled"
    })
    .await;
    let small = (["10m", "16Mi"], ["100m", "32Mi"]);
    let plain = pod("plain", &json!({}), small.0, small.1);
    // The API server goes by the label a moment later.
    wait_until("the webhook is called", async || {
        let made = objects.apply_one(&plain).await.unwrap();
        objects.delete(&plain.to_string()).await.unwrap();
        !made["spec"]["initContainers"].is_null()
    })
    .await;
    let equal = ["100m", "64Mi"];
    let guaranteed = made(world, &pod("equal", &sizes(equal, equal), equal, equal)).await.unwrap();
    assert_eq!(guaranteed["status"]["qosClass"], "Guaranteed", "{guaranteed}");
    let burstable = made(world, &pod("burst", &json!({}), equal, equal)).await.unwrap();
    assert_eq!(burstable["status"]["qosClass"], "Burstable", "{burstable}");

    let minima = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "minima", "namespace": "sized"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "50m", "memory": "90Mi"}}]}});
    objects.apply_one(&minima).await.unwrap();
    let large = (["50m", "90Mi"], ["100m", "100Mi"]);
    wait_until("the LimitRange is known", async || {
        made(world, &pod("low", &json!({}), large.0, large.1)).await.is_err()
    })
    .await;
    made(world, &pod("high", &sizes(large.0, large.1), large.0, large.1)).await.unwrap();
    objects.delete(&minima.to_string()).await.unwrap();

    let hard = json!({"limits.cpu": "2", "limits.memory": "2Gi"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": "sized"}, "spec": {"hard": hard}});
    objects.apply_one(&quota).await.unwrap();
    // As Kubernetes' controller does, which does not run here.
    let mut counted = quota.clone();
    counted["status"] = json!({"hard": hard, "used": {"limits.cpu": "0", "limits.memory": "0"}});
    world.cluster.apply_status(&counted.to_string()).await.unwrap();
    wait_until("the quota is known", async || made(world, &plain).await.is_err()).await;
    let words = made(world, &plain).await.unwrap_err();
    assert!(words.contains("portcullis-proxy"), "{words}");
    made(world, &pod("bounded", &sizes(small.0, ["100m", "64Mi"]), small.0, small.1))
        .await
        .unwrap();
    objects.delete(&quota.to_string()).await.unwrap();
    objects.delete(yaml.split("---\n").next().unwrap()).await.unwrap();
}
