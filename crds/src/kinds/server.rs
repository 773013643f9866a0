//! Server (docs/spec/controller.md 1.1).

mod definition;

use crate::annotation::is_port_name;
use crate::object::{Claims, FieldError};
use crate::parse::input::{Draft, Input};
use crate::parse::label::{SelectorReading, read_selector};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote, shared};
use crate::resource::{PortRef, ProxyProtocol, Resource, Server, WorkloadSelector};
use crate::selector::LabelSelector;
use policy_core::DefaultPolicy;
use std::num::NonZeroU16;

pub(super) use definition::definition;

const PROTOCOLS: &[(&str, ProxyProtocol)] = &[
    ("unknown", ProxyProtocol::Unknown),
    ("HTTP/1", ProxyProtocol::Http1),
    ("HTTP/2", ProxyProtocol::Http2),
    ("gRPC", ProxyProtocol::Grpc),
    ("opaque", ProxyProtocol::Opaque),
    ("TLS", ProxyProtocol::Tls),
];

/// The fields each version has.
fn known(version: &str) -> AllowedFields {
    AllowedFields::Only(match version {
        "v1alpha1" | "v1beta1" => &["podSelector", "port", "proxyProtocol"],
        "v1beta2" => &["podSelector", "externalWorkloadSelector", "port", "proxyProtocol"],
        _ => &["podSelector", "externalWorkloadSelector", "port", "proxyProtocol", "accessPolicy"],
    })
}

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(known(input.version)) else {
        return (None, Claims::Server { workloads: None, port: None });
    };
    let WorkloadsReading { readable, whole: workloads } = workloads(&spec, input.version);
    let is_present = |name: &str| spec.get(name).is_some();
    let of_pods = is_present("podSelector") || !is_present("externalWorkloadSelector");
    let PortReading { readable: claimed, whole: port } = match spec.require("port") {
        Some(node) => port(&node, of_pods),
        None => PortReading::default(),
    };
    let protocol = match spec.get("proxyProtocol") {
        Some(node) => node.choice(PROTOCOLS),
        None => Some(ProxyProtocol::Unknown),
    };
    let access_policy = access_policy(&spec);
    let claims = Claims::Server { workloads: readable, port: claimed };
    let server = match (workloads, port, protocol, access_policy) {
        (Some(workloads), Some(port), Some(protocol), Some(access_policy)) => {
            let access_policy_stated = spec.get("accessPolicy").is_some();
            let server = Server { workloads, port, protocol, access_policy, access_policy_stated };
            Some(Resource::Server(server))
        }
        _ => None,
    };
    (server, claims)
}

/// The claims of a Server. It may own everything that could not be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::Server(server)) = resource else {
        return Claims::Server { workloads: None, port: None };
    };
    let (workloads, port) = (server.workloads.clone(), server.port.clone());
    Claims::Server { workloads: Some(workloads), port: Some(port) }
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::Server(server) = resource else { return Vec::new() };
    let everything = |selector: &LabelSelector| *selector == LabelSelector::default();
    let mut remarks = Vec::new();
    match &server.workloads {
        WorkloadSelector::Pods(selector) if everything(selector) => {
            remarks.push(FieldError::new(
                "spec.podSelector",
                "is empty: selects every pod of the namespace",
            ));
        }
        WorkloadSelector::ExternalWorkloads(selector) if everything(selector) => {
            let message = "is empty: selects every ExternalWorkload of the namespace";
            remarks.push(FieldError::new("spec.externalWorkloadSelector", message));
        }
        WorkloadSelector::Pods(_) | WorkloadSelector::ExternalWorkloads(_) => {}
    }
    remarks
}

/// The selector of a Server as it was read.
#[derive(Default)]
struct WorkloadsReading {
    /// The workloads that it selects by what can be read of it; `None`: those of the namespace.
    readable: Option<WorkloadSelector>,
    /// All of it; `None` if any part is unreadable.
    whole: Option<WorkloadSelector>,
}

impl WorkloadsReading {
    fn of(reading: SelectorReading, kind: fn(LabelSelector) -> WorkloadSelector) -> Self {
        let SelectorReading { readable, whole } = reading;
        Self { readable: readable.map(kind), whole: whole.map(kind) }
    }
}

fn workloads(spec: &Fields<'_>, version: &str) -> WorkloadsReading {
    let only_pods = matches!(version, "v1alpha1" | "v1beta1");
    let external = spec.get("externalWorkloadSelector").filter(|_| !only_pods);
    match (spec.get("podSelector"), external) {
        (Some(_), Some(_)) => {
            spec.error_at(
                "externalWorkloadSelector",
                "must be absent where `podSelector` is present: a Server is for one of them",
            );
        }
        (None, Some(node)) => {
            let reading = read_selector(&node);
            return WorkloadsReading::of(reading, WorkloadSelector::ExternalWorkloads);
        }
        (Some(node), None) => return pods(&node, version),
        (None, None) if only_pods => spec.error_at("podSelector", "is required"),
        (None, None) => {
            let names = one_of(&["podSelector", "externalWorkloadSelector"]);
            spec.error(format!("{names} is required, `podSelector: {{}}` selects all pods"));
        }
    }
    WorkloadsReading::default()
}

fn pods(node: &JsonNode<'_>, version: &str) -> WorkloadsReading {
    let pods = WorkloadsReading::of(read_selector(node), WorkloadSelector::Pods);
    if version != "v1alpha1" || pods.whole.is_none() {
        return pods;
    }
    let Some(fields) = node.fields(AllowedFields::Any) else { return pods };
    let (labels, expressions) = (fields.get("matchLabels"), fields.get("matchExpressions"));
    if labels.is_some() == expressions.is_some() {
        node.error("exactly one of `matchLabels` and `matchExpressions` is allowed in v1alpha1");
        // Without either of them, the other alone would select.
        let everything = WorkloadSelector::Pods(LabelSelector::default());
        return WorkloadsReading { whole: None, readable: Some(everything) };
    }
    pods
}

/// The port of a Server as it was read.
#[derive(Default)]
struct PortReading {
    /// The port that is meant; `None`: it may be any.
    readable: Option<PortRef>,
    /// The port; `None` if it cannot be read.
    whole: Option<PortRef>,
}

/// A number, or a name. A name that no container's port can have selects nothing, so that the Server
/// would protect nothing: it is an error on a Server of pods (`of_pods`). Ports of ExternalWorkloads have
/// any name.
fn port(node: &JsonNode<'_>, of_pods: bool) -> PortReading {
    let value = node.value();
    let numbered = |number: u64| u16::try_from(number).ok().and_then(NonZeroU16::new);
    if let Some(number) = value.as_u64().and_then(numbered).map(PortRef::Number) {
        return PortReading { readable: Some(number.clone()), whole: Some(number) };
    }
    let Some(name) = value.as_str().filter(|name| !name.is_empty()) else {
        let found = quote(&value.to_string());
        node.error(format!(
            "expected a number from 1 to 65535 or the name of a port, found {found}"
        ));
        return PortReading::default();
    };
    if !of_pods || is_port_name(name) {
        let name = PortRef::Name(shared(name));
        return PortReading { readable: Some(name.clone()), whole: Some(name) };
    }
    let meant = name.parse().ok().and_then(numbered);
    node.error(match meant {
        Some(_) => format!(
            "{} in quotes is the name of a port, which no container can have; leave the quotes out \
             for the number",
            quote(name)
        ),
        None => format!(
            "{} is the name of no container's port: up to 15 lower-case letters, digits and `-` are \
             allowed, a letter among them",
            quote(name)
        ),
    });
    PortReading { readable: meant.map(PortRef::Number), whole: None }
}

fn access_policy(spec: &Fields<'_>) -> Option<DefaultPolicy> {
    let Some(node) = spec.get("accessPolicy") else { return Some(DefaultPolicy::Deny) };
    node.choice(&DefaultPolicy::ALL.map(|policy| (policy.as_str(), policy)))
}
