//! The elements of a group: routes, and other groups.

use crate::kind::Kind;
use crate::kinds::binding;
use crate::object::ObjectKey;
use crate::parse::route_label::route_labels;
use crate::parse::values::{method, readable_headers, readable_query};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::resource::{
    GroupEntry, GroupInclude, GroupPath, GroupRoute, GroupRouteClaims, RouteLabels,
};
use http::Method;

/// The fields of an element, and those of a route alone.
const FIELDS: &[&str] = &["path", "routeGroupRef", "methods", "headers", "queryParams", "labels"];
const OF_ROUTES: &[&str] = &["methods", "headers", "queryParams"];
/// The fields that say which of both it is.
const WHICH: &[&str] = &["path", "routeGroupRef"];
/// The most elements of a group.
pub(super) const MAX_ENTRIES: usize = 256;
/// The most methods of a route: all there are.
pub(super) const MAX_METHODS: usize = 9;

/// The element, and if some of it cannot be read, the conditions that can. Labels decide what is granted
/// alone, so that one that cannot be read takes no route from its place.
pub(super) fn read(
    node: &JsonNode<'_>,
    own: &ObjectKey,
) -> (Option<GroupEntry>, Option<GroupRouteClaims>) {
    let (fields, known) = node.examined(|node| node.fields(AllowedFields::Only(FIELDS)));
    let Some(fields) = fields else { return (None, Some(GroupRouteClaims::default())) };
    let labels = match fields.get("labels") {
        Some(node) => route_labels(&node).unwrap_or_default(),
        None => RouteLabels::new(),
    };
    match (fields.get("path"), fields.get("routeGroupRef")) {
        // Any group may have been meant.
        (None, Some(node)) => match include(&fields, &node, own) {
            Some(group) => (Some(GroupEntry::Include(GroupInclude { group, labels })), None),
            None => (None, Some(GroupRouteClaims::default())),
        },
        (Some(path), None) => {
            let (read, whole) = node.examined(|_| conditions(&fields, Some(&path)));
            let GroupRouteClaims { path: Some(path), methods, headers, query } = read else {
                return (None, Some(read));
            };
            if known && whole {
                let route = GroupRoute { path, methods, headers, query, labels };
                return (Some(GroupEntry::Route(route)), None);
            }
            (None, Some(GroupRouteClaims { path: Some(path), methods, headers, query }))
        }
        (Some(path), Some(node)) => {
            fields.error(format!("only {} is allowed in one element", one_of(WHICH)));
            // Each of both may have been meant alone.
            match binding::reference(&node, Kind::HttpRouteGroup, own) {
                Some(group) => {
                    let include = GroupEntry::Include(GroupInclude { group, labels });
                    (Some(include), Some(conditions(&fields, Some(&path))))
                }
                None => (None, Some(GroupRouteClaims::default())),
            }
        }
        (None, None) => {
            fields.error(format!("{} is required", one_of(WHICH)));
            (None, Some(conditions(&fields, None)))
        }
    }
}

/// The conditions of a route that can be read.
fn conditions(fields: &Fields<'_>, path: Option<&JsonNode<'_>>) -> GroupRouteClaims {
    let path = path.and_then(read_path);
    let methods = fields.get("methods").and_then(|node| methods(&node)).unwrap_or_default();
    let (headers, _) = readable_headers(fields);
    let (query, _) = readable_query(fields);
    GroupRouteClaims { path, methods, headers, query }
}

fn read_path(node: &JsonNode<'_>) -> Option<GroupPath> {
    let text = node.text()?;
    match GroupPath::parse(text) {
        Ok(path) => Some(path),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

/// The methods of a route. An empty list could be meant for none.
fn methods(node: &JsonNode<'_>) -> Option<Vec<Method>> {
    let list = node.list_up_to(MAX_METHODS)?;
    if list.is_empty() {
        node.error("must not be empty, leave it out for any method");
        return None;
    }
    node.clean(|_| {
        let mut methods: Vec<Method> = Vec::new();
        for node in &list {
            let Some(method) = method(node) else { continue };
            if methods.contains(&method) {
                node.error(format!("`{method}` appears twice"));
            }
            methods.push(method);
        }
        Some(methods)
    })
}

/// The group that is included. Its routes have methods and predicates of their own.
fn include(fields: &Fields<'_>, node: &JsonNode<'_>, own: &ObjectKey) -> Option<ObjectKey> {
    for name in OF_ROUTES {
        if let Some(node) = fields.get(name) {
            node.error(
                "must be absent where `routeGroupRef` is present: the routes there have their own",
            );
        }
    }
    let group = binding::reference(node, Kind::HttpRouteGroup, own)?;
    if group == *own {
        node.error("names the group itself, which would have no end");
        return None;
    }
    Some(group)
}
