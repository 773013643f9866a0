//! Namespaces of a node: network, mounts and processes of its own, which all end with one process.

use super::super::certificates::Certificates;
use super::super::process::{Home, Process};
use super::super::skip::Missing;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The cgroup under which the kubelet keeps those of pods: the node's own, because what is left of an
/// earlier node is taken away while the next one starts.
pub(super) fn cgroup(home: &Path) -> &str {
    home.file_name().and_then(|name| name.to_str()).unwrap_or("portcullis-node")
}

/// Process 1: collects the processes that lost their parent, as shims do.
const INIT: &str = "trap '' INT TERM HUP; while :; do sleep 1000000 & wait; done";

/// Makes room for what programs insist on having in fixed places, and the bridge of the pods, which has
/// other addresses than the node, as with kubenet and flannel.
/// `$1` is the folder of the node, `$2` the bridge's address, `$3` its IPv6 address, `$4` the end of
/// the link, `$5` its other end, `$6` the node's address, `$7` its IPv6 address.
const SETUP: &str = r#"set -e
mount --make-rshared /
for folder in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs $folder; done
mkdir -p /run/netns /run/lock /var/log/pods /var/log/containers /var/lib/kubelet
ip link set lo up
set_to() { [ ! -e "/proc/sys/net/$1" ] || echo "$2" > "/proc/sys/net/$1"; }
set_to ipv4/ip_forward 1
set_to ipv6/conf/all/disable_ipv6 0
set_to ipv6/conf/default/disable_ipv6 0
# Nobody else could have an address, so nobody is asked, which takes a second.
set_to ipv6/conf/all/accept_dad 0
set_to ipv6/conf/default/accept_dad 0
set_to ipv6/conf/all/forwarding 1
# Pods of one node reach Services over the bridge, past the node's routing.
set_to bridge/bridge-nf-call-iptables 1
set_to bridge/bridge-nf-call-ip6tables 1
ip link add cni0 type bridge
ip address add "$2/16" dev cni0
ip address add "$3/64" dev cni0 nodad
ip link set cni0 up
ip address add "$6/32" dev lo
ip address add "$7/128" dev lo nodad
ip address add "$4/30" dev link0
ip link set link0 up
ip route add default via "$5"
"#;

/// The namespaces of a node. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Process 1 of it, as this machine counts.
    init: u32,
}

impl Sandbox {
    /// The interface of this machine that leads to the node. Removed with the node's network.
    pub const LINK: &str = "portcullis-node";
    /// Address of this machine at which the node's listeners on every address are reached.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 1);
    /// This machine, as pods see it: in the cluster's networks, and no node.
    pub const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 2);
    /// The node, by its Node object.
    pub const NODE: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
    /// The node, by its Node object.
    pub const NODE_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 0x89, 0, 0, 0, 0, 0, 1);
    /// The pods' default gateway, from which the node reaches them: the first of its pod network.
    pub const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
    /// The pods' default gateway, from which the node reaches them: the first of its pod network.
    pub const BRIDGE_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 0x88, 0, 0, 0, 0, 0, 1);
    /// The networks of the node's pods.
    pub const POD_NETWORKS: [&str; 2] = ["10.88.0.0/16", "fd10:88::/64"];
    /// The second node.
    pub const SECOND: Ipv4Addr = Ipv4Addr::new(10, 88, 255, 2);
    /// The second node.
    pub const SECOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 0x88, 0, 0, 0, 0, 0, 0xff02);
    /// The first address of Services: the API server's.
    const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

    /// Checks that this machine has `tools` and that we are root.
    pub(super) fn check(tools: &[(&str, &str)]) -> Result<()> {
        let id = Command::new("id").arg("-u").output().context("id")?;
        if id.stdout.trim_ascii() != b"0" {
            return Err(Missing::new("a node for tests needs root").into());
        }
        let found = |tool: &str| {
            let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/lib/cni"];
            folders.iter().any(|folder| Path::new(folder).join(tool).is_file())
        };
        let mut packages: Vec<&str> =
            tools.iter().filter(|(tool, _)| !found(tool)).map(|(_, package)| *package).collect();
        packages.dedup();
        if !packages.is_empty() {
            let packages = packages.join(" ");
            let text = format!("a node for tests needs the Debian packages {packages}");
            return Err(Missing::new(text).into());
        }
        // Compiled in, or a module that may not be loaded yet; without it the node says so below.
        _ = Command::new("modprobe").arg("br_netfilter").stderr(Stdio::null()).status();
        if !Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists() {
            return Err(Missing::new("a node for tests needs the kernel's br_netfilter").into());
        }
        Ok(())
    }

    /// Starts one. Ends with the process, which has to be kept.
    pub(super) fn start(home: &Home) -> Result<(Self, Process)> {
        remove_link();
        std::fs::write(home.path().join("cleanup"), cleanup(cgroup(home.path())))?;
        make_cgroup(cgroup(home.path()))?;
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", INIT]);
        let mut process = home.run("node", &mut command)?;
        let init = first_child(&mut process)?;
        let sandbox = Self { init };
        let [there, here] = [Self::ADDRESS, Self::MACHINE].map(|address| address.to_string());
        let (node, node_v6) = (Self::NODE.to_string(), Self::NODE_V6.to_string());
        let (bridge, bridge_v6) = (Self::BRIDGE.to_string(), Self::BRIDGE_V6.to_string());
        let pid = init.to_string();
        run(Command::new("ip").args([
            "link",
            "add",
            Self::LINK,
            "type",
            "veth",
            "peer",
            "name",
            "link0",
            "netns",
            &pid,
        ]))?;
        run(Command::new("ip").args(["address", "add", &format!("{here}/30"), "dev", Self::LINK]))?;
        run(Command::new("ip").args(["link", "set", Self::LINK, "up"]))?;
        for network in ["10.88.0.0/16", "10.96.0.0/16", &format!("{node}/32")] {
            run(Command::new("ip").args(["route", "replace", network, "via", &there]))?;
        }
        let folder = home.path().display().to_string();
        let arguments = ["sh", &folder, &bridge, &bridge_v6, &there, &here, &node, &node_v6];
        run(sandbox.command("sh").args(["-c", SETUP]).args(arguments))?;
        Ok((sandbox, process))
    }

    /// A command that runs in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--mount", "--pid", "--target", &self.init.to_string(), "--"])
            .arg(program);
        command
    }

    /// A command that runs in it, but in the network of another process.
    pub(super) fn command_in_network_of(&self, process: u32, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let init = self.init.to_string();
        command
            .arg(format!("--net=/proc/{process}/ns/net"))
            .args(["--mount", "--pid", "--target", &init, "--"])
            .arg(program);
        command
    }

    /// Process 1 of it, as this machine counts.
    pub(super) fn init(&self) -> u32 {
        self.init
    }

    /// Starts a process in it.
    pub(crate) fn run(&self, home: &Home, name: &str, command: &mut Command) -> Result<Process> {
        let mut inside = self.command(command.get_program());
        inside.args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        home.run_within(name, &mut inside)
    }

    /// Addresses that the API server's certificate is for.
    pub(crate) fn api_server_addresses() -> Vec<IpAddr> {
        vec![
            Self::ADDRESS.into(),
            Self::NODE.into(),
            Self::NODE_V6.into(),
            Self::API_SERVICE.into(),
        ]
    }

    /// Flags of an API server with nodes.
    pub(crate) fn api_server_flags(certificates: &Certificates) -> Vec<String> {
        vec![
            "--bind-address=::".to_owned(),
            format!("--advertise-address={}", Self::NODE),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16,fd10:96::/112".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-certificate-authority={}", certificates.authority.display()),
            format!("--kubelet-client-certificate={}", certificates.admin.certificate.display()),
            format!("--kubelet-client-key={}", certificates.admin.key.display()),
        ]
    }
}

/// Runs a command to its end; what it said is the error.
pub(super) fn run(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!(
            "{command:?}: {status}: {}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Removes the network of an earlier node: it lives as long as its processes take to die.
fn remove_link() {
    // Most often there is none.
    _ = Command::new("ip").args(["link", "delete", Sandbox::LINK]).stderr(Stdio::null()).status();
}

/// Removes the empty cgroups that are still there when the last process is gone.
fn cleanup(cgroup: &str) -> String {
    format!(
        "for attempt in 1 2 3 4 5 6 7 8 9 10; do\n\
         find /sys/fs/cgroup -depth -type d -path '*/{cgroup}*' -exec rmdir {{}} + 2>/dev/null\n\
         [ -n \"$(find /sys/fs/cgroup -maxdepth 2 -name {cgroup})\" ] || break\n\
         sleep 0.2\ndone\n"
    )
}

fn make_cgroup(cgroup: &str) -> Result<()> {
    let top = Path::new("/sys/fs/cgroup");
    if top.join("cgroup.controllers").exists() {
        std::fs::create_dir_all(top.join(cgroup))?;
        return Ok(());
    }
    for entry in std::fs::read_dir(top)? {
        let path = entry?.path();
        if path.join("cgroup.procs").exists() && !path.join(cgroup).exists() {
            std::fs::create_dir(path.join(cgroup))
                .with_context(|| path.join(cgroup).display().to_string())?;
        }
    }
    Ok(())
}

fn first_child(process: &mut Process) -> Result<u32> {
    let id = process.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let children = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            // `unshare` mounts /proc and becomes the shell in the child: only then is it ready.
            let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if command.starts_with(b"sh\0") {
                return Ok(child.parse()?);
            }
        }
        if process.ended()?.is_some() || Instant::now() > deadline {
            bail!("unshare: no namespaces\n{}", process.tail());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
