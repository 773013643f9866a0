//! HTTPLocalRateLimitPolicy (docs/spec/controller.md 1.6, 4).

mod definition;

use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object};
use crate::parse::input::{Draft, Input};
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, Fields, JsonNode};
use crate::resource::{
    NamespacedName, RateLimitNumbers, RateLimitOverride, RateLimitPolicy, Resource,
};
use crate::spec::{ClientReference, Field, ObjectReference, ReferenceTarget};
use std::num::NonZeroU32;
use std::sync::Arc;

pub(super) use definition::definition;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) =
        input.spec(AllowedFields::Only(&["targetRef", "total", "identity", "overrides"]))
    else {
        return (None, claims(None));
    };
    let server = spec.require("targetRef").and_then(|node| server(&node));
    let NumbersReading { readable, whole } = numbers(&spec);
    let claims = Claims::RateLimit { server: server.clone(), numbers: readable };
    let limit = server.zip(whole);
    let limit = limit.map(|(server, numbers)| RateLimitPolicy { server, numbers });
    (limit.map(Resource::RateLimit), claims)
}

pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::RateLimit(RateLimitPolicy { server, numbers })) = resource else {
        return Claims::RateLimit { server: None, numbers: RateLimitNumbers::default() };
    };
    Claims::RateLimit { server: Some(server.clone()), numbers: numbers.clone() }
}

/// The limited Server, valid or not; any one of the namespace, if it cannot be read and numbers can.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let key = &object.meta.key;
    let (server, numbers) = match &object.body {
        Body::Valid(Resource::RateLimit(RateLimitPolicy { server, numbers })) => {
            (Some(server), numbers)
        }
        Body::Invalid(Invalid { claims: Claims::RateLimit { server, numbers }, .. }) => {
            (server.as_ref(), numbers)
        }
        Body::Valid(_) | Body::Invalid(_) => return Vec::new(),
    };
    let what = match server {
        Some(server) => ReferenceTarget::One(key.beside(Kind::Server, server)),
        None if numbers.is_empty() => return Vec::new(),
        None => ReferenceTarget::AnyOf(Kind::Server, key.namespace.clone()),
    };
    vec![ObjectReference { field: Field::Target, what }]
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::RateLimit(limit) = resource else { return Vec::new() };
    if !limit.numbers.is_empty() {
        return Vec::new();
    }
    vec![FieldError::new(
        "spec",
        "none of `total`, `identity` and `overrides` is set: limits nothing",
    )]
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::RateLimit(limit) = resource else { return Vec::new() };
    let overrides = limit.numbers.overrides.iter().enumerate().flat_map(|(i, one)| {
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

/// The limits of a policy as they were read.
struct NumbersReading {
    /// Those that could be read; they hold although the object is invalid.
    readable: RateLimitNumbers,
    /// All of them; `None` if any is unreadable.
    whole: Option<RateLimitNumbers>,
}

fn numbers(spec: &Fields<'_>) -> NumbersReading {
    let single = |name: &str| match spec.get(name) {
        Some(node) => {
            let fields = node.fields(AllowedFields::Only(&["requestsPerSecond"]))?;
            rate(&fields).map(|(rate, node)| Some((rate, node)))
        }
        None => Some(None),
    };
    let (total, identity) = (single("total"), single("identity"));
    let listed = spec.get("overrides").map(|node| node.list());
    let overrides: Option<Vec<OverrideReading<'_>>> = match listed {
        Some(list) => list.map(|list| list.iter().map(one_override).collect()),
        None => Some(Vec::new()),
    };
    let readable_overrides = overrides.iter().flatten().filter_map(|one| one.readable.clone());
    let readable = RateLimitNumbers {
        total: total.iter().flatten().map(|(rate, _)| *rate).next(),
        identity: identity.iter().flatten().map(|(rate, _)| *rate).next(),
        overrides: readable_overrides.collect(),
    };
    let parts = identity.iter().flatten();
    let parts = parts.chain(overrides.iter().flatten().filter_map(|one| one.rate.as_ref()));
    for (rate, node) in parts {
        if let Some(total) = readable.total.filter(|total| rate > total) {
            node.error(format!("{rate} is more than `total` allows ({total})"));
        }
    }
    let clean = overrides.is_some_and(|all| all.iter().all(|one| one.is_whole));
    let whole = (total.is_some() && identity.is_some() && clean).then(|| readable.clone());
    NumbersReading { readable, whole }
}

type Rate<'a> = (NonZeroU32, JsonNode<'a>);

fn rate<'a>(fields: &Fields<'a>) -> Option<Rate<'a>> {
    let node = fields.require("requestsPerSecond")?;
    let number = u32::try_from(node.integer(1, i64::from(u32::MAX))?).ok()?;
    Some((NonZeroU32::new(number)?, node))
}

/// An override as it was read.
#[derive(Default)]
struct OverrideReading<'a> {
    /// The rate.
    rate: Option<Rate<'a>>,
    /// The override for the clients that could be read, if there are any.
    readable: Option<RateLimitOverride>,
    /// True if all of it could be read.
    is_whole: bool,
}

fn one_override<'a>(node: &JsonNode<'a>) -> OverrideReading<'a> {
    const NAMES: AllowedFields = AllowedFields::Only(&["requestsPerSecond", "clientRefs"]);
    let Some(fields) = node.fields(NAMES) else { return OverrideReading::default() };
    let rate = rate(&fields);
    let named = fields.require("clientRefs").map(|node| client_refs(&node)).unwrap_or_default();
    let is_whole = rate.is_some() && !named.is_empty() && named.iter().all(Option::is_some);
    let clients: Vec<NamespacedName> = named.into_iter().flatten().collect();
    let readable = match &rate {
        Some((rate, _)) if !clients.is_empty() => {
            Some(RateLimitOverride { requests_per_second: *rate, clients })
        }
        Some(_) | None => None,
    };
    OverrideReading { rate, readable, is_whole }
}

/// The clients; `None` in the place of one that cannot be read.
fn client_refs(node: &JsonNode<'_>) -> Vec<Option<NamespacedName>> {
    let Some(list) = node.list() else { return Vec::new() };
    if list.is_empty() {
        node.error("an empty list names nobody, name at least one client");
    }
    let client = |node: &JsonNode<'_>| {
        let names = &["group", "kind", "name", "namespace"];
        Reference::read(node, names, &[Target::Kind(Kind::ServiceAccount)])?.namespaced()
    };
    list.iter().map(client).collect()
}
