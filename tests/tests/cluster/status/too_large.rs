//! A status that does not fit beside its object in the storage of the API server.

use super::*;
use kube::api::PostParams;

/// The most that etcd takes in one request, by default.
const ETCD_LIMIT: usize = 1_572_864;

/// A Server with a selector of so many bytes.
fn large(namespace: &str, bytes: usize) -> Value {
    let requirement = json!({"key": "app", "operator": "In", "values": ["x".repeat(bytes)]});
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3",
        "kind": "Server",
        "metadata": {"name": "large", "namespace": namespace},
        "spec": {"podSelector": {"matchExpressions": [requirement]}, "port": 80},
    })
}

#[tokio::test]
async fn a_status_that_is_too_large_is_counted_and_holds_up_no_other_object() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = &*cluster.namespace("large").await.unwrap();
    let replica = replica(cluster, &Setup::of(ns)).await;
    replica.leads().await;
    let servers = api(cluster, Kind::Server, "v1beta3", ns);
    // The largest one that is stored leaves no room for a status.
    let mut bytes = ETCD_LIMIT;
    loop {
        let object: DynamicObject = serde_json::from_value(large(ns, bytes)).unwrap();
        match servers.create(&PostParams::default(), &object).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.message.contains("too large") => {}
            Err(error) => panic!("{bytes} bytes: {error}"),
        }
        bytes = bytes.checked_sub(128).unwrap();
    }
    wait_for("it is counted", || async {
        (replica.metric("resource_status_too_large_total") > 0).then_some(())
    })
    .await;
    for number in 0..5 {
        let name = format!("small{number}");
        cluster.apply(&server(ns, &name, PORT_80)).await.unwrap();
        told(cluster, (Kind::Server, ns, &name), &["Accepted=True Accepted 1"]).await;
    }
    assert_eq!(get(cluster, Kind::Server, ns, "large").await["status"], Value::Null);
    assert!(replica.leadership.is_leader());

    // Once there is room for it, it is written.
    let smaller = json!({"spec": large(ns, 60)["spec"]});
    servers.patch("large", &PatchParams::default(), &Patch::Merge(smaller)).await.unwrap();
    told(cluster, (Kind::Server, ns, "large"), &["Accepted=True Accepted 2"]).await;
}
