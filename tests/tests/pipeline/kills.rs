//! Sidecar and controller as processes of their own that are killed (SIGKILL) again and again, under load and
//! while policy changes: nobody who is denied ever gets through (bypass rule 32).
//!
//! What would let somebody through is near: the cluster's default admits everybody, and one Server per
//! port denies.

pub(crate) mod programs;

use crate::world::{HTTP, RAW, clients};
use policy_testkit::{free_port, long_or, wait_until};
use programs::{Application, Programs};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Rounds of the short form. Each kills the sidecar, the controller, or both.
const ROUNDS: usize = 10;

/// Most that one request may take before its client gives it up.
const ANSWER: Duration = Duration::from_secs(5);

const ALLOWED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const DENIED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A part of all bytes of a denied client.
const MARK: &str = "denied-client";

/// A pod, a Server for each of its two ports, and a grant.
pub(crate) const MANIFESTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: web
    ports: [{name: http, containerPort: 8080}, {name: raw, containerPort: 8082}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: http, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, accessPolicy: deny, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: raw, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: raw, accessPolicy: deny, proxyProtocol: opaque}
";

/// Answers that one client got.
#[derive(Default)]
struct Seen {
    allowed: AtomicUsize,
    refused: AtomicUsize,
    pending: AtomicUsize,
    /// Connections that were refused or broke off.
    lost: AtomicUsize,
}

impl Seen {
    /// Counts the status of an answer.
    fn answer(&self, status: &str) {
        let counter = match status {
            "200" => &self.allowed,
            "403" => &self.refused,
            "503" => &self.pending,
            other => panic!("an answer {other}"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn now(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::Relaxed)
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [allowed, refused, pending, lost] =
            [&self.allowed, &self.refused, &self.pending, &self.lost].map(Self::now);
        write!(f, "{allowed} allowed, {refused} refused, {pending} pending, {lost} lost")
    }
}

pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Requests without a pause, many on one connection and some on connections of their own.
async fn ask(from: Ipv4Addr, to: SocketAddr, path: String, seen: Arc<Seen>) {
    for round in 0_usize.. {
        let requests = if round.is_multiple_of(4) { 1 } else { 500 };
        let asked = timeout(ANSWER, async {
            let mut stream = connect(from, to).await?;
            for _ in 0..requests {
                let request = format!("GET {path} HTTP/1.1\r\nhost: web\r\n\r\n");
                stream.write_all(request.as_bytes()).await?;
                seen.answer(&status(&mut stream).await?);
            }
            std::io::Result::Ok(())
        });
        if !matches!(asked.await, Ok(Ok(()))) {
            seen.lost.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reads one response to its end.
pub(crate) async fn status(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).expect("a head");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    Ok(head[9..12].to_owned())
}

/// Opaque connections without a pause: each sends a line at once and waits for an answer.
async fn send(from: Ipv4Addr, to: SocketAddr, line: String, seen: Arc<Seen>) {
    loop {
        let sent = timeout(ANSWER, async {
            let mut stream = connect(from, to).await?;
            stream.write_all(line.as_bytes()).await?;
            stream.read_u8().await
        });
        match sent.await {
            Ok(Ok(_)) => seen.allowed.fetch_add(1, Ordering::Relaxed),
            Ok(Err(_)) | Err(_) => seen.lost.fetch_add(1, Ordering::Relaxed),
        };
        sleep(Duration::from_millis(1)).await;
    }
}

/// The authentication `clients`, which never names [`DENIED`], in one of several forms.
fn churn(round: usize) -> String {
    clients([&["127.0.0.1/32"][..], &["127.0.0.1/32", "203.0.113.0/24"]][round % 2])
}

/// Grants both Servers to the authentication `clients`.
fn grants() -> String {
    let grant = |server: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {server}, namespace: shop}}\nspec:\n\
             \x20 targetRef: {{group: policy.linkerd.io, kind: Server, name: {server}}}\n\
             \x20 requiredAuthenticationRefs:\n\
             \x20 - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: clients}}\n---\n"
        )
    };
    grant("http") + &grant("raw")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_neither_sidecar_nor_controller_lets_anybody_through() {
    let application = Application::start(MARK).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.yaml", MANIFESTS);
    write("grants.yaml", &grants());
    write("clients.yaml", &churn(0));
    let port = || SocketAddr::from((ALLOWED, free_port().unwrap()));
    let (http, raw) = (port(), port());
    let ports = [(http, HTTP), (raw, RAW)];
    let mut programs = Programs::start(folder.path(), port(), &ports, application.address);

    let [allowed, denied, opaque, mute] = [(); 4].map(|()| Arc::new(Seen::default()));
    let mut load = JoinSet::new();
    load.spawn(ask(ALLOWED, http, "/allowed".to_owned(), allowed.clone()));
    load.spawn(ask(DENIED, http, format!("/{MARK}"), denied.clone()));
    load.spawn(send(ALLOWED, raw, "\x01allowed\n".to_owned(), opaque.clone()));
    load.spawn(send(DENIED, raw, format!("\x01{MARK}\n"), mute.clone()));

    for round in 0..long_or("KILLS", ROUNDS) {
        let (sidecar, controller) = [(true, false), (false, true), (true, true)][round % 3];
        if sidecar {
            programs.kill_sidecar();
        }
        if controller {
            programs.kill_controller();
        }
        // What changes while the controller is away, or while the sidecar begins anew.
        write("clients.yaml", &churn(round));
        sleep(Duration::from_millis(50 * (round as u64 % 5))).await;
        // The sidecar comes back first in half of the rounds, and waits for its policy.
        if round % 2 == 0 {
            programs.restart_sidecar();
            // Longer than connections wait for a policy, where there is none to be had.
            sleep(Duration::from_millis(if controller { 1_300 } else { 100 })).await;
        }
        programs.restart_controller();
        programs.restart_sidecar();
        let before = [&allowed.allowed, &denied.refused, &opaque.allowed].map(Seen::now);
        wait_until("both clients are answered again, as they should be", async || {
            assert!(load.try_join_next().is_none(), "a client ended: an answer that is none");
            let now = [&allowed.allowed, &denied.refused, &opaque.allowed].map(Seen::now);
            now.iter().zip(before).all(|(now, before)| *now > before + 5)
        })
        .await;
        assert_eq!(application.reached(), 0, "round {round}: a denied client got through");
    }
    load.shutdown().await;
    println!("allowed: {allowed}\ndenied: {denied}\nopaque, allowed: {opaque}\ndenied: {mute}");
    assert_eq!(application.reached(), 0, "bytes of a denied client reached the application");
    assert_eq!([&denied.allowed, &mute.allowed].map(Seen::now), [0, 0], "{denied}; {mute}");
    assert_eq!(
        Seen::now(&allowed.refused),
        0,
        "nobody is refused by a policy that grants: {allowed}"
    );
    assert!(Seen::now(&mute.lost) > ROUNDS, "{mute}");
    assert!(Seen::now(&denied.pending) > 0, "a sidecar without a policy was never asked: {denied}");
}
