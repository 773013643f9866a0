//! Proposals of `portcullis preflight` that are commands: something is broken, the command is executed, and
//! nothing is found any more.

use super::preflight::preflight;
use policy_tests::cluster::{Cluster, cluster_or_skip, kubectl};
use serde_json::json;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn what_preflight_proposes_mends_what_it_found() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    a_level_of_pod_security(&cluster).await;
    a_namespace_that_does_not_exist(&cluster).await;
    a_webhook_without_its_service(&cluster).await;
    namespaces_that_asked_by_linkerds_annotation(&cluster).await;
    a_release_that_still_has_the_definitions(&cluster).await;
}

async fn a_level_of_pod_security(cluster: &Cluster) {
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: \
                {portcullis.dev/inject: enabled}, labels: {pod-security.kubernetes.io/enforce: \
                restricted}}\n";
    cluster.apply(shop).await.unwrap();
    let words = "namespace shop enforces Pod Security `restricted`";
    mended(cluster, ("pod-security", words), &[], "kubectl label namespace shop").await;
}

async fn a_namespace_that_does_not_exist(cluster: &Cluster) {
    let words = "namespace nowhere does not exist";
    mended(cluster, ("pod-security", words), &["nowhere"], "kubectl create").await;
}

async fn a_webhook_without_its_service(cluster: &Cluster) {
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "portcullis-policy"},
        "webhooks": [{
            "name": "policy.portcullis.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "portcullis", "name": "policy-admission"}},
            "rules": [{"apiGroups": ["portcullis.dev"], "apiVersions": ["*"],
                "operations": ["CREATE"], "resources": ["*"]}],
        }],
    });
    cluster.objects().apply_one(&webhook).await.unwrap();
    let words = "validatingwebhookconfiguration/portcullis-policy is left and its Service is gone";
    mended(cluster, ("leftovers", words), &[], "kubectl delete").await;
}

/// Either command keeps what is meant in one namespace.
async fn namespaces_that_asked_by_linkerds_annotation(cluster: &Cluster) {
    let namespace = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, annotations: \
             {{linkerd.io/inject: enabled}}, labels: {{portcullis.dev/inject: enabled}}}}\n---\n"
        )
    };
    let installed = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: policy-controller, \
                     namespace: portcullis}\nspec:\n  selector: {matchLabels: {app: a}}\n  template:\n    \
                     metadata: {labels: {app: a}}\n    spec: {containers: [{name: a, image: a, args: \
                     [run]}]}\n";
    let home = "apiVersion: v1\nkind: Namespace\nmetadata: {name: portcullis}\n";
    cluster.apply(home).await.unwrap();
    cluster.apply(installed).await.unwrap();
    for (name, command) in
        [("annotated", "kubectl annotate namespace"), ("left", "kubectl label namespace")]
    {
        cluster.apply(&namespace(name)).await.unwrap();
        let words = format!("which asks Linkerd's injector alone now, in {name}");
        mended(cluster, ("linkerd", &words), &[], command).await;
    }
    cluster.delete(installed).await.unwrap();
}

async fn a_release_that_still_has_the_definitions(cluster: &Cluster) {
    cluster.install_linkerd_crds().await.unwrap();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "servers.policy.linkerd.io"}});
    let taken = json!({"metadata": {
        "labels": {"app.kubernetes.io/part-of": "portcullis"},
        "annotations": {"meta.helm.sh/release-name": "portcullis",
            "meta.helm.sh/release-namespace": "portcullis"},
    }});
    cluster.objects().merge(&definition, &taken).await.unwrap();
    let release = "apiVersion: v1\nkind: Namespace\nmetadata: {name: linkerd}\n---\napiVersion: v1\n\
                   kind: Secret\ntype: helm.sh/release.v1\nmetadata: {name: \
                   sh.helm.release.v1.linkerd-crds.v1, namespace: linkerd, labels: {owner: helm, name: \
                   linkerd-crds}}\n";
    cluster.apply(release).await.unwrap();
    let words = "release linkerd-crds of namespace linkerd still has definitions";
    mended(cluster, ("definition-owners", words), &[], "kubectl --namespace linkerd").await;
    assert!(cluster.objects().get(&definition).await.unwrap().is_some(), "nothing was deleted");
}

/// Asserts that a check finds something, executes the proposed command that begins so, and asserts that the
/// check finds it no more.
async fn mended(cluster: &Cluster, (check, words): (&str, &str), more: &[&str], command: &str) {
    let found = proposal(cluster, check, words, more).await;
    let mend = found.unwrap_or_else(|| panic!("{check} does not find `{words}`"));
    let commands = mend.split('`').skip(1).step_by(2);
    let chosen: Vec<&str> = commands.filter(|proposed| proposed.starts_with(command)).collect();
    let [chosen] = chosen[..] else { panic!("{command}: {mend}") };
    let arguments = chosen.split(' ').skip(1);
    let kubeconfig = cluster.kubeconfig();
    let output = Command::new(kubectl().unwrap())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert!(output.status.success(), "{chosen}: {output:?}");
    assert_eq!(proposal(cluster, check, words, more).await, None, "{chosen}");
}

/// Returns the proposal of a finding.
async fn proposal(cluster: &Cluster, check: &str, words: &str, more: &[&str]) -> Option<String> {
    let report = preflight(cluster.kubeconfig(), more).await.json();
    let all = report["findings"].as_array().unwrap().iter();
    let mut all = all.filter(|line| line["check"] == check && line["outcome"] != "pass");
    let found = all.find(|line| line["message"].as_str().unwrap().contains(words))?;
    found["mend"].as_str().map(str::to_owned)
}
