//! The release: one namespace is watched, with Roles alone. The shared release is away meanwhile,
//! because two control planes would write over each other's status and roots.

use super::super::away::controller_alone;
use super::super::clients::{Visitor, server, started};
use super::super::world::{CONTROL_PLANE, identity_of, node};
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::node::{Ended, NODE, Node, Place, Sandbox};
use policy_tests::cluster::say;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Weak};
use tempfile::TempDir;
use tokio::sync::{Mutex, RwLock, RwLockWriteGuard};

/// Lasts as long as one of its tests has it.
static RELEASE: Mutex<Weak<Release>> = Mutex::const_new(Weak::new());

/// Deployments of a control plane.
const DEPLOYMENTS: [&str; 2] = ["deployment/policy-controller", "deployment/portcullis-issuer"];

/// A release, installed.
pub(super) struct Release {
    pub(super) node: &'static Node,
    /// Namespace of its control plane.
    pub(super) home: String,
    /// The namespace that it watches.
    pub(super) watched: String,
    /// Held for writing by a test that takes issuers away from all others.
    pub(super) turn: RwLock<()>,
    helm: Helm,
    files: TempDir,
    _alone: RwLockWriteGuard<'static, ()>,
}

/// The release; absent: the test is to return, it has been counted as skipped.
pub(super) async fn release() -> Option<Arc<Release>> {
    let node = node().await?;
    let helm = Helm::or_skip("")?;
    let mut current = RELEASE.lock().await;
    if let Some(release) = current.upgrade() {
        return Some(release);
    }
    let alone = controller_alone().await;
    let (home, watched) = (namespace(node, "apart").await, namespace(node, "watched").await);
    let helm = helm.within(&home).on(node.kubeconfig());
    let (turn, files) = (RwLock::new(()), tempfile::tempdir().unwrap());
    let release = Release { node, home, watched, turn, helm, files, _alone: alone };
    let release = Arc::new(release);
    *current = Arc::downgrade(&release);
    release.install().await;
    Some(release)
}

/// A new namespace whose objects the shared release's webhooks leave alone.
pub(super) async fn namespace(node: &Node, prefix: &str) -> String {
    let name = node.namespace(prefix).await.unwrap();
    let label = "config.linkerd.io/admission-webhooks=disabled";
    node.kubectl().run(&["label", "namespace", &name, label]).await.unwrap();
    name
}

impl Release {
    /// A client that reads metrics.
    pub(super) const READER: &str = "reader";

    async fn install(&self) {
        self.scale_shared(0);
        let values = self.files.path().join("values.json");
        std::fs::write(&values, self.values().to_string()).unwrap();
        let (values, chart) = (values.display().to_string(), folder().display().to_string());
        let install = ["install", "portcullis", &chart, "--wait", "--timeout", "240s", "-f"];
        let install: Vec<&str> = install.into_iter().chain([values.as_str()]).collect();
        if let Err(error) = succeeded(&self.helm.call(&install).unwrap()) {
            panic!("{error:#}\n{}", self.node.report_all(&self.home).await);
        }
        let selector = "app.kubernetes.io/component in (policy-controller, issuer)";
        let gone = ["wait", "--for=delete", "pod", "-n", CONTROL_PLANE, "-l", selector];
        let gone: Vec<&str> = gone.into_iter().chain(["--timeout=120s"]).collect();
        self.node.kubectl().run(&gone).await.unwrap();
        say("a release of Roles alone is installed on the node for tests");
    }

    fn values(&self) -> Value {
        // Nodes may not be read. The kubelet reaches pods from the bridge.
        let addresses = [
            Sandbox::NODE.to_string(),
            Sandbox::NODE_V6.to_string(),
            Sandbox::BRIDGE.to_string(),
            Sandbox::BRIDGE_V6.to_string(),
        ];
        let reader = self.identity_of(Self::READER);
        let machine = format!("{}/32", Sandbox::MACHINE);
        json!({
            "watchNamespaces": [self.watched],
            "nodeAddresses": {NODE: addresses},
            "policy": {"default": "all-authenticated"},
            "metrics": {"allowFrom": {"identities": [reader], "networks": [machine]}},
            "admission": {"enabled": false},
            "injector": {"enabled": false},
            "crds": {"policy": false, "workload": false, "portcullis": false},
            "controller": {"replicas": 1},
            "issuer": {"replicas": 1},
        })
    }

    /// Upgrades it: other values stay.
    pub(super) async fn upgrade(&self, setting: &str) {
        let chart = folder().display().to_string();
        let upgrade = ["upgrade", "portcullis", &chart, "--reuse-values", "--set", setting];
        let upgrade: Vec<&str> = upgrade.into_iter().chain(["--wait", "--timeout=240s"]).collect();
        if let Err(error) = succeeded(&self.helm.call(&upgrade).unwrap()) {
            panic!("{error:#}\n{}", self.node.report_all(&self.home).await);
        }
    }

    /// The objects of it.
    pub(super) fn manifest(&self) -> String {
        succeeded(&self.helm.call(&["get", "manifest", "portcullis"]).unwrap()).unwrap()
    }

    /// Identity of a service account of the watched namespace.
    pub(super) fn identity_of(&self, account: &str) -> String {
        identity_of(&self.watched, account, &self.home)
    }

    /// The roots of its mesh, PEM.
    pub(super) async fn roots(&self) -> String {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "portcullis-identity-trust-roots", "namespace": self.home},
        });
        let map = self.node.objects().get(&map).await.unwrap().unwrap_or_default();
        map["data"]["ca-bundle.crt"].as_str().unwrap_or_default().to_owned()
    }

    /// Starts [`server`] in the watched namespace, with a sidecar by `portcullis inject`, and tells
    /// its pod and that pod's address.
    pub(super) async fn start_server(&self, name: &str) -> (String, String) {
        let written = |file: String, text: String| {
            let path = self.files.path().join(file);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let manifest = written(format!("{name}.yaml"), server(&self.watched, name));
        let roots = written(format!("{name}.crt"), self.roots().await);
        let inject = ["inject", "--control-plane-namespace", &self.home, "--roots", &roots];
        let inject: Vec<&str> = inject.into_iter().chain([manifest.as_str()]).collect();
        let injected = self.portcullis(&inject).await.output().unwrap();
        self.node.apply(&injected).await.unwrap();
        started(self.node, &self.watched, name).await
    }

    /// A client on this machine with the identity of a service account of the watched namespace, as
    /// the issuer certifies it now.
    pub(super) async fn visitor(&self, account: &str) -> Visitor {
        let folder = tempfile::tempdir().unwrap();
        self.certify(account, folder.path()).await.output().unwrap();
        Visitor::with(folder)
    }

    /// `portcullis identity` for a service account of the watched namespace.
    pub(super) async fn certify(&self, account: &str, folder: &Path) -> Ended {
        let account_of = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": self.watched},
        });
        self.node.objects().apply_one(&account_of).await.unwrap();
        let kubeconfig = self.node.kubeconfig().display().to_string();
        let folder = folder.display().to_string();
        let identity = ["identity", account, "-n", &self.watched, "--out", &folder];
        let of = ["--controller-namespace", &self.home, "--kubeconfig", &kubeconfig];
        let identity: Vec<&str> = identity.into_iter().chain(of).collect();
        self.portcullis(&identity).await
    }

    async fn portcullis(&self, arguments: &[&str]) -> Ended {
        let program = env!("CARGO_BIN_EXE_portcullis-under-test");
        let command: Vec<&str> = [program].into_iter().chain(arguments.iter().copied()).collect();
        self.node.run_at(Place::Machine, &command).await.unwrap()
    }

    /// Scales the shared release's control plane.
    fn scale_shared(&self, replicas: u8) {
        let replicas = format!("--replicas={replicas}");
        let scale = ["scale", "-n", CONTROL_PLANE, &replicas];
        self.kubectl(&scale.into_iter().chain(DEPLOYMENTS).collect::<Vec<_>>());
    }

    /// For where nothing can be awaited.
    fn kubectl(&self, arguments: &[&str]) {
        match self.node.kubectl().command(arguments).output() {
            Ok(output) if output.status.success() => {}
            ended => say(&format!("kubectl {}: {ended:?}", arguments.join(" "))),
        }
    }
}

impl Drop for Release {
    /// Brings the shared release back, after a failed test as well.
    fn drop(&mut self) {
        let ended = self.helm.call(&["uninstall", "portcullis"]);
        if let Err(error) = ended.and_then(|output| succeeded(&output)) {
            say(&format!("{error:#}"));
        }
        self.kubectl(&["delete", "namespace", "--wait=false", &self.home, &self.watched]);
        self.scale_shared(2);
        for deployment in DEPLOYMENTS {
            let status = ["rollout", "status", "-n", CONTROL_PLANE, deployment, "--timeout=120s"];
            self.kubectl(&status);
        }
    }
}
