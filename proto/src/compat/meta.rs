//! Names of objects, in both directions.

use crate::error::{At, DecodeError};
use crate::linkerd::meta::{Metadata, Resource, metadata::Kind};
use policy_core::name::{ObjectRef, Origin, Source};
use policy_core::policy::{DefaultPolicy, Owner};
use std::collections::BTreeMap;

const POLICY_GROUP: &str = "policy.linkerd.io";

/// Kinds that Linkerd writes in lower case, as we write them.
const SPELLINGS: [(&str, &str); 3] = [
    ("server", "Server"),
    ("serverauthorization", "ServerAuthorization"),
    ("authorizationpolicy", "AuthorizationPolicy"),
];

pub(super) fn built_in(name: &str) -> Metadata {
    Metadata { kind: Some(Kind::Default(name.to_owned())) }
}

fn resource(object: &ObjectRef, kind: String) -> Metadata {
    // Inbound messages leave the namespace out: it is the workload's.
    let (group, name) = (object.group().to_owned(), object.name().to_owned());
    let resource = Resource { group, kind, name, ..Resource::default() };
    Metadata { kind: Some(Kind::Resource(resource)) }
}

/// An object that may be in another namespace than the workload, and the path that it was handed.
fn delegated(object: &ObjectRef, prefix: &str) -> Metadata {
    let resource = Resource {
        group: object.group().to_owned(),
        kind: object.kind().to_owned(),
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        section: prefix.to_owned(),
        ..Resource::default()
    };
    Metadata { kind: Some(Kind::Resource(resource)) }
}

/// A grant's metadata: kinds in lower case.
pub(super) fn grant(source: &Source) -> Metadata {
    match source {
        Source::Default(name) => built_in(name),
        Source::Object(object) => resource(object, object.kind().to_ascii_lowercase()),
    }
}

/// A grant's labels, which metadata has replaced and which are still sent.
pub(super) fn grant_labels(source: &Source) -> BTreeMap<String, String> {
    match source {
        Source::Default(name) => labels("", "default", name),
        Source::Object(o) => labels(o.group(), &o.kind().to_ascii_lowercase(), o.name()),
    }
}

/// A rate limit's metadata: kinds as written.
pub(super) fn limit(source: &Source) -> Metadata {
    match source {
        Source::Default(name) => built_in(name),
        Source::Object(object) => resource(object, object.kind().to_string()),
    }
}

/// A route's metadata: kinds as written; of a chain, the object that holds the rule; of a path that
/// was handed down, that path as the section.
pub(super) fn route(origin: &Origin) -> Metadata {
    match origin {
        Origin::Objects(_) => match origin.object() {
            Some(object) => resource(object, object.kind().to_string()),
            None => built_in("guard"),
        },
        Origin::Delegated(path) | Origin::Undelegated(path) => match path.chain.last() {
            Some(object) => delegated(object, &path.prefix),
            None => built_in("guard"),
        },
        Origin::Unreadable(object) => resource(object, object.kind().to_string()),
        Origin::Default => built_in("default"),
        Origin::Probe => built_in("probe"),
        Origin::Guard => built_in("guard"),
        Origin::Deny(reason) => built_in(reason.as_str()),
    }
}

pub(super) fn owner_labels(owner: &Owner) -> BTreeMap<String, String> {
    match owner {
        Owner::Server(server) => {
            labels(server.group(), &server.kind().to_ascii_lowercase(), server.name())
        }
        Owner::Default(policy) => labels("", "default", policy.as_str()),
    }
}

fn labels(group: &str, kind: &str, name: &str) -> BTreeMap<String, String> {
    let pairs = [("group", group), ("kind", kind), ("name", name)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn spelled(kind: &str) -> &str {
    SPELLINGS.iter().find(|(lower, _)| *lower == kind).map_or(kind, |(_, ours)| ours)
}

fn read_metadata(metadata: &Metadata) -> Result<Source, DecodeError> {
    match metadata.kind.as_ref().ok_or_else(DecodeError::missing)? {
        Kind::Default(name) => Ok(Source::Default(name.as_str().into())),
        Kind::Resource(Resource { group, kind, name, namespace, section: _, port: _ }) => {
            Ok(Source::Object(ObjectRef::new(group, spelled(kind), namespace, name)))
        }
    }
}

/// Reads the source from metadata, which must be present.
pub(super) fn read_source(metadata: Option<&Metadata>) -> Result<Source, DecodeError> {
    metadata.ok_or_else(DecodeError::missing).and_then(read_metadata).at("metadata")
}

/// A grant's source: metadata if present, else the labels that came before it.
pub(super) fn read_grant(
    metadata: Option<&Metadata>,
    labels: &BTreeMap<String, String>,
) -> Result<Source, DecodeError> {
    if metadata.is_some_and(|metadata| metadata.kind.is_some()) || labels.is_empty() {
        return read_source(metadata);
    }
    read_labels(labels, "serverauthorization").at("labels")
}

/// A route's origin. Built-in names besides `default` and `probe` are kept as an object of the kind
/// `default`.
pub(super) fn read_origin(metadata: Option<&Metadata>) -> Result<Origin, DecodeError> {
    Ok(match read_source(metadata)? {
        Source::Object(object) => Origin::Objects([object].into()),
        Source::Default(name) => match &*name {
            "default" => Origin::Default,
            "probe" => Origin::Probe,
            other => Origin::Objects([ObjectRef::new("", "default", "", other)].into()),
        },
    })
}

/// `group`, `kind` and `name`, or the older `name: kind:name` without a kind.
fn read_labels(
    labels: &BTreeMap<String, String>,
    default_kind: &str,
) -> Result<Source, DecodeError> {
    let name = labels.get("name").ok_or_else(DecodeError::missing).at("name")?;
    let kind = labels.get("kind").map(String::as_str);
    let (kind, name) = match (kind, name.split_once(':')) {
        (Some(kind), _) => (kind, name.as_str()),
        (None, Some((kind, name))) => (kind, name),
        (None, None) => (default_kind, name.as_str()),
    };
    let group = labels.get("group").map(String::as_str);
    let is_default = kind == "default" && group.unwrap_or_default().is_empty();
    if is_default {
        return Ok(Source::Default(name.into()));
    }
    let group = group.unwrap_or(POLICY_GROUP);
    Ok(Source::Object(ObjectRef::new(group, spelled(kind), "", name)))
}

pub(super) fn read_owner(labels: &BTreeMap<String, String>) -> Result<Owner, DecodeError> {
    match read_labels(labels, "server")? {
        Source::Object(server) => Ok(Owner::Server(server)),
        Source::Default(name) => {
            let policy = DefaultPolicy::parse(&name).ok_or_else(|| {
                DecodeError::here(format!("default policy `{name}` is not known here"))
            });
            policy.map(Owner::Default).at("name")
        }
    }
}
