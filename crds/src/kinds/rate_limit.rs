//! HTTPLocalRateLimitPolicy (docs/spec/controller.md 1.6, 4).

mod definition;

use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Object};
use crate::parse::input::{Draft, Input};
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, Fields, JsonNode};
use crate::resource::{NamespacedName, RateLimitOverride, RateLimitPolicy, Resource};
use crate::spec::{ClientReference, Field, ObjectReference, ReferenceTarget};
use std::num::NonZeroU32;
use std::sync::Arc;

pub(super) use definition::definition;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) =
        input.spec(AllowedFields::Only(&["targetRef", "total", "identity", "overrides"]))
    else {
        return (None, Claims::RateLimit { server: None });
    };
    let server = spec.require("targetRef").and_then(|node| server(&node));
    let claims = Claims::RateLimit { server: server.clone() };
    (limits(&spec, server), claims)
}

pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::RateLimit(limit)) = resource else {
        return Claims::RateLimit { server: None };
    };
    Claims::RateLimit { server: Some(limit.server.clone()) }
}

/// The limited Server. An invalid limit names none, because it limits no Server.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let Body::Valid(Resource::RateLimit(limit)) = &object.body else { return Vec::new() };
    let server = object.meta.key.beside(Kind::Server, &limit.server);
    vec![ObjectReference { field: Field::Target, what: ReferenceTarget::One(server) }]
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::RateLimit(limit) = resource else { return Vec::new() };
    if limit.total.is_some() || limit.identity.is_some() || !limit.overrides.is_empty() {
        return Vec::new();
    }
    vec![FieldError::new(
        "spec",
        "none of `total`, `identity` and `overrides` is set: limits nothing",
    )]
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::RateLimit(limit) = resource else { return Vec::new() };
    let overrides = limit.overrides.iter().enumerate().flat_map(|(i, one)| {
        one.clients.iter().enumerate().map(move |(j, name)| {
            ClientReference::account(format!("spec.overrides[{i}].clientRefs[{j}].name"), name)
        })
    });
    overrides.collect()
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::RateLimit(limit) = resource else { return None };
    let message = format!(
        "limits nothing: Server {namespace}/{} owns no port of any workload that carries requests",
        limit.server
    );
    Some(FieldError::new("spec.targetRef.name", message))
}

fn server(node: &JsonNode<'_>) -> Option<Arc<str>> {
    let allowed = &[Target::Kind(Kind::Server)];
    Reference::read(node, &["group", "kind", "name"], allowed)?.name()
}

fn limits(spec: &Fields<'_>, server: Option<Arc<str>>) -> Option<Resource> {
    let single = |name: &str| match spec.get(name) {
        Some(node) => {
            let fields = node.fields(AllowedFields::Only(&["requestsPerSecond"]))?;
            rate(&fields).map(|(rate, node)| Some((rate, node)))
        }
        None => Some(None),
    };
    let (total, identity) = (single("total"), single("identity"));
    let overrides = match spec.get("overrides") {
        Some(node) => {
            let read: Vec<_> = node.list()?.iter().map(one_override).collect();
            read.into_iter().collect::<Option<Vec<_>>>()
        }
        None => Some(Vec::new()),
    };
    let (total, identity, overrides) = (total?, identity?, overrides?);
    let total = total.map(|(rate, _)| rate);
    let parts = identity.iter().chain(overrides.iter().map(|(_, rate)| rate));
    for (rate, node) in parts {
        if let Some(total) = total.filter(|total| rate > total) {
            node.error(format!("{rate} is more than `total` allows ({total})"));
        }
    }
    Some(Resource::RateLimit(RateLimitPolicy {
        server: server?,
        total,
        identity: identity.map(|(rate, _)| rate),
        overrides: overrides.into_iter().map(|(one, _)| one).collect(),
    }))
}

type Rate<'a> = (NonZeroU32, JsonNode<'a>);

fn rate<'a>(fields: &Fields<'a>) -> Option<Rate<'a>> {
    let node = fields.require("requestsPerSecond")?;
    let number = u32::try_from(node.integer(1, i64::from(u32::MAX))?).ok()?;
    Some((NonZeroU32::new(number)?, node))
}

fn one_override<'a>(node: &JsonNode<'a>) -> Option<(RateLimitOverride, Rate<'a>)> {
    let fields = node.fields(AllowedFields::Only(&["requestsPerSecond", "clientRefs"]))?;
    let rate = rate(&fields);
    let clients = fields.require("clientRefs").and_then(|node| client_refs(&node));
    let rate = rate?;
    Some((RateLimitOverride { requests_per_second: rate.0, clients: clients? }, rate))
}

fn client_refs(node: &JsonNode<'_>) -> Option<Vec<NamespacedName>> {
    let list = node.list()?;
    if list.is_empty() {
        node.error("an empty list names nobody, name at least one client");
        return None;
    }
    let client = |node: &JsonNode<'_>| {
        let names = &["group", "kind", "name", "namespace"];
        Reference::read(node, names, &[Target::Kind(Kind::ServiceAccount)])?.namespaced()
    };
    let clients: Vec<Option<NamespacedName>> = list.iter().map(client).collect();
    clients.into_iter().collect()
}
