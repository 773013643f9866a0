//! Labels as Linkerd's dashboards expect them (docs/spec/proxy.md 4.1).

use super::key::{Caller, TlsClass};
use policy_core::{Authorization, ObjectRef, Origin, Owner, Protocol, RateLimit, Route, Source};
use policy_tls::metric::Labels;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

pub(super) fn target(labels: &mut Labels, address: &str, port: NonZeroU16) {
    let joined = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{address}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{address}:{port}"),
    };
    labels.push("target_addr", joined);
    labels.push("target_ip", address);
    labels.push("target_port", port.to_string());
}

pub(super) fn server(labels: &mut Labels, owner: &Owner, port: NonZeroU16) {
    let [group, kind, name] = owner_names(owner);
    labels.push("srv_group", group);
    labels.push("srv_kind", kind);
    labels.push("srv_name", name);
    labels.push("srv_port", port.to_string());
}

/// Adds the labels of [`target`]; empty without a port.
pub(super) fn target_or_none(labels: &mut Labels, address: &str, port: Option<NonZeroU16>) {
    match port {
        Some(port) => target(labels, address, port),
        None => {
            for name in ["target_addr", "target_ip", "target_port"] {
                labels.push(name, "");
            }
        }
    }
}

/// Adds the labels of [`server`]; empty if no policy is in force.
pub(super) fn server_or_none(labels: &mut Labels, owner: Option<&Owner>, port: Option<NonZeroU16>) {
    match (owner, port) {
        (Some(owner), Some(port)) => server(labels, owner, port),
        (_, port) => {
            for name in ["srv_group", "srv_kind", "srv_name"] {
                labels.push(name, "");
            }
            labels.push("srv_port", port.map(|port| port.to_string()).unwrap_or_default());
        }
    }
}

pub(super) fn parent(labels: &mut Labels, owner: &Owner, port: NonZeroU16) {
    let [group, kind, name] = owner_names(owner);
    labels.push("parent_group", group);
    labels.push("parent_kind", kind);
    labels.push("parent_name", name);
    labels.push("parent_port", port.to_string());
}

/// Adds the route labels. `exempt` is the source of the exemption that permitted a request beside all routes:
/// a probe, or an object that grants certain requests.
pub(super) fn route(labels: &mut Labels, route: Option<&Route>, exempt: Option<&Source>) {
    let builtin = |name: &str| [String::new(), "default".to_owned(), name.to_owned()];
    let [group, kind, name] = match route.map(|route| &route.origin) {
        Some(origin @ (Origin::Objects(_) | Origin::Delegated(_) | Origin::Undelegated(_))) => {
            match origin.object() {
                Some(object) => object_names(object, str::to_owned),
                None => builtin("none"),
            }
        }
        Some(Origin::Unreadable(object)) => object_names(object, str::to_owned),
        Some(Origin::Probe) => builtin("probe"),
        Some(Origin::Guard) => builtin("guard"),
        Some(Origin::Deny(reason)) => builtin(reason.as_str()),
        Some(Origin::Default) => builtin("default"),
        None => match exempt {
            Some(Source::Default(_)) => builtin("probe"),
            Some(Source::Object(_)) | None => builtin("default"),
        },
    };
    labels.push("route_group", group);
    labels.push("route_kind", kind);
    labels.push("route_name", name);
}

pub(super) fn authorization(labels: &mut Labels, authorization: Option<&Authorization>) {
    let [group, kind, name] = source_names(authorization.map(|granted| &granted.source), lower);
    labels.push("authz_group", group);
    labels.push("authz_kind", kind);
    labels.push("authz_name", name);
}

pub(super) fn rate_limit(labels: &mut Labels, limit: Option<&RateLimit>) {
    let [group, kind, name] = source_names(limit.map(|limit| &limit.source), str::to_owned);
    labels.push("ratelimit_group", group);
    labels.push("ratelimit_kind", kind);
    labels.push("ratelimit_name", name);
}

pub(super) fn tls(labels: &mut Labels, caller: Caller, protocol: Protocol, clients: &[Arc<str>]) {
    match caller.tls {
        TlsClass::Terminated => {
            let at = usize::from(caller.client).checked_sub(1);
            let client = at.and_then(|at| clients.get(at));
            labels.push("tls", "true");
            labels.push("client_id", client.map_or("", |name| name));
        }
        TlsClass::Passthrough => {
            // The SNI is chosen by the client and would be unbounded.
            labels.push("tls", "opaque");
            labels.push("sni", "");
        }
        TlsClass::Absent => {
            let reason = match protocol {
                Protocol::Opaque => "port_skipped",
                Protocol::Detect { .. }
                | Protocol::Http1
                | Protocol::Http2
                | Protocol::Grpc
                | Protocol::Tls => "no_tls_from_remote",
            };
            labels.push("tls", "no_identity");
            labels.push("no_tls_reason", reason);
        }
    }
}

fn owner_names(owner: &Owner) -> [String; 3] {
    match owner {
        Owner::Server(object) => object_names(object, lower),
        Owner::Default(policy) => [String::new(), "default".to_owned(), policy.as_str().to_owned()],
    }
}

fn source_names(source: Option<&Source>, spell: fn(&str) -> String) -> [String; 3] {
    match source {
        Some(Source::Object(object)) => object_names(object, spell),
        Some(Source::Default(name)) => {
            [String::new(), "default".to_owned(), name.as_ref().to_owned()]
        }
        None => [String::new(), String::new(), String::new()],
    }
}

fn object_names(object: &ObjectRef, spell: fn(&str) -> String) -> [String; 3] {
    [object.group().to_owned(), spell(object.kind()), object.name().to_owned()]
}

/// Converts a kind to lower case: Linkerd does so for Servers and authorizations, but not for
/// routes (docs/spec/proxy.md 2.6).
fn lower(kind: &str) -> String {
    kind.to_ascii_lowercase()
}
