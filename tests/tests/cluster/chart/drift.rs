//! GitOps tools on what the chart renders: Argo CD's own engine, with either of its comparisons, and Flux' dry
//! run find nothing once the objects are applied, before and after the controller has written `caBundle`.

use super::{FOREIGN, NAMESPACE, cluster, namespaces, webhooks, write_ca_bundle};
use policy_tests::chart::{Helm, examples};
use policy_tests::cluster::{Cluster, documents, drift_or_skip, kubectl};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The manager as which Argo CD applies on the server.
const ARGO: &str = "argocd-controller";

/// The manager as which Flux applies.
const FLUX: &str = "kustomize-controller";

/// Fields of the API server's own.
const ITS_OWN: [&str; 4] = ["managedFields", "resourceVersion", "generation", "uid"];

#[tokio::test(flavor = "multi_thread")]
async fn gitops_tools_find_no_drift_in_what_the_chart_renders() {
    let Some(cluster) = cluster().await else { return };
    let Some(helm) = Helm::or_skip(NAMESPACE) else { return };
    let Some(engine) = drift_or_skip() else { return };
    cluster.install_gateway_api().await.unwrap();
    namespaces(&cluster, &[NAMESPACE, "shop", "payments"]).await;
    for (example, values) in examples().unwrap() {
        let mut rendered = helm.objects(&values).unwrap();
        rendered.retain(|object| !FOREIGN.contains(&object["kind"].as_str().unwrap()));
        let world = World { cluster: &cluster, engine: &engine, example: &example };
        // As Argo CD does by default: `kubectl apply` of a client. Kinds are known the second time.
        world.applied(&rendered, &[]);
        world.without_drift(&rendered, None).await;
        world.written_by_the_controller(&rendered).await;
        world.without_drift(&rendered, None).await;
        world.as_documented(&rendered).await;
        // The same on the server, and as Flux.
        for manager in [ARGO, FLUX] {
            let manager_flag = format!("--field-manager={manager}");
            world.applied(&rendered, &["--server-side", "--force-conflicts", &manager_flag]);
            world.written_by_the_controller(&rendered).await;
            world.without_drift(&rendered, Some(manager)).await;
        }
        rendered.retain(|object| object["kind"] != "CustomResourceDefinition");
        let ours: Vec<String> = rendered.iter().rev().map(|object| format!("{object}\n")).collect();
        cluster.objects().delete(&ours.join("---\n")).await.unwrap();
    }
}

#[test]
fn a_field_that_differs_is_found_by_either_comparison() {
    let Some(engine) = drift_or_skip() else { return };
    let map = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"},
            "data": {"x": value}})
    };
    let pairs = [
        json!({"rendered": map("1"), "live": map("2")}),
        json!({"rendered": map("1"), "live": map("1")}),
        json!({"rendered": map("1"), "live": map("2"), "applied": map("1")}),
        json!({"rendered": map("1"), "live": map("1"), "applied": map("1")}),
    ];
    assert_eq!(compared(&engine, &pairs), [vec!["/data/x"], vec![], vec!["/data/x"], vec![]]);
}

/// An example on a cluster.
struct World<'a> {
    cluster: &'a Cluster,
    engine: &'a Path,
    example: &'a str,
}

impl World<'_> {
    /// Applies what is rendered by `kubectl apply`, until it succeeds: definitions first.
    fn applied(&self, rendered: &[Value], more: &[&str]) {
        let (definitions, others): (Vec<&Value>, Vec<&Value>) =
            rendered.iter().partition(|object| object["kind"] == "CustomResourceDefinition");
        // The webhooks' Service has no pods here, so that they come last and go first.
        let (webhooks, others): (Vec<&Value>, Vec<&Value>) = others
            .into_iter()
            .partition(|object| object["kind"].as_str().unwrap().contains("WebhookConf"));
        for part in [definitions, others, webhooks].iter().filter(|part| !part.is_empty()) {
            let output = self.kubectl_apply(part, more);
            // Kinds that were defined a moment ago.
            let output = if output.0 { output } else { self.kubectl_apply(part, more) };
            assert!(output.0, "{}: {}", self.example, output.1);
        }
    }

    fn kubectl_apply(&self, part: &[&Value], more: &[&str]) -> (bool, String) {
        let text: Vec<String> = part.iter().map(|object| format!("{object}\n")).collect();
        let arguments = [&["apply", "-f", "-"], more].concat();
        let mut command = Command::new(kubectl().unwrap());
        command.args(arguments).env("KUBECONFIG", self.cluster.kubeconfig());
        piped(&mut command, &text.join("---\n"))
    }

    /// Writes `caBundle` and the webhooks' Secret, as the controller does where a certificate is not supplied.
    async fn written_by_the_controller(&self, rendered: &[Value]) {
        let objects = self.cluster.objects();
        let mut of = rendered.iter().filter(|object| object["kind"] == webhooks()["kind"]);
        if of.any(|object| object["webhooks"][0]["clientConfig"]["caBundle"].is_null()) {
            write_ca_bundle(&objects, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==").await;
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "policy-admission-tls", "namespace": NAMESPACE}});
        if objects.get(&secret).await.unwrap().is_some() {
            let part = json!({"data": {"tls.crt": "YQ==", "tls.key": "YQ==", "ca.crt": "YQ=="}});
            objects.merge(&secret, &part).await.unwrap();
        }
    }

    /// Asserts that neither tool finds a field; with a manager, by a dry run on the server.
    async fn without_drift(&self, rendered: &[Value], manager: Option<&str>) {
        let mut pairs = Vec::new();
        for object in rendered {
            let live = self.cluster.objects().get(object).await.unwrap().unwrap();
            pairs.push(json!({"rendered": object, "live": live}));
        }
        if let Some(manager) = manager {
            let applied = self.dry_run(rendered, manager);
            assert_eq!(applied.len(), pairs.len());
            for (pair, applied) in pairs.iter_mut().zip(applied) {
                let (mut before, mut after) = (pair["live"].clone(), applied.clone());
                for side in [&mut before, &mut after] {
                    let metadata = side["metadata"].as_object_mut().unwrap();
                    metadata.retain(|field, _| !ITS_OWN.contains(&field.as_str()));
                }
                // Flux compares the whole objects.
                assert_eq!(after, before, "{}", self.example);
                pair["applied"] = applied;
            }
        }
        let found = compared(self.engine, &pairs);
        let drifted: Vec<String> = (rendered.iter().zip(&found))
            .filter(|(_, fields)| !fields.is_empty())
            .map(|(object, fields)| {
                format!("{} {}: {fields:?}", object["kind"], object["metadata"]["name"])
            })
            .collect();
        assert_eq!(drifted, [""; 0], "{} {manager:?}", self.example);
    }

    /// Asserts that where nothing was applied by a client before, as after `helm install`, the fields that
    /// differ are those of docs/install.md.
    async fn as_documented(&self, rendered: &[Value]) {
        let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
        let objects = self.cluster.objects();
        let all =
            rendered.iter().filter(|object| kinds.contains(&object["kind"].as_str().unwrap()));
        let mut pairs = Vec::new();
        for object in all {
            let mut live = objects.get(object).await.unwrap().unwrap();
            let annotations = live["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration").unwrap();
            pairs.push(json!({"rendered": object, "live": live}));
        }
        for field in compared(self.engine, &pairs).concat() {
            let is_documented =
                field.starts_with("/webhooks/") && field.ends_with("/clientConfig/caBundle");
            assert!(is_documented, "{}: {field}", self.example);
        }
    }

    /// What the API server would store after a server-side apply by a manager.
    fn dry_run(&self, rendered: &[Value], manager: &str) -> Vec<Value> {
        let flags =
            ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "json"];
        let field_manager = format!("--field-manager={manager}");
        let mut command = Command::new(kubectl().unwrap());
        command.args(flags).args([&field_manager, "--show-managed-fields", "-f", "-"]);
        command.env("KUBECONFIG", self.cluster.kubeconfig());
        let text: Vec<String> = rendered.iter().map(|object| format!("{object}\n")).collect();
        let (succeeded, text) = piped(&mut command, &text.join("---\n"));
        assert!(succeeded, "{}: {text}", self.example);
        let mut list = documents(&text).unwrap().remove(0);
        match list["items"].take() {
            Value::Array(items) => items,
            _ => vec![list],
        }
    }
}

/// The fields that differ, of each pair.
fn compared(engine: &Path, pairs: &[Value]) -> Vec<Vec<String>> {
    let (succeeded, text) = piped(&mut Command::new(engine), &json!(pairs).to_string());
    assert!(succeeded, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Runs a command with an input: whether it succeeded, and what it printed, with errors where it did not.
fn piped(command: &mut Command, input: &str) -> (bool, String) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !output.status.success() {
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    (output.status.success(), text)
}
