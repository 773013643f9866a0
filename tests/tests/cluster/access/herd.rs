//! Many clients at once on the policy port: what they cost is not the webhooks', and those that stall
//! keep nobody else out.

use super::mesh::{Mesh, get, identity};
use policy_testkit::wait_until;
use policy_tests::cluster::{Cluster, ControllerProcess};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// More than have their turn within the time that a client waits for its own.
const STALLED: usize = 800;

/// Enough that what a thread does besides counts for nothing.
const HERD: usize = 300;

/// A controller that serves the pod `web-0` of a namespace under mutual TLS.
struct Served {
    controller: ControllerProcess,
    mesh: Mesh,
    namespace: String,
}

impl Served {
    async fn of(cluster: &Cluster, name: &str) -> Self {
        let (mesh, namespace) = (Mesh::new(), cluster.namespace(name).await.unwrap());
        let pod = format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: web, namespace: {namespace}}}\n\
             ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-0, namespace: {namespace}}}\nspec: \
             {{serviceAccountName: web, automountServiceAccountToken: false, containers: [{{name: c, \
             image: i, ports: [{{containerPort: 80}}]}}]}}\n"
        );
        cluster.apply(&pod).await.unwrap();
        let mut flags = mesh.flags();
        flags.push(format!("--max-connections-per-peer={}", 2 * STALLED));
        let builder = ControllerProcess::builder(cluster.kubeconfig()).flags(flags);
        let controller = builder.start().await.unwrap();
        controller.wait_ready().await.unwrap();
        Self { controller, mesh, namespace }
    }

    /// A client with a connection of its own is answered.
    async fn answers(&self) {
        let own = identity("web", &self.namespace);
        let channel = self.mesh.connect(self.controller.grpc(), Some(&own)).await;
        get(&channel, &format!("{}:web-0", self.namespace), None).await.unwrap();
    }

    /// The processor time of a thread so far: the main one's, or that of this name.
    fn cpu(&self, name: Option<&str>) -> Duration {
        let pid = self.controller.pid().to_string();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let wanted = tasks.map(|task| task.unwrap()).find(|task| match name {
            None => task.file_name().to_str() == Some(&*pid),
            Some(name) => {
                let comm = std::fs::read_to_string(task.path().join("comm"));
                comm.is_ok_and(|comm| comm.trim_end() == name)
            }
        });
        let path = wanted.unwrap_or_else(|| panic!("no thread {name:?}")).path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_that_come_back_cost_the_thread_of_webhooks_and_probes_nothing() {
    let Some(cluster) = crate::shared().await else { return };
    let served = Served::of(cluster, "herd").await;
    let before = (served.cpu(Some("policy")), served.cpu(None));
    for _ in 0..HERD {
        served.answers().await;
    }
    let policy = served.cpu(Some("policy")) - before.0;
    let main = served.cpu(None) - before.1;
    assert!(policy > 4 * main, "policy {policy:?}, main {main:?}");
}

/// A client that begins a handshake and says nothing more.
async fn stalled(to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    // The first byte of a TLS handshake record (RFC 8446 section 5.1).
    stream.write_all(&[22]).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stall_in_the_handshake_are_counted_and_keep_no_other_address_out() {
    let Some(cluster) = crate::shared().await else { return };
    let served = Served::of(cluster, "stalled").await;
    let mut silent = Vec::new();
    for _ in 0..STALLED {
        silent.push(stalled(served.controller.grpc()).await);
    }
    // From another address, after all of them.
    served.answers().await;
    wait_until("those who did not finish it in time are counted", async || {
        let metrics = served.controller.metrics().await;
        let late = "policy_watch_tls_handshakes_total{result=\"timed_out\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(late));
        count.is_some_and(|count| count.parse::<usize>().unwrap() > 0)
    })
    .await;
    served.answers().await;
    drop(silent);
}
