//! Proposals of `health` and `preflight` to Helm: something is broken, what is proposed is executed as it stands,
//! and nothing is found any more. Nothing runs here: the definitions and the objects are what is looked at.

use super::preflight::preflight;
use super::{found, health, lines};
use policy_tests::chart::Helm;
use policy_tests::cluster::{Cluster, cluster_or_skip, kubectl};
use policy_tests::sources::root;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Without what is called at a Service, which has no pods here.
const QUIET: [&str; 4] = ["--set", "admission.enabled=false", "--set", "injector.enabled=false"];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_proposed_to_helm_mends_what_was_found() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    // Another name and place than those of the documentation.
    let Some(helm) = Helm::or_skip("guard") else { return };
    let world = World { helm: helm.on(cluster.kubeconfig()), cluster };
    world.definitions_that_the_release_lacks().await;
    world.objects_of_another_release().await;
    world.objects_of_nobody().await;
    world.definitions_of_others().await;
    world.a_refused_pod().await;
    world.an_annotation_that_asks_no_more().await;
}

struct World {
    cluster: Cluster,
    helm: Helm,
}

impl World {
    /// Calls Helm as a line says, from the repository.
    fn run(&self, command: &str) {
        let arguments: Vec<&str> = command.split(' ').collect();
        assert_eq!(arguments[0], "helm", "{command}");
        let chart = root().join("charts/portcullis").display().to_string();
        let arguments: Vec<&str> = arguments[1..]
            .iter()
            .map(|it| if *it == "charts/portcullis" { &*chart } else { it })
            .collect();
        let output = self.helm.call(&arguments).unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }

    fn refused(&self, command: &str) -> bool {
        let chart = root().join("charts/portcullis").display().to_string();
        let command = command.replace("charts/portcullis", &chart);
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        !self.helm.call(&arguments).unwrap().status.success()
    }

    async fn health(&self) -> Value {
        health(&self.cluster, &["--controller-namespace", "guard"]).await.json()
    }

    async fn preflight(&self, more: &[&str]) -> Value {
        let place = ["--controller-namespace", "guard"];
        preflight(self.cluster.kubeconfig(), &[&place[..], more].concat()).await.json()
    }

    /// Executes the command that sets a value, until `health` does not propose it any more.
    async fn definitions_are_back(&self, outcome: &str, set: &str) {
        let report = self.health().await;
        found(&report, "definitions", outcome, "not served: ");
        let command = proposed(&report, "definitions", "not served: ", set);
        let expected =
            "helm upgrade mesh charts/portcullis --namespace guard --reset-then-reuse-values";
        assert_eq!(command, format!("{expected} --set {set}"));
        self.run(&command);
        policy_testkit::wait_until("the definitions are served", async || {
            !self.health().await.to_string().contains(set)
        })
        .await;
    }

    async fn definitions_that_the_release_lacks(&self) {
        let mut install = "helm install mesh charts/portcullis --create-namespace".to_owned();
        for set in ["crds.policy=false", "crds.workload=false", "crds.portcullis=false"] {
            install = format!("{install} --set {set}");
        }
        self.run(&format!("{install} {}", QUIET.join(" ")));
        self.definitions_are_back("warn", "crds.portcullis=true").await;
        self.definitions_are_back("warn", "crds.workload=true").await;
        self.definitions_are_back("fail", "crds.policy=true").await;
        // Those that somebody deleted, of kinds of which the release has no object.
        self.delete_definition("inboundroutes.portcullis.dev").await;
        self.definitions_are_back("warn", "crds.portcullis=true").await;
        self.delete_definition("externalworkloads.workload.linkerd.io").await;
        self.definitions_are_back("warn", "crds.workload=true").await;
    }

    async fn delete_definition(&self, name: &str) {
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": name}});
        let objects = self.cluster.objects();
        objects.delete(&definition.to_string()).await.unwrap();
        while objects.get(&definition).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        policy_testkit::wait_until("the definition is missed", async || {
            self.health().await.to_string().contains(&format!("not served: {name}"))
        })
        .await;
    }

    /// What another release owns is upgraded where it is.
    async fn objects_of_another_release(&self) {
        let words = "release mesh of namespace guard owns clusterrole/";
        let report = self.preflight(&["--release", "other"]).await;
        found(&report, "leftovers", "fail", words);
        let command = proposed(&report, "leftovers", words, "helm upgrade");
        self.run(&command);
        let report = self.preflight(&["--release", "mesh"]).await;
        assert_eq!(lines(&report, "leftovers")[0].0, "pass", "{report:#}");
    }

    /// What is left over and belongs to nobody is taken.
    async fn objects_of_nobody(&self) {
        self.run("helm uninstall mesh");
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "portcullis-policy-controller"}, "rules": []});
        self.cluster.objects().apply_one(&role).await.unwrap();
        let report = self.preflight(&["--release", "mesh"]).await;
        let words = "no Helm release owns clusterrole/portcullis-policy-controller";
        found(&report, "leftovers", "warn", words);
        let flag = proposed(&report, "leftovers", words, "--take-ownership");
        let install = format!("helm install mesh charts/portcullis {}", QUIET.join(" "));
        assert!(self.refused(&install), "the flag is not needed any more");
        // What the first attempt left.
        _ = self.helm.call(&["uninstall", "mesh"]);
        self.cluster.objects().apply_one(&role).await.unwrap();
        self.run(&format!("{install} {flag}"));
        let report = self.preflight(&["--release", "mesh"]).await;
        assert_eq!(lines(&report, "leftovers")[0].0, "pass", "{report:#}");
        self.run("helm uninstall mesh");
    }

    /// Definitions of Linkerd's release stay its own.
    async fn definitions_of_others(&self) {
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "servers.policy.linkerd.io"}});
        let theirs = json!({"metadata": {
            "labels": {"app.kubernetes.io/part-of": null},
            "annotations": {"meta.helm.sh/release-name": "linkerd-crds",
                "meta.helm.sh/release-namespace": "linkerd"},
        }});
        self.cluster.objects().merge(&definition, &theirs).await.unwrap();
        let report = self.preflight(&["--release", "mesh"]).await;
        let words = "release linkerd-crds of namespace linkerd installed definitions";
        found(&report, "linkerd", "warn", words);
        let flags = proposed(&report, "linkerd", words, "--set crds.policy=false");
        let install = format!("helm install mesh charts/portcullis {}", QUIET.join(" "));
        assert!(self.refused(&install), "the flags are not needed any more");
        _ = self.helm.call(&["uninstall", "mesh"]);
        self.run(&format!("{install} {flags}"));
        let stored = self.cluster.objects().get(&definition).await.unwrap().unwrap();
        let owner = &stored["metadata"]["annotations"]["meta.helm.sh/release-name"];
        assert_eq!(owner, "linkerd-crds");
    }

    /// A namespace that asked by `linkerd.io/inject` alone goes on as it did.
    async fn an_annotation_that_asks_no_more(&self) {
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: annotated, annotations: \
                         {linkerd.io/inject: enabled}, labels: {portcullis.dev/inject: enabled}}\n";
        self.cluster.apply(namespace).await.unwrap();
        let report = self.preflight(&["--release", "mesh"]).await;
        let words = "which asks Linkerd's injector alone now, in annotated";
        found(&report, "linkerd", "fail", words);
        let flag = proposed(&report, "linkerd", words, "--set injector.linkerdInject=true");
        let upgrade = "helm upgrade mesh charts/portcullis --reset-then-reuse-values";
        self.run(&format!(
            "{upgrade} {flag} --set injector.enabled=true --set admission.enabled=true"
        ));
        let report = self.preflight(&["--release", "mesh"]).await;
        let left = lines(&report, "linkerd");
        assert!(left.iter().all(|(_, message)| !message.contains(words)), "{left:?}");
    }

    /// Pod Security refuses what a ReplicaSet makes, which its Event says; nothing makes pods of it here.
    async fn a_refused_pod(&self) {
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: strict, annotations: \
                         {portcullis.dev/inject: enabled}, labels: {pod-security.kubernetes.io/enforce: \
                         baseline}}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, \
                         namespace: strict}\n";
        self.cluster.apply(namespace).await.unwrap();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "strict"},
            "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "web",
                "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]},
        });
        let objects = self.cluster.objects();
        let refusal = format!("{:?}", objects.apply_one(&pod).await.unwrap_err());
        let words = refusal.find("violates PodSecurity").map(|at| &refusal[at..]);
        let words = words.unwrap_or_else(|| panic!("{refusal}"));
        let event = |name: &str, reason: &str, message: &str, minute: u8| {
            json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": name, "namespace": "strict"},
                "involvedObject": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "namespace": "strict"},
                "type": "Warning", "reason": reason, "message": message,
                "lastTimestamp": format!("2026-11-30T00:{minute:02}:00Z"),
            })
        };
        let failed =
            event("failed", "FailedCreate", &format!("pods \"web\" is forbidden: {words}"), 1);
        objects.apply_one(&failed).await.unwrap();
        let found_words = "ReplicaSet strict/web cannot create its pods";
        let report = self.health().await;
        found(&report, "refused-pods", "fail", found_words);
        let command = proposed(&report, "refused-pods", found_words, "kubectl label");
        let mut kubectl = Command::new(kubectl().unwrap());
        kubectl.args(command.split(' ').skip(1)).env("KUBECONFIG", self.cluster.kubeconfig());
        assert!(kubectl.output().unwrap().status.success(), "{command}");
        objects.apply_one(&pod).await.unwrap();
        objects
            .apply_one(&event("created", "SuccessfulCreate", "Created pod: web", 2))
            .await
            .unwrap();
        let report = self.health().await;
        assert!(
            lines(&report, "refused-pods").iter().all(|(outcome, _)| outcome == "pass"),
            "{report:#}"
        );
    }
}

/// The only command of a finding that holds the words.
fn proposed(report: &Value, check: &str, message: &str, words: &str) -> String {
    let all = report["findings"].as_array().unwrap().iter();
    let mut all = all.filter(|line| line["check"] == check && line["outcome"] != "pass");
    let found = all.find(|line| {
        let mend = line["mend"].as_str().unwrap_or_default();
        line["message"].as_str().unwrap().contains(message) && mend.contains(words)
    });
    let mend = found.unwrap_or_else(|| panic!("{message}: {report:#}"))["mend"].as_str().unwrap();
    let commands: Vec<&str> =
        mend.split('`').skip(1).step_by(2).filter(|command| command.contains(words)).collect();
    let [command] = commands[..] else { panic!("{words}: {mend}") };
    command.to_owned()
}
