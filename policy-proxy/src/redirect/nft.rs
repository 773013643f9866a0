//! Rules as one nft table of Portcullis, for IPv4 and IPv6, replaced in one transaction.

use super::rules::{Ports, Rules, RulesState};
use super::tool::{self, ToolError};
use serde_json::{Value, json};

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

/// The nft script of the rules. `local` redirects nothing. It lists connections that must never be
/// redirected, and it makes kernels that call a hook only if a chain registers for it track the
/// pod's own connections here, so that they are not redirected on their way back in through the
/// loopback device.
fn script(rules: &Rules) -> String {
    let Rules { inbound, user, excluded } = rules;
    let ports: Vec<String> = excluded.iter().map(|ports| ports.to_text('-')).collect();
    let ports = match ports.as_slice() {
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    };
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
    meta skuid {user} return
    oifname \"lo\" return
  }}
}}
"
    )
}

/// The expected output of `nft -n -j list` for [`script`], without handles.
fn expected(rules: &Rules) -> Vec<Value> {
    let Rules { inbound, user, excluded } = rules;
    let port = |ports: &Ports| match *ports {
        Ports { first, last } if first == last => json!(first),
        Ports { first, last } => json!({ "range": [first, last] }),
    };
    let ports: Vec<Value> = excluded.iter().map(port).collect();
    let ports = match <[Value; 1]>::try_from(ports) {
        Ok([one]) => one,
        Err(several) => json!({ "set": several }),
    };
    let chain = |name, hook| {
        json!({ "chain": { "family": "inet", "table": "portcullis", "name": name, "type": "nat",
            "hook": hook, "prio": -100, "policy": "accept" } })
    };
    let rule = |chain, left: Value, right: Value, then: Value| {
        let matches = json!({ "match": { "op": "==", "left": left, "right": right } });
        json!({ "rule": { "family": "inet", "table": "portcullis", "chain": chain,
            "expr": [matches, then] } })
    };
    let meta = |key| json!({ "meta": { "key": key } });
    let leave = || json!({ "return": null });
    let destination = json!({ "payload": { "protocol": "tcp", "field": "dport" } });
    let redirect = json!({ "redirect": { "port": inbound } });
    vec![
        json!({ "table": { "family": "inet", "name": "portcullis" } }),
        chain("inbound", "prerouting"),
        chain("local", "output"),
        rule("inbound", meta("iifname"), json!("lo"), leave()),
        rule("inbound", destination, ports, leave()),
        rule("inbound", meta("l4proto"), json!(TCP), redirect),
        rule("local", meta("skuid"), json!(user), leave()),
        rule("local", meta("oifname"), json!("lo"), leave()),
    ]
}

/// Protocol number of TCP (IANA, Protocol Numbers).
const TCP: u8 = 6;

/// The output of `nft -j list`.
#[derive(serde::Deserialize)]
struct Listing {
    nftables: Vec<Value>,
}

impl Listing {
    /// Removes the tool's version and the kernel's handles.
    fn stripped(self) -> Vec<Value> {
        let mut items = self.nftables;
        items.retain(|item| item.get("metainfo").is_none());
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            for body in item.values_mut().filter_map(Value::as_object_mut) {
                body.remove("handle");
            }
        }
        items
    }
}

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
    use crate::redirect::rules::tests::rules;

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
