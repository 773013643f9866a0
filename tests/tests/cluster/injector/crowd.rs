//! Clients without any right that load the webhook's port: each attack from addresses of its own,
//! bounded in number and time, on a thread of its own.

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The most that an attack lasts, whatever the test does.
const LASTS: Duration = Duration::from_secs(60);

/// The length that is stated, and hardly begun.
const LENGTH: usize = 8 * 1024 * 1024;

/// Address to connect to, and the authority of the certificate there.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) roots: RootCertStore,
    pub(crate) path: &'static str,
}

pub(crate) type Stream = TlsStream<TcpStream>;

impl Target {
    /// Connects from an address of loopback.
    pub(crate) async fn connect(&self, from: u8, protocol: &[u8]) -> io::Result<Stream> {
        let stream = self.dial(from).await?;
        let provider = policy_tls::identity::provider();
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn dial(&self, from: u8) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, from), 0).into())?;
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn head(&self, length: usize) -> String {
        let Self { address, path, .. } = self;
        format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n")
    }

    /// Posts a body over HTTP/1.1 and returns the status and the body of the answer.
    pub(crate) async fn post(&self, stream: &mut Stream, body: &[u8]) -> io::Result<(u16, Bytes)> {
        stream.write_all(self.head(body.len()).as_bytes()).await?;
        stream.write_all(body).await?;
        stream.flush().await?;
        let mut read = Vec::new();
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        loop {
            if let Some(answer) = answer(&read) {
                return Ok(answer);
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Err(ended());
            }
        }
    }
}

/// A whole answer of HTTP/1.1 with its length.
fn answer(read: &[u8]) -> Option<(u16, Bytes)> {
    let end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&read[..end]).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("content-length: ").nth(1).unwrap_or("0\r\n");
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let body = read.get(end..end + length)?;
    Some((status, Bytes::copy_from_slice(body)))
}

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Eight posts that state 8 MiB and send a byte now and then.
    SlowPosts,
    /// All connections, 64 from each of four addresses, without a request.
    IdleConnections,
    /// All connections, 64 from each of four addresses, without a greeting.
    SilentConnections,
    /// Two HTTP/2 connections full of posts that state 8 MiB and send a byte.
    Streams,
    /// Reviews that take all the memory that one may, one after another over many connections.
    HeavyReviews,
    /// New connections without end.
    Handshakes,
}

pub(crate) const ATTACKS: [Attack; 6] = [
    Attack::SlowPosts,
    Attack::IdleConnections,
    Attack::SilentConnections,
    Attack::Streams,
    Attack::HeavyReviews,
    Attack::Handshakes,
];

/// Attacks under way; ended when dropped.
pub(crate) struct Crowd {
    thread: Option<JoinHandle<()>>,
    stop: Option<DropGuard>,
    acts: Arc<AtomicUsize>,
}

impl Crowd {
    /// Begins, and waits until every attacker has done something, or has had time to: who is kept
    /// out goes on trying.
    pub(crate) async fn gather(target: &Target, attacks: &[Attack]) -> Self {
        let (stop, acts) = (CancellationToken::new(), Arc::<AtomicUsize>::default());
        let begun = Arc::<AtomicUsize>::default();
        let (attacks, target) = (attacks.to_vec(), Arc::new(target.clone()));
        // Made before the time of the attack begins.
        LazyLock::force(&HEAVY_REVIEW);
        let members: usize = attacks.iter().map(|attack| attack.members().len()).sum();
        let thread = std::thread::spawn({
            let (stop, acts, begun) = (stop.clone(), acts.clone(), begun.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.unwrap();
                for attack in attacks {
                    for from in attack.members() {
                        let act = member(attack, from, target.clone(), acts.clone(), begun.clone());
                        runtime.spawn(act);
                    }
                }
                runtime.block_on(async { _ = timeout(LASTS, stop.cancelled()).await });
            }
        });
        let all_begun = async {
            while begun.load(Ordering::Relaxed) < members {
                sleep(Duration::from_millis(10)).await;
            }
        };
        _ = timeout(Duration::from_secs(5), all_begun).await;
        Self { thread: Some(thread), stop: Some(stop.drop_guard()), acts }
    }

    /// Ends it, and says how many requests and connections it made.
    pub(crate) fn disperse(mut self) -> usize {
        self.end();
        self.acts.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.end();
    }
}

impl Attack {
    /// The last octet of the address of each member.
    fn members(self) -> Vec<u8> {
        match self {
            Self::SlowPosts => vec![20; 8],
            Self::IdleConnections => four_from(30),
            Self::SilentConnections => four_from(34),
            Self::Streams => vec![40; 2],
            Self::HeavyReviews => (0..24).map(|n| 50 + n % 3).collect(),
            Self::Handshakes => vec![60, 61, 62, 63],
        }
    }
}

impl Attack {
    /// The time before an attacker begins anew. The attackers share the machine with what they attack,
    /// and are not to win by taking its processors.
    fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::IdleConnections | Self::SilentConnections => 1000,
            Self::SlowPosts | Self::Streams | Self::HeavyReviews => 50,
            Self::Handshakes => 20,
        })
    }
}

/// As many connections as there are, from four addresses.
fn four_from(first: u8) -> Vec<u8> {
    (0..4).flat_map(|n| [first + n; 64]).collect()
}

/// One attacker, who begins anew whatever becomes of the connection.
async fn member(
    attack: Attack,
    from: u8,
    target: Arc<Target>,
    acts: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
) {
    let mut first = Some(begun);
    loop {
        let acted = || {
            acts.fetch_add(1, Ordering::Relaxed);
        };
        // What ends one connection is no concern of the attacker's; a server may have closed it.
        _ = match attack {
            Attack::SlowPosts => slow_post(&target, from, &mut first, acted).await,
            Attack::IdleConnections => idle(&target, from, &mut first, acted).await,
            Attack::SilentConnections => silent(&target, from, &mut first, acted).await,
            Attack::Streams => streams(&target, from, &mut first, acted).await,
            Attack::HeavyReviews => reviews(&target, from, &mut first, acted).await,
            Attack::Handshakes => target.connect(from, b"http/1.1").await.map(|_| {
                begins(&mut first);
                acted();
            }),
        };
        sleep(attack.pause()).await;
    }
}

fn begins(first: &mut Option<Arc<AtomicUsize>>) {
    if let Some(begun) = first.take() {
        begun.fetch_add(1, Ordering::Relaxed);
    }
}

type First = Option<Arc<AtomicUsize>>;

async fn slow_post(
    target: &Target,
    from: u8,
    first: &mut First,
    acted: impl Fn(),
) -> io::Result<()> {
    let mut stream = target.connect(from, b"http/1.1").await?;
    stream.write_all(target.head(LENGTH).as_bytes()).await?;
    let mut answer = [0; 512];
    loop {
        stream.write_all(b"{").await?;
        stream.flush().await?;
        begins(first);
        acted();
        let read = timeout(Duration::from_millis(500), stream.read(&mut answer)).await;
        if let Ok(read) = read {
            return read.map(|_| ());
        }
    }
}

async fn idle(target: &Target, from: u8, first: &mut First, acted: impl Fn()) -> io::Result<()> {
    let mut stream = target.connect(from, b"http/1.1").await?;
    begins(first);
    acted();
    stream.read(&mut [0; 64]).await.map(|_| ())
}

async fn silent(target: &Target, from: u8, first: &mut First, acted: impl Fn()) -> io::Result<()> {
    let mut stream = target.dial(from).await?;
    begins(first);
    acted();
    stream.read(&mut [0; 64]).await.map(|_| ())
}

async fn streams(target: &Target, from: u8, first: &mut First, acted: impl Fn()) -> io::Result<()> {
    let stream = target.connect(from, b"h2").await?;
    let (mut client, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let mut posts = Vec::new();
    for _ in 0..64 {
        client = client.ready().await.map_err(io::Error::other)?;
        let post = http::Request::post(format!("https://127.0.0.1{}", target.path))
            .header("content-length", LENGTH)
            .body(())
            .unwrap();
        let (answer, mut body) = client.send_request(post, false).map_err(io::Error::other)?;
        body.send_data(Bytes::from_static(b"{"), false).map_err(io::Error::other)?;
        posts.push((answer, body));
        acted();
    }
    begins(first);
    for (answer, _body) in posts {
        _ = timeout(Duration::from_secs(10), answer).await;
    }
    connection.abort();
    Ok(())
}

async fn reviews(target: &Target, from: u8, first: &mut First, acted: impl Fn()) -> io::Result<()> {
    let mut stream = target.connect(from, b"http/1.1").await?;
    begins(first);
    for _ in 0..16 {
        acted();
        target.post(&mut stream, &HEAVY_REVIEW).await?;
    }
    Ok(())
}

static HEAVY_REVIEW: LazyLock<Vec<u8>> = LazyLock::new(heavy_review);

/// As heavy as a review may be: as many networks as fit into an object, before and after.
fn heavy_review() -> Vec<u8> {
    let list = |first: &str| {
        let mut networks = vec![json!({"cidr": "10.0.0.0/8"}); 60_000];
        networks[0] = json!({ "cidr": first });
        json!({
            "apiVersion": "policy.linkerd.io/v1alpha1",
            "kind": "NetworkAuthentication",
            "metadata": {"name": "heavy", "namespace": "shop"},
            "spec": {"networks": networks},
        })
    };
    let (new, old) = (list("10.1.0.0/16"), list("10.2.0.0/16"));
    review("policy.linkerd.io", "NetworkAuthentication", "UPDATE", &new, &old)
}

/// A review as API servers send it.
pub(crate) fn review(
    group: &str,
    kind: &str,
    operation: &str,
    new: &Value,
    old: &Value,
) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "6a1b",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "operation": operation,
            "namespace": new["metadata"]["namespace"],
            "name": new["metadata"]["name"],
            "object": new,
            "oldObject": old,
        },
    });
    serde_json::to_vec(&review).unwrap()
}
