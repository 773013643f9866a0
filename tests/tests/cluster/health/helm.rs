//! Proposals of `portcullis health` that name Helm: something is taken away, what is proposed is executed,
//! and nothing is found any more.

use super::world::World;
use super::{found, health, lines};
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::kubectl;
use serde_json::{Value, json};
use std::process::Command;

/// Asserts that every line of a check passes.
#[track_caller]
fn passes(report: &Value, check: &str) {
    let all = lines(report, check);
    assert!(!all.is_empty() && all.iter().all(|(outcome, _)| outcome == "pass"), "{all:?}");
}

/// The proposal of a check.
fn mend(report: &Value, check: &str) -> String {
    let all = report["findings"].as_array().unwrap().iter();
    let mut all = all.filter(|line| line["check"] == check && line["outcome"] == "fail");
    all.find_map(|line| line["mend"].as_str()).unwrap_or_default().to_owned()
}

/// Webhook configurations that are gone, and a role without a rule: the upgrade renders them anew.
pub(super) async fn the_upgrade_brings_back_what_it_renders(world: &World) {
    let helm = Helm::or_skip("portcullis").unwrap().on(world.cluster.kubeconfig());
    let objects = world.cluster.objects();
    for (kind, name) in [
        ("ValidatingWebhookConfiguration", "portcullis-policy"),
        ("MutatingWebhookConfiguration", "portcullis-injector"),
    ] {
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}});
        objects.delete(&configuration.to_string()).await.unwrap();
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "policy-admission-tls", "namespace": "portcullis"}});
    objects.delete(&secret.to_string()).await.unwrap();
    let report = health(&world.cluster, &[]).await.json();
    found(&report, "webhooks", "fail", "portcullis-injector does not exist");
    let words = "the Secret with the webhooks' certificate is missing or empty";
    found(&report, "webhook-authority", "fail", words);
    assert!(mend(&report, "webhook-authority").contains("`helm upgrade`"), "{report:#}");
    assert!(mend(&report, "webhooks").contains("`helm upgrade`"), "{report:#}");
    assert!(mend(&report, "account-rights").contains("`helm upgrade`"), "{report:#}");
    let chart = folder().display().to_string();
    let upgrade = ["upgrade", "portcullis", &chart, "--reset-then-reuse-values"];
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
    let report = health(&world.cluster, &[]).await.json();
    passes(&report, "webhooks");
    passes(&report, "account-rights");
    // The controller, which does not run here, fills it.
    assert!(objects.get(&secret).await.unwrap().is_some(), "the Secret is back");
}

/// Definitions that are gone: the upgrade cannot bring them back, because the release has objects of these
/// kinds; its manifest can.
pub(super) async fn the_manifest_brings_definitions_back(world: &World) {
    let helm = Helm::or_skip("portcullis").unwrap().on(world.cluster.kubeconfig());
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "servers.policy.linkerd.io"}});
    world.cluster.objects().delete(&definition.to_string()).await.unwrap();
    policy_testkit::wait_until("the definition is missed", async || {
        let report = health(&world.cluster, &[]).await.json();
        lines(&report, "definitions").iter().any(|(outcome, _)| outcome == "fail")
    })
    .await;
    let report = health(&world.cluster, &[]).await.json();
    found(&report, "definitions", "fail", "not served: servers.policy.linkerd.io");
    let proposed = mend(&report, "definitions");
    let pipe = "helm get manifest portcullis --namespace portcullis | kubectl apply --server-side \
                --force-conflicts -f -";
    assert!(proposed.contains(pipe), "{proposed}");
    let manifest = succeeded(&helm.call(&["get", "manifest", "portcullis"]).unwrap()).unwrap();
    let file = world.cluster.folder().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    // Twice: the first time there are no kinds yet for the objects of them.
    for _ in 0..2 {
        let mut apply = Command::new(kubectl().unwrap());
        apply.args(["apply", "--server-side", "--force-conflicts", "-f"]).arg(&file);
        apply.env("KUBECONFIG", world.cluster.kubeconfig());
        let output = apply.output().unwrap();
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    policy_testkit::wait_until("the definition is served", async || {
        let report = health(&world.cluster, &[]).await.json();
        lines(&report, "definitions").iter().all(|(outcome, _)| outcome == "pass")
    })
    .await;
}
