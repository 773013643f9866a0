//! `portcullis version` on a real API server.

use crate::cli::portcullis;
use serde_json::{Value, json};

/// A pod of the control plane.
fn component(namespace: &str, name: &str, component: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace,
            "labels": {"app.kubernetes.io/component": component}},
        "spec": {"containers": [{"name": "c", "image": image, "args": ["run"]}]},
    })
}

/// A pod as the injector leaves it.
fn injected(namespace: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "initContainers": [
                {"name": "portcullis-init", "image": "init",
                 "args": ["redirect", "--inbound-port=4143", "--proxy-uid=2102"]},
                {"name": "portcullis-proxy", "image": image, "args": ["run"],
                 "restartPolicy": "Always", "ports": [{"containerPort": 4143}],
                 "securityContext": {"runAsUser": 2102},
                 "env": [{"name": "PORTCULLIS_WORKLOAD"}, {"name": "PORTCULLIS_POLICY_ADDR"}]},
            ],
            "containers": [{"name": "web", "image": "web"}],
        },
    })
}

#[tokio::test]
async fn versions_are_those_that_run_and_sidecars_are_held_to_the_controllers() {
    let Some(cluster) = crate::shared().await else { return };
    let home = cluster.namespace("version").await.unwrap();
    let shop = cluster.namespace("shop").await.unwrap();
    let pods = [
        component(&home, "c-0", "policy-controller", "registry:5000/controller:0.2.0"),
        component(&home, "c-1", "policy-controller", "registry:5000/controller:0.2.0"),
        component(&home, "i-0", "issuer", "registry:5000/controller:0.2.0"),
        injected(&shop, "old", "registry:5000/proxy:0.1.0"),
        injected(&shop, "new", "registry:5000/proxy:0.2.0"),
        injected(&shop, "ahead", "registry:5000/proxy:0.3.0"),
    ];
    for pod in &pods {
        cluster.objects().apply_one(pod).await.unwrap();
    }
    let asking = ["version", "-n", &shop, "--controller-namespace", &home, "-o", "json"];
    let said = portcullis(cluster.kubeconfig(), &asking).await;
    let report = said.json();
    assert_eq!((said.code, &report["client"]), (Some(0), &json!(env!("CARGO_PKG_VERSION"))));
    let told = report["running"].as_array().unwrap().iter().map(|running| {
        json!([running["component"], running["version"], running["pods"], running["skew"]])
    });
    let told: Vec<Value> = told.collect();
    let expected = json!([
        ["controller", "0.2.0", 2, "same"],
        ["issuer", "0.2.0", 1, "same"],
        ["sidecar", "0.1.0", 1, "older"],
        ["sidecar", "0.2.0", 1, "same"],
        ["sidecar", "0.3.0", 1, "newer"],
    ]);
    assert_eq!(json!(told), expected, "{report:#}");
    assert_eq!(report["running"][2]["some"], json!([format!("{shop}/old")]));
    assert_eq!(report["notKnown"], json!([]));

    // Who may see nothing is told so, and of nobody that there is none.
    let nobody = cluster.kubeconfig_for("nobody", &["system:authenticated"]).unwrap();
    let said = portcullis(&nobody, &asking).await;
    let report = said.json();
    assert_eq!((said.code, &report["running"]), (Some(0), &json!([])));
    let unknown = report["notKnown"].as_array().unwrap();
    assert!(unknown.len() == 3 && unknown[0].as_str().unwrap().contains("cannot list"), "{report}");

    // No cluster is asked for the version of the program.
    let none = cluster.folder().join("no-such-kubeconfig");
    let said = portcullis(&none, &["version", "--client"]).await;
    assert!(said.code == Some(0) && said.out.contains(env!("CARGO_PKG_VERSION")), "{}", said.err);
}
