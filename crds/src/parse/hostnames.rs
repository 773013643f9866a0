//! `hostnames`.

use super::host;
use crate::reader::{Fields, JsonNode, quote};
use policy_core::HostPattern;

/// The hosts that can be read, and whether these are all. Absent and empty mean every host.
pub(crate) fn hostnames(spec: &Fields<'_>) -> (Vec<HostPattern>, bool) {
    let Some(node) = spec.get("hostnames") else { return (Vec::new(), true) };
    let Some(list) = node.list_up_to(16) else { return (Vec::new(), false) };
    let hosts: Vec<HostPattern> = list.iter().filter_map(hostname).collect();
    let all = hosts.len() == list.len();
    (hosts, all)
}

fn hostname(node: &JsonNode<'_>) -> Option<HostPattern> {
    let text = node.text_up_to(253)?;
    match check(text) {
        Ok(()) => Some(HostPattern::parse(text)),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

/// A name without port in canonical form; the reason follows the quoted text.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    if text == "*" {
        return Err("is not a host name, leave `hostnames` out to match every host");
    }
    host::check(text)
}
