//! The authority that the issuer makes and keeps, and the operator's that takes its place.

use super::super::clients::{Got, Visitor, ask_at};
use super::super::flip::goes_on;
use super::super::world::{PATIENCE, eventually};
use super::release::{Release, release};
use super::turnover::{Credentials, Target, Turnover};
use policy_testkit::Authority;
use policy_tests::cluster::node::Place;
use policy_tls::identity::certificates;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::SystemTime;
use tokio::time::timeout;

/// The Secret that the issuer keeps, and the operator's.
const KEPT: &str = "portcullis-identity-issuer";
const SUPPLIED: &str = "authority-of-the-operator";

const ISSUER: &str = "deployment/portcullis-issuer";

impl Release {
    async fn secret(&self) -> Option<Value> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": KEPT, "namespace": self.home},
        });
        self.node.objects().get(&secret).await.unwrap()
    }

    /// The Secret's data: keys and values.
    async fn kept(&self) -> Value {
        self.secret().await.map(|mut secret| secret["data"].take()).unwrap_or_default()
    }

    async fn lose_the_secret(&self) {
        let delete = ["delete", "secret", KEPT, "-n", &self.home];
        self.node.kubectl().run(&delete).await.unwrap();
    }

    async fn scale_issuer(&self, replicas: u8) {
        let replicas = format!("--replicas={replicas}");
        let scale = ["scale", "-n", &self.home, ISSUER, &replicas];
        self.node.kubectl().run(&scale).await.unwrap();
        if replicas == "--replicas=0" {
            let selector = "app.kubernetes.io/component=issuer";
            let wait = ["wait", "--for=delete", "pod", "-n", &self.home, "-l", selector];
            let wait: Vec<&str> = wait.into_iter().chain(["--timeout=120s"]).collect();
            self.node.kubectl().run(&wait).await.unwrap();
        }
        self.node.wait_rolled_out(&self.home, ISSUER).await.unwrap();
    }

    /// Writes the operator's Secret: certificate, key and roots.
    async fn supply(&self, authority: (&str, &str, &str)) {
        let (certificate, key, roots) = authority;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": SUPPLIED, "namespace": self.home},
            "stringData": {"tls.crt": certificate, "tls.key": key, "ca.crt": roots},
        });
        self.node.objects().apply_one(&secret).await.unwrap();
    }

    /// Number of roots that the sidecar at this address says it trusts.
    async fn trusted(&self, sidecar: IpAddr) -> Option<String> {
        let url = format!("http://{sidecar}:4191/metrics");
        let command = ["curl", "-sS", "--max-time", "10", &url];
        let metrics = self.node.run_at(Place::Machine, &command).await.unwrap().stdout;
        metrics.lines().find_map(|line| line.strip_prefix("identity_roots ").map(str::to_owned))
    }
}

/// True if the certificate in a folder leads to these roots.
fn leads_to(folder: &Path, identity: &str, roots: &str) -> bool {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let credentials = policy_tls::identity::Credentials {
        server_name: identity.into(),
        roots: certificates(roots.as_bytes()).unwrap(),
        chain: certificates(&read("tls.crt")).unwrap(),
        key: PrivateKeyDer::from_pem_slice(&read("tls.key")).unwrap(),
    };
    let identity = policy_tls::identity::TlsIdentity::new(credentials);
    identity.is_ok_and(|identity| identity.verify(SystemTime::now()).is_ok())
}

fn text(data: &Value, key: &str) -> String {
    let encoded = data[key].as_str().unwrap_or_default();
    let decoded: k8s_openapi::ByteString = serde_json::from_value(json!(encoded)).unwrap();
    String::from_utf8(decoded.0).unwrap()
}

#[tokio::test]
async fn the_issuers_own_authority_outlives_its_secret_and_gives_way_to_the_operators_under_load() {
    let Some(release) = release().await else { return };
    let _turn = release.turn.write().await;
    let node = release.node;
    let made = release.kept().await;
    assert_eq!(text(&made, "ca.crt"), release.roots().await, "what is kept is what is published");
    let (pod, address) = release.start_server("certified").await;
    let name = ServerName::try_from(release.identity_of("certified")).unwrap();
    let target = Target { name, to: SocketAddr::new(address.parse().unwrap(), 8080) };
    let first = release.visitor("caller").await;
    assert_eq!(target.ask(&Credentials::of(&first)).await, Ok(200), "certified");

    // Somebody deletes the Secret while an issuer runs.
    release.lose_the_secret().await;
    eventually("the Secret is back", true, async || release.kept().await == made).await;

    // The Secret and every issuer are lost, and there is a backup.
    let mut backup = release.secret().await.unwrap();
    release.scale_issuer(0).await;
    release.lose_the_secret().await;
    let kept = ["name", "namespace", "labels", "annotations"];
    backup["metadata"].as_object_mut().unwrap().retain(|key, _| kept.contains(&key.as_str()));
    node.objects().apply_one(&backup).await.unwrap();
    release.scale_issuer(1).await;
    assert_eq!(release.roots().await, text(&made, "ca.crt"), "the same root");
    let first = release.visitor("caller").await;
    assert_eq!(target.ask(&Credentials::of(&first)).await, Ok(200), "from the backup");

    replaced_under_load(&release, &target, first, &made).await;

    // The controller's certificate is the operator's as well: policy still arrives.
    let last = Credentials::of(&release.visitor("caller").await);
    let deny = "config.linkerd.io/default-inbound-policy=deny";
    let annotate = ["annotate", "pod", &pod, "-n", &release.watched, deny];
    node.kubectl().run(&annotate).await.unwrap();
    eventually("policy arrives", Ok(403), || target.ask(&last)).await;
    let probe = format!("http://{address}:8080/ready");
    assert_eq!(ask_at(node, Place::Node, &[], &probe).await, Got::Status(200), "ready");
}

/// Puts an authority of the operator's in the place of `made`, step by step as docs/issuer.md says,
/// while a client asks whose certificate `first` holds.
async fn replaced_under_load(release: &Release, target: &Target, first: Visitor, made: &Value) {
    let own = Authority::new();
    let (certificate, key) = (text(made, "tls.crt"), text(made, "tls.key"));
    let load = Turnover::start(target.clone(), Credentials::of(&first));
    let mut opened_before = target.open(&Credentials::of(&first)).await;

    // The bundle: the former authority still signs, and both roots are trusted.
    let both = [text(made, "ca.crt"), own.pem()].concat();
    release.supply((&certificate, &key, &both)).await;
    release.upgrade(&format!("issuer.existingSecret={SUPPLIED}")).await;
    let trusted = || release.trusted(target.to.ip());
    eventually("the sidecar trusts both roots", Some("2".to_owned()), trusted).await;

    // The operator's signs.
    release.supply((&own.pem(), &own.key_pem(), &both)).await;
    let renewed = tempfile::tempdir().unwrap();
    let caller = release.identity_of("caller");
    eventually("the operator's authority signs", true, async || {
        release.certify("caller", renewed.path()).await.output().unwrap();
        leads_to(renewed.path(), &caller, &own.pem())
    })
    .await;
    let renewed = Visitor::with(renewed);
    let second = Credentials::of(&renewed);
    load.goes_on_with(second.clone());
    let mut opened_after = target.open(&second).await;
    assert_eq!(target.ask(&Credentials::of(&first)).await, Ok(200), "the former's certificate");

    // The former root goes.
    release.supply((&own.pem(), &own.key_pem(), &own.pem())).await;
    let strict = Credentials::believing(renewed.folder(), own.pem().as_bytes());
    eventually("the server's is the operator's", Ok(200), || target.ask(&strict)).await;
    let old = Credentials::believing(first.folder(), both.as_bytes());
    assert!(target.ask(&old).await.is_err(), "a certificate of the former authority");
    let ends = async { while goes_on(&mut opened_before).await {} };
    timeout(PATIENCE, ends).await.expect("what the former's certificate opened ends");
    assert!(goes_on(&mut opened_after).await, "what the operator's opened goes on");
    let answers = load.answers();
    let failed: Vec<_> = answers.iter().filter(|answer| **answer != Ok(200)).collect();
    assert!(answers.len() > 100 && failed.is_empty(), "of {}: {failed:?}", answers.len());
}
