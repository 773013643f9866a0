//! Requests of the kubelet to a container: probes of all three kinds and lifecycle hooks.

use crate::path::canonical;
use crate::reader::{AllowedFields, Fields, JsonNode, shared};
use crate::resource::{ContainerPort, Probe, ProbeAction, ProbeOrigin};
use serde_json::Value;
use std::fmt::Write;
use std::num::NonZeroU16;

/// The probes and hooks of a container that use the network. Those whose port is unknown, because they
/// could never succeed, and hooks and `tcpSocket` probes of another host are left out.
pub(crate) fn probes(container: &Fields<'_>, ports: &[ContainerPort]) -> Vec<Probe> {
    let mut handlers: Vec<(Fields<'_>, ProbeOrigin)> =
        ["livenessProbe", "readinessProbe", "startupProbe"]
            .into_iter()
            .filter_map(|name| container.get(name)?.fields(AllowedFields::Any))
            .map(|handler| (handler, ProbeOrigin::Probe))
            .collect();
    if let Some(lifecycle) = container.get("lifecycle").and_then(|n| n.fields(AllowedFields::Any)) {
        let hooks = ["postStart", "preStop"];
        let hooks = hooks.into_iter().filter_map(|n| lifecycle.get(n)?.fields(AllowedFields::Any));
        handlers.extend(hooks.map(|handler| (handler, ProbeOrigin::Hook)));
    }
    let probes = handlers.iter().filter_map(|(handler, origin)| probe(handler, ports, *origin));
    probes.flat_map(|probe| [rewritten(&probe), Some(probe)]).flatten().collect()
}

/// The tcpSocket probe that the injector rewrote into this one: the application's port is declared.
fn rewritten(probe: &Probe) -> Option<Probe> {
    let ProbeAction::HttpGet { path, tls: false } = &probe.action else { return None };
    let port = path.strip_prefix(TCP_PATH).filter(|_| probe.port.get() == ADMIN_PORT)?;
    Some(Probe { port: port.parse().ok()?, action: ProbeAction::TcpSocket, origin: probe.origin })
}

/// Path at which the proxy's admin port connects to the application for the kubelet.
const TCP_PATH: &str = "/probe/tcp/";
/// The proxy's admin port.
const ADMIN_PORT: u16 = 4191;

fn probe(handler: &Fields<'_>, ports: &[ContainerPort], origin: ProbeOrigin) -> Option<Probe> {
    let part = |name: &str| handler.get(name)?.fields(AllowedFields::Any);
    if let Some(http) = part("httpGet") {
        return http_get(&http, ports, origin);
    }
    if let Some(grpc) = part("grpc") {
        let port = number(grpc.get("port")?.integer(1, 65535)?)?;
        return Some(Probe { port, action: ProbeAction::Grpc, origin });
    }
    let tcp = part("tcpSocket").filter(is_for_the_pod)?;
    let port = resolve(&tcp.get("port")?, ports)?;
    Some(Probe { port, action: ProbeAction::TcpSocket, origin })
}

fn http_get(http: &Fields<'_>, ports: &[ContainerPort], origin: ProbeOrigin) -> Option<Probe> {
    let origin = if is_for_the_pod(http) {
        origin
    } else if origin == ProbeOrigin::Hook {
        return None;
    } else {
        ProbeOrigin::OtherHost
    };
    let port = resolve(&http.get("port")?, ports)?;
    let text = http.get("path").and_then(|node| node.text()).unwrap_or("/");
    let path = kubelet_path(text);
    let path = canonical(&path).unwrap_or(path);
    let scheme = http.get("scheme").and_then(|node| node.text()).unwrap_or("HTTP");
    let tls = scheme.eq_ignore_ascii_case("https");
    Some(Probe { port, action: ProbeAction::HttpGet { path: shared(&path), tls }, origin })
}

/// True if the kubelet sends the request to the pod itself.
fn is_for_the_pod(handler: &Fields<'_>) -> bool {
    handler.get("host").and_then(|node| node.text()).is_none_or(str::is_empty)
}

/// Resolves a port number, or a name among the same container's ports (without case); a text that
/// is no name may still be a number.
fn resolve(node: &JsonNode<'_>, ports: &[ContainerPort]) -> Option<NonZeroU16> {
    let Value::String(name) = node.value() else { return number(node.integer(1, 65535)?) };
    let named = ports
        .iter()
        .find(|port| port.name.as_ref().is_some_and(|n| n.eq_ignore_ascii_case(name)))
        .map(|port| port.number);
    named.or_else(|| name.parse().ok())
}

fn number(number: i64) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(number).ok()?)
}

/// The path of the kubelet's request for `path`: without query and fragment, with a leading slash,
/// and with percent-encoding only where needed.
fn kubelet_path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut encoded_path = String::from(if path.starts_with('/') { "" } else { "/" });
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => encoded(rest.clone(), &mut rest, &mut encoded_path),
            b' ' | b'"' | b'<' | b'>' | b'`' | b'\\' | b'^' | b'{' | b'|' | b'}' | 0x7F.. => {
                percent(byte, &mut encoded_path);
            }
            _ => encoded_path.push(char::from(byte)),
        }
    }
    encoded_path
}

/// Two hex digits: decoded if the character needs no encoding. Writes `%` alone if they are not
/// there, which makes the path unusable.
fn encoded(
    mut ahead: std::str::Bytes<'_>,
    rest: &mut std::str::Bytes<'_>,
    encoded_path: &mut String,
) {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let octet = digit(ahead.next())
        .zip(digit(ahead.next()))
        .and_then(|(high, low)| u8::try_from(high.checked_mul(16)?.checked_add(low)?).ok());
    match octet {
        Some(octet) => {
            rest.nth(1);
            let plain = octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~');
            if plain {
                encoded_path.push(char::from(octet));
            } else {
                percent(octet, encoded_path);
            }
        }
        None => encoded_path.push('%'),
    }
}

fn percent(byte: u8, encoded_path: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(encoded_path, "%{byte:02X}");
}
