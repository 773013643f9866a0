//! The tools that write rules.

use crate::support::*;
use std::path::PathBuf;

/// All tools that write rules: their flags, and the programs in the path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    Nft,
    Iptables,
    /// Without nft, and with iptables-legacy as the default iptables.
    Legacy,
}

pub(crate) const TOOLS: [Tool; 3] = [Tool::Nft, Tool::Iptables, Tool::Legacy];

impl Tool {
    fn mode(self) -> &'static str {
        match self {
            Self::Nft => "--mode nft",
            Self::Iptables => "--mode iptables",
            Self::Legacy => "--mode auto",
        }
    }

    pub(crate) fn path(self, world: &World) -> Option<PathBuf> {
        match self {
            Self::Nft | Self::Iptables => None,
            Self::Legacy => Some(world.programs(&[
                ("iptables", "iptables-legacy"),
                ("iptables-save", "iptables-legacy-save"),
                ("iptables-restore", "iptables-legacy-restore"),
                ("ip6tables-save", "ip6tables-legacy-save"),
                ("ip6tables-restore", "ip6tables-legacy-restore"),
            ])),
        }
    }

    /// All rules of the pod, without counters.
    pub(crate) fn listed(self, world: &World) -> String {
        let listed = match self {
            Self::Nft => world.pod.run("nft list ruleset"),
            Self::Iptables => {
                world.pod.run("iptables-nft-save") + &world.pod.run("ip6tables-nft-save")
            }
            Self::Legacy => {
                world.pod.run("iptables-legacy-save") + &world.pod.run("ip6tables-legacy-save")
            }
        };
        let rules = listed.lines().filter(|line| !line.starts_with(['#', ':']));
        rules.collect::<Vec<_>>().join("\n")
    }

    /// Commands that remove the rules of the pod's own connections, of one family where the tool has
    /// two.
    pub(crate) fn without_local_rules(self) -> &'static [&'static str] {
        match self {
            Self::Nft => &["nft flush chain inet portcullis local"],
            Self::Iptables => &[
                "iptables-nft -t nat -F PORTCULLIS_LOCAL",
                "ip6tables-nft -t nat -F PORTCULLIS_LOCAL",
            ],
            Self::Legacy => &[
                "iptables-legacy -t nat -F PORTCULLIS_LOCAL",
                "ip6tables-legacy -t nat -F PORTCULLIS_LOCAL",
            ],
        }
    }

    /// Changes the rules so that connections bypass the sidecar.
    pub(crate) fn tamper(self, world: &World, how: usize) {
        let commands = match self {
            Self::Nft => [
                "nft insert rule inet portcullis inbound accept",
                "nft flush chain inet portcullis inbound",
                "nft add table inet portcullis { flags dormant; }",
            ],
            Self::Iptables => [
                "iptables-nft -t nat -I PREROUTING -p tcp -j ACCEPT",
                "ip6tables-nft -t nat -F PORTCULLIS_INBOUND",
                "ip6tables-nft -t nat -D PREROUTING 1",
            ],
            Self::Legacy => [
                "iptables-legacy -t nat -I PREROUTING -p tcp -j ACCEPT",
                "ip6tables-legacy -t nat -F PORTCULLIS_INBOUND",
                "ip6tables-legacy -t nat -D PREROUTING 1",
            ],
        };
        let words: Vec<&str> = match commands[how].split_once(" {") {
            Some((before, after)) => before.split(' ').chain(["{", after]).collect(),
            None => commands[how].split(' ').collect(),
        };
        let output = world.pod.command(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    }
}

/// Runs `redirect` and asserts its exit code and a part of its output.
#[track_caller]
pub(crate) fn wants(
    tool: Tool,
    world: &World,
    path: Option<&PathBuf>,
    flags: &str,
    end: (i32, &str),
) {
    let (code, part) = end;
    let flags = format!("{} {flags}", tool.mode());
    let output = world.redirect_as(&[], path.map(PathBuf::as_path), &flags);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{tool:?} {flags}: {said}");
    assert!(said.contains(part), "{tool:?} {flags}: expected {part}, got {said}");
}
