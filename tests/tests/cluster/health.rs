//! `portcullis preflight` and `portcullis health` on a real API server: the objects that the chart
//! renders, a controller and an issuer with the rights that it gives them, and what is found when each
//! thing breaks.

mod commands;
mod copy;
mod helm;
mod inventory;
mod preflight;
mod proposals;
mod reports;
mod sizes;
mod world;

use crate::cli::{Said, portcullis};
use policy_tests::cluster::{Cluster, documents};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use std::time::Duration;
use world::{SHOP, World};

/// The lines of a check: outcome and message.
fn lines(report: &Value, check: &str) -> Vec<(String, String)> {
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    let of = all.filter(|line| line["check"] == check);
    of.map(|line| (text(line, "outcome"), text(line, "message"))).collect()
}

/// Asserts that a check fails or warns as is said, and that the line has a mend.
#[track_caller]
fn found(report: &Value, check: &str, outcome: &str, words: &str) {
    let all = report["findings"].as_array().unwrap().iter();
    let line = all
        .filter(|line| line["check"] == check && line["outcome"] == outcome)
        .find(|line| line["message"].as_str().unwrap().contains(words));
    let line = line.unwrap_or_else(|| panic!("{check} {outcome} `{words}`: {report:#}"));
    assert!(line["mend"].is_string(), "{line}");
}

async fn health(cluster: &Cluster, more: &[&str]) -> Said {
    let arguments = [&["health", "-o", "json"], more].concat();
    portcullis(cluster.kubeconfig(), &arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_installation_is_healthy_and_each_thing_that_breaks_is_told() {
    let Some(mut world) = World::start().await else { return };
    let said = health(&world.cluster, &["--wait", "60s"]).await;
    let report = said.json();
    let all = report["findings"].as_array().unwrap().iter();
    // Beside a cluster the controller has no certificate of the mesh, which its replica says.
    let alone =
        |line: &Value| line["message"].as_str().unwrap().contains("only clients on loopback");
    let unwell: Vec<&Value> =
        all.filter(|line| line["outcome"] != "pass" && !alone(line)).collect();
    assert_eq!((said.code, &report["healthy"]), (Some(0), &json!(true)), "{report:#}");
    assert_eq!(unwell, [] as [&Value; 0]);
    let text = portcullis(world.cluster.kubeconfig(), &["health"]).await.out;
    assert!(text.contains("\nhealthy: "), "{text}");

    reports::a_namespace_that_never_finishes_is_no_fault(&world).await;
    reports::what_is_injected_keeps_to_strict_rules_of_the_cluster(&world).await;
    reports::a_container_of_the_sidecars_name_is_not_taken_for_it(&world).await;
    sizes::bounds_of_a_namespace_can_be_met(&world).await;
    copy::a_copy_of_a_pod_has_its_sidecar_and_nobody_misses_it(&world).await;
    who_may_see_little_is_told_little(&world).await;
    a_namespace_that_refuses_sidecars(&world).await;
    a_right_and_a_bundle(&world).await;
    an_expired_certificate(&world).await;
    no_leader(&mut world).await;
    helm::the_upgrade_brings_back_what_it_renders(&world).await;
    helm::the_manifest_brings_definitions_back(&world).await;
}

async fn who_may_see_little_is_told_little(world: &World) {
    let nobody = world.cluster.kubeconfig_for("nobody", &["system:authenticated"]).unwrap();
    let said = portcullis(&nobody, &["health", "-o", "json"]).await;
    let report = said.json();
    assert_eq!(lines(&report, "leader")[0].0, "unknown", "{report:#}");
    let leader = report["findings"].as_array().unwrap().iter().find(|l| l["check"] == "leader");
    let mend = leader.unwrap()["mend"].as_str().unwrap();
    let right = "{apiGroups: [\"coordination.k8s.io\"], resources: [leases], \
                 resourceNames: [portcullis-policy-controller], verbs: [get]} in namespace \
                 portcullis";
    assert!(mend.contains(right), "{mend}");
    assert_eq!(said.code, Some(0), "what is not known fails nothing: {report:#}");
}

/// Pod Security is told, and `--wait` sees that it is mended.
async fn a_namespace_that_refuses_sidecars(world: &World) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}});
    let level = |level: Value| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let objects = world.cluster.objects();
    objects.merge(&namespace, &level(json!("restricted"))).await.unwrap();
    let said = health(&world.cluster, &[]).await;
    let report = said.json();
    found(&report, "pod-security", "fail", "namespace shop enforces Pod Security `restricted`");
    assert_eq!((said.code, &report["failures"]), (Some(1), &json!(1)), "{report:#}");
    let waiting = health(&world.cluster, &["--wait", "60s"]);
    let mended = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        objects.merge(&namespace, &level(Value::Null)).await.unwrap();
    };
    let (said, ()) = tokio::join!(waiting, mended);
    assert_eq!(said.code, Some(0), "{}", said.out);
}

/// Without its right on the configuration the controller cannot put `caBundle` right.
async fn a_right_and_a_bundle(world: &World) {
    let objects = world.cluster.objects();
    world.without_rights("ClusterRole", "portcullis-policy-controller", "validatingwebhook").await;
    let report = health(&world.cluster, &[]).await.json();
    found(
        &report,
        "account-rights",
        "fail",
        "ServiceAccount portcullis/policy-controller may not get validatingwebhookconfigurations",
    );
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "portcullis-policy"}});
    let found_now = objects.get(&configuration).await.unwrap().unwrap();
    let other = k8s_openapi::ByteString(certificate(2090).into_bytes());
    let webhooks = found_now["webhooks"].as_array().unwrap().iter();
    let part: Vec<Value> = webhooks
        .map(|webhook| json!({"name": webhook["name"], "clientConfig": {"caBundle": other}}))
        .collect();
    objects.merge(&configuration, &json!({ "webhooks": part })).await.unwrap();
    let report = health(&world.cluster, &[]).await.json();
    let words = "caBundle is not who vouches for the served certificate at";
    found(&report, "webhook-authority", "fail", words);
    policy_testkit::wait_until("the API server goes by the new bundle", async || {
        let report = health(&world.cluster, &[]).await.json();
        lines(&report, "webhook-answers")[0].1.contains("gets no response")
    })
    .await;
}

/// A certificate that has expired, in a Secret that the controller may not change.
async fn an_expired_certificate(world: &World) {
    world.without_rights("Role", "policy-controller", "secrets").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "policy-admission-tls", "namespace": "portcullis"}});
    let expired = k8s_openapi::ByteString(certificate(2020).into_bytes());
    let part = json!({"data": {"tls.crt": expired}});
    world.cluster.objects().merge(&secret, &part).await.unwrap();
    let report = health(&world.cluster, &[]).await.json();
    found(&report, "webhook-certificate", "fail", "the webhooks' certificate expired at 2020-");
}

async fn no_leader(world: &mut World) {
    world.controller.terminate();
    let report = health(&world.cluster, &[]).await.json();
    found(&report, "leader", "fail", "no replica holds the Lease");
    assert_eq!(lines(&report, "replicas")[0].0, "unknown", "{report:#}");
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_has_an_exit_code_of_its_own() {
    let Some(cluster) = crate::shared().await else { return };
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut file = documents(&text).unwrap().remove(0);
    file["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    let away = cluster.folder().join("away.kubeconfig");
    std::fs::write(&away, file.to_string()).unwrap();
    for command in ["health", "preflight"] {
        let said = portcullis(&away, &[command]).await;
        assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
        assert!(said.err.contains("cannot be reached"), "{}", said.err);
        assert_eq!(portcullis(&away, &[command, "--no-such-flag"]).await.code, Some(2));
    }
}

/// A certificate of nobody's that ends with a year.
fn certificate(year: i32) -> String {
    let mut params = CertificateParams::new(vec!["nobody".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(year, 12, 31);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}
