//! The same through `portcullis up`: a process that reads the files again, with sidecars, and clients that
//! ask.

use policy_cli::expect::{Expectation, Verdict};
use policy_testkit::{long_or, wait_until};
use policy_tests::invalid_objects::{Random, World, is_invalid, mutate, worlds};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

/// Objects that break, in all.
const BROKEN: usize = 100;

/// Objects that break in one mesh.
const EACH: usize = 10;

/// Meshes at once.
const AT_ONCE: usize = 3;

/// Time in which a version that counts at one sidecar counts at the others.
const SETTLED: Duration = Duration::from_millis(100);

/// Most that an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// `portcullis up` on a folder of its own, with a file for each object.
struct Mesh {
    folder: TempDir,
    ready: Value,
    child: Child,
}

impl Mesh {
    fn start(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (number, value) in world.values().iter().enumerate() {
            let value = world.with_claims(number, value);
            std::fs::write(file(folder.path(), number), value.to_string()).unwrap();
        }
        std::fs::write(folder.path().join("sentinel.yaml"), sentinel(0)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis-under-test"));
        command.args(["up", "-o", "json"]).arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = loop {
            let line = lines.next().expect("`up` has ended").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "ready" {
                break event;
            }
        };
        // What it says is not read any more, but taken, so that it can go on.
        std::thread::spawn(move || lines.for_each(drop));
        Self { folder, ready, child }
    }

    /// The address of a port; absent: it has none here.
    fn port(&self, workload: &str, port: u16) -> Option<SocketAddr> {
        let ports = self.ready["ports"].as_array().unwrap();
        let row = ports.iter().find(|row| row["workload"] == workload && row["port"] == port)?;
        row["address"].as_str()?.parse().ok()
    }

    /// The clients that have no identity.
    fn clients(&self) -> Vec<IpAddr> {
        let clients = self.ready["clients"].as_array().unwrap();
        let plain = clients.iter().filter(|client| client["identity"].is_null());
        plain.map(|client| client["address"].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Writes a version of an object, and waits until it counts.
    async fn write(&self, number: usize, value: &Value, turn: usize) {
        std::fs::write(file(self.folder.path(), number), value.to_string()).unwrap();
        std::fs::write(self.folder.path().join("sentinel.yaml"), sentinel(turn)).unwrap();
        let sentinel = Asked {
            client: self.clients()[0],
            address: self.port("sentinel/sentinel", 8080).unwrap(),
            head: format!("GET /{turn} HTTP/1.1\r\nhost: sentinel\r\nconnection: close\r\n\r\n"),
        };
        wait_until("the files are read", async || sentinel.status().await == Some(200)).await;
        // The sidecars of other pods are told at the same time.
        tokio::time::sleep(SETTLED).await;
    }
}

impl Drop for Mesh {
    /// Ends it so that it takes its files along.
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn file(folder: &Path, number: usize) -> std::path::PathBuf {
    folder.join(format!("{number}.yaml"))
}

/// A pod whose one path tells which version of the files counts.
fn sentinel(turn: usize) -> String {
    let meta = json!({"name": "sentinel", "namespace": "sentinel"});
    let server = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "sentinel"});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sentinel"}}),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "sentinel", "namespace": "sentinel", "labels": {"app": "sentinel"}},
            "spec": {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 8080}]}]},
        }),
        json!({
            "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server", "metadata": meta,
            "spec": {
                "podSelector": {"matchLabels": {"app": "sentinel"}}, "port": 8080,
                "proxyProtocol": "HTTP/1", "accessPolicy": "all-unauthenticated",
            },
        }),
        json!({
            "apiVersion": "policy.linkerd.io/v1beta3", "kind": "HTTPRoute", "metadata": meta,
            "spec": {
                "parentRefs": [server],
                "rules": [{"matches": [{"path": {"type": "Exact", "value": format!("/{turn}")}}]}],
            },
        }),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

/// A request as it is sent.
struct Asked {
    client: IpAddr,
    address: SocketAddr,
    head: String,
}

impl Asked {
    /// The request of an expectation from any client; absent: it is no HTTP/1 request in plaintext.
    fn of(mesh: &Mesh, client: IpAddr, request: &Expectation) -> Option<Self> {
        let address = mesh.port(&request.to.key().to_string(), request.to.port.get())?;
        let (method, path) = request.http.as_ref()?.split_once(' ')?;
        let host = request.host.as_deref().unwrap_or("web");
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        for (name, values) in &request.headers {
            for value in values.as_slice() {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head.push_str("\r\n");
        Some(Self { client, address, head })
    }

    /// The status of the answer; absent: none came.
    async fn status(&self) -> Option<u16> {
        let exchange = async {
            let socket = TcpSocket::new_v4().ok()?;
            socket.bind(SocketAddr::new(self.client, 0)).ok()?;
            let mut stream = socket.connect(self.address).await.ok()?;
            stream.write_all(self.head.as_bytes()).await.ok()?;
            let mut line = [0; 12];
            stream.read_exact(&mut line).await.ok()?;
            std::str::from_utf8(&line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
        };
        tokio::time::timeout(ANSWER, exchange).await.ok().flatten()
    }
}

/// Breaks objects of a world in a mesh of its own; the requests that were permitted then and refused
/// before.
async fn broken(world: &World, seed: usize, count: usize) -> (usize, Vec<String>) {
    let mesh = tokio::task::block_in_place(|| Mesh::start(world));
    let mut refused = Vec::new();
    for client in mesh.clients() {
        for request in world.refused() {
            let Some(asked) = Asked::of(&mesh, client, request) else { continue };
            if matches!(asked.status().await, Some(403 | 404)) {
                refused.push(asked);
            }
        }
    }
    let (mut random, mut opened, mut closed) = (Random::new(seed), Vec::new(), 0);
    if refused.is_empty() {
        return (0, opened);
    }
    for turn in 1..=count {
        let (number, before, after, mutation) = loop {
            let (number, before) = world.any_valid(&mut random);
            let (after, mutation) = mutate(before, &mut random);
            let object = world.reread(number, &after);
            if object.is_some_and(|object| is_invalid(&object)) && !mutation.says_all_itself(before)
            {
                break (number, before, after, mutation);
            }
        };
        mesh.write(number, &world.with_claims(number, &after), turn).await;
        for asked in &refused {
            if asked.status().await == Some(200) {
                let Asked { client, address, head } = asked;
                let name = &world.name;
                opened.push(format!("{name}: {mutation}\n  {client} to {address}: {head:?}"));
            }
        }
        closed += 1;
        let before = world.with_claims(number, before);
        std::fs::write(file(mesh.folder.path(), number), before.to_string()).unwrap();
    }
    (closed, opened)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_up_an_object_that_breaks_permits_nothing_that_was_refused() {
    let count = long_or("UP", BROKEN);
    let suited = |world: &World| {
        let plain = |one: &&Expectation| one.http.is_some() && one.decision == Verdict::Deny;
        world.is_plain() && world.refused().iter().filter(plain).count() >= 5
    };
    let worlds: Vec<World> = worlds().into_iter().filter(suited).collect();
    // Over all of them, as evenly as that goes.
    let wanted = count.div_ceil(EACH);
    let step = (worlds.len() / wanted).max(1);
    let mut chosen = worlds.iter().step_by(step).enumerate();
    let (mut closed, mut opened) = (0, Vec::new());
    while closed < count {
        let next: Vec<_> = chosen.by_ref().take(AT_ONCE).collect();
        assert!(!next.is_empty(), "too few worlds: {closed} objects broke");
        let all = next.iter().map(|(seed, world)| broken(world, *seed, EACH));
        for (more, found) in futures_util::future::join_all(all).await {
            closed += more;
            opened.extend(found);
        }
    }
    assert!(opened.is_empty(), "{} requests were opened\n{}", opened.len(), opened.join("\n"));
}
