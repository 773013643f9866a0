//! A sidecar that takes its roots from a ConfigMap which others may write, as it begins, follows a
//! rotation, and is lied to.

use super::ask::identity;
use super::{Plane, count};
use clap::Parser as _;
use k8s_openapi::ByteString;
use policy_issuer as issuer;
use policy_proxy::args::{Cli, Command};
use policy_proxy::{config, run};
use policy_testkit::{Authority, free_port, wait_until};
use serde_json::json;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A sidecar, its files as the kubelet would mount them.
pub(crate) struct Sidecar {
    folder: TempDir,
    admin: u16,
    running: Option<JoinHandle<()>>,
}

impl Sidecar {
    /// Starts one that trusts `anchors` to begin with, and then what `document` leads to.
    fn start(issuer: &super::Issuer, name: &str, token: &[u8], roots: (&str, &str)) -> Self {
        let (anchors, document) = roots;
        let settings = [
            ("IDENTITY_ADDR", format!("localhost:{}", issuer.address.port())),
            ("IDENTITY_SERVICE_NAME", issuer.identity.clone()),
            ("IDENTITY_NAME", name.to_owned()),
            ("IDENTITY_ANCHORS", anchors.to_owned()),
        ];
        Self::with(settings.map(|(name, value)| (name.to_owned(), value)), token, Some(document))
    }

    /// Starts one with these settings of its identity, and this token; with a document of roots, or
    /// without one.
    pub(crate) fn with(
        identity: impl IntoIterator<Item = (String, String)>,
        token: &[u8],
        document: Option<&str>,
    ) -> Self {
        let (listen, admin) = (free_port().unwrap(), free_port().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let sidecar = Self { admin, running: None, folder };
        let file = sidecar.folder.path().join("token");
        std::fs::write(&file, token).unwrap();
        let mut settings: HashMap<String, String> = [
            ("POLICY_ADDR", "127.0.0.1:1".to_owned()),
            ("WORKLOAD", "test/web-0".to_owned()),
            ("INBOUND_IPS", "127.0.0.1".to_owned()),
            ("LISTEN", format!("127.0.0.1:{listen}")),
            ("ADMIN", format!("127.0.0.1:{admin}")),
            ("ADMIN_METRICS", "all".to_owned()),
            ("ADMIN_SHUTDOWN", "true".to_owned()),
            ("IDENTITY", "certify".to_owned()),
            ("IDENTITY_TOKEN", file.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        settings.extend(identity);
        if let Some(document) = document {
            sidecar.mount(document);
            let place = sidecar.document().display().to_string();
            settings.insert("IDENTITY_SIGNED_ROOTS".to_owned(), place);
        }
        let environment = |name: &str| -> Option<OsString> {
            settings.get(name.strip_prefix("PORTCULLIS_")?).map(Into::into)
        };
        let Command::Run(args) = Cli::try_parse_from(["policy-proxy", "run"]).unwrap().command
        else {
            panic!("another command")
        };
        let config = config::read(&args, &environment).unwrap();
        let running = std::thread::spawn(move || run::run(config).unwrap());
        Self { running: Some(running), ..sidecar }
    }

    fn document(&self) -> PathBuf {
        self.folder.path().join("ca-bundle.signed")
    }

    /// Replaces what is mounted, as the kubelet does: in one step.
    fn mount(&self, document: &str) {
        let next: &Path = &self.folder.path().join("next");
        std::fs::write(next, document).unwrap();
        std::fs::rename(next, self.document()).unwrap();
    }

    async fn ask(&self, request: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.admin)).await else {
            return String::new();
        };
        let head = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\
                            connection: close\r\n\r\n"
        );
        let mut answer = String::new();
        let asked = async {
            stream.write_all(head.as_bytes()).await?;
            stream.read_to_string(&mut answer).await
        };
        // It is asked again.
        _ = asked.await;
        answer
    }

    async fn metric(&self, series: &str) -> Option<u64> {
        let text = self.ask("GET /metrics").await;
        text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
    }

    /// Waits until it trusts so many roots, with a certificate that others accept.
    pub(crate) async fn trusts(&self, roots: u64) {
        wait_until("it trusts these roots, and is trusted", async || {
            let found = (self.metric("identity_roots ").await, self.usable().await);
            found == (Some(roots), true)
        })
        .await;
    }

    pub(crate) async fn usable(&self) -> bool {
        self.metric("identity_usable ").await == Some(1)
    }

    async fn complaints(&self) -> u64 {
        self.metric("identity_failures_total{reason=\"roots\"} ").await.unwrap_or_default()
    }

    pub(crate) async fn end(mut self) {
        assert!(self.ask("POST /shutdown").await.contains(" 200 "));
        let running = self.running.take().unwrap();
        tokio::task::spawn_blocking(move || running.join().unwrap()).await.unwrap();
    }
}

/// Statement that an attacker with write access to the ConfigMap would put there: their own authority
/// in the place of the last one, with its proof and a later serial.
fn forged(signed: &str, other: &Authority, later: u64) -> String {
    let at = signed.rfind("\nroots:\n").unwrap();
    let (head, tail) = signed.split_at(at);
    let (before, serial) = head.rsplit_once("serial: ").unwrap();
    let serial = serial.parse::<u64>().unwrap() + later;
    let proof = tail.find("proof:\n").unwrap();
    format!("{before}serial: {serial}\nroots:\n{}{}", other.pem(), &tail[proof..])
}

/// The same with a proof by that authority for their roots.
fn forged_well(other: &Authority) -> String {
    let (serial, root) = (u64::MAX, other.root());
    let name = policy_tls::identity::proof_name(serial, std::slice::from_ref(&root));
    let leaf = other.certify(&name);
    let folder = tempfile::tempdir().unwrap();
    leaf.write(folder.path(), "proof.pem", "key.pem");
    let proof = std::fs::read_to_string(folder.path().join("proof.pem")).unwrap();
    format!("serial: {serial}\nroots:\n{}proof:\n{proof}", other.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_write_a_config_map_decides_on_no_root() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "forge").await;
    let replica = plane.issuer(&["--root-settle=2s"]).await;
    let (namespace, token) = plane.workload("forged").await;
    let name = identity("web", &namespace, &plane.home);
    let known = plane.known(&replica).await;
    let first = plane.roots(&plane.home).await.unwrap();
    let honest = plane.signed(&plane.home).await.unwrap();
    let sidecar = Sidecar::start(&known, &name, &token, (&first, &honest));
    sidecar.trusts(1).await;
    assert_eq!(sidecar.complaints().await, 0);

    let other = Authority::new();
    let lies = [
        other.pem(),
        format!("{first}{}", other.pem()),
        forged(&honest, &other, 0),
        // Newer than what is known, so that nothing but its proof can be held against it.
        forged(&honest, &other, 1),
        forged_well(&other),
        format!("{honest}{}", forged_well(&other)),
    ];
    for lie in lies {
        sidecar.mount(&lie);
        let before = sidecar.complaints().await;
        wait_until("it says that nobody vouches", async || sidecar.complaints().await > before)
            .await;
        assert_eq!(sidecar.metric("identity_roots ").await, Some(1), "{lie}");
        assert!(sidecar.usable().await, "what is in force stays");
    }

    // A rotation goes through both roots, whatever was there in between.
    plane.patch_secret(json!({"metadata": {"annotations": {issuer::ROTATE: "now"}}})).await;
    wait_until("both roots are published", async || {
        plane.roots(&plane.home).await.is_some_and(|roots| count(&roots) == 2)
    })
    .await;
    let both = plane.signed(&plane.home).await.unwrap();
    sidecar.mount(&both);
    sidecar.trusts(2).await;
    // Who is still trusted has signed it, and it is older than what is known.
    let before = sidecar.complaints().await;
    sidecar.mount(&honest);
    wait_until("it says that this is old", async || sidecar.complaints().await > before).await;
    assert_eq!(sidecar.metric("identity_roots ").await, Some(2));
    sidecar.mount(&both);
    sidecar.trusts(2).await;
    wait_until("the next authority is in use", async || {
        plane.held("ca.crt").await.is_some_and(|root| root != first)
    })
    .await;
    let past = ByteString(b"2020-01-01T00:00:00Z".to_vec());
    plane.patch_secret(json!({"data": {"previous.until": past}})).await;
    let second = plane.held("ca.crt").await.unwrap();
    wait_until("the former root is not published any more", async || {
        plane.roots(&plane.home).await.as_ref() == Some(&second)
    })
    .await;
    let last = plane.signed(&plane.home).await.unwrap();
    sidecar.mount(&last);
    sidecar.trusts(1).await;
    // What was signed once does not bring the former root back.
    let before = sidecar.complaints().await;
    sidecar.mount(&honest);
    wait_until("nobody vouches for it", async || sidecar.complaints().await > before).await;
    assert_eq!(sidecar.metric("identity_roots ").await, Some(1));
    assert!(sidecar.usable().await);
    sidecar.end().await;

    // A container that starts again in its pod of before the rotation follows it from the beginning.
    let again = Sidecar::start(&plane.known(&replica).await, &name, &token, (&first, &last));
    again.trusts(1).await;
    assert_eq!(again.complaints().await, 0);
    again.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_agree_on_what_vouches_for_the_roots() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "agree").await;
    let (one, two) = tokio::join!(plane.issuer(&[]), plane.issuer(&[]));
    let signed = plane.signed(&plane.home).await.unwrap();
    // Each has looked again, and again.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(plane.signed(&plane.home).await.unwrap(), signed);
    drop((one, two));
    // A replica that starts goes on from what is there.
    let three = plane.issuer(&[]).await;
    assert_eq!(plane.signed(&plane.home).await.unwrap(), signed);
    drop(three);
}
