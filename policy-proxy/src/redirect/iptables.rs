//! Rules as chains of Portcullis in the `nat` tables of iptables and ip6tables.
//!
//! Each family is one transaction of `iptables-restore --noflush`. Other rules are not changed; the
//! jumps to the chains of Portcullis come first.

use super::rules::{OutboundRules, Rules, RulesState};
use super::tool::{self, ToolError};
use std::net::IpAddr;
use std::path::Path;

/// The variant of iptables, by the kernel interface that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iptables {
    /// The system's default iptables; today on nf_tables.
    Default,
    /// iptables-legacy, for kernels without nf_tables.
    Legacy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

const INBOUND: &str = "PORTCULLIS_INBOUND";
const LOCAL: &str = "PORTCULLIS_LOCAL";
const JUMPS: [(&str, &str); 2] = [("PREROUTING", INBOUND), ("OUTPUT", LOCAL)];

impl Iptables {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "iptables",
            Self::Legacy => "iptables-legacy",
        }
    }

    pub(super) fn apply(self, rules: &Rules) -> Result<(), ToolError> {
        for family in families() {
            let chains = Chains::of(&self.saved(family)?);
            self.restore(family, &chains.replaced(rules, family))?;
        }
        Ok(())
    }

    pub(super) fn undo(self) -> Result<(), ToolError> {
        for family in families() {
            let chains = Chains::of(&self.saved(family)?);
            if chains.exist() {
                self.restore(family, &chains.removed())?;
            }
        }
        Ok(())
    }

    /// Compares the rules in the kernel; [`RulesState::Absent`] if neither family has any.
    pub(super) fn state(self, rules: &Rules) -> Result<RulesState, ToolError> {
        let mut absent = 0_usize;
        let mut differs = None;
        let families = families();
        for family in families.iter().copied() {
            let chains = Chains::of(&self.saved(family)?);
            if !chains.exist() {
                absent = absent.saturating_add(1);
                differs.get_or_insert(format!("{}: no rules", self.program(family, "")));
            } else if let Some(difference) = chains.difference(rules, family) {
                differs.get_or_insert(format!("{}: {difference}", self.program(family, "")));
            }
        }
        Ok(match differs {
            None => RulesState::Same,
            Some(_) if absent == families.len() => RulesState::Absent,
            Some(difference) => RulesState::Differs(difference),
        })
    }

    fn program(self, family: Family, action: &str) -> String {
        let family = match family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        let interface = match self {
            Self::Default => "",
            Self::Legacy => "-legacy",
        };
        format!("{family}{interface}{action}")
    }

    /// Saves all existing tables: naming a table would create it with iptables-legacy.
    fn saved(self, family: Family) -> Result<String, ToolError> {
        tool::run(&self.program(family, "-save"), &[], "")
    }

    fn restore(self, family: Family, input: &str) -> Result<(), ToolError> {
        let wait = ["--noflush", "--wait", "10"];
        tool::run(&self.program(family, "-restore"), &wait, input).map(drop)
    }
}

/// True if the system's default iptables is iptables-legacy.
pub(super) fn is_legacy() -> bool {
    let version = tool::run("iptables", &["--version"], "");
    version.is_ok_and(|version| !version.contains("nf_tables"))
}

/// Both families, unless the kernel has no IPv6.
fn families() -> Vec<Family> {
    families_with(Path::new("/proc/self/net/if_inet6").exists())
}

fn families_with(ipv6: bool) -> Vec<Family> {
    if ipv6 { vec![Family::V4, Family::V6] } else { vec![Family::V4] }
}

/// The rules of Portcullis in the nat table, as `iptables-save` writes them.
#[derive(Debug, Default)]
struct Chains {
    /// For each of [`JUMPS`]: the rules of the chain that jumps.
    from: [Vec<String>; 2],
    /// For each of [`JUMPS`]: the rules of its target chain; absent if the chain does not exist.
    own: [Option<Vec<String>>; 2],
}

impl Chains {
    fn of(saved: &str) -> Self {
        let mut chains = Self::default();
        let nat = saved.lines().skip_while(|line| *line != "*nat").skip(1);
        for line in nat.take_while(|line| !line.starts_with('*') && *line != "COMMIT") {
            let mut words = line.split(' ');
            let (Some(first), second) = (words.next(), words.next()) else { continue };
            let slots = JUMPS.iter().zip(chains.from.iter_mut().zip(chains.own.iter_mut()));
            for ((from, own), (from_rules, own_rules)) in slots {
                if first.strip_prefix(':') == Some(own) {
                    own_rules.get_or_insert_default();
                } else if first == "-A" && second == Some(own) {
                    own_rules.get_or_insert_default().push(line.to_owned());
                } else if first == "-A" && second == Some(from) {
                    from_rules.push(line.to_owned());
                }
            }
        }
        chains
    }

    fn exist(&self) -> bool {
        self.own.iter().any(Option::is_some)
    }

    /// Deletions of all jumps to the chains of Portcullis.
    fn jumps(&self) -> impl Iterator<Item = String> {
        let lines = self.from.iter().flatten();
        let ours =
            |line: &&String| JUMPS.iter().any(|(_, own)| line.ends_with(&format!(" -j {own}")));
        lines.filter(ours).map(|line| line.replacen("-A ", "-D ", 1))
    }

    fn replaced(&self, rules: &Rules, family: Family) -> String {
        // Naming a chain creates or flushes it.
        let mut lines = vec!["*nat".to_owned()];
        lines.extend(JUMPS.map(|(_, own)| format!(":{own} - [0:0]")));
        lines.extend(self.jumps());
        lines.extend(wanted(rules, family).concat());
        lines.extend(JUMPS.map(|(from, own)| format!("-I {from} 1 -p tcp -j {own}")));
        with_commit(lines)
    }

    fn removed(&self) -> String {
        let mut lines = vec!["*nat".to_owned()];
        lines.extend(self.jumps());
        for (own, (_, name)) in self.own.iter().zip(JUMPS) {
            if own.is_some() {
                lines.extend([format!("-F {name}"), format!("-X {name}")]);
            }
        }
        with_commit(lines)
    }

    /// Returns the first difference from the expected rules.
    fn difference(&self, rules: &Rules, family: Family) -> Option<String> {
        for ((from, own), found) in JUMPS.iter().zip(&self.from) {
            let jump = format!("-A {from} -p tcp -j {own}");
            if found.first() != Some(&jump) {
                return Some(format!("expected `{jump}` to be the first rule of {from}"));
            }
        }
        for (wanted, found) in wanted(rules, family).iter().zip(&self.own) {
            let found = found.as_deref().unwrap_or_default();
            if wanted != found {
                let surplus = found.iter().find(|line| !wanted.contains(line));
                let missing = wanted.iter().find(|line| !found.contains(line));
                return Some(match (missing, surplus) {
                    (Some(missing), _) => format!("missing: `{missing}`"),
                    (None, Some(surplus)) => format!("not ours: `{surplus}`"),
                    (None, None) => "the rules are in another order, or one is there twice".into(),
                });
            }
        }
        None
    }
}

fn with_commit(mut lines: Vec<String>) -> String {
    lines.extend(["COMMIT".to_owned(), String::new()]);
    lines.join("\n")
}

/// The expected rules of each chain. As with nft, `LOCAL` redirects nothing without outbound rules.
fn wanted(rules: &Rules, family: Family) -> [Vec<String>; 2] {
    let Rules { inbound, user, excluded, outbound } = rules;
    let mut redirected = vec![format!("-A {INBOUND} -i lo -j RETURN")];
    redirected.extend(excluded.iter().map(|ports| {
        format!("-A {INBOUND} -p tcp -m tcp --dport {} -j RETURN", ports.to_text(':'))
    }));
    redirected.push(format!("-A {INBOUND} -p tcp -j REDIRECT --to-ports {inbound}"));
    let mut local = Vec::new();
    local.extend(outbound.as_ref().and_then(|outbound| canary(outbound, family)));
    local.push(format!("-A {LOCAL} -m owner --uid-owner {user} -j RETURN"));
    local.push(format!("-A {LOCAL} -o lo -j RETURN"));
    if let Some(outbound) = outbound {
        local.extend(others(outbound, family));
    }
    [redirected, local]
}

/// The rule of the canary, if its address is of this family.
fn canary(rules: &OutboundRules, family: Family) -> Option<String> {
    let canary = rules.canary.filter(|canary| family.has(canary.ip()))?;
    let length = if canary.is_ipv4() { 32 } else { 128 };
    let (address, number, port) = (canary.ip(), canary.port(), rules.port);
    Some(format!(
        "-A {LOCAL} -d {address}/{length} -p tcp -m tcp --dport {number} -j REDIRECT --to-ports {port}"
    ))
}

/// The rules after the exemptions of the sidecar and of the loopback device.
fn others(rules: &OutboundRules, family: Family) -> Vec<String> {
    let OutboundRules { port, networks, excluded, canary: _ } = rules;
    let mut lines = vec![format!("-A {LOCAL} -m addrtype --dst-type LOCAL -j RETURN")];
    let networks = networks.iter().filter(|network| family.has(network.addr()));
    lines.extend(networks.map(|network| format!("-A {LOCAL} -d {network} -j RETURN")));
    lines.extend(
        excluded.iter().map(|ports| {
            format!("-A {LOCAL} -p tcp -m tcp --dport {} -j RETURN", ports.to_text(':'))
        }),
    );
    lines.push(format!("-A {LOCAL} -p tcp -j REDIRECT --to-ports {port}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redirect::rules::tests::{both, rules};

    const FOREIGN: &str = "\
*filter
:INPUT ACCEPT [0:0]
-A INPUT -j PORTCULLIS_INBOUND
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OTHER - [0:0]
-A PREROUTING -p tcp -j OTHER
-A OTHER -j RETURN
COMMIT
";

    /// Output of `iptables-save` for 4143, 4191 and 8000 to 8001, and a foreign rule.
    const SAVED: &str = "\
# Generated by iptables-save
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:PORTCULLIS_INBOUND - [0:0]
:PORTCULLIS_LOCAL - [0:0]
-A PREROUTING -p tcp -j PORTCULLIS_INBOUND
-A PREROUTING -p tcp -j OTHER
-A OUTPUT -p tcp -j PORTCULLIS_LOCAL
-A PORTCULLIS_INBOUND -i lo -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 4143 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 4191 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 8000:8001 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -j REDIRECT --to-ports 4143
-A PORTCULLIS_LOCAL -m owner --uid-owner 2102 -j RETURN
-A PORTCULLIS_LOCAL -o lo -j RETURN
COMMIT
";

    #[test]
    fn what_is_there_is_replaced_and_nothing_of_others_is_touched() {
        let rules = rules(4143, 4191, &[8000, 8001]);
        let fresh = "\
*nat
:PORTCULLIS_INBOUND - [0:0]
:PORTCULLIS_LOCAL - [0:0]
-A PORTCULLIS_INBOUND -i lo -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 4143 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 4191 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 8000:8001 -j RETURN
-A PORTCULLIS_INBOUND -p tcp -j REDIRECT --to-ports 4143
-A PORTCULLIS_LOCAL -m owner --uid-owner 2102 -j RETURN
-A PORTCULLIS_LOCAL -o lo -j RETURN
-I PREROUTING 1 -p tcp -j PORTCULLIS_INBOUND
-I OUTPUT 1 -p tcp -j PORTCULLIS_LOCAL
COMMIT
";
        assert_eq!(Chains::of(FOREIGN).replaced(&rules, Family::V4), fresh);
        let chains = ":PORTCULLIS_LOCAL - [0:0]\n";
        let jumps =
            "-D PREROUTING -p tcp -j PORTCULLIS_INBOUND\n-D OUTPUT -p tcp -j PORTCULLIS_LOCAL\n";
        let again = fresh.replace(chains, &format!("{chains}{jumps}"));
        assert_eq!(Chains::of(SAVED).replaced(&rules, Family::V4), again);
    }

    #[test]
    fn what_is_there_is_removed() {
        let removed = "\
*nat
-D PREROUTING -p tcp -j PORTCULLIS_INBOUND
-D OUTPUT -p tcp -j PORTCULLIS_LOCAL
-F PORTCULLIS_INBOUND
-X PORTCULLIS_INBOUND
-F PORTCULLIS_LOCAL
-X PORTCULLIS_LOCAL
COMMIT
";
        assert_eq!(Chains::of(SAVED).removed(), removed);
        assert!(!Chains::of(FOREIGN).exist() && !Chains::of("").exist());
    }

    #[test]
    fn a_difference_is_named() {
        let rules = rules(4143, 4191, &[8000, 8001]);
        let difference = |saved: &str| Chains::of(saved).difference(&rules, Family::V6);
        assert_eq!(difference(SAVED), None);
        let first = "-A PREROUTING -p tcp -j PORTCULLIS_INBOUND\n";
        let later = SAVED.replace(first, "").replace("OTHER\n", &format!("OTHER\n{first}"));
        assert_eq!(
            difference(&later).unwrap(),
            "expected `-A PREROUTING -p tcp -j PORTCULLIS_INBOUND` to be the first rule of PREROUTING"
        );
        let port = "-A PORTCULLIS_INBOUND -p tcp -m tcp --dport 4191 -j RETURN";
        assert_eq!(
            difference(&SAVED.replace(&format!("{port}\n"), "")).unwrap(),
            format!("missing: `{port}`")
        );
        let more = port.replace("4191", "80");
        assert_eq!(
            difference(&SAVED.replace(port, &format!("{more}\n{port}"))).unwrap(),
            format!("not ours: `{more}`")
        );
        assert_eq!(
            difference(&SAVED.replace(port, &format!("{port}\n{port}"))).unwrap(),
            "the rules are in another order, or one is there twice"
        );
    }

    #[test]
    fn outbound_rules_name_the_canary_and_the_networks_of_their_family() {
        let local = |canary, family| wanted(&both(canary), family)[1].join("\n");
        let exempt = "\
-A PORTCULLIS_LOCAL -m owner --uid-owner 2102 -j RETURN
-A PORTCULLIS_LOCAL -o lo -j RETURN
-A PORTCULLIS_LOCAL -m addrtype --dst-type LOCAL -j RETURN
";
        let rest = "\
-A PORTCULLIS_LOCAL -p tcp -m tcp --dport 25 -j RETURN
-A PORTCULLIS_LOCAL -p tcp -m tcp --dport 53 -j RETURN
-A PORTCULLIS_LOCAL -p tcp -m tcp --dport 3306:3307 -j RETURN
-A PORTCULLIS_LOCAL -p tcp -j REDIRECT --to-ports 4140";
        let four = format!(
            "{exempt}-A PORTCULLIS_LOCAL -d 169.254.0.0/16 -j RETURN
-A PORTCULLIS_LOCAL -d 10.0.0.9/32 -j RETURN
-A PORTCULLIS_LOCAL -d 192.0.2.0/24 -j RETURN
{rest}"
        );
        let six = format!("{exempt}-A PORTCULLIS_LOCAL -d fe80::/10 -j RETURN\n{rest}");
        let canary = "-A PORTCULLIS_LOCAL -d 127.0.0.127/32 -p tcp -m tcp --dport 4192 -j REDIRECT --to-ports 4140";
        assert_eq!(local(None, Family::V4), four);
        assert_eq!(local(Some("127.0.0.127:4192"), Family::V4), format!("{canary}\n{four}"));
        assert_eq!(local(Some("127.0.0.127:4192"), Family::V6), six);
        let canary = canary.replace("127.0.0.127/32", "fd00::9/128");
        assert_eq!(local(Some("[fd00::9]:4192"), Family::V6), format!("{canary}\n{six}"));
        assert_eq!(local(Some("[fd00::9]:4192"), Family::V4), four);
    }

    #[test]
    fn without_ipv6_in_the_kernel_only_ipv4_is_written() {
        assert_eq!(families_with(false), [Family::V4]);
        assert_eq!(families_with(true), [Family::V4, Family::V6]);
    }
}
