//! The API server dies, etcd hangs, history is forgotten, definitions go and come.

use super::live::{Gate, Live, Question};
use super::manifests::{
    CLIENT, MESH, ON_SERVER, STRANGER, mesh, object, pod, policy, server, shop, web,
};
use policy_crds::Kind;
use policy_testkit::long_or;
use policy_tests::cluster::{Cluster, cluster_or_skip};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Seconds, long enough for a controller that forgets what it had to have done so.
const AWAY: usize = 3;

/// Timeout of a request that etcd does not answer.
const HANGS: Duration = Duration::from_secs(3);

async fn started() -> Option<(Cluster, String)> {
    let cluster = cluster_or_skip(Cluster::builder()).await?;
    cluster.install_crds().await.unwrap();
    let namespace = cluster.namespace("shop").await.unwrap();
    apply(&cluster, &shop(&namespace)).await;
    Some((cluster, namespace))
}

/// Applies manifests, and the status of those that have one.
async fn apply(cluster: &Cluster, yaml: &str) {
    cluster.objects().apply_with_status(yaml).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_or_etcd_is_away_everything_stays_and_afterwards_changes_are_seen() {
    let Some((mut cluster, namespace)) = started().await else { return };
    let live = Live::start(cluster.client()).await;
    let key = web(&namespace);
    let sampler = live.sample(key.clone(), vec![STRANGER]);
    live.until("granted", &key, CLIENT, true).await;
    let before = live.dump().await;
    assert!(!before.is_empty());

    cluster.kill_api_server();
    sleep(Duration::from_secs(long_or("AWAY", AWAY) as u64)).await;
    assert_eq!(live.dump().await, before);
    cluster.start_api_server().await.unwrap();
    cluster.delete(&mesh(&namespace, "x.y")).await.unwrap();
    live.until("revoked right after the start", &key, CLIENT, false).await;
    apply(&cluster, &mesh(&namespace, "x.y")).await;
    live.until("granted again", &key, CLIENT, true).await;
    live.until_healthy().await;

    cluster.freeze_etcd();
    let objects = cluster.objects();
    let gone = mesh(&namespace, "x.y");
    // The API server takes the request and cannot answer.
    assert!(timeout(HANGS, objects.delete(&gone)).await.is_err());
    assert_eq!(live.dump().await, before);
    cluster.thaw_etcd();
    cluster.delete(&gone).await.unwrap();
    live.until("revoked after the thaw", &key, CLIENT, false).await;
    live.until_healthy().await;
    sampler.was_never_wider().await;
    live.converges(cluster.client()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_history_was_forgotten_what_was_deleted_meanwhile_is_revoked_and_nothing_is_wider() {
    /// Holds an identity that is granted while the controller cannot look.
    const NEW: Question<'static> = ("203.0.113.1", Some("z.w"), "/get");
    let Some((cluster, namespace)) = started().await else { return };
    let gate = Gate::to(cluster.kubeconfig()).await;
    let live = Live::start(gate.client(cluster.kubeconfig()).await).await;
    let key = web(&namespace);
    live.until("granted", &key, CLIENT, true).await;
    let lists = live.metric("kube_watch_relists_total");
    let sampler = live.sample(key.clone(), vec![STRANGER, NEW]);
    gate.close();
    // Of an object that is made anew nothing of the old remains: a list without the deletion in it
    // would read as an update.
    cluster.delete(&mesh(&namespace, "x.y")).await.unwrap();
    cluster.delete(&server(&namespace, "")).await.unwrap();
    apply(&cluster, &server(&namespace, "proxyProtocol: HTTP/2")).await;
    cluster.compact().await.unwrap();
    assert!(live.permits(&key, 8080, CLIENT).await, "what was in force stays");
    sampler.was_never_wider().await;
    let sampler = live.sample(key.clone(), vec![STRANGER]);
    let other = mesh(&namespace, "z.w").replace("name: clients", "name: others");
    let grant = policy(&namespace, ON_SERVER, &MESH.replace("clients", "others"));
    apply(&cluster, &format!("{other}{}", grant.replace("name: clients, ", "name: others, ")))
        .await;
    gate.open();
    live.until("revoked", &key, CLIENT, false).await;
    live.until("granted", &key, NEW, true).await;
    live.until_healthy().await;
    sampler.was_never_wider().await;
    assert!(live.metric("kube_watch_relists_total") > lists);
    live.converges(cluster.client()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_go_and_come_leave_what_a_fresh_start_finds() {
    let Some((cluster, namespace)) = started().await else { return };
    let live = Live::start(cluster.client()).await;
    let key = web(&namespace);
    live.until("granted", &key, CLIENT, true).await;
    let objects = cluster.objects();
    let sampler = live.sample(key.clone(), vec![STRANGER]);

    // A kind that may be absent: its route closes every other path.
    let spec = "parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: \
                [{matches: [{path: {value: /other}}]}]";
    let route = object("HTTPRoute", &namespace, "r", spec)
        .replace("policy.linkerd.io/v1beta3", "gateway.networking.k8s.io/v1");
    apply(&cluster, &route).await;
    live.until("closed by the route", &key, CLIENT, false).await;
    let routes = removed(&cluster, "httproutes.gateway.networking.k8s.io").await;
    // Longer than the second look at a kind that is absent.
    sleep(Duration::from_secs(6)).await;
    live.until("closed by the kept route", &key, CLIENT, false).await;
    objects.install_one(&routes).await.unwrap();
    live.until_following(Kind::GatewayHttpRoute).await;
    live.until("closed by the kept route", &key, CLIENT, false).await;
    // The new route takes the place of the kept one, which deleting it shows.
    let elsewhere = route.replace("value: /other", "value: /get");
    apply(&cluster, &elsewhere).await;
    live.until("open by the new route", &key, CLIENT, true).await;
    apply(&cluster, &route).await;
    live.until("closed by the new route", &key, CLIENT, false).await;
    cluster.delete(&route).await.unwrap();
    live.until("open again", &key, CLIENT, true).await;

    // A kind that must be there. What is kept ends where an administrator says so.
    let authentications = removed(&cluster, "meshtlsauthentications.policy.linkerd.io").await;
    sleep(Duration::from_secs(2)).await;
    live.until("granted by the kept object", &key, CLIENT, true).await;
    let ended = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}, annotations: \
         {{portcullis.dev/end-kept-objects: once}}}}\n"
    );
    apply(&cluster, &ended).await;
    live.until("ended", &key, CLIENT, false).await;
    objects.install_one(&authentications).await.unwrap();
    apply(&cluster, &mesh(&namespace, "x.y")).await;
    live.until("granted again", &key, CLIENT, true).await;
    live.until_healthy().await;
    sampler.was_never_wider().await;
    live.converges(cluster.client()).await;
}

/// Deletes a definition; returns it as it can be installed again.
async fn removed(cluster: &Cluster, name: &str) -> Value {
    let objects = cluster.objects();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
    });
    let mut installed = objects.get(&definition).await.unwrap().unwrap();
    objects.delete(&definition.to_string()).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while objects.get(&definition).await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < deadline, "{name} does not go");
        sleep(Duration::from_millis(50)).await;
    }
    let annotations = installed["metadata"]["annotations"].take();
    installed["metadata"] = json!({"name": name, "annotations": annotations});
    installed.as_object_mut().unwrap().remove("status");
    installed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_objects_in_a_burst_are_in_force_together_and_gone_together() {
    let Some((cluster, namespace)) = started().await else { return };
    let live = Live::start(cluster.client()).await;
    let key = web(&namespace);
    live.until("granted", &key, CLIENT, true).await;
    let sampler = live.sample(key.clone(), vec![STRANGER]);
    let objects = cluster.objects();
    let burst = |apply: bool| {
        let workers = (0..10).map(|worker| {
            let (objects, namespace) = (objects.clone(), namespace.clone());
            async move {
                for number in 0..50 {
                    let name = format!("n{worker}-{number}");
                    let grant = policy(&namespace, ON_SERVER, &MESH.replace("clients", &name));
                    let yaml = format!("{}{grant}", mesh(&namespace, &format!("{name}.y")))
                        .replace("{name: clients,", &format!("{{name: {name},"));
                    match apply {
                        true => objects.apply(&yaml).await.unwrap(),
                        false => objects.delete(&yaml).await.unwrap(),
                    }
                }
            }
        });
        futures_util::future::join_all(workers)
    };
    burst(true).await;
    for name in ["n0-0.y", "n4-20.y", "n9-49.y"] {
        live.until(name, &key, ("203.0.113.1", Some(name), "/get"), true).await;
    }
    live.converges(cluster.client()).await;
    burst(false).await;
    for name in ["n0-0.y", "n4-20.y", "n9-49.y"] {
        live.until(name, &key, ("203.0.113.1", Some(name), "/get"), false).await;
    }
    // A pod that comes in the middle of it is served like the others.
    apply(&cluster, &pod(&namespace, "late", "web", "")).await;
    live.converges(cluster.client()).await;
    sampler.was_never_wider().await;
}
