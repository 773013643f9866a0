//! Connections and requests as a sidecar sees them before any policy: its view of TLS, of the protocol
//! and of the target.

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use policy_core::{
    Connection, Identity, PathHandling, Protocol, ServerPolicy, Target, TargetFault, Tls,
    canonical_target,
};
use policy_enforce::headers::clean_request;
use serde::Deserialize;

/// The TLS of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientTls {
    /// Plaintext.
    None,
    /// For the sidecar, which terminates it; without an identity if `from` names none.
    Mesh,
    /// For the application, which the sidecar passes through.
    Passthrough,
}

/// A request before it is sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) host: &'a str,
    pub(crate) headers: HeaderMap,
    /// True if it is sent by HTTP/2.
    pub(crate) h2: bool,
    /// True if it is a call of gRPC.
    pub(crate) grpc: bool,
    /// True if the client is in the mesh.
    pub(crate) meshed: bool,
}

/// Returns the head of a request, cleaned as the sidecar cleans it before it looks at it.
///
/// # Errors
/// The reason why something cannot be sent, in words.
pub(crate) fn head(outgoing: Outgoing<'_>) -> Result<Parts, String> {
    let Outgoing { method, target, host, headers, h2, grpc, meshed } = outgoing;
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = method.parse().map_err(|_| format!("`{method}` is not a method"))?;
    head.headers = headers;
    head.version = if h2 { http::Version::HTTP_2 } else { http::Version::HTTP_11 };
    head.uri = if h2 {
        format!("http://{host}{target}").parse()
    } else {
        head.headers.insert(
            http::header::HOST,
            HeaderValue::try_from(host).map_err(|error| format!("host: {error}"))?,
        );
        target.parse()
    }
    .map_err(|error| format!("`{target}` cannot be sent: {error}"))?;
    if grpc {
        let grpc = HeaderValue::from_static("application/grpc");
        head.headers.insert(http::header::CONTENT_TYPE, grpc);
    }
    clean_request(&mut head, meshed);
    Ok(head)
}

/// TLS as a sidecar sees it. Opaque ports do not look for it, and TLS for the application is seen
/// only as passed through. A TLS port expects TLS of the application, which no client here speaks
/// inside the mesh's.
pub(crate) fn tls<'a>(
    policy: &ServerPolicy,
    tls: ClientTls,
    identity: Option<&'a Identity>,
) -> Tls<'a> {
    match (policy.protocol, tls) {
        (Protocol::Opaque, _) | (_, ClientTls::None) | (Protocol::Tls, ClientTls::Mesh) => {
            Tls::Absent
        }
        (_, ClientTls::Mesh) => Tls::Terminated(identity),
        (_, ClientTls::Passthrough) => Tls::Passthrough,
    }
}

/// Passed-through TLS is not read, and opaque and TLS ports carry bytes.
pub(crate) fn carries_http(policy: &ServerPolicy, connection: &Connection<'_>) -> bool {
    policy.protocol.is_http() && connection.tls != Tls::Passthrough
}

/// Meshed clients may carry HTTP/1 in HTTP/2, as sidecars do.
pub(crate) fn version_fits(protocol: Protocol, version: http::Version, meshed: bool) -> bool {
    match protocol {
        Protocol::Http1 => meshed || version != http::Version::HTTP_2,
        Protocol::Http2 | Protocol::Grpc => version == http::Version::HTTP_2,
        Protocol::Detect { .. } | Protocol::Opaque | Protocol::Tls => true,
    }
}

/// Returns the canonical target of a request.
///
/// # Errors
/// The reason why it is ambiguous.
pub(crate) fn target(paths: PathHandling, request: &Parts) -> Result<Target<'_>, TargetFault> {
    canonical_target(&request.method, &request.uri, request.version, &request.headers, paths)
}
