//! `portcullis identity` on a real API server and issuer: what it writes is a client's identity, which a
//! real sidecar accepts and decides by.

use crate::cli::{Said, portcullis};
use crate::issuer::ask::{AUDIENCE, identity, token};
use crate::issuer::followed::Sidecar;
use policy_cli::echo;
use policy_testkit::{free_port, wait_until};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The namespace of the control plane.
const HOME: &str = "portcullis";

/// The port of the pod, whose policy decides.
const PORT: u16 = 8080;

/// Service accounts, a pod of one of them, and a grant to another.
fn shop() -> String {
    let account = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: shop}}\n---\n"
        )
    };
    let accounts = ["web", "client", "other"].map(account).concat();
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {{name: {HOME}}}\n---\n{accounts}\
         apiVersion: v1\nkind: Pod\n\
         metadata: {{name: web-0, namespace: shop, labels: {{app: web}}}}\n\
         spec: {{serviceAccountName: web, automountServiceAccountToken: false, containers: \
         [{{name: c, image: i, ports: [{{containerPort: {PORT}}}]}}]}}\n---\n\
         apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: web, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: {PORT}, proxyProtocol: HTTP/1}}\n\
         ---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: client, namespace: shop}}\n\
         spec:\n  targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}\n  \
         requiredAuthenticationRefs: [{{kind: ServiceAccount, name: client}}]\n"
    )
}

/// A folder with an identity, as flags of `portcullis request`.
fn proof(folder: &Path) -> [String; 6] {
    let file = |name: &str| folder.join(name).display().to_string();
    let flags = ["--cert", "--key", "--roots"].map(str::to_owned);
    let [cert, key, roots] = flags;
    [cert, file("tls.crt"), key, file("tls.key"), roots, file("ca.crt")]
}

/// Installation under test, with its clients.
struct World {
    cluster: Cluster,
    issuer: ControllerProcess,
    _controller: ControllerProcess,
    sidecar: Sidecar,
    /// Port on which the sidecar listens.
    listen: u16,
    _application: echo::EchoServer,
}

impl World {
    async fn start() -> Option<Self> {
        let cluster = cluster_or_skip(Cluster::builder()).await?;
        cluster.install_crds().await.unwrap();
        let application = echo::start("127.0.0.1:0".parse().unwrap(), echo::EchoOptions::default());
        let application = application.await.unwrap();
        cluster.apply(&shop()).await.unwrap();
        let home = format!("--control-plane-namespace={HOME}");
        let flags = [home.as_str(), "--issuance-lifetime=1m", "--clock-skew=0s"];
        let issuer = ControllerProcess::issuer(cluster.kubeconfig()).flags(flags);
        let issuer = issuer.start().await.unwrap();
        issuer.wait_ready().await.unwrap();
        let flags = [home.as_str(), "--admission-controller-disabled"];
        let controller = ControllerProcess::start(cluster.kubeconfig(), &flags).await.unwrap();
        controller.wait_ready().await.unwrap();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "portcullis-identity-trust-roots", "namespace": HOME}});
        let map = cluster.objects().get(&map).await.unwrap().unwrap();
        let listen = free_port().unwrap();
        let own = token(&cluster, ("shop", "web"), AUDIENCE, None).await;
        let settings = [
            ("POLICY_ADDR", controller.grpc().to_string()),
            ("WORKLOAD", "shop:web-0".to_owned()),
            ("FORWARD", format!("127.0.0.1:{listen},{PORT},{}", application.address())),
            ("IDENTITY_ADDR", format!("localhost:{}", issuer.grpc().port())),
            ("IDENTITY_SERVICE_NAME", identity("portcullis-issuer", HOME, HOME)),
            ("IDENTITY_NAME", identity("web", "shop", HOME)),
            ("IDENTITY_ANCHORS", map["data"]["ca-bundle.crt"].as_str().unwrap().to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let sidecar = Sidecar::with(settings, &own, None);
        wait_until("the sidecar has its identity", async || sidecar.usable().await).await;
        Some(Self {
            cluster,
            issuer,
            _controller: controller,
            sidecar,
            listen,
            _application: application,
        })
    }

    /// `portcullis identity` for this account, by a token of the API server.
    async fn identity(&self, account: &str, out: &Path) -> Said {
        let issuer = self.issuer.grpc().to_string();
        let out = out.display().to_string();
        let arguments =
            ["identity", account, "-n", "shop", "--issuer", &issuer, "--out", &out, "-o", "json"];
        portcullis(self.cluster.kubeconfig(), &arguments).await
    }

    /// Sends the sidecar a request with the identity in a folder.
    async fn request(&self, folder: &Path) -> Said {
        let name = identity("web", "shop", HOME);
        let url = format!("http://127.0.0.1:{}/", self.listen);
        let proof = proof(folder);
        let mut arguments = vec!["request", "--server-name", &name];
        arguments.extend(proof.iter().map(String::as_str));
        arguments.push(&url);
        portcullis(self.cluster.kubeconfig(), &arguments).await
    }

    /// One that is renewed until it is ended.
    fn kept(&self, out: &Path) -> Kept {
        let issuer = self.issuer.grpc().to_string();
        let started = Command::new(env!("CARGO_BIN_EXE_portcullis-under-test"))
            .args(["identity", "client", "-n", "shop", "--keep", "--issuer", &issuer, "--out"])
            .arg(out)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Kept(started.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_from_a_token_is_one_that_a_sidecar_accepts() {
    let Some(world) = World::start().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let kept_in = scratch.path().join("kept");
    let kept = world.kept(&kept_in);

    let client = scratch.path().join("client");
    let said = world.identity("client", &client).await;
    let written: Value = said.json();
    assert_eq!(written["identity"], json!(identity("client", "shop", HOME)), "{}", said.err);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&client.join("tls.key")), mode(&client)), (0o600, 0o700));
    // The sidecar is told its policy a moment after it has connected.
    let mut said = world.request(&client).await;
    for _ in 0..20 {
        if said.code == Some(0) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        said = world.request(&client).await;
    }
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);

    let other = scratch.path().join("other");
    assert_eq!(world.identity("other", &other).await.code, Some(0));
    let refused = world.request(&other).await;
    assert_eq!(refused.code, Some(3), "{}{}", refused.out, refused.err);

    without_a_cluster(&world, scratch.path()).await;
    what_cannot_be_had_is_told(&world, scratch.path()).await;

    let first = std::fs::read(kept_in.join("tls.crt")).unwrap();
    wait_until("what is kept is renewed", async || {
        std::fs::read(kept_in.join("tls.crt")).unwrap() != first
    })
    .await;
    assert_eq!(world.request(&kept_in).await.code, Some(0));
    drop(kept);
    world.sidecar.end().await;
}

/// With a token, the roots and an address no API server is asked, and the account is the token's.
async fn without_a_cluster(world: &World, scratch: &Path) {
    let (file, out) = (scratch.join("token"), scratch.join("mounted"));
    let text = token(&world.cluster, ("shop", "client"), AUDIENCE, None).await;
    std::fs::write(&file, text).unwrap();
    let roots = scratch.join("client/ca.crt");
    let (file, roots) = (file.display().to_string(), roots.display().to_string());
    let (issuer, folder) = (world.issuer.grpc().to_string(), out.display().to_string());
    let mut arguments = vec!["identity", "--token", &file, "--trust-roots", &roots];
    arguments.extend(["--issuer", &issuer, "--out", &folder]);
    let none = scratch.join("no-such-kubeconfig");
    let said = portcullis(&none, &arguments).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with(&identity("client", "shop", HOME)), "{}", said.out);
    assert_eq!(world.request(&out).await.code, Some(0));

    // The issuer gives nobody another's identity.
    arguments.push("other");
    let said = portcullis(&none, &arguments).await;
    assert!(said.code == Some(1) && said.err.contains("PermissionDenied"), "{}", said.err);
}

async fn what_cannot_be_had_is_told(world: &World, scratch: &Path) {
    let out = scratch.join("nothing");
    let said = world.identity("gone", &out).await;
    let words = "there is no ServiceAccount shop/gone";
    assert!(said.code == Some(1) && said.err.contains(words), "{}", said.err);

    // Whoever answers has to be the issuer.
    let folder = out.display().to_string();
    let issuer = format!("127.0.0.1:{}", world.listen);
    let asking = ["identity", "client", "-n", "shop", "--issuer", &issuer, "--out", &folder];
    let said = portcullis(world.cluster.kubeconfig(), &asking).await;
    assert!(said.code == Some(1) && said.err.contains("no certificate for"), "{}", said.err);
    assert!(!out.join("tls.key").exists());

    let nobody = world.cluster.kubeconfig_for("nobody", &["system:authenticated"]).unwrap();
    let said = portcullis(&nobody, &asking).await;
    assert!(said.code == Some(1) && said.err.contains("forbidden"), "{}", said.err);
}
