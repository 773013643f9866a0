//! Questions of `/explain`: a client, and perhaps a request of it.

use super::query::Query;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Uri, Version};
use policy_core::explain::{Explanation, explain};
use policy_core::{Identity, RequestView, TargetFault, canonical_target};
use policy_enforce::ActivePolicy;
use policy_enforce::headers::clean_request;
use policy_tls::peer::{Peer, PeerTls};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;

/// A connection or request to explain.
#[derive(Debug)]
pub(super) struct ExplainQuery {
    /// The workload's port.
    pub(super) port: NonZeroU16,
    /// The client.
    peer: Peer,
    /// The request's head, as the sidecar looks at it; `None`: the connection is meant.
    head: Option<Parts>,
}

impl ExplainQuery {
    /// The explanation of the decision by `policy`.
    ///
    /// # Errors
    /// The target is ambiguous, and is refused before any rule.
    pub(super) fn explain(&self, policy: &ActivePolicy) -> Result<Explanation, TargetFault> {
        let server = policy.evaluator.policy();
        let connection = self.peer.connection(&policy.facts);
        let Some(head) = &self.head else { return Ok(explain(server, &connection, None)) };
        let (method, headers) = (&head.method, &head.headers);
        let target = canonical_target(method, &head.uri, head.version, headers, server.paths)?;
        let (host, query) = (target.host.as_deref(), target.query);
        let view = RequestView { method, host, path: &target.path, query, headers };
        Ok(explain(server, &connection, Some(&view)))
    }
}

/// Reads a question.
///
/// # Errors
/// A parameter is missing or invalid.
pub(super) fn read(query: &Query) -> Result<ExplainQuery, String> {
    let port = query.parsed("port", "a port")?.ok_or("port: missing")?;
    let client: Option<IpAddr> = query.parsed("client", "an address")?;
    let identity = query.one("identity")?.map(identity);
    let tls = match (query.one("tls")?, identity) {
        (None | Some("mesh"), Some(identity)) => PeerTls::Terminated(Some(identity)),
        (Some("mesh"), None) => PeerTls::Terminated(None),
        (None | Some("none"), None) => PeerTls::Absent,
        (Some("passthrough"), None) => PeerTls::Passthrough,
        (Some("none" | "passthrough"), Some(_)) => {
            return Err("identity: only a client in mesh TLS has one".to_owned());
        }
        (Some(other), _) => {
            let other = other.escape_default();
            return Err(format!("tls: `{other}`: expected none, passthrough or mesh"));
        }
    };
    let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let peer = Peer::new(SocketAddr::new(client.unwrap_or(unknown), 0), tls);
    let head = head(query, peer.is_meshed())?;
    Ok(ExplainQuery { port, peer, head })
}

fn identity(name: &str) -> Identity {
    if name.starts_with("spiffe://") {
        return Identity::Spiffe(name.into());
    }
    Identity::Dns(name.trim_end_matches('.').to_ascii_lowercase().into())
}

/// The head of the request; `None` if neither method nor path is given.
fn head(query: &Query, meshed: bool) -> Result<Option<Parts>, String> {
    let (method, path) = (query.one("method")?, query.one("path")?);
    if method.is_none() && path.is_none() {
        return Ok(None);
    }
    let method = Method::from_bytes(method.unwrap_or("GET").as_bytes())
        .map_err(|_| "method: expected a token")?;
    let host = query.one("host")?;
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = method;
    let path = path.unwrap_or("/");
    head.uri = path
        .parse::<Uri>()
        .ok()
        .filter(|uri| uri.authority().is_none())
        .ok_or_else(|| format!("path: `{}`: expected a path", path.escape_default()))?;
    // Without a host, as HTTP/2 may be sent.
    head.version = if host.is_some() { Version::HTTP_11 } else { Version::HTTP_2 };
    for line in query.all("header") {
        let invalid = || format!("header: `{}`: expected name: value", line.escape_default());
        let (name, value) = line.split_once(':').ok_or_else(invalid)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| invalid())?;
        let value = HeaderValue::from_str(value.trim()).map_err(|_| invalid())?;
        head.headers.append(name, value);
    }
    if let Some(host) = host {
        let host = HeaderValue::from_str(host).map_err(|_| "host: expected a host")?;
        head.headers.insert(HOST, host);
    }
    clean_request(&mut head, meshed);
    Ok(Some(head))
}
