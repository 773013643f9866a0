//! GrpcService (docs/spec/requests.md): a service and its methods.

use super::route_labels;
use crate::kind::Kind;
use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::parse::name::is_protobuf_name;
use crate::parse::route_label::route_labels as read_labels;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{at_most, list_of, object, set, text_up_to};
use crate::resource::{GrpcService, GrpcServiceMethod, Resource, RouteLabels, ServiceClaims};
use policy_core::RequestMatch;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most methods of a service.
const MAX_METHODS: usize = 256;
/// Longest name, so that the path of every method is one that selectors can name.
const MAX_NAME: usize = 500;

/// The fields of the spec.
const SPEC: &[&str] = &["service", "methods"];

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(SPEC)) else { return (None, claims(None)) };
    let service = spec.require("service").and_then(|node| name(&node, "service", true));
    let (methods, unread) = match spec.get("methods") {
        Some(node) => methods(&node),
        // An unknown field may be the misspelt name of this one.
        None if spec.has_unknown(SPEC) => (Vec::new(), vec![None]),
        None => (Vec::new(), Vec::new()),
    };
    if spec.errors().count() == 0
        && let Some(service) = service
    {
        return (Some(Resource::GrpcService(GrpcService { service, methods })), Claims::Nothing);
    }
    (None, Claims::GrpcService(Box::new(readable(service, methods, &unread))))
}

/// The claims of a service of which some methods cannot be read, or only their names.
fn readable(
    service: Option<Arc<str>>,
    methods: Vec<GrpcServiceMethod>,
    unread: &[Option<Arc<str>>],
) -> ServiceClaims {
    let call = |method: Option<&str>| RequestMatch::grpc(service.as_deref(), method);
    let mut unreadable: Vec<RequestMatch> =
        unread.iter().map(|method| call(method.as_deref())).collect();
    let whole = methods.is_empty() && unread.is_empty();
    let service = match &service {
        Some(service) if whole || !methods.is_empty() => {
            Some(GrpcService { service: service.clone(), methods })
        }
        Some(_) => None,
        // Any service may have been meant.
        None => {
            unreadable.extend(methods.iter().map(|method| call(Some(&method.name))));
            unreadable.extend(whole.then(|| call(None)));
            None
        }
    };
    ServiceClaims { service, unreadable }
}

/// The claims of a service that was valid, or without one, of an object that cannot be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let service = match resource {
        Some(Resource::GrpcService(service)) => Some(service),
        Some(_) | None => None,
    };
    Claims::GrpcService(Box::new(ServiceClaims::of(service)))
}

fn name(node: &JsonNode<'_>, what: &str, dotted: bool) -> Option<Arc<str>> {
    let text = node.text_up_to(MAX_NAME)?;
    if !is_protobuf_name(text, dotted) {
        let rule = "letters, digits and `_` are allowed, not beginning with a digit";
        let dots = if dotted { ", with dots between" } else { "" };
        node.error(format!("{} is not the name of a gRPC {what}: {rule}{dots}", quote(text)));
        return None;
    }
    Some(shared(text))
}

/// The methods that can be read, and the names that can be read of the others. An empty list could be meant
/// for none.
fn methods(node: &JsonNode<'_>) -> (Vec<GrpcServiceMethod>, Vec<Option<Arc<str>>>) {
    let Some(list) = node.list_up_to(MAX_METHODS) else { return (Vec::new(), vec![None]) };
    if list.is_empty() {
        node.error("must not be empty, leave it out for the whole service");
        return (Vec::new(), vec![None]);
    }
    let (mut methods, mut unread): (Vec<GrpcServiceMethod>, _) = (Vec::new(), Vec::new());
    for node in &list {
        let (read, whole) = node.examined(method);
        let Some((fields, method)) = read else {
            unread.push(None);
            continue;
        };
        if methods.iter().any(|other| other.name == method.name) {
            fields.error_at("name", format!("{} appears twice", quote(&method.name)));
        }
        if whole {
            methods.push(method);
        } else {
            unread.push(Some(method.name));
        }
    }
    (methods, unread)
}

fn method<'a>(node: &JsonNode<'a>) -> Option<(Fields<'a>, GrpcServiceMethod)> {
    let fields = node.fields(AllowedFields::Only(&["name", "labels"]))?;
    let name = fields.require("name").and_then(|node| name(&node, "method", false));
    let labels = match fields.get("labels") {
        Some(node) => read_labels(&node).unwrap_or_default(),
        None => RouteLabels::new(),
    };
    Some((fields, GrpcServiceMethod { name: name?, labels }))
}

pub(super) fn definition(_: Profile) -> Definition {
    const WORD: &str = "[A-Za-z_][A-Za-z0-9_]*";
    let called = |about: &str, pattern: &str| -> Value {
        let mut name = text_up_to(about, 500);
        set(&mut name, "pattern", json!(pattern));
        name
    };
    let method = object(
        "A method.",
        &[
            ("name", called("Name.", &format!("^{WORD}$"))),
            ("labels", route_labels::labels("Labels of the method.")),
        ],
        &["name"],
    );
    let methods =
        list_of("Methods; absent: the whole service.", method, Some(1), at_most(MAX_METHODS));
    let service = called("Name with its package.", &format!("^({WORD}\\.)*{WORD}$"));
    let spec = object(
        "A service and its methods.",
        &[("service", service), ("methods", methods)],
        &["service"],
    );
    let columns = &[("Service", "string", ".spec.service")];
    Definition::own(Kind::GrpcService, columns, spec, None)
}
