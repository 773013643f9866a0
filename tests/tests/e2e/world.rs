//! Start of every test here: Portcullis installed as docs/install.md says, with an authority of the
//! tests' own, so that they can have any identity.

use policy_testkit::Authority;
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::node::{Node, SharedNode};
use policy_tests::cluster::say;
use serde_json::json;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The namespace of the control plane.
pub(crate) const CONTROL_PLANE: &str = "portcullis";

/// Most that anything may take that comes by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

static NODE: SharedNode = SharedNode::new();
static AUTHORITY: OnceLock<Authority> = OnceLock::new();

/// The authority of the mesh.
pub(crate) fn authority() -> &'static Authority {
    AUTHORITY.get_or_init(|| Authority::named(&format!("identity.{CONTROL_PLANE}.cluster.local")))
}

/// The identity of a service account.
pub(crate) fn identity(namespace: &str, account: &str) -> String {
    identity_of(namespace, account, CONTROL_PLANE)
}

/// The identity of a service account, by the authority of another control plane.
pub(crate) fn identity_of(namespace: &str, account: &str, control_plane: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.{control_plane}.cluster.local")
}

/// The node with Portcullis installed; absent: the test is to return, it has been counted as skipped.
pub(crate) async fn node() -> Option<&'static Node> {
    let helm = Helm::or_skip(CONTROL_PLANE)?;
    NODE.prepared_or_skip(async |node| {
        node.load_our_images().await?;
        node.install_gateway_api().await?;
        node.apply(&authority_secret()).await?;
        install(node, helm).await?;
        say("Portcullis is installed on the node for tests");
        Ok(())
    })
    .await
}

/// Installs the chart, with the authority of the tests.
pub(crate) async fn install(node: &Node, helm: Helm) -> anyhow::Result<()> {
    let helm = helm.on(node.kubeconfig());
    let chart = folder().display().to_string();
    // Clients of most tests are pods that open mesh TLS themselves; namespaces of tests of the
    // outbound half ask for it.
    let settings = [
        "--set",
        "issuer.existingSecret=authority-of-the-tests",
        "--set",
        "outbound.enabled=false",
    ];
    let mut arguments = vec!["install", "portcullis", &chart, "--wait", "--timeout", "240s"];
    arguments.extend(settings);
    if let Err(error) = succeeded(&helm.call(&arguments)?) {
        let report = node.report_all(CONTROL_PLANE).await;
        return Err(error.context(report));
    }
    // Objects of the kinds that the first release installed.
    arguments[0] = "upgrade";
    succeeded(&helm.call(&arguments)?)?;
    Ok(())
}

fn authority_secret() -> String {
    let authority = authority();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTROL_PLANE},
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "authority-of-the-tests", "namespace": CONTROL_PLANE},
        "stringData": {
            "ca.crt": authority.pem(), "tls.crt": authority.pem(), "tls.key": authority.key_pem(),
        },
    });
    format!("{namespace}\n---\n{secret}\n")
}

/// A new namespace that asks for sidecars, with more annotations (`key: value`), and has the label
/// that webhooks go by.
pub(crate) async fn meshed_namespace(node: &Node, prefix: &str, annotations: &str) -> String {
    let name = node.namespace(prefix).await.unwrap();
    let inject = "portcullis.dev/inject: enabled";
    let yaml = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: \
         {{name: {name}, annotations: {{{inject}, {annotations}}}}}\n"
    );
    node.apply(&yaml).await.unwrap();
    wait_until_injected(node, &name).await;
    name
}

/// Until webhooks know of the namespace's wish.
pub(crate) async fn wait_until_injected(node: &Node, namespace: &str) {
    let label = "--for=jsonpath={.metadata.labels.portcullis\\.dev/inject}=enabled";
    let name = format!("namespace/{namespace}");
    node.kubectl().run(&["wait", &name, label, "--timeout=60s"]).await.unwrap();
}

/// Waits until it is so; the last that was seen instead is the panic.
pub(crate) async fn eventually<T: PartialEq + std::fmt::Debug, F: Future<Output = T>>(
    what: &str,
    expected: T,
    look: impl Fn() -> F,
) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = look().await;
        if seen == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {seen:?} and not {expected:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
