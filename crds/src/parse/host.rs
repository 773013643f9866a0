//! Host names in configuration.

use super::name::is_dns_name;
use crate::reader::{JsonNode, quote};
use policy_core::HostPattern;
use policy_core::host::canonical_host;
use std::net::IpAddr;

/// The longest label of a name (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;
/// A host name, or `*.name`, as [`pattern`] reads it.
pub(crate) fn host(node: &JsonNode<'_>) -> Option<HostPattern> {
    let text = node.text_up_to(254)?;
    match pattern(text) {
        Ok(host) => Some(host),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

/// Reads a name or `*.name`. Case and one dot at the end do not matter. The reason of an error
/// follows the quoted text.
pub(crate) fn pattern(text: &str) -> Result<HostPattern, &'static str> {
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    check(name)?;
    Ok(HostPattern::parse(name))
}

/// Reads a hostname of a route; `None` if it is not one.
pub fn hostname(text: &str) -> Option<HostPattern> {
    pattern(text).ok()
}

/// A name without port in canonical form; the reason follows the quoted text.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        return Err("is an address, only host names are allowed");
    }
    if name.contains("://") {
        return Err("has a scheme, write the host alone");
    }
    if name.contains('/') {
        return Err("has a path, write the host alone");
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
    if name == "*" {
        return Err("has no name after the `*`, write `*.example.com`");
    }
    if name.contains('*') {
        return Err("has a `*` that is not the whole first label");
    }
    if name.ends_with('.') {
        return Err("ends with a dot, leave it out");
    }
    if name.split('.').any(|label| label.len() > MAX_LABEL) {
        return Err("has a part of more than 63 characters between dots");
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
