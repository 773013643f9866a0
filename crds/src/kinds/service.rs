//! Service, for outbound discovery: lenient, only what says which address and port leads where.

use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{PortRef, Resource, Service, ServicePort};
use policy_core::fold_mapped;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Affinity by client of a Service that does not say for how long.
const DEFAULT_AFFINITY: i64 = 10_800;

/// The longest that the API server allows.
const MAX_AFFINITY: i64 = 86_400;

/// The most other addresses of one Service. The API server bounds none of their lists, and each is
/// kept and found by itself.
const MAX_EXTERNAL: usize = 1024;

/// A Service. Even if a part cannot be read, it claims the addresses that can: nothing else answers
/// them.
pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Any) else { return (None, unreadable()) };
    let is_external_name = is(&spec, "type", "ExternalName");
    let mut service = Service { is_external_name, ..Service::default() };
    let cluster_addresses = cluster_addresses(&spec);
    // Nodes answer no address of a Service without one in the cluster.
    if !is_external_name && !cluster_addresses.is_empty() {
        let status = section(&input.root, "status");
        service.cluster_addresses = cluster_addresses.iter().filter_map(address).collect();
        service.external_addresses = external_addresses(&spec, status.as_ref());
    }
    service.is_local = is(&spec, "internalTrafficPolicy", "Local");
    service.selector = selector(&spec);
    let (affinity, ports) = (affinity(&spec), ports(&spec));
    let claims = claims_of(&service);
    let (Some(affinity), Some(ports)) = (affinity, ports) else { return (None, claims) };
    (Some(Resource::Service(Service { affinity, ports, ..service })), claims)
}

/// The addresses of a Service whose declaration can no longer be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    match resource {
        Some(Resource::Service(service)) => claims_of(service),
        Some(_) | None => unreadable(),
    }
}

fn claims_of(service: &Service) -> Claims {
    let addresses = service.cluster_addresses.iter().chain(&service.external_addresses);
    Claims::Service { addresses: addresses.copied().collect() }
}

fn unreadable() -> Claims {
    Claims::Service { addresses: Vec::new() }
}

/// A mapping in a field.
fn section<'a>(fields: &Fields<'a>, name: &str) -> Option<Fields<'a>> {
    fields.get(name)?.fields(AllowedFields::Any)
}

/// True if the field has this value. A value that is not known yet is none that is known.
fn is(spec: &Fields<'_>, name: &str, value: &str) -> bool {
    spec.get(name).is_some_and(|node| node.value() == value)
}

/// `clusterIPs`, or `clusterIP` where there is no list; `None` is that of a headless Service.
fn cluster_addresses<'a>(spec: &Fields<'a>) -> Vec<JsonNode<'a>> {
    let listed = spec.get("clusterIPs").and_then(|node| node.list());
    let listed = listed.filter(|list| !list.is_empty());
    let nodes = listed.unwrap_or_else(|| spec.get("clusterIP").into_iter().collect());
    nodes.into_iter().filter(|node| node.value() != "" && node.value() != "None").collect()
}

/// Other addresses that nodes lead to the same endpoints. A load balancer that is a proxy gets the
/// connections itself.
fn external_addresses(spec: &Fields<'_>, status: Option<&Fields<'_>>) -> Vec<IpAddr> {
    let external = spec.get("externalIPs").and_then(|node| node.list()).unwrap_or_default();
    let balancer = status.and_then(|status| section(status, "loadBalancer"));
    let ingress = balancer.and_then(|fields| fields.get("ingress")?.list()).unwrap_or_default();
    let entries = ingress.iter().filter_map(|node| node.fields(AllowedFields::Any));
    let entries = entries.filter(|entry| !is(entry, "ipMode", "Proxy"));
    let balanced = entries.filter_map(|entry| entry.get("ip").filter(|node| node.value() != ""));
    let mut addresses: Vec<IpAddr> = Vec::new();
    for node in external.into_iter().chain(balanced) {
        if addresses.len() >= MAX_EXTERNAL {
            node.error(format!("follows {MAX_EXTERNAL} other addresses, the most of a Service"));
            break;
        }
        let new = address(&node).filter(|address| !addresses.contains(address));
        addresses.extend(new);
    }
    addresses
}

/// An address as Kubernetes reads it: old objects have IPv4 addresses with zeros in front of their
/// numbers, which are decimal nevertheless.
pub(super) fn address(node: &JsonNode<'_>) -> Option<IpAddr> {
    let text = node.text()?;
    let read = text.parse().ok().or_else(|| with_zeros(text)).map(fold_mapped);
    if read.is_none() {
        node.error(format!("{} is not an IP address", quote(text)));
    }
    read
}

fn with_zeros(text: &str) -> Option<IpAddr> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let parts: Option<Vec<u8>> =
        text.split('.').map(|part| part.parse().ok().filter(|_| digits(part))).collect();
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(parts?).ok()?).into())
}

/// The affinity, if there is any. `None`: it cannot be read.
fn affinity(spec: &Fields<'_>) -> Option<Option<Duration>> {
    if !is(spec, "sessionAffinity", "ClientIP") {
        return Some(None);
    }
    let config = section(spec, "sessionAffinityConfig");
    let client = config.and_then(|config| section(&config, "clientIP"));
    let seconds = match client.and_then(|client| client.get("timeoutSeconds")) {
        Some(node) => node.integer(1, MAX_AFFINITY)?,
        None => DEFAULT_AFFINITY,
    };
    Some(Some(Duration::from_secs(u64::try_from(seconds).ok()?)))
}

/// The TCP ports. `None`: one cannot be read.
fn ports(spec: &Fields<'_>) -> Option<Vec<ServicePort>> {
    let Some(list) = spec.get("ports") else { return Some(Vec::new()) };
    let ports: Option<Vec<Option<ServicePort>>> = list.list()?.iter().map(port).collect();
    Some(ports?.into_iter().flatten().collect())
}

/// A port; `None` within if it is not of TCP.
fn port(node: &JsonNode<'_>) -> Option<Option<ServicePort>> {
    let fields = node.fields(AllowedFields::Any)?;
    if !is_tcp(&fields) {
        return Some(None);
    }
    let name = shared(port_name(&fields)?);
    let port = number(&fields.require("port")?)?;
    let target = fields.get("targetPort").and_then(|node| target(&node));
    Some(Some(ServicePort { name, port, target }))
}

/// The port of the pods, by number or name.
fn target(node: &JsonNode<'_>) -> Option<PortRef> {
    match node.value().as_str() {
        Some(name) => Some(PortRef::Name(shared(name))),
        None => number(node).map(PortRef::Number),
    }
}

/// The labels of the pods. A label that cannot be read selects nothing, and so does the selector.
fn selector(spec: &Fields<'_>) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(Value::Object(labels)) = spec.get("selector").map(|node| node.value()) else {
        return BTreeMap::new();
    };
    let read = labels.iter().map(|(name, value)| Some((shared(name), shared(value.as_str()?))));
    read.collect::<Option<_>>().unwrap_or_default()
}

/// True unless another protocol is stated.
pub(super) fn is_tcp(port: &Fields<'_>) -> bool {
    port.get("protocol").is_none_or(|node| node.value() == "TCP")
}

/// The name of a port; empty if it has none.
pub(super) fn port_name<'a>(port: &Fields<'a>) -> Option<&'a str> {
    port.get("name").map_or(Some(""), |node| node.text())
}

/// The number of a port.
pub(super) fn number(node: &JsonNode<'_>) -> Option<NonZeroU16> {
    u16::try_from(node.integer(1, 65535)?).ok().and_then(NonZeroU16::new)
}
