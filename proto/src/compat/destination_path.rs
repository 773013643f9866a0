//! Lookups: what a client asks for, and where it is.

use super::network::read_address;
use crate::error::{At, DecodeError};
use crate::linkerd::outbound::TrafficSpec;
use crate::linkerd::outbound::traffic_spec::Target;
use policy_core::destination::ServiceName;
use policy_core::network::fold_mapped;
use policy_core::{WorkloadKey, WorkloadKind};
use serde_json::Value;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

/// Port of a path without one.
const HTTP: NonZeroU16 = NonZeroU16::MIN.saturating_add(79);

/// A path or an authority that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No host before the port.
    #[error("no host in `{0}`")]
    NoHost(String),
    /// The port is not from 1 to 65535.
    #[error("no port from 1 to 65535 in `{0}`")]
    Port(String),
}

/// The target of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// An address and port.
    Address(IpAddr, NonZeroU16),
    /// A Service of this cluster and a port.
    Service(ServiceName, NonZeroU16),
    /// A name that is not that of a Service of this cluster.
    Foreign,
}

/// Reads a path such as `10.0.0.1:80`, `[fd00::1]:80` or `web.shop.svc.cluster.local:80`. `domain`
/// ends the names of Services.
///
/// # Errors
/// See [`PathError`].
pub fn parse_path(path: &str, domain: &str) -> Result<PathTarget, PathError> {
    let (host, port) = split(path)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(PathTarget::Address(fold_mapped(address), port));
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let name = host.strip_suffix(domain).and_then(|rest| rest.strip_suffix(".svc."));
    let parts = name.and_then(|name| name.split_once('.'));
    // A name before the Service's is that of one of its pods.
    let service = parts.filter(|(name, namespace)| {
        !name.is_empty() && !namespace.is_empty() && !namespace.contains('.')
    });
    Ok(match service {
        Some((name, namespace)) => PathTarget::Service(
            ServiceName { namespace: namespace.into(), name: name.into() },
            port,
        ),
        None => PathTarget::Foreign,
    })
}

fn split(path: &str) -> Result<(&str, NonZeroU16), PathError> {
    let bracketed = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, rest) = match bracketed {
        Some((host, rest)) => (host, rest),
        // Only an IPv6 address has more than one colon.
        None if path.parse::<Ipv6Addr>().is_ok() => (path, ""),
        None => path.split_at(path.rfind(':').unwrap_or(path.len())),
    };
    if host.is_empty() {
        return Err(PathError::NoHost(shorten(path)));
    }
    if rest.is_empty() {
        return Ok((host, HTTP));
    }
    let digits = rest.strip_prefix(':').filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let port = digits.and_then(|text| text.parse().ok());
    port.map(|port| (host, port)).ok_or_else(|| PathError::Port(shorten(path)))
}

/// Enough of a stranger's text to recognise it.
fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Reads the target of a client's connection.
///
/// # Errors
/// The field that cannot be read, and why.
pub fn read_target(spec: &TrafficSpec, domain: &str) -> Result<PathTarget, DecodeError> {
    match spec.target.as_ref().ok_or_else(DecodeError::missing).at("target")? {
        Target::Addr(address) => {
            let ip = address.ip.as_ref().ok_or_else(DecodeError::missing);
            let ip = ip.and_then(read_address).at("ip").at("addr")?;
            let port = u16::try_from(address.port).ok().and_then(NonZeroU16::new);
            let port = port.ok_or_else(|| DecodeError::here("not from 1 to 65535"));
            Ok(PathTarget::Address(fold_mapped(ip), port.at("port").at("addr")?))
        }
        Target::Authority(authority) => parse_path(authority, domain)
            .map_err(|error| DecodeError::here(error.to_string()))
            .at("authority"),
    }
}

/// The client's own place, which its injector wrote into `context_token`. It decides which endpoints
/// the client prefers, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextToken {
    /// Its pod.
    pub pod: Option<WorkloadKey>,
    /// The node that the pod is on.
    pub node: Option<Arc<str>>,
}

impl ContextToken {
    /// Reads `{"ns":"…","nodeName":"…","pod":"…"}`, white space around it and further keys being
    /// ignored. What cannot be read is absent: such a client gets all endpoints.
    pub fn parse(token: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(token) else { return Self::default() };
        let text = |key| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let pod = text("ns").zip(text("pod")).map(|(namespace, name)| WorkloadKey {
            namespace: namespace.into(),
            kind: WorkloadKind::Pod,
            name: name.into(),
        });
        Self { pod, node: text("nodeName").map(Arc::from) }
    }
}
