//! Pods as they are stored.

use super::world::{World, pod};
use policy_kube::rbac;
use serde_json::json;

const ACCOUNT: &str = "policy-controller";

#[tokio::test]
async fn the_binary_with_the_documented_configuration_and_rights_injects_what_asks() {
    let Some(cluster) = super::cluster().await else { return };
    let mesh = cluster.namespace("mesh").await.unwrap();
    let asks = cluster.namespace("asks").await.unwrap();
    let silent = cluster.namespace("silent").await.unwrap();
    cluster.apply(&rbac::manifests(&mesh, ACCOUNT, "portcullis-issuer").unwrap()).await.unwrap();
    let user = format!("system:serviceaccount:{mesh}:{ACCOUNT}");
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let name = "portcullis-injector";
    let world = World::with(&cluster, &kubeconfig, mesh, name, &[&asks, &silent]).await;

    // The namespace asks, by annotation.
    world.mark(&asks, json!({"annotations": {"linkerd.io/inject": "enabled"}})).await;
    world.labelled(&asks, Some("enabled")).await;
    let web = pod("web", json!({}));
    let tried = world.until(&asks, &web, "injected", |answer| !answer.inits().is_empty()).await;
    tried.assert_injected();
    assert_eq!(tried.warnings, Vec::<String>::new());
    let absent = world.get(&format!("/api/v1/namespaces/{asks}/pods/web")).await;
    assert_eq!(absent["code"], 404, "a dry run stores nothing: {absent}");
    world.create(&asks, &web).await.assert_injected();
    let stored = world.get(&format!("/api/v1/namespaces/{asks}/pods/web")).await;
    let proxy = &stored["spec"]["initContainers"][1];
    assert_eq!(stored["metadata"]["labels"]["portcullis.dev/proxy"], "injected");
    assert_eq!(proxy["restartPolicy"], "Always");
    assert_eq!(proxy["securityContext"]["runAsUser"], 2102);
    let probe = &stored["spec"]["containers"][0]["readinessProbe"]["httpGet"];
    assert_eq!(
        (&probe["path"], &probe["port"]),
        (&json!("/probe/tcp/8080"), &json!(4191)),
        "{stored}"
    );

    // The pod counts before its namespace.
    let off = pod("off", json!({"portcullis.dev/inject": "disabled"}));
    world.create(&asks, &off).await.assert_left_alone();
    world.create(&silent, &pod("web", json!({}))).await.assert_left_alone();
    let own = pod("own", json!({"portcullis.dev/inject": "enabled"}));
    world.create(&silent, &own).await.assert_injected();

    // What cannot be is told, what is mistyped is refused.
    let mut host = pod("host", json!({}));
    host["spec"]["hostNetwork"] = json!(true);
    host["spec"]["containers"][0]["ports"] = json!([]);
    host["spec"]["containers"][0]["readinessProbe"] = json!(null);
    let answer = world.create(&asks, &host).await;
    answer.assert_left_alone();
    assert_eq!(
        answer.warnings,
        ["portcullis: no sidecar was injected: the pod has hostNetwork: true; its connections \
          cannot be told from its node's"]
    );
    for namespace in [&asks, &silent] {
        let mistyped = pod("mistyped", json!({"portcullis.dev/injcet": "enabled"}));
        let answer = world.create(namespace, &mistyped).await;
        assert_eq!(answer.status, 422, "{answer:?}");
        let words = "metadata.annotations[\"portcullis.dev/injcet\"]: there is no such annotation; \
                     did you mean `portcullis.dev/inject`?";
        assert!(answer.message().contains(words), "{answer:?}");
    }
    let metrics = world.controller.metrics().await;
    assert!(metrics.contains("injector_responses_total{outcome=\"injected\"}"), "{metrics}");
}

#[tokio::test]
async fn every_setting_makes_a_pod_that_the_api_server_takes() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("set").await.unwrap();
    let world = World::start(&cluster, &[&namespace]).await;
    let all = json!({
        "portcullis.dev/inject": "enabled",
        "portcullis.dev/access-log": "json",
        "portcullis.dev/detect-timeout": "3s",
        "portcullis.dev/image-pull-policy": "Always",
        "portcullis.dev/proxy-admin-shutdown": "enabled",
        "portcullis.dev/proxy-cpu-limit": "2",
        "portcullis.dev/proxy-cpu-request": "100m",
        "portcullis.dev/proxy-ephemeral-storage-limit": "1Gi",
        "portcullis.dev/proxy-image": "registry.local:5000/proxy",
        "portcullis.dev/proxy-memory-limit": "64Mi",
        "portcullis.dev/proxy-version": "v1",
        "portcullis.dev/proxy-workers": "2",
        "portcullis.dev/skip-inbound-ports": "25,http,7000-7010",
        "config.linkerd.io/opaque-ports": "http",
    });
    let wanted = pod("web", all);
    let is = |answer: &super::world::Answer| !answer.inits().is_empty() || !answer.is_done();
    world.until(&namespace, &wanted, "asked", is).await.assert_injected();
}
