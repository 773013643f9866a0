//! The controller as it is installed: its binary, as a process of its own.

use super::process::{Home, Process};
use super::programs;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Most that the controller may take for anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most that its admin port may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Answer of `/ready` where nothing else is missing.
const WITHOUT_CERTIFICATE: &str = "not ready: the webhooks have no certificate";

/// `policy-controller` against a cluster. Killed when dropped, or when this process dies.
#[derive(Debug)]
pub struct ControllerProcess {
    process: Process,
    admin: SocketAddr,
    grpc: SocketAddr,
    // After the process in it.
    _home: Home,
}

/// Settings of a controller that is started.
#[derive(Clone, Debug)]
pub struct ControllerBuilder {
    subcommand: &'static str,
    /// Flags of addresses, which are free ports of loopback unless given.
    addresses: &'static [&'static str],
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl ControllerBuilder {
    /// More flags of the subcommand.
    #[must_use]
    pub fn flags<S: AsRef<OsStr>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(flags.into_iter().map(|flag| flag.as_ref().to_owned()));
        self
    }

    /// A variable of its environment, for instance what `faketime` preloads.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts it and waits until the admin port answers.
    ///
    /// # Errors
    /// If it ends or never listens, with the end of its log.
    pub async fn start(self) -> Result<ControllerProcess> {
        let home = Home::new()?;
        let mut command = Command::new(programs::controller()?);
        command.arg(self.subcommand).args(["--log-format", "json"]);
        for flag in self.addresses.iter().copied() {
            if !self.names(flag) {
                command.args([flag, "127.0.0.1:0"]);
            }
        }
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        let mut process = home.run("policy-controller", &mut command)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((grpc, admin)) = process.log().lines().find_map(addresses)
                && get(admin, "/live").await.is_ok()
            {
                return Ok(ControllerProcess { process, admin, grpc, _home: home });
            }
            if let Some(status) = process.ended()? {
                bail!("the controller ended: {status}\n{}", process.tail());
            }
            if Instant::now() > deadline {
                bail!("the controller does not listen\n{}", process.tail());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn names(&self, flag: &str) -> bool {
        self.arguments.iter().filter_map(|argument| argument.to_str()).any(|argument| {
            argument.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    }
}

impl ControllerProcess {
    /// Starts a controller on the cluster that the file names, on free ports.
    ///
    /// # Errors
    /// As [`ControllerBuilder::start`].
    pub async fn start(kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        Self::builder(kubeconfig).flags(flags).start().await
    }

    /// For a controller with an environment of its own.
    pub fn builder(kubeconfig: &Path) -> ControllerBuilder {
        let arguments = vec!["--kubeconfig".into(), kubeconfig.into()];
        let addresses = &["--grpc-addr", "--admin-addr", "--server-addr"];
        ControllerBuilder { subcommand: "run", addresses, arguments, environment: Vec::new() }
    }

    /// For a controller on a directory of manifests.
    pub fn of_directory(manifests: &Path) -> ControllerBuilder {
        let addresses = &["--grpc-addr", "--admin-addr"];
        let arguments = vec!["--manifests".into(), manifests.into()];
        ControllerBuilder { subcommand: "run", addresses, arguments, environment: Vec::new() }
    }

    /// For an issuer, `policy-controller issuer`, which is started, asked and ended in the same ways.
    pub fn issuer(kubeconfig: &Path) -> ControllerBuilder {
        let addresses = &["--grpc-addr", "--admin-addr"];
        ControllerBuilder { subcommand: "issuer", addresses, ..Self::builder(kubeconfig) }
    }

    /// Address of its admin port.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Address at which it serves policies.
    pub fn grpc(&self) -> SocketAddr {
        self.grpc
    }

    /// Address of its admission webhook; none if it is not served.
    pub fn admission(&self) -> Option<SocketAddr> {
        self.process.log().lines().find_map(|line| listening(line, "admission"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// All it logged so far.
    pub fn logs(&self) -> String {
        self.process.log()
    }

    /// Status and body of `GET /ready`; without an answer status 0 and the reason.
    pub async fn ready(&self) -> (u16, String) {
        get(self.admin, "/ready").await.unwrap_or_else(|error| (0, format!("{error:#}")))
    }

    /// The metrics page; empty: it does not answer.
    pub async fn metrics(&self) -> String {
        get(self.admin, "/metrics").await.map(|(_, page)| page).unwrap_or_default()
    }

    /// Any page of the admin port: status and body.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        get(self.admin, path).await
    }

    /// Waits until `/ready` answers 200, or that nothing is missing but the webhooks' certificate: a
    /// controller whose namespace does not exist has no place to keep one, and the tests that need it
    /// make that namespace.
    ///
    /// # Errors
    /// If it never does, with what it says instead and the end of the log.
    pub async fn wait_ready(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, body) = self.ready().await;
            if status == 200 || body.trim_end() == WITHOUT_CERTIFICATE {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("not ready: {status} {body}\n{}", self.process.tail());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops it in its tracks: connections stay open, nothing is answered.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to shut down, as the kubelet does, and waits until it has. Killed if it takes longer
    /// than a minute.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.process.ended(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process.kill();
    }

    fn signal(&self, signal: &str) {
        if let Err(error) = self.process.signal(signal) {
            panic!("{error}\n{}", self.process.tail());
        }
    }
}

/// The line that says where it listens.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    Some((listening(line, "grpc")?, listening(line, "admin")?))
}

fn listening(line: &str, name: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    line["fields"][name].as_str()?.parse().ok()
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        anyhow::Ok(response)
    };
    let response = timeout(ANSWER, exchange)
        .await
        .with_context(|| format!("no answer from {address}{path}"))??;
    let (head, body) = response.split_once("\r\n\r\n").context("not an HTTP response")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}
