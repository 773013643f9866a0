//! A second node of the cluster, which is an address on the pods' bridge and nothing else.

use super::super::process::{Home, Process};
use super::sandbox::{Sandbox, run};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::{Duration, Instant};

/// `$1` and `$2` are the addresses, `$3` and `$4` those of the bridge.
const SETUP: &str = r#"set -e
ip link set lo up
ip address add "$1/16" dev eth0
ip address add "$2/64" dev eth0 nodad
ip link set eth0 up
ip route add default via "$3"
ip -6 route add default via "$4"
"#;

/// The network of the second node.
#[derive(Debug)]
pub(super) struct Second {
    sandbox: Sandbox,
    process: Process,
}

impl Second {
    pub(super) fn start(home: &Home, sandbox: &Sandbox) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "1000000"]);
        let process = sandbox.run(home, "second-node", &mut command)?;
        let mut second = Self { sandbox: sandbox.clone(), process };
        second.wait()?;
        // By this machine's number of the process: the link begins in this machine's network, where
        // both its ends are moved from.
        let pid = second.process.id().to_string();
        let first = sandbox.init().to_string();
        run(Command::new("ip")
            .args(["link", "add", "portcullis-two", "netns", &first, "type"])
            .args(["veth", "peer", "name", "eth0", "netns", &pid]))?;
        run(sandbox.command("ip").args(["link", "set", "portcullis-two", "master", "cni0", "up"]))?;
        let addresses = [Sandbox::SECOND.to_string(), Sandbox::SECOND_V6.to_string()];
        let gateways = [Sandbox::BRIDGE.to_string(), Sandbox::BRIDGE_V6.to_string()];
        run(second.command("sh").args(["-c", SETUP, "sh"]).args(addresses).args(gateways))?;
        Ok(second)
    }

    /// Until its network is its own: `unshare` has become `sleep`.
    fn wait(&mut self) -> Result<()> {
        let path = format!("/proc/{}/cmdline", self.process.id());
        let deadline = Instant::now() + Duration::from_secs(30);
        while !std::fs::read(&path).unwrap_or_default().starts_with(b"sleep\0") {
            if self.process.ended()?.is_some() || Instant::now() > deadline {
                bail!("the second node has no network\n{}", self.process.tail());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// A command that runs on it.
    pub(super) fn command(&self, program: &str) -> Command {
        self.sandbox.command_in_network_of(self.process.id(), program)
    }
}
