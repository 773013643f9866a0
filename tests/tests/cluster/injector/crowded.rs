//! Reviews beside clients who want to keep the webhook from answering them.
//!
//! A review takes milliseconds here, and the bound is a second, so that a busy machine does not fail
//! these tests. API servers give up after five.

use super::crowd::{ATTACKS, Attack, Crowd, Stream, Target, review};
use super::world::{World, pod};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use policy_testkit::wait_for;
use policy_tests::cluster::ControllerProcess;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// The most that a review may take.
const BOUND: Duration = Duration::from_secs(1);

/// Held by the test under way: times are taken.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The address that ordinary reviews come from.
const API_SERVER: u8 = 10;

/// The program with its webhook, without a cluster: reviews are judged by themselves alone.
struct Webhook {
    _controller: ControllerProcess,
    target: Target,
    _folder: TempDir,
}

impl Webhook {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pair = policy_testkit::self_signed("127.0.0.1");
        pair.write(folder.path(), "tls.crt", "tls.key");
        let [cert_file, key_file] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let kubeconfig = no_cluster(folder.path()).await;
        let files = [cert_file.to_str().unwrap(), key_file.to_str().unwrap()];
        let flags = ["--server-tls-certs", files[0], "--server-tls-key", files[1]];
        let controller = ControllerProcess::start(&kubeconfig, &flags).await.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pair.chain[0].clone()).unwrap();
        let listens = || async { controller.admission() };
        let address = wait_for("the webhook listens", listens).await;
        let target = Target { address, roots, path: "/" };
        Self { _controller: controller, target, _folder: folder }
    }
}

/// A kubeconfig of an API server that has a Lease and nothing else, which is all that a controller
/// needs before it opens its ports.
async fn no_cluster(folder: &Path) -> std::path::PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 16 * 1024];
                let read = stream.read(&mut head).await.unwrap_or_default();
                let is_lease = String::from_utf8_lossy(&head[..read]).contains("/leases");
                let (status, body) = if is_lease {
                    let meta = json!({"name": "a", "uid": "b", "resourceVersion": "1"});
                    ("200 OK", json!({"metadata": meta, "spec": {}}))
                } else {
                    ("404 Not Found", json!({"kind": "Status", "code": 404}))
                };
                let body = body.to_string();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                );
                _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "users": [{"name": "none", "user": {}}],
        "current-context": "none",
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

/// An ordinary object.
fn server() -> Vec<u8> {
    let server = json!({
        "apiVersion": "policy.linkerd.io/v1beta3",
        "kind": "Server",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "port": 80},
    });
    review("policy.linkerd.io", "Server", "CREATE", &server, &Value::Null)
}

/// Posts a review, over a connection that is kept or over a new one, and says how long it took.
async fn ask(target: &Target, kept: &mut Option<Stream>, review: &[u8], anew: bool) -> Duration {
    let started = Instant::now();
    let asked = async {
        let mut stream = match kept.take().filter(|_| !anew) {
            Some(stream) => stream,
            None => target.connect(API_SERVER, b"http/1.1").await?,
        };
        let answer = target.post(&mut stream, review).await?;
        *kept = Some(stream);
        std::io::Result::Ok(answer)
    };
    let answer = timeout(BOUND * 3, asked).await;
    let took = started.elapsed();
    let (status, body) = answer.unwrap_or_else(|_| panic!("no answer after {took:?}")).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    assert_eq!((status, &body["response"]["allowed"]), (200, &json!(true)), "{body}");
    took
}

/// The time of the slowest of many ordinary reviews beside these attacks.
async fn slowest_beside(attacks: &[Attack]) -> Duration {
    let _alone = ALONE.lock().await;
    let webhook = Webhook::start().await;
    let (target, review) = (&webhook.target, server());
    let mut kept = None;
    // Nobody has been answered before: the first review of an API server counts as well.
    let crowd = Crowd::gather(target, attacks).await;
    let (mut all, until) = (Vec::new(), Instant::now() + Duration::from_secs(4));
    while Instant::now() < until {
        all.push(ask(target, &mut kept, &review, all.len() % 2 == 0).await);
        sleep(Duration::from_millis(20)).await;
    }
    let acts = crowd.disperse();
    all.sort();
    let slowest = *all.last().unwrap();
    eprintln!(
        "{attacks:?}: {acts} acts; {} reviews, half of them in {:?}, the slowest in {slowest:?}",
        all.len(),
        all[all.len() / 2],
    );
    assert!(slowest < BOUND, "{attacks:?}: {slowest:?}");
    slowest
}

#[tokio::test]
async fn slow_posts_keep_no_review_waiting() {
    slowest_beside(&[Attack::SlowPosts]).await;
}

#[tokio::test]
async fn idle_connections_keep_no_api_server_out() {
    slowest_beside(&[Attack::IdleConnections]).await;
}

#[tokio::test]
async fn many_streams_keep_no_review_waiting() {
    slowest_beside(&[Attack::Streams]).await;
}

#[tokio::test]
async fn heavy_reviews_keep_no_ordinary_one_waiting() {
    slowest_beside(&[Attack::HeavyReviews]).await;
}

#[tokio::test]
async fn connections_that_never_greet_keep_no_api_server_out() {
    slowest_beside(&[Attack::SilentConnections]).await;
}

#[tokio::test]
async fn all_attacks_together_keep_no_review_waiting() {
    slowest_beside(&ATTACKS).await;
}

#[tokio::test]
async fn pods_are_created_and_injected_beside_any_pod_s_attack_on_the_webhook() {
    let Some(cluster) = super::cluster().await else { return };
    let _alone = ALONE.lock().await;
    let namespace = cluster.namespace("crowded").await.unwrap();
    let world = World::start(&cluster, &[&namespace]).await;
    world.mark(&namespace, json!({"annotations": {"portcullis.dev/inject": "enabled"}})).await;
    world.labelled(&namespace, Some("enabled")).await;
    let target = Target {
        address: world.controller.admission().unwrap(),
        roots: published(&world, &namespace).await,
        path: "/inject",
    };
    let web = pod("first", json!({}));
    world.until(&namespace, &web, "injected", |answer| !answer.inits().is_empty()).await;

    // Those that take room and turns. What takes processors alone would take the API server's as well,
    // which is on this machine, too.
    let attacks =
        [Attack::SlowPosts, Attack::IdleConnections, Attack::Streams, Attack::HeavyReviews];
    let crowd = Crowd::gather(&target, &attacks).await;
    let mut slowest = Duration::ZERO;
    for number in 0..60 {
        let started = Instant::now();
        let answer = world.create(&namespace, &pod(&format!("pod-{number}"), json!({}))).await;
        slowest = slowest.max(started.elapsed());
        answer.assert_injected();
        assert!(slowest < BOUND, "pod {number}: {slowest:?}");
        sleep(Duration::from_millis(50)).await;
    }
    eprintln!("{} acts; the slowest of 60 pods took {slowest:?}", crowd.disperse());
}

/// The authority that the webhook's configuration names.
async fn published(world: &World, namespace: &str) -> RootCertStore {
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    let all = api.list(&kube::api::ListParams::default()).await.unwrap();
    let ours = all.items.iter().flat_map(|one| one.webhooks.iter().flatten()).find(|webhook| {
        serde_json::to_string(&webhook.namespace_selector).unwrap().contains(namespace)
    });
    let bundle = ours.unwrap().client_config.ca_bundle.as_ref().unwrap();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bundle.0) {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}
