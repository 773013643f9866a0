//! The real binary on a directory of manifests, and other programs beside it.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test says what it expects by failing"
)]

use policy_testkit::wait_until_blocking;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Most that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A namespace with one pod and one Server with one route.
pub(crate) const MANIFESTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: app
    ports: [{name: http, containerPort: 8080}]
status: {podIPs: [{ip: 10.42.1.7}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1}
";

/// An HTTPRoute on the Server.
pub(crate) fn route(name: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /{name}}}}}]}}]\n"
    )
}

/// A program whose lines are read as they come.
pub(crate) struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Program {
    /// Starts `command` and reads its standard output.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("cannot start");
        let lines = lines_of(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Starts `command` and reads what it says of itself.
    pub(crate) fn start_reading_errors(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("cannot start");
        let lines = lines_of(child.stderr.take().unwrap());
        Self { child, lines }
    }

    /// The next line that `wanted` makes something of.
    pub(crate) fn find<T>(&self, what: &str, wanted: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => match wanted(&line) {
                    Some(found) => return found,
                    None => seen.push(line),
                },
                Err(_) => panic!("no {what} in:\n{}", seen.join("\n")),
            }
        }
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn lines_of(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A running `policy-controller`.
pub(crate) struct Controller {
    pub(crate) program: Program,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Controller {
    /// Starts it on `manifests`, listening on `grpc` and on a free port for the rest.
    pub(crate) fn start(manifests: &Path, grpc: &str, flags: &[&str]) -> Self {
        let program = Program::start_reading_errors(
            Command::new(env!("CARGO_BIN_EXE_policy-controller"))
                .arg("run")
                .arg("--manifests")
                .arg(manifests)
                .args(["--grpc-addr", grpc, "--admin-addr", "127.0.0.1:0", "--log-format", "json"])
                .args(flags)
                .env_remove("LINKERD_POLICY_CONTROLLER_LOG"),
        );
        let (grpc, admin) = program.find("address", |line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let fields = line.get("fields")?;
            let address = |name: &str| fields.get(name)?.as_str()?.parse().ok();
            Some((address("grpc")?, address("admin")?))
        });
        Self { program, grpc, admin }
    }

    /// `GET path` of the admin server: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// Waits until `/ready` says so.
    pub(crate) fn ready(&self) {
        wait_until_blocking("ready", || self.get("/ready") == (200, "ready\n".to_owned()));
    }
}
