//! A machine outside the cluster: the sidecar as its command line starts it, in front of an
//! application, watching as an ExternalWorkload over mutual TLS.

use crate::tls::name;
use crate::world::PATIENCE;
use clap::Parser as _;
use policy_cli::echo::http::ReceivedRequest;
use policy_cli::echo::{self, EchoServer};
use policy_cli::request::{ClientRequest, ClientResponse, Credentials, Tls, send};
use policy_proxy::args::{Cli, Command};
use policy_proxy::{config, run};
use policy_testkit::{Authority, dns, free_port, uri, wait_within};
use policy_tests::cluster::ControllerProcess;
use rustls::RootCertStore;
use rustls_pki_types::ServerName;
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The identity that the ExternalWorkload states.
const IDENTITY: &str = "spiffe://example.org/vm";

/// The name in the ClientHello of its clients.
const SERVER_NAME: &str = "vm.example";

const WORKLOAD: &str = r#"{"ns": "shop", "external_workload": "vm"}"#;

const CONTROLLER: &str = "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";

const MANIFESTS: &str = "\
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm, namespace: shop, labels: {app: db}}
spec:
  meshTLS: {identity: \"spiffe://example.org/vm\", serverName: vm.example}
  ports: [{name: http, port: 8080}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: db, namespace: shop}
spec: {externalWorkloadSelector: {matchLabels: {app: db}}, port: http, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: api, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: db}]
  rules: [{matches: [{path: {value: /api}}]}]
";

const GRANT: &str = "\
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: clients, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: api}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: client}]
";

/// A sidecar in a thread of this process, with the settings of its environment.
struct Machine {
    address: SocketAddr,
    admin: SocketAddr,
    application: EchoServer,
    running: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Machine {
    /// One that proves `identity` and asks the controller for the policy of [`WORKLOAD`].
    async fn start(authority: &Authority, controller: SocketAddr, identity: &str) -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let application = echo::start(loopback, echo::EchoOptions::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let leaf = authority.leaf(&[uri(identity), dns(SERVER_NAME)]);
        leaf.write(folder.path(), "tls.crt", "tls.key");
        std::fs::write(file("roots.pem"), authority.pem()).unwrap();
        let at = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        let (address, admin) = (at(), at());
        let settings: HashMap<&str, String> = [
            // Without a dot at its end the name is resolved, and spoken to in TLS.
            ("POLICY_ADDR", format!("localhost:{}", controller.port())),
            ("POLICY_NAME", CONTROLLER.to_owned()),
            ("WORKLOAD", WORKLOAD.to_owned()),
            ("IDENTITY", "files".to_owned()),
            ("IDENTITY_NAME", SERVER_NAME.to_owned()),
            ("IDENTITY_CERT", file("tls.crt")),
            ("IDENTITY_KEY", file("tls.key")),
            ("IDENTITY_ROOTS", file("roots.pem")),
            ("FORWARD", format!("{address},8080,{}", application.address())),
            ("PENDING_TIMEOUT", "1s".to_owned()),
            ("ADMIN", admin.to_string()),
            ("ADMIN_SHUTDOWN", "true".to_owned()),
        ]
        .into();
        let environment = |name: &str| -> Option<OsString> {
            settings.get(name.strip_prefix("PORTCULLIS_")?).map(Into::into)
        };
        let Command::Run(args) = Cli::try_parse_from(["policy-proxy", "run"]).unwrap().command
        else {
            panic!("another command")
        };
        let config = config::read(&args, &environment).unwrap();
        let running = std::thread::spawn(move || run::run(config).unwrap());
        Self { address, admin, application, running: Some(running), _folder: folder }
    }

    /// The answer to a request; none if there is none.
    async fn ask(&self, path: &str, credentials: Option<&Credentials>) -> Option<ClientResponse> {
        let mut request = ClientRequest::get(self.address, path);
        request.tls = credentials.map(|credentials| Tls {
            credentials: credentials.clone(),
            server_name: ServerName::try_from(SERVER_NAME).unwrap(),
        });
        send(&request).await.ok()
    }

    async fn status(&self, path: &str, credentials: Option<&Credentials>) -> Option<u16> {
        self.ask(path, credentials).await?.status
    }

    async fn admin(&self, method: http::Method, path: &str) -> Option<ClientResponse> {
        let request = ClientRequest { method, ..ClientRequest::get(self.admin, path) };
        send(&request).await.ok()
    }

    async fn end(mut self) {
        let gone = async || {
            // It may not have begun to listen.
            _ = self.admin(http::Method::POST, "/shutdown").await;
            self.running.as_ref().is_some_and(JoinHandle::is_finished)
        };
        wait_within("the sidecar ends", PATIENCE, gone).await;
        self.running.take().unwrap().join().unwrap();
    }
}

fn credentials(authority: &Authority, account: &str) -> Credentials {
    let mut roots = RootCertStore::empty();
    roots.add(authority.root()).unwrap();
    let leaf = authority.certify(&name(account));
    Credentials::new(Arc::new(roots), leaf.chain, leaf.key)
}

async fn controller(authority: &Authority, folder: &Path) -> ControllerProcess {
    let file = |name: &str| folder.join(name).display().to_string();
    authority.certify(CONTROLLER).write(folder, "tls.crt", "tls.key");
    std::fs::write(file("roots.pem"), authority.pem()).unwrap();
    let manifests = folder.join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    std::fs::write(manifests.join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.join("grant.yaml"), GRANT).unwrap();
    let flags = [
        format!("--grpc-tls-certs={}", file("tls.crt")),
        format!("--grpc-tls-key={}", file("tls.key")),
        format!("--grpc-tls-roots={}", file("roots.pem")),
    ];
    let controller = ControllerProcess::of_directory(&manifests).flags(flags).start().await;
    let controller = controller.unwrap();
    controller.wait_ready().await.unwrap();
    controller
}

#[tokio::test]
async fn a_machine_outside_the_cluster_is_guarded_by_its_own_sidecar() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let controller = controller(&authority, folder.path()).await;
    let machine = Machine::start(&authority, controller.grpc(), IDENTITY).await;
    let (client, other) = (credentials(&authority, "client"), credentials(&authority, "other"));
    let served = async || machine.status("/api/1", Some(&client)).await == Some(200);
    wait_within("the client that is granted is served", PATIENCE, served).await;
    let answer = machine.ask("/api/1", Some(&client)).await.unwrap();
    let received: ReceivedRequest = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(received.headers["l5d-client-id"], [name("client")]);
    let before = machine.application.counters().requests();
    assert_eq!(machine.status("/api/1", Some(&other)).await, Some(403));
    assert_eq!(machine.status("/api/1", None).await, Some(403));
    assert_eq!(machine.status("/else", Some(&client)).await, Some(404));
    assert_eq!(machine.application.counters().requests(), before, "none of them arrives");

    std::fs::remove_file(folder.path().join("manifests/grant.yaml")).unwrap();
    let refused = async || machine.status("/api/1", Some(&client)).await == Some(403);
    wait_within("a grant that is taken away ends", PATIENCE, refused).await;
    std::fs::write(folder.path().join("manifests/grant.yaml"), GRANT).unwrap();
    wait_within("and begins again", PATIENCE, served).await;
    machine.end().await;
}

/// The token names a workload; what the certificate proves says whether it is one's own.
#[tokio::test]
async fn another_machine_gets_no_policy_of_a_workload_that_is_not_its_own() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let controller = controller(&authority, folder.path()).await;
    let machine = Machine::start(&authority, controller.grpc(), "spiffe://example.org/other").await;
    let client = credentials(&authority, "client");
    let reason = async || {
        let answer = machine.ask("/api/1", Some(&client)).await?;
        Some((answer.status, answer.header("l5d-proxy-error").map(str::to_owned)))
    };
    let pending = Some((Some(503), Some("policy_pending".to_owned())));
    wait_within("nobody is served", PATIENCE, async || reason().await == pending).await;
    let series = "policy_watch_callers_refused_total{reason=\"other_identity\"} ";
    let refused = async || {
        let metrics = controller.metrics().await;
        let count = metrics.lines().find_map(|line| line.strip_prefix(series)?.parse().ok());
        count.is_some_and(|count: u64| count > 1)
    };
    wait_within("the controller has refused it twice", PATIENCE, refused).await;
    assert_eq!(reason().await, pending);
    assert_eq!(machine.application.counters().requests(), 0);
    let ready = machine.admin(http::Method::GET, "/ready").await.unwrap();
    assert_ne!(ready.status, Some(200), "{}", ready.body);
    machine.end().await;
}
