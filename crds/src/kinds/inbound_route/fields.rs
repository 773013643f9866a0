//! The names of fields, and their bounds.

/// The fields of the spec.
pub(super) const SPEC: &[&str] = &["virtualhost", "delegatedFrom", "routes"];
/// The fields of a virtual host.
pub(super) const VIRTUAL_HOST: &[&str] =
    &["fqdn", "aliases", "targetRef", "tls", "accessList", "allowRegexChildren"];
/// The fields of a rule.
pub(super) const RULE: &[&str] = &["match", "servers", "serve", "delegate", "serverAuthorizations"];
/// The fields of a rule that say how it is answered.
pub(super) const ACTIONS: &[&str] = &["servers", "serve", "delegate"];

/// The most rules of an object, and Servers of a rule.
pub(super) const MAX_RULES: usize = 64;
pub(super) const MAX_SERVERS: usize = 8;
/// The most headers and hosts of an element of `allowFilters`.
pub(super) const MAX_ALLOWED: usize = 16;
/// The most aliases and networks.
pub(super) const MAX_ALIASES: usize = 16;
pub(super) const MAX_NETWORKS: usize = 32;
