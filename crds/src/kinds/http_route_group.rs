//! HttpRouteGroup (docs/spec/requests.md): routes, described once.

mod definition;
mod entry;

use super::{binding, consent};
use crate::object::{Body, Object, ObjectKey};
use crate::parse::input::Input;
use crate::parse::values::{headers, query};
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use crate::resource::{GroupEntry, GroupRoute, HttpRouteGroup, Resource};
use crate::spec::ObjectReference;
use http::Method;

pub(super) use definition::definition;

/// The fields of the spec.
const SPEC: &[&str] = &["routes", "headers", "queryParams", "delegatedFrom"];

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(SPEC))?;
    let headers = headers(&spec);
    let query = query(&spec);
    let delegated_from = match spec.get("delegatedFrom") {
        Some(node) => consent::list(&node),
        None => Some(Vec::new()),
    };
    let routes = entries(&spec, &input.meta.key);
    Some(Resource::HttpRouteGroup(HttpRouteGroup {
        routes: routes?,
        headers: headers?,
        query: query?,
        delegated_from: delegated_from?,
    }))
}

/// The groups that it includes. An invalid group has no routes, so that it names none.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let Body::Valid(Resource::HttpRouteGroup(group)) = &object.body else { return Vec::new() };
    let included = group.routes.iter().filter_map(|entry| match entry {
        GroupEntry::Include(include) => Some(&include.group),
        GroupEntry::Route(_) => None,
    });
    included.map(binding::include).collect()
}

fn entries(spec: &Fields<'_>, own: &ObjectKey) -> Option<Vec<GroupEntry>> {
    let node = spec.require("routes")?;
    let list = node.list_up_to(entry::MAX_ENTRIES)?;
    if list.is_empty() {
        node.error("must not be empty: a group without routes matches nothing");
        return None;
    }
    node.clean(|_| {
        let mut entries: Vec<(GroupEntry, &JsonNode<'_>)> = Vec::new();
        for item in &list {
            let Some(entry) = entry::read(item, own) else { continue };
            for (other, place) in &entries {
                check_pair(&entry, item, other, place);
            }
            entries.push((entry, item));
        }
        Some(entries.into_iter().map(|(entry, _)| entry).collect())
    })
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
