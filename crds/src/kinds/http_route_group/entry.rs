//! The elements of a group: routes, and other groups.

use crate::kind::Kind;
use crate::kinds::binding;
use crate::object::ObjectKey;
use crate::parse::route_label::route_labels;
use crate::parse::values::{headers, method, query};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::resource::{GroupEntry, GroupInclude, GroupPath, GroupRoute, RouteLabels};
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

pub(super) fn read(node: &JsonNode<'_>, own: &ObjectKey) -> Option<GroupEntry> {
    let fields = node.fields(AllowedFields::Only(FIELDS))?;
    let labels = match fields.get("labels") {
        Some(node) => route_labels(&node),
        None => Some(RouteLabels::new()),
    };
    match (fields.get("path"), fields.get("routeGroupRef")) {
        (Some(path), None) => route(&fields, &path, labels).map(GroupEntry::Route),
        (None, Some(node)) => {
            let group = include(&fields, &node, own);
            Some(GroupEntry::Include(GroupInclude { group: group?, labels: labels? }))
        }
        (Some(_), Some(_)) => {
            fields.error(format!("only {} is allowed in one element", one_of(WHICH)));
            None
        }
        (None, None) => {
            fields.error(format!("{} is required", one_of(WHICH)));
            None
        }
    }
}

fn route(
    fields: &Fields<'_>,
    path: &JsonNode<'_>,
    labels: Option<RouteLabels>,
) -> Option<GroupRoute> {
    let path = read_path(path);
    let methods = match fields.get("methods") {
        Some(node) => methods(&node),
        None => Some(Vec::new()),
    };
    let (headers, query) = (headers(fields), query(fields));
    Some(GroupRoute {
        path: path?,
        methods: methods?,
        headers: headers?,
        query: query?,
        labels: labels?,
    })
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
