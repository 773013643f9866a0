//! The programs of one pod that are killed and started again at the same addresses, and an application that
//! outlives them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An application that answers every request and every other line, and counts what has a mark in it.
pub(crate) struct Application {
    pub(crate) address: SocketAddr,
    marked: Arc<AtomicUsize>,
}

impl Application {
    pub(crate) async fn start(mark: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let marked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&marked);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, mark, Arc::clone(&counter)));
            }
        });
        Self { address, marked }
    }

    /// Reads of bytes with the mark.
    pub(crate) fn reached(&self) -> usize {
        self.marked.load(Ordering::Relaxed)
    }
}

async fn answer(mut stream: TcpStream, mark: &str, marked: Arc<AtomicUsize>) {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        read.extend_from_slice(&buffer[..count]);
        if read.windows(mark.len()).any(|window| window == mark.as_bytes()) {
            marked.fetch_add(1, Ordering::Relaxed);
        }
        if !read.ends_with(b"\n") {
            continue;
        }
        let answer: &[u8] = if read.ends_with(b"\r\n\r\n") {
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        } else {
            b"."
        };
        read.clear();
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// A program that is killed when dropped.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SIGKILL. It may have ended by itself, which is told where it is missed.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The sidecar and the controller.
pub(crate) struct Programs {
    manifests: PathBuf,
    grpc: SocketAddr,
    forwards: String,
    controller: Option<Program>,
    sidecar: Option<Program>,
}

impl Programs {
    /// Starts both; `ports` has each listener of the sidecar with the port that it stands for.
    pub(crate) fn start(
        manifests: &Path,
        grpc: SocketAddr,
        ports: &[(SocketAddr, u16)],
        application: SocketAddr,
    ) -> Self {
        let forwards: Vec<String> =
            ports.iter().map(|(at, port)| format!("{at},{port},{application}")).collect();
        let mut programs = Self {
            manifests: manifests.to_path_buf(),
            grpc,
            forwards: forwards.join(" "),
            controller: None,
            sidecar: None,
        };
        programs.restart_controller();
        programs.restart_sidecar();
        programs
    }

    pub(crate) fn kill_controller(&mut self) {
        self.controller = None;
    }

    pub(crate) fn kill_sidecar(&mut self) {
        self.sidecar = None;
    }

    /// Starts the controller unless it runs.
    pub(crate) fn restart_controller(&mut self) {
        let (manifests, grpc) = (&self.manifests, self.grpc);
        self.controller.get_or_insert_with(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_policy-controller-under-test"));
            command.arg("run").arg("--manifests").arg(manifests);
            command.args(["--default-policy=all-unauthenticated", "--admin-addr=127.0.0.1:0"]);
            command.arg(format!("--grpc-addr={grpc}")).args(["--log-level", "error"]);
            Program::start(&mut command)
        });
    }

    /// Starts the sidecar unless it runs.
    pub(crate) fn restart_sidecar(&mut self) {
        let (forwards, grpc) = (&self.forwards, self.grpc);
        self.sidecar.get_or_insert_with(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_policy-proxy-under-test"));
            command.args(["run", "--identity", "none", "--workload", "shop:web"]);
            command.args(["--policy-addr", &grpc.to_string(), "--forward", forwards]);
            command.args(["--admin", "127.0.0.1:0", "--pending-timeout", "1s"]);
            command.args(["--log", "error"]);
            Program::start(&mut command)
        });
    }
}
