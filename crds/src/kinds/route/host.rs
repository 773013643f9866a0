//! `hostnames`.

use crate::parse::name::is_dns_name;
use crate::reader::{Fields, JsonNode, quote};
use policy_core::HostPattern;
use policy_core::host::canonical_host;
use std::net::IpAddr;

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
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    if text == "*" {
        return Err("is not a host name, leave `hostnames` out to match every host");
    }
    if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        return Err("is an address, only host names are allowed");
    }
    if name.contains(':') {
        return Err("has a port, hosts are matched without it");
    }
    if !name.is_ascii() {
        return Err("has characters outside ASCII, write it as `xn--…`");
    }
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("has upper-case letters, write it in lower case");
    }
    if name.contains('*') {
        return Err("has a `*` that is not the whole first label");
    }
    if name.ends_with('.') {
        return Err("ends with a dot, leave it out");
    }
    if !is_dns_name(name) {
        return Err(
            "is not a host name: labels of letters, digits and inner `-` with dots between",
        );
    }
    if canonical_host(name).map(|host| host.name).as_deref() != Ok(name) {
        return Err("looks like an address, no request has it as a host name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use policy_core::HostPattern;
    use policy_core::host::canonical_host;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_accepted_is_a_canonical_host(text in "(\\*\\.)?[a-cA-C0-3._*:é\\[\\]-]{0,12}") {
            if check(&text).is_ok() {
                let name = text.strip_prefix("*.").unwrap_or(&text);
                prop_assert_eq!(canonical_host(name).unwrap().name, name);
                let pattern = HostPattern::parse(&text);
                let host = if name == text { name.to_owned() } else { format!("x.{name}") };
                prop_assert!(pattern.admits(&host));
            }
        }
    }
}
