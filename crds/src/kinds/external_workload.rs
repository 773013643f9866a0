//! ExternalWorkload (docs/spec/controller.md 1.8).

mod definition;

use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{ExternalWorkload, Resource};
use policy_core::address::parse_address;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

pub(super) use definition::definition;

/// An ExternalWorkload. Even if a part cannot be read, it claims the addresses that can.
pub(super) fn read(input: &Input<'_>) -> Draft {
    let resource = workload(input);
    let claims = match &resource {
        Some(_) => claims(resource.as_ref()),
        None => Claims::ExternalWorkload { addresses: readable(input) },
    };
    (resource, claims)
}

/// The addresses of an ExternalWorkload whose declaration can no longer be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let addresses = match resource {
        Some(Resource::ExternalWorkload(workload)) => workload.addresses.clone(),
        Some(_) | None => Vec::new(),
    };
    Claims::ExternalWorkload { addresses }
}

/// The addresses that can be read, no more than a valid one has. What cannot has been reported.
fn readable(input: &Input<'_>) -> Vec<IpAddr> {
    let spec = input.root.get("spec");
    let listed = spec.as_ref().and_then(|spec| spec.value().get("workloadIPs")?.as_array());
    let text = |item: &Value| parse_address(item.get("ip")?.as_str()?).ok();
    listed.into_iter().flatten().take(2).filter_map(text).collect()
}

fn workload(input: &Input<'_>) -> Option<Resource> {
    // The two versions spell the same field differently, and nothing converts between them.
    let (names, mesh_tls, max_addresses): (&'static [&'static str], _, _) = match input.version {
        "v1alpha1" => (&["meshTls", "ports", "workloadIPs"], "meshTls", 1),
        _ => (&["meshTLS", "ports", "workloadIPs"], "meshTLS", 2),
    };
    let spec = input.spec(AllowedFields::Only(names))?;
    let identity = spec.require(mesh_tls).and_then(|node| {
        let fields = node.fields(AllowedFields::Only(&["identity", "serverName"]))?;
        let text = |name: &str| fields.require(name).and_then(|n| n.text_up_to(253)).map(shared);
        let (identity, server_name) = (text("identity"), text("serverName"));
        Some((identity?, server_name?))
    });
    let ports = ports(&spec);
    let addresses = match spec.get("workloadIPs") {
        Some(node) => {
            node.list_up_to(max_addresses).map(|l| l.iter().filter_map(address).collect())
        }
        None => Some(Vec::new()),
    };
    let ((identity, server_name), (named_ports, ports)) = (identity?, ports?);
    Some(Resource::ExternalWorkload(ExternalWorkload {
        identity,
        server_name,
        named_ports,
        ports,
        addresses: addresses?,
    }))
}

type Ports = (BTreeMap<Arc<str>, NonZeroU16>, Vec<NonZeroU16>);

/// TCP ports; of equal names the last counts.
fn ports(spec: &Fields<'_>) -> Option<Ports> {
    let (mut named, mut all) = (BTreeMap::new(), Vec::new());
    let Some(node) = spec.get("ports") else { return Some((named, all)) };
    for item in node.list()? {
        let Some((name, number)) = port(&item) else { continue };
        if let Some(name) = name {
            named.insert(name, number);
        }
        if !all.contains(&number) {
            all.push(number);
        }
    }
    Some((named, all))
}

fn port(node: &JsonNode<'_>) -> Option<(Option<Arc<str>>, NonZeroU16)> {
    let fields = node.fields(AllowedFields::Only(&["name", "port", "protocol"]))?;
    let number = fields.require("port").and_then(|n| n.integer(1, 65535));
    let name = match fields.get("name") {
        Some(node) => Some(shared(node.text()?)).filter(|name| !name.is_empty()),
        None => None,
    };
    let tcp = match fields.get("protocol") {
        Some(node) => node.text()?.eq_ignore_ascii_case("tcp"),
        None => true,
    };
    let number = NonZeroU16::new(u16::try_from(number?).ok()?)?;
    tcp.then_some((name, number))
}

fn address(node: &JsonNode<'_>) -> Option<IpAddr> {
    let node = node.fields(AllowedFields::Only(&["ip"]))?.require("ip")?;
    let text = node.text()?;
    match parse_address(text) {
        Ok(address) => Some(address),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}
