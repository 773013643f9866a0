//! Rules as one nft table of Portcullis, for IPv4 and IPv6, replaced in one transaction.
//!
//! Beside the redirection the table bounds how long connection tracking keeps a connection that both
//! sides have ended: [`ENDED`] seconds in place of the system's two minutes. A redirected connection
//! has two entries, its own and that of the connection to the application, so that short connections
//! would fill the table. nft fills in the states that an object does not name with defaults of its own,
//! so that the object sets the timeouts of all states of these connections, whatever the node's sysctls
//! (`net.netfilter.nf_conntrack_tcp_timeout_*`) say. Kernels without timeouts of connection tracking have
//! the rules without them.

use super::rules::{OutboundRules, Ports, Rules, RulesState};
use super::tool::{self, ToolError};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::IpAddr;
use std::num::NonZeroU16;

/// The bound on entries of connections that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// [`ENDED`] seconds.
    Bounded,
    /// The system's own.
    System,
}

/// Replaces the table.
pub(super) fn apply(rules: &Rules) -> Result<(), ToolError> {
    let load = |ended| tool::run("nft", &["-f", "-"], &script(rules, ended)).map(drop);
    match load(Ended::Bounded) {
        Err(refused @ ToolError::Refused(..)) => load(Ended::System).inspect(|()| {
            // Ignored: the rules are in place even if the line is not read.
            let _ = writeln!(io::stderr(), "policy-proxy: {WITHOUT}: {refused}");
        }),
        loaded => loaded,
    }
}

/// The line about a kernel that refused the rules with timeouts.
const WITHOUT: &str = "the rules have no timeouts of connection tracking";

/// Removes the table, if it exists.
pub(super) fn undo() -> Result<(), ToolError> {
    tool::run("nft", &["-f", "-"], REMOVE).map(drop)
}

/// Compares the table.
pub(super) fn state(rules: &Rules) -> Result<RulesState, ToolError> {
    // Numeric, because names of protocols need /etc/protocols, which an image may lack.
    let list = ["-n", "-j", "list", "table", "inet", "portcullis"];
    let listed = match tool::run("nft", &list, "") {
        Ok(listed) => listed,
        Err(ToolError::Refused(_, said)) if said.contains("No such file or directory") => {
            // nft prints the same where the kernel has no nf_tables, in which case this command
            // fails too.
            return tool::run("nft", &["list", "tables"], "").map(|_| RulesState::Absent);
        }
        Err(failure) => return Err(failure),
    };
    let unreadable =
        |error: serde_json::Error| ToolError::Unreadable("nft".to_owned(), error.to_string());
    let found: Listing = serde_json::from_str(&listed).map_err(unreadable)?;
    let found = found.stripped();
    let is_bounded = found.iter().any(|item| item.get("ct timeout").is_some());
    let ended = if is_bounded { Ended::Bounded } else { Ended::System };
    Ok(compare(&expected(rules, ended), &found))
}

/// Deletes the table; declaring it first avoids an error if it does not exist.
const REMOVE: &str = "table inet portcullis\ndelete table inet portcullis\n";

/// The nft script of the rules. Without outbound rules `local` redirects nothing. It lists
/// connections that must never be redirected, and it makes kernels that call a hook only if a chain
/// registers for it track the pod's own connections here, so that they are not redirected on their
/// way back in through the loopback device.
fn script(rules: &Rules, ended: Ended) -> String {
    let Rules { inbound, user, excluded, outbound } = rules;
    let ports = one_or_set(excluded);
    let (canary, others) = outbound.as_ref().map(outbound_lines).unwrap_or_default();
    let (object, chains) = match ended {
        Ended::Bounded => ended_lines(),
        Ended::System => Default::default(),
    };
    format!(
        "{REMOVE}table inet portcullis {{
{object}  chain inbound {{
    type nat hook prerouting priority -100; policy accept;
    iifname \"lo\" return
    tcp dport {ports} return
    meta l4proto tcp redirect to :{inbound}
  }}
  chain local {{
    type nat hook output priority -100; policy accept;
{canary}    meta skuid {user} return
    oifname \"lo\" return
{others}  }}
{chains}}}
"
    )
}

/// The object that bounds entries of connections that have ended, and the chains that give it to each
/// new connection, behind connection tracking (-200) and before the rules of redirection (-100).
fn ended_lines() -> (String, String) {
    let object =
        format!("  ct timeout ended {{ protocol tcp; policy = {{ time_wait: {ENDED} }}; }}\n");
    let chains = ENDED_CHAINS.map(|(name, hook)| {
        format!(
            "  chain {name} {{
    type filter hook {hook} priority -150; policy accept;
    ct timeout set \"ended\"
  }}
"
        )
    });
    (object, chains.concat())
}

/// Seconds for which connection tracking keeps a connection that both sides have ended: several
/// retransmissions of the last segment, in place of the system's two minutes.
const ENDED: u8 = 10;

/// The chains that bound entries, with their hooks.
const ENDED_CHAINS: [(&str, &str); 2] =
    [("inbound_ended", "prerouting"), ("local_ended", "output")];

/// The lines of the outbound rules before the exemption of the sidecar, and those after the one of
/// the loopback device.
fn outbound_lines(rules: &OutboundRules) -> (String, String) {
    let OutboundRules { port, canary, networks, excluded } = rules;
    let canary = canary.map(|canary| {
        let (protocol, address) = (protocol(canary.ip()), canary.ip());
        format!("    {protocol} daddr {address} tcp dport {} redirect to :{port}\n", canary.port())
    });
    let networks: String = networks
        .iter()
        .map(|network| format!("    {} daddr {network} return\n", protocol(network.addr())))
        .collect();
    let ports = one_or_set(excluded);
    let others = format!(
        "    fib daddr type local return
{networks}    tcp dport {ports} return
    meta l4proto tcp redirect to :{port}
"
    );
    (canary.unwrap_or_default(), others)
}

fn one_or_set(ports: &[Ports]) -> String {
    let ports: Vec<String> = ports.iter().map(|ports| ports.to_text('-')).collect();
    match ports.as_slice() {
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    }
}

/// The protocol of an address, as nft names it.
fn protocol(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

/// The expected output of `nft -n -j list` for [`script`], without handles.
fn expected(rules: &Rules, ended: Ended) -> Vec<Value> {
    let Rules { inbound, user, excluded, outbound } = rules;
    let chain = |name, kind, hook, priority| {
        json!({ "chain": { "family": "inet", "table": "portcullis", "name": name, "type": kind,
            "hook": hook, "prio": priority, "policy": "accept" } })
    };
    let leave = || json!({ "return": null });
    let bounds = ENDED_CHAINS.into_iter().filter(|_| ended == Ended::Bounded);
    let mut all = vec![json!({ "table": { "family": "inet", "name": "portcullis" } })];
    if ended == Ended::Bounded {
        all.push(json!({ "ct timeout": { "family": "inet", "name": "ended", "table": "portcullis",
            "protocol": TCP, "l3proto": "inet", "policy": { "time_wait": ENDED } } }));
    }
    all.extend([
        chain("inbound", "nat", "prerouting", -100),
        chain("local", "nat", "output", -100),
    ]);
    all.extend(bounds.clone().map(|(name, hook)| chain(name, "filter", hook, -150)));
    all.extend([
        rule("inbound", [matches(meta("iifname"), json!("lo"))], leave()),
        rule("inbound", [matches(destination("tcp", "dport"), ports_of(excluded))], leave()),
        rule("inbound", [matches(meta("l4proto"), json!(TCP))], redirect(*inbound)),
    ]);
    let (canary, others) = outbound.as_ref().map(expected_outbound).unwrap_or_default();
    all.extend(canary);
    all.push(rule("local", [matches(meta("skuid"), json!(user))], leave()));
    all.push(rule("local", [matches(meta("oifname"), json!("lo"))], leave()));
    all.extend(others);
    all.extend(bounds.map(|(name, _)| rule(name, [], json!({ "ct timeout": "ended" }))));
    all
}

/// The rules of [`outbound_lines`].
fn expected_outbound(rules: &OutboundRules) -> (Option<Value>, Vec<Value>) {
    let OutboundRules { port, canary, networks, excluded } = rules;
    let leave = || json!({ "return": null });
    let canary = canary.map(|canary| {
        let address = destination(protocol(canary.ip()), "daddr");
        let address = matches(address, json!(canary.ip()));
        let number = matches(destination("tcp", "dport"), json!(canary.port()));
        rule("local", [address, number], redirect(*port))
    });
    // `fib` takes numbers for types of routes, as `-n` asks: 2 is a local address.
    let own = json!({ "fib": { "result": "type", "flags": "daddr" } });
    let mut others = vec![rule("local", [matches(own, json!(LOCAL))], leave())];
    others.extend(networks.iter().map(|network| {
        let left = destination(protocol(network.addr()), "daddr");
        rule("local", [matches(left, network_of(*network))], leave())
    }));
    others.push(rule("local", [matches(destination("tcp", "dport"), ports_of(excluded))], leave()));
    others.push(rule("local", [matches(meta("l4proto"), json!(TCP))], redirect(*port)));
    (canary, others)
}

fn rule<const N: usize>(chain: &str, matches: [Value; N], then: Value) -> Value {
    let steps: Vec<Value> = matches.into_iter().chain([then]).collect();
    json!({ "rule": { "family": "inet", "table": "portcullis", "chain": chain, "expr": steps } })
}

fn matches(left: Value, right: Value) -> Value {
    json!({ "match": { "op": "==", "left": left, "right": right } })
}

fn meta(key: &str) -> Value {
    json!({ "meta": { "key": key } })
}

fn destination(protocol: &str, field: &str) -> Value {
    json!({ "payload": { "protocol": protocol, "field": field } })
}

fn redirect(port: NonZeroU16) -> Value {
    json!({ "redirect": { "port": port } })
}

fn ports_of(ports: &[Ports]) -> Value {
    let port = |ports: &Ports| match *ports {
        Ports { first, last } if first == last => json!(first),
        Ports { first, last } => json!({ "range": [first, last] }),
    };
    match ports {
        [one] => port(one),
        several => json!({ "set": several.iter().map(port).collect::<Vec<_>>() }),
    }
}

fn network_of(network: IpNet) -> Value {
    if network.prefix_len() == network.max_prefix_len() {
        return json!(network.addr());
    }
    json!({ "prefix": { "addr": network.addr(), "len": network.prefix_len() } })
}

/// Protocol number of TCP (IANA, Protocol Numbers).
const TCP: u8 = 6;
/// Type of the route of an address of this network namespace (rtnetlink(7), `RTN_LOCAL`).
const LOCAL: u8 = 2;

/// The output of `nft -j list`.
#[derive(serde::Deserialize)]
struct Listing {
    nftables: Vec<Value>,
}

impl Listing {
    /// Removes the tool's version and the kernel's handles. Of `fib`, older versions of nft list
    /// a single flag as an array. Of timeouts, nft lists the protocol's name, in spite of `-n`, where
    /// /etc/protocols has it; an image may lack that file.
    fn stripped(self) -> Vec<Value> {
        let mut items = self.nftables;
        items.retain(|item| item.get("metainfo").is_none());
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            for body in item.values_mut().filter_map(Value::as_object_mut) {
                body.remove("handle");
            }
        }
        for flags in items.iter_mut().filter_map(|item| item.pointer_mut(FIB_FLAGS)) {
            if let Some([flag]) = flags.as_array().map(Vec::as_slice) {
                *flags = flag.clone();
            }
        }
        for protocol in items.iter_mut().filter_map(|item| item.pointer_mut(TIMEOUT_PROTOCOL)) {
            if protocol == "tcp" {
                *protocol = json!(TCP);
            }
        }
        items
    }
}

/// The protocol of an object of timeouts.
const TIMEOUT_PROTOCOL: &str = "/ct timeout/protocol";

/// The flags of a rule that begins with a match of `fib`.
const FIB_FLAGS: &str = "/rule/expr/0/match/left/fib/flags";

fn compare(expected: &[Value], found: &[Value]) -> RulesState {
    if expected == found {
        return RulesState::Same;
    }
    let missing = expected.iter().find(|item| !found.contains(item));
    let surplus = found.iter().find(|item| !expected.contains(item));
    RulesState::Differs(match (missing, surplus) {
        (Some(missing), Some(surplus)) => format!("expected {missing}, found {surplus}"),
        (Some(missing), None) => format!("missing: {missing}"),
        (None, Some(surplus)) => format!("not ours: {surplus}"),
        (None, None) => "the rules are in another order, or one is there twice".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redirect::rules::tests::{both, rules};

    #[test]
    fn the_script_replaces_one_table_of_our_own() {
        assert_eq!(
            script(&rules(4143, 4191, &[22, 8000, 8001]), Ended::System),
            "table inet portcullis
delete table inet portcullis
table inet portcullis {
  chain inbound {
    type nat hook prerouting priority -100; policy accept;
    iifname \"lo\" return
    tcp dport { 22, 4143, 4191, 8000-8001 } return
    meta l4proto tcp redirect to :4143
  }
  chain local {
    type nat hook output priority -100; policy accept;
    meta skuid 2102 return
    oifname \"lo\" return
  }
}
"
        );
        let script = script(&rules(4190, 4191, &[]), Ended::Bounded);
        assert!(script.contains("tcp dport 4190-4191 return"));
        let (before, after) = script.split_once("  chain inbound {").unwrap();
        assert_eq!(
            before.strip_prefix(REMOVE).unwrap(),
            "table inet portcullis {
  ct timeout ended { protocol tcp; policy = { time_wait: 10 }; }
"
        );
        assert!(after.ends_with(
            "  }
  chain inbound_ended {
    type filter hook prerouting priority -150; policy accept;
    ct timeout set \"ended\"
  }
  chain local_ended {
    type filter hook output priority -150; policy accept;
    ct timeout set \"ended\"
  }
}
"
        ));
    }

    #[test]
    fn outbound_rules_come_in_the_order_in_which_they_exempt() {
        let local = |canary| {
            let script = script(&both(canary), Ended::System);
            script.split_once("  chain local {\n").unwrap().1.to_owned()
        };
        let rest = "    meta skuid 2102 return
    oifname \"lo\" return
    fib daddr type local return
    ip daddr 169.254.0.0/16 return
    ip6 daddr fe80::/10 return
    ip daddr 10.0.0.9/32 return
    ip daddr 192.0.2.0/24 return
    tcp dport { 25, 53, 3306-3307 } return
    meta l4proto tcp redirect to :4140
  }
}
";
        let head = "    type nat hook output priority -100; policy accept;\n";
        assert_eq!(local(None), format!("{head}{rest}"));
        for (canary, line) in [
            ("127.0.0.127:4192", "    ip daddr 127.0.0.127 tcp dport 4192 redirect to :4140\n"),
            ("[fd00::9]:1", "    ip6 daddr fd00::9 tcp dport 1 redirect to :4140\n"),
        ] {
            assert_eq!(local(Some(canary)), format!("{head}{line}{rest}"));
        }
    }

    #[test]
    fn versions_of_nft_that_list_a_flag_in_an_array_agree() {
        let wanted = expected(&both(None), Ended::Bounded);
        let mut older = wanted.clone();
        let flags = older.iter_mut().find_map(|item| item.pointer_mut(FIB_FLAGS)).unwrap();
        *flags = json!(["daddr"]);
        assert_ne!(older, wanted);
        assert_eq!(Listing { nftables: older }.stripped(), wanted);
    }

    #[test]
    fn with_and_without_names_of_protocols_the_listed_rules_are_the_same() {
        let wanted = expected(&rules(4143, 4191, &[]), Ended::Bounded);
        let mut named = wanted.clone();
        let protocol = named.iter_mut().find_map(|item| item.pointer_mut(TIMEOUT_PROTOCOL));
        *protocol.unwrap() = json!("tcp");
        for listed in [named, wanted.clone()] {
            assert_eq!(Listing { nftables: listed }.stripped(), wanted);
        }
    }

    #[test]
    fn a_difference_is_named() {
        let wanted = expected(&rules(4143, 4191, &[]), Ended::System);
        let differs = |found: &[Value]| match compare(&wanted, found) {
            RulesState::Differs(text) => text,
            RulesState::Same | RulesState::Absent => panic!("{found:?}"),
        };
        assert_eq!(compare(&wanted, &wanted), RulesState::Same);
        assert!(differs(&wanted[..7]).starts_with("missing: {\"rule\""));
        let mut more = wanted.clone();
        more.push(json!({ "rule": {} }));
        assert_eq!(differs(&more), "not ours: {\"rule\":{}}");
        let mut other = wanted.clone();
        other.swap(3, 5);
        assert_eq!(differs(&other), "the rules are in another order, or one is there twice");
        let changed = expected(&rules(4144, 4191, &[]), Ended::System);
        assert!(differs(&changed).starts_with("expected "));
    }
}
