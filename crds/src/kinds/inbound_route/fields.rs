//! The names of fields, their bounds, and how a host is read.

use crate::parse::host;
use crate::reader::{JsonNode, quote};
use policy_core::HostPattern;

/// The fields of the spec.
pub(super) const SPEC: &[&str] = &["virtualhost", "delegatedFrom", "routes"];
/// The fields of a virtual host.
pub(super) const VIRTUAL_HOST: &[&str] =
    &["fqdn", "aliases", "targetRef", "tls", "accessList", "allowRegexChildren"];
/// The fields of a rule.
pub(super) const RULE: &[&str] = &["match", "servers", "serve", "delegate", "serverAuthorizations"];
/// The fields of a rule that say how it is answered.
pub(super) const ACTIONS: &[&str] = &["servers", "serve", "delegate"];

/// The most rules of an object, Servers of a rule, and entries of `delegatedFrom`.
pub(super) const MAX_RULES: usize = 64;
pub(super) const MAX_SERVERS: usize = 8;
pub(super) const MAX_CONSENTS: usize = 16;
/// The most aliases and networks.
pub(super) const MAX_ALIASES: usize = 16;
pub(super) const MAX_NETWORKS: usize = 32;

/// A host name, or `*.name`.
pub(super) fn hostname(node: &JsonNode<'_>) -> Option<HostPattern> {
    let text = node.text_up_to(254)?;
    match host::pattern(text) {
        Ok(host) => Some(host),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}
