//! GrpcService (docs/spec/requests.md): a service and its methods.

use super::route_labels;
use crate::kind::Kind;
use crate::parse::input::Input;
use crate::parse::name::is_protobuf_name;
use crate::parse::route_label::route_labels as read_labels;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{at_most, list_of, object, set, text_up_to};
use crate::resource::{GrpcService, GrpcServiceMethod, Resource, RouteLabels};
use serde_json::{Value, json};
use std::sync::Arc;

/// The most methods of a service.
const MAX_METHODS: usize = 256;
/// Longest name, so that the path of every method is one that selectors can name.
const MAX_NAME: usize = 500;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["service", "methods"]))?;
    let service = spec.require("service").and_then(|node| name(&node, "service", true));
    let methods = match spec.get("methods") {
        Some(node) => methods(&node),
        None => Some(Vec::new()),
    };
    Some(Resource::GrpcService(GrpcService { service: service?, methods: methods? }))
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

/// The methods. An empty list could be meant for none.
fn methods(node: &JsonNode<'_>) -> Option<Vec<GrpcServiceMethod>> {
    let list = node.list_up_to(MAX_METHODS)?;
    if list.is_empty() {
        node.error("must not be empty, leave it out for the whole service");
        return None;
    }
    node.clean(|_| {
        let mut methods: Vec<GrpcServiceMethod> = Vec::new();
        for node in &list {
            let Some((fields, method)) = method(node) else { continue };
            if methods.iter().any(|other| other.name == method.name) {
                fields.error_at("name", format!("{} appears twice", quote(&method.name)));
            }
            methods.push(method);
        }
        Some(methods)
    })
}

fn method<'a>(node: &JsonNode<'a>) -> Option<(Fields<'a>, GrpcServiceMethod)> {
    let fields = node.fields(AllowedFields::Only(&["name", "labels"]))?;
    let name = fields.require("name").and_then(|node| name(&node, "method", false));
    let labels = match fields.get("labels") {
        Some(node) => read_labels(&node),
        None => Some(RouteLabels::new()),
    };
    Some((fields, GrpcServiceMethod { name: name?, labels: labels? }))
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
