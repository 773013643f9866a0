//! `hostnames`.

use crate::parse::host;
use crate::reader::{Fields, JsonNode, quote};
use policy_core::HostPattern;

/// Absent and empty mean every host.
pub(super) fn hostnames(spec: &Fields<'_>) -> Option<Vec<HostPattern>> {
    let Some(node) = spec.get("hostnames") else { return Some(Vec::new()) };
    let hosts: Vec<Option<HostPattern>> = node.list_up_to(16)?.iter().map(hostname).collect();
    hosts.into_iter().collect()
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
pub(super) fn check(text: &str) -> Result<(), &'static str> {
    if text == "*" {
        return Err("is not a host name, leave `hostnames` out to match every host");
    }
    host::check(text)
}
