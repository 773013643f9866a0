//! Rules as one nft table of Portcullis, for IPv4 and IPv6, replaced in one transaction.

use super::rules::{OutboundRules, Ports, Rules, RulesState};
use super::tool::{self, ToolError};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::num::NonZeroU16;

/// Replaces the table.
pub(super) fn apply(rules: &Rules) -> Result<(), ToolError> {
    tool::run("nft", &["-f", "-"], &script(rules)).map(drop)
}

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
    Ok(compare(&expected(rules), &found.stripped()))
}

/// Deletes the table; declaring it first avoids an error if it does not exist.
const REMOVE: &str = "table inet portcullis\ndelete table inet portcullis\n";

/// The nft script of the rules. Without outbound rules `local` redirects nothing. It lists
/// connections that must never be redirected, and it makes kernels that call a hook only if a chain
/// registers for it track the pod's own connections here, so that they are not redirected on their
/// way back in through the loopback device.
fn script(rules: &Rules) -> String {
    let Rules { inbound, user, excluded, outbound } = rules;
    let ports = one_or_set(excluded);
    let (canary, others) = outbound.as_ref().map(outbound_lines).unwrap_or_default();
    format!(
        "{REMOVE}table inet portcullis {{
  chain inbound {{
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
}}
"
    )
}

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
fn expected(rules: &Rules) -> Vec<Value> {
    let Rules { inbound, user, excluded, outbound } = rules;
    let chain = |name, hook| {
        json!({ "chain": { "family": "inet", "table": "portcullis", "name": name, "type": "nat",
            "hook": hook, "prio": -100, "policy": "accept" } })
    };
    let leave = || json!({ "return": null });
    let mut all = vec![
        json!({ "table": { "family": "inet", "name": "portcullis" } }),
        chain("inbound", "prerouting"),
        chain("local", "output"),
        rule("inbound", [matches(meta("iifname"), json!("lo"))], leave()),
        rule("inbound", [matches(destination("tcp", "dport"), ports_of(excluded))], leave()),
        rule("inbound", [matches(meta("l4proto"), json!(TCP))], redirect(*inbound)),
    ];
    let (canary, others) = outbound.as_ref().map(expected_outbound).unwrap_or_default();
    all.extend(canary);
    all.push(rule("local", [matches(meta("skuid"), json!(user))], leave()));
    all.push(rule("local", [matches(meta("oifname"), json!("lo"))], leave()));
    all.extend(others);
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
    /// a single flag as an array.
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
        items
    }
}

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
            script(&rules(4143, 4191, &[22, 8000, 8001])),
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
        assert!(script(&rules(4190, 4191, &[])).contains("tcp dport 4190-4191 return"));
    }

    #[test]
    fn outbound_rules_come_in_the_order_in_which_they_exempt() {
        let local = |canary| {
            let script = script(&both(canary));
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
        let wanted = expected(&both(None));
        let mut older = wanted.clone();
        let flags = older.iter_mut().find_map(|item| item.pointer_mut(FIB_FLAGS)).unwrap();
        *flags = json!(["daddr"]);
        assert_ne!(older, wanted);
        assert_eq!(Listing { nftables: older }.stripped(), wanted);
    }

    #[test]
    fn a_difference_is_named() {
        let wanted = expected(&rules(4143, 4191, &[]));
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
        let changed = expected(&rules(4144, 4191, &[]));
        assert!(differs(&changed).starts_with("expected "));
    }
}
