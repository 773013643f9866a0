//! `portcullis preflight`: before an installation, and beside what is there.

use super::{found, lines};
use crate::cli::{Said, portcullis};
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::{Cluster, cluster_or_skip};
use serde_json::json;
use std::path::Path;

pub(super) async fn preflight(kubeconfig: &Path, more: &[&str]) -> Said {
    portcullis(kubeconfig, &[&["preflight", "-o", "json"], more].concat()).await
}

#[tokio::test]
async fn what_would_make_an_installation_fail_is_told_before_it() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    let Some(helm) = Helm::or_skip("portcullis") else { return };
    let helm = helm.on(cluster.kubeconfig());

    // Nothing is there but Kubernetes.
    let said = preflight(cluster.kubeconfig(), &[]).await;
    let report = said.json();
    assert_eq!(said.code, Some(0), "{report:#}");
    found(&report, "gateway-api", "warn", "httproutes.gateway.networking.k8s.io");
    assert_eq!((&report["failures"], &report["warnings"]), (&json!(0), &json!(1)), "{report:#}");
    let denied = preflight(cluster.kubeconfig(), &["--deny-warnings"]).await;
    assert_eq!(denied.code, Some(1));
    cluster.install_gateway_api().await.unwrap();
    let text = portcullis(cluster.kubeconfig(), &["preflight", "--deny-warnings"]).await;
    assert!(text.code == Some(0) && text.out.contains("\nready to install: "), "{}", text.out);

    // Linkerd's outbound policy would have no effect.
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: retried, namespace: default, \
                   annotations: {retry.linkerd.io/http: 5xx}}\nspec: {ports: [{port: 80}]}\n";
    cluster.apply(service).await.unwrap();
    let report = preflight(cluster.kubeconfig(), &[]).await.json();
    found(&report, "outbound-policy", "warn", "have no effect: Service default/retried; ");
    cluster.delete(service).await.unwrap();

    // Who may install nothing is told which rights are lacking.
    let nobody = cluster.kubeconfig_for("nobody", &["system:authenticated"]).unwrap();
    let said = preflight(&nobody, &[]).await;
    assert_eq!(said.code, Some(1), "{}", said.out);
    found(&said.json(), "install-rights", "fail", "create secrets in namespace portcullis");

    // A namespace that is to have sidecars and could not.
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: \
                {pod-security.kubernetes.io/enforce: baseline}}\n";
    cluster.apply(shop).await.unwrap();
    let said = preflight(cluster.kubeconfig(), &["shop", "nowhere"]).await;
    assert_eq!(said.code, Some(1), "{}", said.out);
    found(&said.json(), "pod-security", "fail", "namespace shop enforces Pod Security `baseline`");
    found(&said.json(), "pod-security", "warn", "namespace nowhere does not exist");

    // An installation is taken up where it is, and is in the way elsewhere.
    let chart = folder().display().to_string();
    let install = ["install", "portcullis", &chart, "--create-namespace"];
    succeeded(&helm.call(&install).unwrap()).unwrap();
    let report = preflight(cluster.kubeconfig(), &[]).await.json();
    assert_eq!(lines(&report, "leftovers")[0].0, "pass", "{report:#}");
    assert!(lines(&report, "leftovers")[0].1.contains("`helm upgrade`"), "{report:#}");
    let elsewhere = ["--controller-namespace", "other"];
    let report = preflight(cluster.kubeconfig(), &elsewhere).await.json();
    let words = "release portcullis of namespace portcullis owns clusterrole/";
    found(&report, "leftovers", "fail", words);
    let report = preflight(cluster.kubeconfig(), &["--release", "guard"]).await.json();
    found(&report, "leftovers", "fail", words);

    // Webhooks without what answers them are in everybody's way.
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: policy-admission, namespace: \
                   portcullis}\n";
    cluster.delete(service).await.unwrap();
    let report = preflight(cluster.kubeconfig(), &[]).await.json();
    let words = "validatingwebhookconfiguration/portcullis-policy is left and its Service is gone";
    found(&report, "leftovers", "fail", words);
}

#[tokio::test]
async fn definitions_of_linkerds_are_told_with_what_to_do() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_linkerd_crds().await.unwrap();
    // As Linkerd's own chart has it.
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "servers.policy.linkerd.io"}});
    let owner = json!({"metadata": {
        "labels": {"app.kubernetes.io/part-of": null},
        "annotations": {"meta.helm.sh/release-name": "linkerd-crds",
            "meta.helm.sh/release-namespace": "linkerd"},
    }});
    cluster.objects().merge(&definition, &owner).await.unwrap();
    let report = preflight(cluster.kubeconfig(), &[]).await.json();
    let words = "release linkerd-crds of namespace linkerd installed definitions that the chart has, \
                 too: servers.policy.linkerd.io (";
    found(&report, "linkerd", "warn", words);
}
