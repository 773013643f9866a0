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
    world.mark(&asks, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
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
          cannot be distinguished from its node's"]
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
async fn the_roots_that_a_sidecar_begins_with_are_in_its_pod() {
    let Some(cluster) = super::cluster().await else { return };
    let namespace = cluster.namespace("rooted").await.unwrap();
    let mesh = cluster.namespace("mesh").await.unwrap();
    let authority = policy_testkit::Authority::new();
    let own = format!("{ACCOUNT}.{mesh}.serviceaccount.identity.{mesh}.cluster.local");
    let files = tempfile::tempdir().unwrap();
    authority.certify(&own).write(files.path(), "certs.pem", "key.pem");
    std::fs::write(files.path().join("roots.pem"), authority.pem()).unwrap();
    let flag = |name: &str| format!("--grpc-tls-{name}={}/{name}.pem", files.path().display());
    let flags = ["key", "certs", "roots"].map(flag);
    let flags: Vec<&str> =
        flags.iter().map(String::as_str).chain(["--injector-bypass=refuse"]).collect();
    let name = format!("injector-{mesh}");
    let kubeconfig = cluster.kubeconfig();
    let world = World::flagged(&cluster, kubeconfig, (mesh, &name), &[&namespace], &flags).await;
    let asks = json!({"portcullis.dev/inject": "enabled"});
    let web = pod("web", asks.clone());
    let tried =
        world.until(&namespace, &web, "injected", |answer| !answer.inits().is_empty()).await;
    let env = tried.body["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
    let value = |name: &str| {
        let found = env.iter().find(|one| one["name"] == format!("PORTCULLIS_IDENTITY_{name}"));
        found.map(|one| one["value"].as_str().unwrap().to_owned())
    };
    let anchors = policy_tls::identity::certificates(value("ANCHORS").unwrap().as_bytes());
    assert_eq!(anchors.unwrap(), [authority.root()]);
    let signed = value("SIGNED_ROOTS").unwrap();
    assert_eq!(signed, "/var/run/portcullis/roots/ca-bundle.signed");
    assert_eq!(value("ROOTS"), None, "no file without a proof decides");

    // Who could get around the sidecar is refused where that is asked for.
    let mut powerful = pod("powerful", asks.clone());
    powerful["spec"]["containers"][0]["securityContext"] =
        json!({"capabilities": {"add": ["NET_ADMIN"]}});
    let answer = world.create(&namespace, &powerful).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.message().contains("can change the rules that lead connections"), "{answer:?}");
    // Who brings the two containers has to bring what they read as well.
    let own = |name: &str| {
        let mut own = pod(name, asks.clone());
        own["metadata"]["labels"] = tried.body["metadata"]["labels"].clone();
        own["spec"] = tried.body["spec"].clone();
        own
    };
    let answer = world.create(&namespace, &own("own")).await;
    assert!(answer.is_done(), "{answer:?}");
    let mut other = own("other");
    let volumes = other["spec"]["volumes"].as_array_mut().unwrap();
    let at = volumes.iter().position(|one| one["name"] == "portcullis-trust-roots").unwrap();
    volumes[at]["configMap"]["name"] = json!("roots-of-mine");
    let answer = world.create(&namespace, &other).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let words = format!("spec.volumes[{at}]: differs from what is injected");
    assert!(answer.message().contains(&words), "{answer:?}");
    // A namespace with an annotation of a later version goes on.
    world
        .mark(
            &namespace,
            json!({"annotations": {
                "portcullis.dev/inject": "enabled", "portcullis.dev/proxy-of-next-year": "x",
            }}),
        )
        .await;
    let answer = world.create(&namespace, &web).await;
    answer.assert_injected();
    assert!(answer.warnings[0].contains("has no effect: this version"), "{answer:?}");
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
        "portcullis.dev/maximum-policy-age": "1h",
        "portcullis.dev/pending-policy": "default",
        "portcullis.dev/pending-default-policy": "deny",
        "portcullis.dev/max-connections": "1000",
        "portcullis.dev/idle-timeout": "5m",
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
