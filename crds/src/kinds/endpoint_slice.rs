//! EndpointSlice, for outbound discovery: lenient, only what says which endpoints can serve.

use super::service::{address, is_tcp, number, port_name};
use crate::annotation::SERVICE_NAME;
use crate::parse::input::Input;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{EndpointSlice, PodTarget, Resource, SliceEndpoint, SlicePort};
use policy_core::AddressFamily;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The families by `addressType`. Endpoints of the last one are names of hosts, which nodes ignore.
const FAMILIES: [(&str, Option<AddressFamily>); 3] =
    [("IPv4", Some(AddressFamily::V4)), ("IPv6", Some(AddressFamily::V6)), ("FQDN", None)];

/// An EndpointSlice. If any part cannot be read, it has no endpoint at all.
pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let family = input.root.require("addressType")?.choice(&FAMILIES)?;
    let service = input.meta.labels.get(SERVICE_NAME).filter(|name| !name.is_empty());
    let ports = list(&input.root, "ports")?;
    let ports: Option<Vec<Option<SlicePort>>> = ports.iter().map(port).collect();
    let endpoints = match family {
        Some(family) => endpoints(input, family)?,
        None => Vec::new(),
    };
    Some(Resource::EndpointSlice(EndpointSlice {
        version: version(&input.root),
        service: service.cloned(),
        family,
        ports: ports?.into_iter().flatten().collect(),
        endpoints,
    }))
}

/// The version of this state of the slice. One that is no number, which API servers do not write, is
/// unknown.
fn version(root: &Fields<'_>) -> Option<u64> {
    let metadata = root.get("metadata")?.fields(AllowedFields::Any)?;
    metadata.get("resourceVersion")?.value().as_str()?.parse().ok()
}

/// The elements of a list that may be absent.
fn list<'a>(fields: &Fields<'a>, name: &str) -> Option<Vec<JsonNode<'a>>> {
    fields.get(name).map_or(Some(Vec::new()), |node| node.list())
}

/// A port; `None` within if it is not of TCP.
fn port(node: &JsonNode<'_>) -> Option<Option<SlicePort>> {
    let fields = node.fields(AllowedFields::Any)?;
    if !is_tcp(&fields) {
        return Some(None);
    }
    let name = shared(port_name(&fields)?);
    // The API server takes a port of zero, and nodes skip it.
    let port = match fields.get("port").filter(|node| node.value() != 0) {
        Some(node) => Some(number(&node)?),
        None => None,
    };
    Some(Some(SlicePort { name, port }))
}

fn endpoints(input: &Input<'_>, family: AddressFamily) -> Option<Vec<SliceEndpoint>> {
    let mut names = SharedNames::default();
    let read = |node: JsonNode<'_>| endpoint(&node, family, (input, &mut names));
    let endpoints: Option<Vec<Option<SliceEndpoint>>> =
        list(&input.root, "endpoints")?.into_iter().map(read).collect();
    Some(endpoints?.into_iter().flatten().collect())
}

/// An endpoint; `None` within if it has no address.
fn endpoint(
    node: &JsonNode<'_>,
    family: AddressFamily,
    (input, names): (&Input<'_>, &mut SharedNames),
) -> Option<Option<SliceEndpoint>> {
    let fields = node.fields(AllowedFields::Any)?;
    let Some(first) = list(&fields, "addresses")?.into_iter().next() else { return Some(None) };
    let address = address(&first)?;
    if AddressFamily::of(address) != family {
        first.error(format!("{} is not of the slice's `addressType`", quote(first.text()?)));
        return None;
    }
    let part = |name: &str| match fields.get(name) {
        Some(node) => node.fields(AllowedFields::Any).map(Some),
        None => Some(None),
    };
    let (conditions, hints) = (part("conditions")?, part("hints")?);
    let is_ready = condition(conditions.as_ref(), "ready", true)?;
    let node = match fields.get("nodeName") {
        Some(node) => Some(node.text()?).filter(|name| !name.is_empty()),
        None => None,
    };
    Some(Some(SliceEndpoint {
        address,
        is_ready,
        // As kube-proxy reads it, whatever `ready` is.
        is_serving: condition(conditions.as_ref(), "serving", true)?,
        is_terminating: condition(conditions.as_ref(), "terminating", false)?,
        pod: pod(&fields, input, names),
        node: node.map(|name| names.shared(name)),
        zones: hinted(hints.as_ref(), "forZones", names)?,
        nodes: hinted(hints.as_ref(), "forNodes", names)?,
    }))
}

/// The pod that an endpoint is said to be. A reference to an object of another kind, or without a
/// kind, names no pod. A part of it that cannot be read is that of no pod.
fn pod(
    endpoint: &Fields<'_>,
    input: &Input<'_>,
    names: &mut SharedNames,
) -> Option<Arc<PodTarget>> {
    let target = endpoint.get("targetRef").and_then(|node| node.fields(AllowedFields::Any))?;
    target.get("kind").filter(|kind| kind.value() == "Pod")?;
    let stated = |name: &str| target.get(name).map(|node| node.value().as_str().unwrap_or(""));
    let namespace = match stated("namespace") {
        Some(namespace) => names.shared(namespace),
        None => Arc::clone(&input.meta.key.namespace),
    };
    let (name, uid) = (shared(stated("name").unwrap_or("")), stated("uid").map(shared));
    Some(Arc::new(PodTarget { namespace, name, uid }))
}

fn condition(conditions: Option<&Fields<'_>>, name: &str, absent: bool) -> Option<bool> {
    conditions.and_then(|fields| fields.get(name)).map_or(Some(absent), |node| node.boolean())
}

fn hinted(
    hints: Option<&Fields<'_>>,
    list: &str,
    names: &mut SharedNames,
) -> Option<Vec<Arc<str>>> {
    let Some(node) = hints.and_then(|fields| fields.get(list)) else { return Some(Vec::new()) };
    let name = |node: JsonNode<'_>| {
        Some(names.shared(node.fields(AllowedFields::Any)?.require("name")?.text()?))
    };
    node.list()?.into_iter().map(name).collect()
}

/// The names of one slice, each once: its endpoints share few nodes and zones.
#[derive(Default)]
struct SharedNames(BTreeSet<Arc<str>>);

impl SharedNames {
    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name = shared(name);
        self.0.insert(Arc::clone(&name));
        name
    }
}
