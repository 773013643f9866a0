//! A real API server with the objects of a scale, and the program as it is shipped beside it.

use crate::fixture::{self, NAMESPACE, Scale};
use anyhow::{Context, bail, ensure};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Requests at once while objects are made.
const AT_ONCE: usize = 16;

/// Most that a start may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// An API server, and what was put there.
pub(crate) struct Cluster {
    client: kube::Client,
    kubeconfig: PathBuf,
    filled: Option<Scale>,
    _plane: Option<Plane>,
}

/// A control plane that ends with this process.
struct Plane(Child);

impl Drop for Plane {
    fn drop(&mut self) {
        // The end of its standard input is what ends it.
        drop(self.0.stdin.take());
        _ = self.0.wait();
    }
}

impl Cluster {
    /// The cluster that the file names, or a control plane of its own, started by the tests'
    /// program beside this one. Our definitions must be installed there.
    pub(crate) async fn open(kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let (kubeconfig, plane) = match kubeconfig {
            Some(path) => (path.to_owned(), None),
            None => {
                let (path, plane) = tokio::task::spawn_blocking(plane).await??;
                (path, Some(plane))
            }
        };
        let read = Kubeconfig::read_from(&kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(read, &options).await?;
        let client = kube::Client::try_from(config)?;
        Ok(Self { client, kubeconfig, filled: None, _plane: plane })
    }

    /// Makes the objects of a scale, and no others.
    pub(crate) async fn fill(&mut self, scale: Scale) -> anyhow::Result<()> {
        if self.filled == Some(scale) {
            return Ok(());
        }
        if self.filled.take().is_some() {
            self.clear().await?;
        }
        // Where the controller keeps its Lease: it leads, and writes status.
        self.create(&json!({"kind": "Namespace", "metadata": {"name": "linkerd"}})).await?;
        for object in fixture::frame(scale) {
            self.create(&object).await?;
        }
        let own = &*self;
        let pods = stream::iter(0..scale.pods).map(|pod| async move {
            let object = fixture::pod(scale, pod);
            own.create(&object).await
        });
        pods.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.filled = Some(scale);
        Ok(())
    }

    async fn clear(&self) -> anyhow::Result<()> {
        for kind in ["AuthorizationPolicy", "Server", "NetworkAuthentication", "Pod"] {
            let all = json!({"kind": kind, "metadata": {"name": ""}});
            let body = json!({"gracePeriodSeconds": 0});
            self.send("DELETE", &path(&all)?, "application/json", &body).await?;
        }
        Ok(())
    }

    /// Creates an object, its status too; one that is there already stays.
    pub(crate) async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let own = path(object)?;
        let (collection, _) = own.rsplit_once('/').context("a path has parts")?;
        self.send("POST", collection, "application/json", object).await?;
        if let Some(status) = object.get("status") {
            let status = json!({"status": status});
            let merge = "application/merge-patch+json";
            self.send("PATCH", &format!("{own}/status"), merge, &status).await?;
        }
        Ok(())
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        self.send("DELETE", &path(object)?, "application/json", &json!({})).await
    }

    /// Changes the labels of an object.
    pub(crate) async fn label(&self, object: &Value, labels: &Value) -> anyhow::Result<()> {
        let change = json!({"metadata": {"labels": labels}});
        self.send("PATCH", &path(object)?, "application/merge-patch+json", &change).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> anyhow::Result<()> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(serde_json::to_vec(body)?)?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{method} {path}")),
        }
    }

    /// Starts the controller, and waits until it is ready.
    pub(crate) async fn controller(&self, scale: Scale) -> anyhow::Result<Controller> {
        self.controller_with(scale, &[]).await
    }

    /// The same with further flags.
    pub(crate) async fn controller_with(
        &self,
        scale: Scale,
        flags: &[String],
    ) -> anyhow::Result<Controller> {
        let began = Instant::now();
        let beside = std::env::current_exe()?.with_file_name("policy-controller");
        let many = scale.pods.saturating_mul(2).max(1024).to_string();
        let mut child = Command::new(&beside)
            .arg("run")
            .args(["--log-format", "json", "--grpc-addr", "127.0.0.1:0"])
            .args(["--admin-addr", "127.0.0.1:0", "--max-streams-per-peer", &many])
            .args(["--max-connections-per-peer", &many, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}", beside.display()))?;
        let log = child.stderr.take().context("the controller has no log")?;
        let mut running =
            Controller { child, grpc: SocketAddr::from(([0; 4], 0)), ready: Duration::ZERO };
        let listening = tokio::task::spawn_blocking(move || addresses(log));
        let listening = timeout(PATIENCE, listening).await;
        let (grpc, admin) = listening.context("the controller does not listen")???;
        running.grpc = grpc;
        while !is_ready(admin).await {
            ensure!(began.elapsed() < PATIENCE, "the controller does not become ready");
            if let Some(status) = running.child.try_wait()? {
                bail!("the controller ended: {status}");
            }
            sleep(Duration::from_millis(10)).await;
        }
        running.ready = began.elapsed();
        Ok(running)
    }
}

/// The controller's process. Dropping it ends it.
pub(crate) struct Controller {
    child: Child,
    pub(crate) grpc: SocketAddr,
    /// From its start until it was ready.
    pub(crate) ready: Duration,
}

impl Controller {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Starts the tests' control plane.
fn plane() -> anyhow::Result<(PathBuf, Plane)> {
    let beside = std::env::current_exe()?.with_file_name("test-cluster");
    let mut child = Command::new(&beside)
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{}", beside.display()))?;
    let said = child.stdout.take().context("the control plane says nothing")?;
    let plane = Plane(child);
    let line = BufReader::new(said).lines().next().context("the control plane did not start")??;
    let path = line.strip_prefix("export KUBECONFIG=").context("no kubeconfig was named")?;
    Ok((path.into(), plane))
}

/// The addresses of gRPC and admin, as the log tells them. What is logged after is read and
/// dropped, so that the controller never waits for a reader.
fn addresses(log: std::process::ChildStderr) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let mut lines = BufReader::new(log).lines();
    let mut seen = Vec::new();
    while let Some(line) = lines.next().transpose()? {
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |name| {
            let text = entry.pointer(name).and_then(Value::as_str)?;
            // A port that may be closed is told as an option.
            text.trim_start_matches("Some(").trim_end_matches(')').parse().ok()
        };
        if let (Some(grpc), Some(admin)) = (address("/fields/grpc"), address("/fields/admin")) {
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((grpc, admin));
        }
        seen.push(line);
    }
    bail!("the controller said nothing of its addresses: {}", seen.join("\n"))
}

async fn is_ready(admin: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(admin).await?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    ask.await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// Path of an object, or with an empty name of all of its kind.
fn path(object: &Value) -> anyhow::Result<String> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").context("an object has a kind")?;
    let name = text("/metadata/name").context("an object has a name")?;
    let ours = "/apis/policy.linkerd.io";
    let (base, plural) = match kind {
        "Namespace" => ("/api/v1".to_owned(), "namespaces"),
        "Node" => ("/api/v1".to_owned(), "nodes"),
        "Pod" => (format!("/api/v1/namespaces/{NAMESPACE}"), "pods"),
        "Server" => (format!("{ours}/v1beta3/namespaces/{NAMESPACE}"), "servers"),
        "AuthorizationPolicy" => {
            (format!("{ours}/v1alpha1/namespaces/{NAMESPACE}"), "authorizationpolicies")
        }
        "NetworkAuthentication" => {
            (format!("{ours}/v1alpha1/namespaces/{NAMESPACE}"), "networkauthentications")
        }
        other => bail!("{other}: not of this measurement"),
    };
    Ok(if name.is_empty() { format!("{base}/{plural}") } else { format!("{base}/{plural}/{name}") })
}
