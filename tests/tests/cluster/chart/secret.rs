//! The Secret of the webhooks' certificate over the life of a release: the chart makes it, the
//! controller fills it, and neither an upgrade nor a rollback nor a reinstallation takes its key.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config, config};
use policy_testkit::wait_until;
use policy_tests::chart::{Helm, KUBE_VERSION, folder, succeeded};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip, documents};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const NAMESPACE: &str = "portcullis";
const NAME: &str = "policy-admission-tls";
const CONTROLLER: &str = "system:serviceaccount:portcullis:policy-controller";
const GROUPS: [&str; 3] =
    ["system:serviceaccounts", "system:serviceaccounts:portcullis", "system:authenticated"];

/// A release, and the controller with the rights that it gives.
struct Release {
    cluster: Cluster,
    helm: Helm,
    kubeconfig: PathBuf,
    secrets: Api<Secret>,
}

/// Properties that must not change: the object's identity and all its data.
#[derive(Debug, PartialEq)]
struct Kept {
    uid: String,
    data: BTreeMap<String, ByteString>,
}

impl Release {
    async fn new() -> Option<Self> {
        let cluster = cluster_or_skip(Cluster::builder()).await?;
        let helm = Helm::or_skip(NAMESPACE)?.on(cluster.kubeconfig());
        cluster.install_gateway_api().await.unwrap();
        let kubeconfig = cluster.kubeconfig_for(CONTROLLER, &GROUPS).unwrap();
        let secrets = Api::namespaced(cluster.client(), NAMESPACE);
        Some(Self { cluster, helm, kubeconfig, secrets })
    }

    fn helm(&self, arguments: &[&str]) {
        succeeded(&self.helm.call(arguments).unwrap()).unwrap();
    }

    fn install(&self, chart: &Path) {
        let chart = chart.display().to_string();
        self.helm(&["install", "portcullis", &chart, "--create-namespace"]);
    }

    fn upgrade(&self, chart: &Path, more: &[&str]) {
        let chart = chart.display().to_string();
        self.helm(&[&["upgrade", "portcullis", &chart], more].concat());
    }

    async fn held(&self) -> Option<Kept> {
        let secret = self.secrets.get_opt(NAME).await.unwrap()?;
        let data = secret.data.unwrap_or_default();
        Some(Kept { uid: secret.metadata.uid.unwrap(), data })
    }

    /// A controller that starts now serves a certificate from the Secret.
    async fn served(&self) -> Kept {
        let flags = ["--control-plane-namespace", NAMESPACE];
        let controller = ControllerProcess::start(&self.kubeconfig, &flags).await.unwrap();
        wait_until("a certificate is served", async || {
            let metrics = controller.metrics().await;
            let expiry = metrics.lines().find_map(|line| {
                line.strip_prefix("admission_certificate_expiry_timestamp_seconds ")
            });
            expiry.is_some_and(|seconds| seconds != "0")
        })
        .await;
        let held = self.held().await.unwrap();
        assert!(held.data.contains_key("tls.key"), "{:?}", held.data.keys());
        held
    }

    /// Creates a Secret that the API server fills with the issuer's token, as an attacker in the
    /// controller's place would begin.
    async fn asks_for_the_issuers_token(&self, name: &str) -> Result<Secret, kube::Error> {
        let file = config::Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let options = config::KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE,
                "annotations": {"kubernetes.io/service-account.name": "portcullis-issuer"}},
            "type": "kubernetes.io/service-account-token",
        });
        let secret = serde_json::from_value(secret).unwrap();
        Api::namespaced(client, NAMESPACE).create(&PostParams::default(), &secret).await
    }

    async fn assert_creates_no_secret(&self) {
        for name in ["any", NAME] {
            let refused = self.asks_for_the_issuers_token(name).await.unwrap_err();
            let kube::Error::Api(status) = &refused else { panic!("{refused:?}") };
            assert_eq!(status.code, 403, "{name}: {status:?}");
        }
    }
}

/// The chart as it was while the controller made the Secret: without it, and with the right to create
/// Secrets.
fn former_chart(to: &Path) -> PathBuf {
    let to = to.join("portcullis");
    copy(&folder(), &to);
    std::fs::remove_file(to.join("templates/admission-secret.yaml")).unwrap();
    let rules = to.join("files/rbac.yaml");
    let text = std::fs::read_to_string(&rules).unwrap();
    let before = "  controlPlaneProvisioning:\n";
    let create = "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [create]\n";
    std::fs::write(rules, text.replacen(before, &format!("{before}{create}"), 1)).unwrap();
    to
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn the_controller_creates_no_secret_and_upgrades_from_one_that_did_lose_no_key() {
    let Some(release) = Release::new().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (former, chart) = (former_chart(scratch.path()), folder());

    release.install(&former);
    let made = release.served().await;
    release.asks_for_the_issuers_token("any").await.expect("this is what is mended");
    release.secrets.delete("any", &DeleteParams::default()).await.unwrap();

    release.upgrade(&chart, &[]);
    release.assert_creates_no_secret().await;
    assert_eq!(release.served().await, made, "upgraded");
    release.helm(&["rollback", "portcullis", "1"]);
    assert_eq!(release.served().await, made, "rolled back");
    release.upgrade(&chart, &["--set", "extraLabels.team=mesh"]);
    assert_eq!(release.served().await, made, "upgraded again");
    release.assert_creates_no_secret().await;
    release.helm(&["uninstall", "portcullis"]);
    assert_eq!(release.held().await.as_ref(), Some(&made), "removed");
    release.install(&chart);
    assert_eq!(release.served().await, made, "installed again");
}

#[tokio::test]
async fn the_secret_that_the_chart_makes_is_filled_once_and_kept_whatever_becomes_of_the_release() {
    let Some(release) = Release::new().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (former, chart) = (former_chart(scratch.path()), folder());

    release.install(&chart);
    let empty = release.held().await.expect("the chart makes it");
    assert_eq!(empty.data, BTreeMap::new());
    let made = release.served().await;
    assert_eq!(made.uid, empty.uid);
    release.assert_creates_no_secret().await;

    release.upgrade(&chart, &["--set", "extraLabels.team=mesh"]);
    assert_eq!(release.served().await, made, "upgraded");
    release.helm(&["rollback", "portcullis", "1"]);
    assert_eq!(release.served().await, made, "rolled back");
    // To a version whose chart does not have it, and forward again.
    release.upgrade(&former, &[]);
    assert_eq!(release.served().await, made, "downgraded");
    release.upgrade(&chart, &[]);
    assert_eq!(release.served().await, made, "upgraded after that");
    release.helm(&["uninstall", "portcullis"]);
    assert_eq!(release.held().await.as_ref(), Some(&made), "removed");
    release.install(&chart);
    assert_eq!(release.served().await, made, "installed again");

    // What is rendered without a look at the cluster and applied takes nothing from it.
    let arguments = ["template", "portcullis", &chart.display().to_string(), "--kube-version"];
    let rendered = release.helm.call(&[&arguments[..], &[KUBE_VERSION]].concat()).unwrap();
    let rendered = documents(&succeeded(&rendered).unwrap()).unwrap();
    let secrets: Vec<_> = rendered.iter().filter(|object| object["kind"] == "Secret").collect();
    let [secret] = &*secrets else { panic!("{secrets:?}") };
    assert_eq!((secret.get("data"), secret.get("type")), (None, None), "{secret}");
    release.cluster.objects().apply_one(secret).await.unwrap();
    assert_eq!(release.served().await, made, "applied");

    // One that is lost is named with what makes it anew.
    release.secrets.delete(NAME, &DeleteParams::default()).await.unwrap();
    let flags = ["--control-plane-namespace", NAMESPACE];
    let controller = ControllerProcess::start(&release.kubeconfig, &flags).await.unwrap();
    wait_until("the log names the Secret", async || {
        controller.logs().contains(
            "Secret portcullis/policy-admission-tls does not exist, and this controller may not \
             create it: `helm upgrade` makes it",
        )
    })
    .await;
    release.upgrade(&chart, &[]);
    wait_until("it is filled", async || {
        release.held().await.is_some_and(|held| held.data.contains_key("tls.key"))
    })
    .await;
    assert_ne!(release.served().await.uid, made.uid);
}
