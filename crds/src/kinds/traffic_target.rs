//! TrafficTarget of SMI, v1alpha1 to v1alpha4. Its fields are below `spec` since v1alpha2 and at the top before;
//! an API server converts nothing, so that the version does not say which.

use super::smi_fields::{holder, port};
use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::parse::name::{namespace, object_name};
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{NamespacedName, Resource, TargetDestination, TargetRule, TargetSource};
use crate::smi::TrafficTarget;
use crate::spec::ClientReference;
use std::num::NonZeroU16;
use std::sync::Arc;

const FIELDS: &[&str] = &["destination", "sources", "rules", "specs"];

/// The pods, and the port of them that is meant; or that they are those of another namespace.
enum ReadDestination {
    Own(TargetDestination, Option<NonZeroU16>),
    Elsewhere,
}

pub(super) fn read(input: &Input<'_>) -> Draft {
    let nothing = (None, claims(None));
    let Some(fields) = holder(input, FIELDS) else { return nothing };
    let destination = fields.require("destination").map(|node| {
        let read = destination(&node, &input.meta.key.namespace);
        (read, node)
    });
    let sources = list(&fields, &["sources"], source);
    let rules = list(&fields, &["rules", "specs"], rule);
    let (destination, port) = match destination {
        Some((Some(ReadDestination::Own(own, port)), _)) => (own, port),
        Some((Some(ReadDestination::Elsewhere), node)) => {
            let own = &input.meta.key.namespace;
            let message = format!("is in another namespace: a target decides in its own, `{own}`");
            node.error(message);
            return (None, Claims::Nothing);
        }
        Some((None, _)) | None => return nothing,
    };
    let claims = Claims::TrafficTarget { destination: Some(destination.clone()) };
    let target = sources.zip(rules).map(|(sources, rules)| TrafficTarget {
        destination,
        port,
        sources,
        rules,
    });
    (target.map(Resource::TrafficTarget), claims)
}

/// The claims of one that was valid, or without it, of one that cannot be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let destination = match resource {
        Some(Resource::TrafficTarget(target)) => Some(target.destination.clone()),
        Some(_) | None => None,
    };
    Claims::TrafficTarget { destination }
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::TrafficTarget(target) = resource else { return Vec::new() };
    let sources = target.sources.iter().enumerate();
    let named = sources.filter_map(|(i, source)| match source {
        TargetSource::Account(name) => {
            Some(ClientReference::account(format!("spec.sources[{i}].name"), name))
        }
        TargetSource::Binding(_) | TargetSource::Unknown(_) => None,
    });
    named.collect()
}

/// A list under one of these names, which must have an element.
fn list<T>(
    fields: &Fields<'_>,
    names: &[&str],
    read: impl Fn(&JsonNode<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let found = names.iter().find_map(|name| fields.get(name));
    let node = found.or_else(|| fields.require(names.first()?))?;
    let list = node.list_of(read)?;
    if list.is_empty() {
        node.error("must not be empty: without an element nothing is allowed");
        return None;
    }
    Some(list)
}

fn destination(node: &JsonNode<'_>, own: &Arc<str>) -> Option<ReadDestination> {
    node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(&["kind", "name", "namespace", "port"]))?;
        if let Some(stated) = fields.get("namespace").and_then(|node| namespace(&node)).flatten()
            && stated != *own
        {
            return Some(ReadDestination::Elsewhere);
        }
        let name = object_name(&fields.require("name")?)?;
        let port = match fields.get("port") {
            Some(node) => Some(port(&node)?),
            None => None,
        };
        let kinds = [("ServiceAccount", true), ("IdentityBinding", false)];
        let destination = match fields.require("kind")?.choice(&kinds)? {
            true => TargetDestination::Account(name),
            false => TargetDestination::Binding(name),
        };
        Some(ReadDestination::Own(destination, port))
    })
}

fn source(node: &JsonNode<'_>) -> Option<TargetSource> {
    let fields = node.fields(AllowedFields::Only(&["kind", "name", "namespace"]))?;
    let kind = fields.require("kind")?.text_up_to(63)?;
    let name = object_name(&fields.require("name")?)?;
    let namespace = match fields.get("namespace") {
        Some(node) => namespace(&node)?,
        None => None,
    };
    let name = NamespacedName { namespace, name };
    Some(match kind {
        "ServiceAccount" => TargetSource::Account(name),
        "IdentityBinding" => TargetSource::Binding(name),
        other => TargetSource::Unknown(shared(other)),
    })
}

fn rule(node: &JsonNode<'_>) -> Option<TargetRule> {
    let fields = node.fields(AllowedFields::Only(&["kind", "name", "matches"]))?;
    let kind = fields.require("kind")?.text_up_to(63)?;
    let name = object_name(&fields.require("name")?)?;
    let matches = match fields.get("matches") {
        Some(node) => node.list_of(|node| node.text_up_to(253).map(shared))?,
        None => Vec::new(),
    };
    if kind != "HTTPRouteGroup" && !matches.is_empty() {
        fields.error_at("matches", format!("a rule of the kind {} has none", quote(kind)));
        return None;
    }
    Some(match kind {
        "HTTPRouteGroup" => TargetRule::Http { group: name, matches },
        "TCPRoute" => TargetRule::Tcp(name),
        other => TargetRule::Unknown(shared(other)),
    })
}
