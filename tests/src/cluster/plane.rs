//! One etcd and one kube-apiserver.

use super::certificates::{Certificates, Pair};
use super::kubeconfig::{config_of, random};
use super::node::sandbox::Sandbox;
use super::process::{Home, Process};
use super::programs::Programs;
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use policy_testkit::free_port;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Most that a program may take to become ready, on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(super) struct ControlPlane {
    // First, so that it ends before what it stores in.
    api_server: Mutex<Option<Process>>,
    etcd: Process,
    ports: Ports,
    programs: Programs,
    certificates: Certificates,
    flags: Vec<String>,
    ground: Ground,
    kubeconfig: PathBuf,
    config: kube::Config,
}

/// Network in which a control plane runs.
#[derive(Clone, Debug)]
pub(super) enum Ground {
    /// On this machine's loopback, without nodes.
    Loopback,
    /// Beside a node.
    Node(Sandbox),
}

impl Ground {
    fn run(&self, home: &Home, name: &str, command: &mut Command) -> Result<Process> {
        match self {
            Self::Loopback => home.run(name, command),
            Self::Node(sandbox) => sandbox.run(home, name, command),
        }
    }

    /// Address at which clients on this machine find the API server.
    fn host(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Node(_) => Sandbox::ADDRESS.into(),
        }
    }

    /// Addresses of the API server beside loopback.
    fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Loopback => Vec::new(),
            Self::Node(_) => Sandbox::api_server_addresses(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    etcd: u16,
    peer: u16,
    api_server: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        Ok(Self { etcd: free_port()?, peer: free_port()?, api_server: free_port()? })
    }
}

impl ControlPlane {
    /// Starts both; with other ports where somebody else was quicker.
    pub(super) async fn start(
        home: &Home,
        programs: Programs,
        ground: Ground,
        flags: Vec<String>,
    ) -> Result<Self> {
        let certificates = Certificates::write(home.path(), &ground.addresses())?;
        let mut attempt = 0_u8;
        loop {
            let started =
                Self::try_start(home, &programs, &certificates, &ground, flags.clone()).await;
            attempt = attempt.saturating_add(1);
            match started {
                Err(error) if attempt < 4 && format!("{error:?}").contains("already in use") => {}
                started => return started,
            }
        }
    }

    async fn try_start(
        home: &Home,
        programs: &Programs,
        certificates: &Certificates,
        ground: &Ground,
        flags: Vec<String>,
    ) -> Result<Self> {
        let ports = Ports::free()?;
        let server = format!("https://{}:{}", ground.host(), ports.api_server);
        let kubeconfig = home.path().join("admin.kubeconfig");
        write_kubeconfig(&kubeconfig, &server, &certificates.authority, &certificates.admin)?;
        let config = config_of(&kubeconfig).await?;
        let etcd = ground.run(home, "etcd", &mut etcd_command(home, programs, ports))?;
        let plane = Self {
            api_server: Mutex::new(None),
            etcd,
            ports,
            programs: programs.clone(),
            certificates: certificates.clone(),
            flags,
            ground: ground.clone(),
            kubeconfig,
            config,
        };
        plane.start_api_server(home).await?;
        Ok(plane)
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(super) fn config(&self) -> &kube::Config {
        &self.config
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// A kubeconfig of a user who proves itself by `pair`.
    pub(super) fn kubeconfig_of(&self, folder: &Path, file: &str, pair: &Pair) -> Result<PathBuf> {
        let server = format!("https://{}:{}", self.ground.host(), self.ports.api_server);
        let path = folder.join(format!("{file}.kubeconfig"));
        write_kubeconfig(&path, &server, &self.certificates.authority, pair)?;
        Ok(path)
    }

    pub(super) fn kill_api_server(&mut self) {
        *self.api_server.get_mut() = None;
    }

    pub(super) async fn start_api_server(&self, home: &Home) -> Result<()> {
        let mut api_server = self.api_server.lock().await;
        *api_server = None;
        let mut command = self.api_server_command();
        let process = self.ground.run(home, "kube-apiserver", &mut command)?;
        self.wait_ready(api_server.insert(process)).await
    }

    async fn wait_ready(&self, api_server: &mut Process) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let client = kube::Client::try_from(self.config.clone())?;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let asked = tokio::time::timeout(PATIENCE, client.request_text(request)).await;
            let Err(answer) = asked.context("no answer").and_then(|asked| Ok(asked?)) else {
                return Ok(());
            };
            if let Some(status) = api_server.ended()? {
                bail!(
                    "kube-apiserver ended: {status}\n{}\n{}",
                    api_server.tail(),
                    self.etcd.tail()
                );
            }
            if Instant::now() > deadline {
                let (etcd, api_server) = (self.etcd.tail(), api_server.tail());
                bail!("kube-apiserver is not ready: {answer}\n{api_server}\n{etcd}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) fn signal_etcd(&self, signal: &str) {
        if let Err(error) = self.etcd.signal(signal) {
            panic!("{error}\n{}", self.etcd.tail());
        }
    }

    pub(super) fn signal_api_server(&self, signal: &str) {
        // Locked only while it starts.
        let api_server = self.api_server.try_lock().expect("kube-apiserver has started");
        match api_server.as_ref().map(|process| process.signal(signal)) {
            Some(Ok(())) => {}
            other => panic!("kube-apiserver was not sent {signal}: {other:?}"),
        }
    }

    pub(super) async fn compact(&self, home: &Home) -> Result<()> {
        *self.api_server.lock().await = None;
        let key = json!({"key": "AA=="});
        let range = self.etcd_call("range", &key).await?;
        let revision = range.pointer("/header/revision").cloned();
        let revision = revision.with_context(|| format!("etcd names no revision: {range}"))?;
        let request = json!({"revision": revision, "physical": true});
        self.etcd_call("compaction", &request).await?;
        self.start_api_server(home).await
    }

    /// Copies what etcd has into a folder of its own. Both programs are away meanwhile.
    pub(super) async fn back_up(&mut self, home: &Home) -> Result<PathBuf> {
        let backup = home.path().join(format!("backup-{:08x}", random()));
        let data = etcd_data(home, self.ports);
        self.replace_data(home, || copy(&data, &backup)).await?;
        Ok(backup)
    }

    /// Puts a copy in the place of what etcd has, its revisions included.
    pub(super) async fn restore(&mut self, home: &Home, backup: &Path) -> Result<()> {
        let data = etcd_data(home, self.ports);
        let put = || {
            std::fs::remove_dir_all(&data)?;
            copy(backup, &data)
        };
        self.replace_data(home, put).await
    }

    async fn replace_data(
        &mut self,
        home: &Home,
        replace: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.kill_api_server();
        self.etcd.kill();
        replace()?;
        let mut command = etcd_command(home, &self.programs, self.ports);
        self.etcd = self.ground.run(home, "etcd", &mut command)?;
        self.start_api_server(home).await
    }

    /// One call of etcd's key-value service, in its JSON form.
    async fn etcd_call(&self, method: &str, body: &Value) -> Result<Value> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let uri = format!("http://127.0.0.1:{}/v3/kv/{method}", self.ports.etcd);
        let body: Full<Bytes> = Full::from(serde_json::to_vec(body)?);
        let request = http::Request::post(uri).body(body)?;
        let response = client.request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("etcd, {method}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    fn api_server_command(&self) -> Command {
        let certificates = &self.certificates;
        let mut command = Command::new(self.programs.api_server());
        let mut path = |flag: &str, path: &Path| {
            command.arg(format!("--{flag}={}", path.display()));
        };
        path("client-ca-file", &certificates.authority);
        path("tls-cert-file", &certificates.serving.certificate);
        path("tls-private-key-file", &certificates.serving.key);
        path("service-account-key-file", &certificates.token_public_key);
        path("service-account-signing-key-file", &certificates.token_key);
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd))
            .arg(format!("--secure-port={}", self.ports.api_server))
            .args([
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                "--allow-privileged=true",
                // Its objects double the time to start.
                "--enable-priority-and-fairness=false",
                "--profiling=false",
            ])
            .args(match &self.ground {
                Ground::Loopback => LOOPBACK_FLAGS.map(str::to_owned).to_vec(),
                Ground::Node(_) => Sandbox::api_server_flags(&self.certificates),
            })
            .args(&self.flags);
        command
    }
}

/// An API server without nodes.
const LOOPBACK_FLAGS: [&str; 5] = [
    "--bind-address=127.0.0.1",
    "--authorization-mode=RBAC",
    "--service-cluster-ip-range=10.43.0.0/16",
    // Nobody makes service accounts, so pods come without.
    "--disable-admission-plugins=ServiceAccount",
    // The address of the API server is a loopback one, which no endpoint may have.
    "--endpoint-reconciler-type=none",
];

fn etcd_data(home: &Home, ports: Ports) -> PathBuf {
    home.path().join(format!("etcd-{}", ports.etcd))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().context("cp")?;
    if !copied.success() {
        bail!("{} could not be copied to {}", from.display(), to.display());
    }
    Ok(())
}

fn etcd_command(home: &Home, programs: &Programs, ports: Ports) -> Command {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    let data = etcd_data(home, ports);
    let mut command = Command::new(programs.etcd());
    command
        .arg(format!("--data-dir={}", data.display()))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        // What a test stores need not outlast the machine.
        .arg("--unsafe-no-fsync")
        .args(["--log-level", "warn"]);
    command
}

fn write_kubeconfig(path: &Path, server: &str, authority: &Path, user: &Pair) -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
        "clusters": [{"name": "tests", "cluster": {
            "server": server,
            "certificate-authority": authority,
        }}],
        "users": [{"name": "user", "user": {
            "client-certificate": user.certificate,
            "client-key": user.key,
        }}],
    });
    std::fs::write(path, serde_json::to_vec_pretty(&kubeconfig)?)?;
    Ok(())
}
