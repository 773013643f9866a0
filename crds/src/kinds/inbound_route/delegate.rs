//! `delegate`: the objects that a path is handed down to.

use super::allowed;
use crate::kind::Kind;
use crate::object::ObjectKey;
use crate::parse::label::labels;
use crate::parse::name::{namespace, object_name};
use crate::reader::{AllowedFields, Fields, JsonNode};
use crate::resource::{AllowedFilter, Delegate};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kinds that can be delegated to. An HTTPRoute is the Gateway API's.
const KINDS: &[(&str, Kind)] = &[
    ("InboundRoute", Kind::InboundRoute),
    ("HTTPRoute", Kind::GatewayHttpRoute),
    ("GRPCRoute", Kind::GrpcRoute),
    ("HttpRouteGroup", Kind::HttpRouteGroup),
];

/// The fields of a delegation.
const FIELDS: &[&str] = &["kind", "name", "selector", "namespace", "allowFilters"];

/// Reads it, with the filters that it allows. Without a namespace it names objects of `own`.
pub(super) fn read(node: &JsonNode<'_>, own: &Arc<str>) -> Option<(Delegate, Vec<AllowedFilter>)> {
    let fields = node.fields(AllowedFields::Only(FIELDS))?;
    let filters = match fields.get("allowFilters") {
        None => Some(Vec::new()),
        Some(node) => allowed::read(&node),
    };
    let delegate = objects(&fields, own);
    Some((delegate?, filters?))
}

fn objects(fields: &Fields<'_>, own: &Arc<str>) -> Option<Delegate> {
    let kind = match fields.get("kind") {
        Some(node) => node.choice(KINDS),
        None => Some(Kind::InboundRoute),
    };
    let namespace = match fields.get("namespace") {
        Some(node) => namespace(&node).map(|namespace| namespace.unwrap_or_else(|| own.clone())),
        None => Some(own.clone()),
    };
    match (fields.get("name"), fields.get("selector")) {
        (Some(name), None) => {
            let name = object_name(&name);
            Some(Delegate::One(ObjectKey { kind: kind?, namespace: namespace?, name: name? }))
        }
        (None, Some(node)) => {
            let labels = selected(&node);
            if kind? != Kind::InboundRoute {
                node.error("selects objects of kind `InboundRoute` only, name others by `name`");
                return None;
            }
            Some(Delegate::Selected { namespace: namespace?, labels: labels? })
        }
        (Some(_), Some(node)) => {
            node.error("must be absent where `name` is present");
            None
        }
        (None, None) => {
            fields.error("`name` or `selector` is required");
            None
        }
    }
}

/// `matchLabels` alone. Without any label it would select every object of the namespace.
fn selected(node: &JsonNode<'_>) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    let fields: Fields<'_> = node.fields(AllowedFields::Only(&["matchLabels"]))?;
    let node = fields.require("matchLabels")?;
    let labels = node.clean(|node| Some(labels(node)))?;
    if labels.is_empty() {
        node.error("must not be empty: it would select every InboundRoute of the namespace");
        return None;
    }
    Some(labels)
}
