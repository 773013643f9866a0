//! Proxies that lost their replica and come back at once, each over a mutual TLS connection of its own,
//! from a hundred addresses, with a proxy's patience and back-off; and a webhook that is called
//! meanwhile.

use crate::cluster::Cluster;
use crate::fixture::{NAMESPACE, Scale};
use crate::watchers::{Api, Watch};
use anyhow::{Context, ensure};
use policy_bench::process::{self, Memory};
use policy_bench::{certificates, limits, tls};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Addresses that the pods have.
const ADDRESSES: usize = 100;

/// Most time for connecting, and the shortest and the longest pause after a failure.
const CONNECT: Duration = Duration::from_secs(5);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Most time until all proxies are back.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time between two calls of the webhook.
const CALLS: Duration = Duration::from_millis(20);

/// Results of a reconnecting herd.
#[derive(Debug)]
pub(crate) struct Herd {
    pub(crate) pods: usize,
    /// Until the last pod had all its policies.
    pub(crate) time: Duration,
    /// Connections that were tried.
    pub(crate) attempts: usize,
    /// The controller's, and its thread's that serves policies.
    pub(crate) cpu: Duration,
    pub(crate) policy: Duration,
    pub(crate) clients: Duration,
    /// Milliseconds.
    pub(crate) calls: Vec<f64>,
    pub(crate) listed: Memory,
    pub(crate) open: Memory,
}

/// Shared settings of the clients.
struct Clients {
    controller: SocketAddr,
    tls: TlsConnector,
    attempts: AtomicUsize,
    watches: mpsc::UnboundedSender<crate::watchers::Report>,
    applied: crate::watchers::Applied,
}

/// Lets so many pods come back to a controller that has listed everything.
pub(crate) async fn measure(kubeconfig: Option<&Path>, pods: usize) -> anyhow::Result<Herd> {
    limits::many_descriptors()?;
    let folder = tempfile::tempdir()?;
    let identity = format!("default.{NAMESPACE}.serviceaccount.identity.linkerd.cluster.local");
    certificates::write_for(folder.path(), &identity)?;
    let scale = Scale { pods, apps: 100.min(pods), policies: 10 };
    let mut cluster = Cluster::open(kubeconfig).await?;
    cluster.fill(scale).await?;
    let webhook = free()?;
    let file = |flag: &str, name: &str| {
        format!("--grpc-tls-{flag}={}", folder.path().join(name).display())
    };
    let flags = [
        file("certs", "server.crt"),
        file("key", "server.key"),
        file("roots", "ca.crt"),
        format!("--server-addr={webhook}"),
    ];
    let controller = cluster.controller_with(scale, &flags).await?;
    let pid = controller.pid();
    sleep(Duration::from_secs(2)).await;
    let listed = process::memory(pid)?;
    process::forget_peak(pid)?;

    let (calls, calling) = call(webhook, folder.path().to_owned())?;
    let own = std::process::id();
    let before = (process::cpu(pid)?, thread(pid)?, process::cpu(own)?);
    let began = Instant::now();
    let (watches, mut updates) = mpsc::unbounded_channel();
    let applied = Arc::new(Mutex::new(vec![BTreeMap::new(); pods]));
    let tls = tls::connector(folder.path())?;
    let attempts = AtomicUsize::new(0);
    let clients =
        Arc::new(Clients { controller: controller.grpc, tls, attempts, watches, applied });
    let stop = CancellationToken::new();
    for pod in 0..pods {
        let client = come_back(Arc::clone(&clients), pod);
        tokio::spawn(stop.clone().run_until_cancelled_owned(client));
    }
    let all = async {
        let mut back = BTreeSet::new();
        while back.len() < pods * Api::Native.ports().len() {
            // What ended begins again.
            if let Ok(update) = updates.recv().await.context("no client is left")? {
                back.insert((update.pod, update.port));
            }
        }
        anyhow::Ok(Instant::now())
    };
    let ended = timeout(PATIENCE, all).await.context("not all came back")??;
    // Acknowledgements are read, and what was under way is done.
    sleep(Duration::from_secs(1)).await;
    let (cpu, policy) = (process::cpu(pid)? - before.0, thread(pid)? - before.1);
    let spent = process::cpu(own)? - before.2;
    drop(calling);
    let open = process::memory(pid)?;
    drop(stop.drop_guard());
    let calls = calls.lock().map_err(|_| anyhow::anyhow!("the caller failed"))?.clone();
    ensure!(!calls.is_empty(), "the webhook never answered");
    let attempts = clients.attempts.load(Ordering::Relaxed);
    let time = ended - began;
    Ok(Herd { pods, time, attempts, cpu, policy, clients: spent, calls, listed, open })
}

fn free() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The processor time of the thread that serves policies; none where the process has no such thread.
fn thread(pid: u32) -> anyhow::Result<Duration> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        if std::fs::read_to_string(path.join("comm"))?.trim_end() == "policy" {
            let text = std::fs::read_to_string(path.join("schedstat"))?;
            let first = text.split(' ').next().context("schedstat is empty")?;
            return Ok(Duration::from_nanos(first.parse()?));
        }
    }
    Ok(Duration::ZERO)
}

/// A proxy, which tries until it is back and whenever its watch ends.
async fn come_back(clients: Arc<Clients>, pod: usize) {
    let mut pause = BACKOFF.0;
    loop {
        clients.attempts.fetch_add(1, Ordering::Relaxed);
        if let Ok(Ok(stream)) = timeout(CONNECT, clients.connect(pod)).await
            && let Ok((requests, connection)) = h2::client::handshake(stream).await
        {
            // What ends it ends its watch, which tells.
            let connection = tokio::spawn(connection);
            let (reports, applied) = (clients.watches.clone(), Arc::clone(&clients.applied));
            let watch = Watch { api: Api::Native, pod, applied, reports };
            _ = watch.follow(requests).await;
            connection.abort();
        }
        // Between half and all of the pause, so that not all come again together.
        let share = u32::try_from(pod * 7919 % 500).unwrap_or(0) + 500;
        sleep(pause * share / 1000).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}

impl Clients {
    async fn connect(&self, pod: usize) -> anyhow::Result<TlsStream<tokio::net::TcpStream>> {
        let address = Ipv4Addr::new(127, 0, 1, u8::try_from(pod % ADDRESSES)? + 1);
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((address, 0)))?;
        let stream = socket.connect(self.controller).await?;
        stream.set_nodelay(true)?;
        let tls = self.tls.with_alpn(vec![b"h2".to_vec()]);
        Ok(tls.connect("controller.bench".try_into()?, stream).await?)
    }
}

/// Milliseconds of each call so far.
type Calls = Arc<Mutex<Vec<f64>>>;

/// Calls the webhook on a thread of its own until the guard is dropped.
fn call(webhook: SocketAddr, folder: PathBuf) -> anyhow::Result<(Calls, DropGuard)> {
    let (calls, stop) = (Calls::default(), CancellationToken::new());
    let (kept, stopped) = (Arc::clone(&calls), stop.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(stopped.run_until_cancelled(async {
            loop {
                if let Err(error) = keep_calling(webhook, &folder, &kept).await {
                    eprintln!("the webhook: {error:#}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }));
    });
    Ok((calls, stop.drop_guard()))
}

/// Calls over one connection, as an API server does.
async fn keep_calling(webhook: SocketAddr, folder: &Path, calls: &Calls) -> anyhow::Result<()> {
    let began = Instant::now();
    let stream = tokio::net::TcpStream::connect(webhook).await?;
    stream.set_nodelay(true)?;
    let tls = tls::connector(folder)?;
    let mut stream = tls.connect("webhook.bench".try_into()?, stream).await?;
    let body = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "name": "one", "namespace": NAMESPACE,
            "kind": {"group": "policy.linkerd.io", "version": "v1alpha1", "kind": "NetworkAuthentication"},
            "resource": {"group": "policy.linkerd.io", "version": "v1alpha1", "resource": "networkauthentications"},
            "object": {
                "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
                "metadata": {"name": "one", "namespace": NAMESPACE},
                "spec": {"networks": [{"cidr": "10.0.0.0/8"}]},
            },
        },
    })
    .to_string();
    let length = body.len();
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    let (mut started, mut buffer) = (began, vec![0; 64 * 1024]);
    loop {
        stream.write_all(request.as_bytes()).await?;
        let mut read = 0;
        while !is_whole(buffer.get(..read).unwrap_or_default())? {
            let rest = buffer.get_mut(read..).context("a long answer")?;
            let count = stream.read(rest).await?;
            ensure!(count > 0, "it closed the connection");
            read += count;
        }
        let took = started.elapsed().as_secs_f64() * 1000.0;
        calls.lock().map_err(|_| anyhow::anyhow!("a caller failed"))?.push(took);
        sleep(CALLS).await;
        started = Instant::now();
    }
}

/// Returns true once a complete response has come, which has to be a 200.
fn is_whole(answer: &[u8]) -> anyhow::Result<bool> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(false) };
    ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.context("an answer without a length")?.trim().parse()?;
    Ok(body.len() >= length)
}
