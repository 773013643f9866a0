//! HttpRouteGroup (docs/spec/requests.md): routes, described once.

mod definition;
mod entry;

use super::{binding, consent};
use crate::object::{Body, Claims, Invalid, Object, ObjectKey};
use crate::parse::input::{Draft, Input};
use crate::parse::values::{readable_headers, readable_query};
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use crate::resource::{
    GroupClaims, GroupEntry, GroupRoute, GroupRouteClaims, HttpRouteGroup, Resource,
};
use crate::spec::ObjectReference;
use http::Method;

pub(super) use definition::definition;

/// The fields of the spec.
const SPEC: &[&str] = &["routes", "headers", "queryParams", "delegatedFrom"];

pub(super) fn read(input: &Input<'_>) -> Draft {
    let Some(spec) = input.spec(AllowedFields::Only(SPEC)) else { return (None, claims(None)) };
    let (headers, all_headers) = readable_headers(&spec);
    let (query, all_query) = readable_query(&spec);
    let delegated_from = match spec.get("delegatedFrom") {
        Some(node) => consent::list(&node).unwrap_or_default(),
        None => Vec::new(),
    };
    let (routes, unreadable) = entries(&spec, &input.meta.key);
    let group = HttpRouteGroup { routes, headers, query, delegated_from };
    if spec.errors().count() == 0 {
        return (Some(Resource::HttpRouteGroup(group)), Claims::Nothing);
    }
    // An unknown field may be the misspelt name of predicates.
    let narrower = !all_headers || !all_query || spec.has_unknown(SPEC);
    (None, Claims::HttpRouteGroup(Box::new(GroupClaims { group, unreadable, narrower })))
}

/// The claims of a group that was valid, or without one, of an object that cannot be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let group = match resource {
        Some(Resource::HttpRouteGroup(group)) => Some(group),
        Some(_) | None => None,
    };
    Claims::HttpRouteGroup(Box::new(GroupClaims::of(group)))
}

/// The groups that it includes, valid or not.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let group = match &object.body {
        Body::Valid(Resource::HttpRouteGroup(group)) => group,
        Body::Invalid(Invalid { claims: Claims::HttpRouteGroup(claims), .. }) => &claims.group,
        Body::Valid(_) | Body::Invalid(_) => return Vec::new(),
    };
    let included = group.routes.iter().filter_map(|entry| match entry {
        GroupEntry::Include(include) => Some(&include.group),
        GroupEntry::Route(_) => None,
    });
    included.map(binding::include).collect()
}

/// The elements that can be read, and of each other one, the conditions that can.
fn entries(spec: &Fields<'_>, own: &ObjectKey) -> (Vec<GroupEntry>, Vec<GroupRouteClaims>) {
    // Where no element can be read, any may have been meant.
    let nothing = || (Vec::new(), vec![GroupRouteClaims::default()]);
    let Some(node) = spec.require("routes") else { return nothing() };
    let Some(list) = node.list_up_to(entry::MAX_ENTRIES) else { return nothing() };
    if list.is_empty() {
        node.error("must not be empty: a group without routes matches nothing");
        return nothing();
    }
    let mut entries: Vec<(GroupEntry, &JsonNode<'_>)> = Vec::new();
    let mut unreadable = Vec::new();
    for item in &list {
        let (entry, conditions) = entry::read(item, own);
        unreadable.extend(conditions);
        let Some(entry) = entry else { continue };
        for (other, place) in &entries {
            check_pair(&entry, item, other, place);
        }
        entries.push((entry, item));
    }
    (entries.into_iter().map(|(entry, _)| entry).collect(), unreadable)
}

/// Reports an element that repeats an earlier one.
fn check_pair(entry: &GroupEntry, node: &JsonNode<'_>, other: &GroupEntry, place: &JsonNode<'_>) {
    match (entry, other) {
        (GroupEntry::Route(route), GroupEntry::Route(other)) if route.is_duplicate_of(other) => {
            let method = shared_method(route, other).map_or("any method", Method::as_str);
            let path = quote(other.path.as_str());
            let place = quote(place.path());
            node.error(format!(
                "matches the same requests as {place} ({method} {path}): no two routes may have the same \
                 method, predicates and path but for the names of parameters"
            ));
        }
        (GroupEntry::Include(include), GroupEntry::Include(other))
            if include.group == other.group =>
        {
            let (group, place) = (&include.group, quote(place.path()));
            node.error(format!("includes {group} again, as {place} does"));
        }
        (GroupEntry::Route(_) | GroupEntry::Include(_), _) => {}
    }
}

/// A method of both; `None` if both are for any.
fn shared_method<'a>(one: &'a GroupRoute, other: &GroupRoute) -> Option<&'a Method> {
    one.methods.iter().find(|method| other.methods.contains(method))
}
