//! All replicas restart at once, and nothing has changed for any proxy (linkerd2#14298, linkerd2#12310).

use super::{Proxy, free, grant, leader, replica, server, shop, until_programmed};
use policy_tests::cluster::{Cluster, cluster_or_skip};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Nothing is written although the new leader counts none of the proxies for ten seconds. An edit is news at
/// once.
#[tokio::test]
async fn a_restart_of_all_replicas_writes_nothing_while_proxies_come_back() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    cluster.apply(&grant(&shop)).await.unwrap();
    let [first, second, _] = free();
    let all = [first, second];
    let mut replicas = Vec::new();
    for own in all {
        replicas.push(replica(cluster.kubeconfig(), &home, own, &all).await);
    }
    leader(&replicas).await;
    let proxy = Proxy::of(&format!("{shop}:a"), &all);
    until_programmed(&cluster, &shop, "True Programmed: in force on 1 of 1 proxies").await;
    // The other object is written, too.
    sleep(Duration::from_secs(2)).await;
    let before = versions(&cluster, &shop).await;

    // The proxy connects, and acknowledges nothing for as long as it is paused.
    proxy.pause(true);
    drop(replicas);
    let mut replicas = Vec::new();
    for own in all {
        replicas.push(replica(cluster.kubeconfig(), &home, own, &all).await);
    }
    leader(&replicas).await;
    let led = Instant::now();
    while led.elapsed() < Duration::from_secs(10) {
        assert_eq!(versions(&cluster, &shop).await, before, "after {:?}", led.elapsed());
        sleep(Duration::from_millis(100)).await;
    }
    proxy.pause(false);
    while led.elapsed() < Duration::from_secs(15) {
        assert_eq!(versions(&cluster, &shop).await, before, "after {:?}", led.elapsed());
        sleep(Duration::from_millis(100)).await;
    }

    proxy.pause(true);
    cluster.apply(&server(&shop, "HTTP/2")).await.unwrap();
    until_programmed(&cluster, &shop, "False Pending: in force on 0 of 1 proxies").await;
    assert!(led.elapsed() < Duration::from_secs(29), "{:?}", led.elapsed());
}

/// The versions of the Server and of its policy.
async fn versions(cluster: &Cluster, shop: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (version, kind, name) in
        [("v1beta3", "Server", "web"), ("v1alpha1", "AuthorizationPolicy", "everybody")]
    {
        let object = json!({"apiVersion": format!("policy.linkerd.io/{version}"), "kind": kind,
            "metadata": {"name": name, "namespace": shop}});
        let stored = cluster.objects().get(&object).await.unwrap().unwrap();
        found.push(stored["metadata"]["resourceVersion"].to_string());
    }
    found
}
