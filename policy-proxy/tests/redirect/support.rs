//! Network namespaces: a pod, a client outside of it, and a link between them.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, SockRef, Socket, Type};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A timeout for every step, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const POD: [IpAddr; 2] = [v4(2), v6(2)];
/// Further addresses of the pod's interface, which are not the pod's.
pub(crate) const SECOND: [IpAddr; 2] = [v4(20), v6(20)];
pub(crate) const CLIENT: [IpAddr; 2] = [v4(3), v6(3)];

pub(crate) const fn v4(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, host))
}

pub(crate) const fn v6(host: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host))
}

/// Creates the world of a test, or skips the test visibly. In continuous integration a skip is a
/// failure.
pub(crate) fn world_or_skip() -> Option<World> {
    let root = rustix::process::geteuid().is_root();
    let programs = ["nft", "iptables", "iptables-legacy", "ip", "unshare", "nsenter", "setpriv"];
    let missing: Vec<&str> =
        programs.into_iter().filter(|program| find(program).is_none()).collect();
    if root && missing.is_empty() {
        return Some(World::new());
    }
    let missing = format!("root ({root}), installed programs (without {})", missing.join(", "));
    policy_testkit::skip(&missing);
    None
}

/// Path of a system program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    folders.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

/// A network namespace. It ends with the process that holds it, which ends with this one.
pub(crate) struct Namespace {
    holder: Child,
    file: File,
}

impl Namespace {
    fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let file = File::open(format!("/proc/{}/ns/net", holder.id())).unwrap();
        Self { holder, file }
    }

    /// Runs `work` on a thread inside; its sockets stay there.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.file.as_fd(), network).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }

    /// A command that runs inside.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg("--").args(words);
        command.stdin(Stdio::null());
        // The tests' own environment variables are no settings of a proxy.
        let told = std::env::vars_os().map(|(name, _)| name);
        for name in told.filter(|name| name.as_encoded_bytes().starts_with(b"PORTCULLIS_")) {
            command.env_remove(name);
        }
        command
    }

    /// Output of a command that must succeed.
    pub(crate) fn run(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        let output = self.command(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sends `script` to a command that must succeed.
    pub(crate) fn feed(&self, words: &[&str], script: &str) {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{words:?}: {script}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A pod and a client, linked; and files of this test.
pub(crate) struct World {
    pub(crate) pod: Namespace,
    pub(crate) client: Namespace,
    pub(crate) files: TempDir,
}

impl World {
    fn new() -> Self {
        let (pod, client) = (Namespace::new(), Namespace::new());
        let other = format!("/proc/{}/ns/net", client.holder.id());
        pod.run(&format!("ip link add eth0 type veth peer name eth0 netns {other}"));
        for (side, addresses) in [(&pod, [POD, SECOND].as_slice()), (&client, [CLIENT].as_slice())]
        {
            side.run("ip link set lo up");
            side.run("ip link set eth0 up");
            for [four, six] in addresses {
                side.run(&format!("ip address add {four}/24 dev eth0"));
                // Without duplicate address detection.
                side.run(&format!("ip address add {six}/64 dev eth0 nodad"));
            }
        }
        let files = tempfile::Builder::new().prefix("redirect").tempdir_in("/tmp").unwrap();
        // The sidecar's user looks for its binary here.
        std::fs::set_permissions(files.path(), permissions(0o755)).unwrap();
        Self { pod, client, files }
    }

    /// `policy-proxy redirect` in the pod.
    pub(crate) fn redirect(&self, arguments: &str) -> Output {
        self.redirect_as(&[], None, arguments)
    }

    /// The same through a wrapper command, with programs from one directory only.
    pub(crate) fn redirect_as(
        &self,
        before: &[&str],
        path: Option<&Path>,
        arguments: &str,
    ) -> Output {
        let mut words = before.to_vec();
        words.extend([env!("CARGO_BIN_EXE_policy-proxy"), "redirect"]);
        words.extend(arguments.split_whitespace());
        if let Some(path) = path {
            // `env` is found before the path is replaced.
            let path = format!("PATH={}", path.display());
            let words: Vec<&str> = ["env", &path].into_iter().chain(words).collect();
            return self.pod.command(&words).output().unwrap();
        }
        self.pod.command(&words).output().unwrap()
    }

    /// A directory with nothing but links to programs, each under a name of its own.
    pub(crate) fn programs(&self, links: &[(&str, &str)]) -> PathBuf {
        let folder = self.files.path().join("programs");
        std::fs::create_dir(&folder).unwrap();
        for (name, program) in links {
            std::os::unix::fs::symlink(find(program).unwrap(), folder.join(name)).unwrap();
        }
        folder
    }

    /// A connection from the client to `to`.
    pub(crate) fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.client.inside(|| connect(to))
    }
}

pub(crate) fn permissions(mode: u32) -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}

pub(crate) fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A connection as a listener saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The listener's port.
    pub(crate) at: u16,
    pub(crate) from: IpAddr,
    /// The original destination from netfilter; absent if there is none.
    pub(crate) original: Option<SocketAddr>,
}

/// Listeners in the pod, for both families. Each writes its port's number to the client and reports
/// the connection.
pub(crate) struct Listeners {
    seen: Receiver<Seen>,
}

impl Listeners {
    pub(crate) fn start(pod: &Namespace, ports: &[u16]) -> Self {
        let (tell, seen) = channel();
        for port in ports.iter().copied() {
            let listener = pod.inside(|| listener(port));
            let tell = tell.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let mut stream = stream;
                    let from = stream.peer_addr().unwrap().ip().to_canonical();
                    let seen = Seen { at: port, from, original: original(&stream, from) };
                    // The test may have ended, or the client.
                    let _ = tell.send(seen);
                    let _ = write!(stream, "{port}");
                }
            });
        }
        Self { seen }
    }

    /// The next connection.
    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).unwrap()
    }

    /// Connections that were not taken yet.
    pub(crate) fn more(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

/// Listens on every address of both families.
pub(crate) fn listener(port: u16) -> TcpListener {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    socket.set_only_v6(false).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into()).unwrap();
    socket.listen(128).unwrap();
    socket.into()
}

/// The original destination from netfilter.
pub(crate) fn original(stream: &TcpStream, from: IpAddr) -> Option<SocketAddr> {
    let socket = SockRef::from(stream);
    let address = match from {
        IpAddr::V4(_) => socket.original_dst_v4(),
        IpAddr::V6(_) => socket.original_dst_v6(),
    };
    address.ok()?.as_socket()
}

/// Reads to the end. A reset is an end too: a socket that is closed with unread bytes sends one.
pub(crate) fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8(bytes).unwrap()
}

/// Runs `work` as a user; for a thread of its own.
pub(crate) fn as_user<T>(user: u32, work: impl FnOnce() -> T) -> T {
    rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user)).unwrap();
    work()
}
