//! Client identities: DNS-like names, suffixes, and SPIFFE ids (docs/spec/controller.md 4).

use crate::reader::{JsonNode, quote, shared};
use policy_core::IdentityMatch;

/// An identity as a MeshTLSAuthentication may list it.
pub(crate) fn identity(node: &JsonNode<'_>) -> Option<IdentityMatch> {
    let text = node.text_up_to(MAX_IDENTITY)?;
    if let Some(rest) = text.strip_prefix("spiffe://") {
        if let Err(reason) = spiffe(rest) {
            node.error(format!("{} is not a SPIFFE id: {reason}", quote(text)));
            return None;
        }
        return Some(IdentityMatch::Exact(shared(text)));
    }
    dns(node, text)
}

/// An identity as a ServerAuthorization may list it: no SPIFFE ids.
pub(crate) fn dns_identity(node: &JsonNode<'_>) -> Option<IdentityMatch> {
    let text = node.text_up_to(MAX_IDENTITY)?;
    if text.starts_with("spiffe://") {
        node.error(format!(
            "{} is a SPIFFE id, which only a MeshTLSAuthentication may list",
            quote(text)
        ));
        return None;
    }
    dns(node, text)
}

/// Longest SPIFFE id (SPIFFE ID specification 2.3).
const MAX_IDENTITY: usize = 2048;

fn dns(node: &JsonNode<'_>, text: &str) -> Option<IdentityMatch> {
    let mut labels = text.split('.');
    let first = labels.next().unwrap_or_default();
    if (first == "*" || is_label(first)) && labels.all(is_label) {
        return Some(IdentityMatch::parse(text));
    }
    node.error(format!(
        "{} is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name{}",
        quote(text),
        of_istio(text).unwrap_or_default()
    ));
    None
}

/// True for a DNS label in lower case.
fn is_label(label: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = label.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Returns the trust domain, the namespace and the ServiceAccount in `DOMAIN/ns/NAMESPACE/sa/ACCOUNT`, the
/// form of Istio's principals and, behind `spiffe://`, of the SPIFFE IDs of several meshes. None of the three
/// is checked.
pub fn principal(text: &str) -> Option<(&str, &str, &str)> {
    let (domain, rest) = text.split_once("/ns/")?;
    let (namespace, account) = rest.split_once("/sa/")?;
    Some((domain, namespace, account))
}

/// The advice for a principal of Istio's, `cluster.local/ns/shop/sa/web`.
fn of_istio(text: &str) -> Option<String> {
    let (_, namespace, account) = principal(text)?;
    // One for all accounts names none.
    if !is_label(namespace) || !is_label(account) {
        return None;
    }
    let (namespace, account) = (quote(namespace), quote(account));
    Some(format!("; refer to the ServiceAccount {account} of namespace {namespace} instead"))
}

/// Checks what follows `spiffe://`.
fn spiffe(rest: &str) -> Result<(), &'static str> {
    let (domain, path) = match rest.split_once('/') {
        Some((domain, path)) => (domain, Some(path)),
        None => (rest, None),
    };
    let domain_byte =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_');
    if domain.is_empty() || !domain.bytes().all(domain_byte) {
        return Err("the trust domain may have lower-case letters, digits, `-`, `.` and `_` only");
    }
    let Some(path) = path else { return Ok(()) };
    let path_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    for segment in path.split('/') {
        if segment.is_empty() {
            return Err("empty path segments and a trailing `/` are not allowed");
        }
        if matches!(segment, "." | "..") {
            return Err("path segments `.` and `..` are not allowed");
        }
        if !segment.bytes().all(path_byte) {
            return Err("path segments may have letters, digits, `-`, `.` and `_` only");
        }
    }
    Ok(())
}
