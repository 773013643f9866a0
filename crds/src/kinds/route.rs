//! HTTPRoute of both groups and GRPCRoute (docs/spec/controller.md 1.7, 1.10, 2.6, 4).
//!
//! The Gateway API may gain fields. Unknown fields are ignored, but never inside a match or a
//! filter, where ignoring one would match or permit more than its author wrote.

mod annotation;
mod definition;
mod dialect;
mod filter;
mod grpc;
mod http;
mod parent;
mod remark;

use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object, ObjectKey};
use crate::parse::input::{Draft, Input};
use crate::parse::{duration, hostnames};
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use crate::resource::{ParentRef, Resource, RouteResource, RouteRule, UnsupportedFilter};
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use dialect::Dialect;
use policy_core::{ObjectRef, PathPattern, RequestMatch, WrittenMatch};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) use definition::definition;
pub(super) use remark::remarks;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let dialect = Dialect::of(input);
    let Some(spec) = input.spec(dialect.growing(&["parentRefs", "hostnames", "rules"])) else {
        return (None, Claims::Route { parents: Vec::new(), hostnames: Vec::new(), unread: true });
    };
    let (parents, unread) = parent::parents(&spec, dialect);
    if parents.iter().any(parent::is_outbound) {
        annotation::check(input, dialect == Dialect::Grpc);
    }
    let (hostnames, all) = hostnames::hostnames(&spec);
    let mut beside = Beside::of(&input.meta.key.namespace);
    let rules = rules(&spec, dialect, &mut beside);
    let Beside { namespace: _, unsupported, foreign_backends } = beside;
    let foreign_backends = foreign_backends.into_iter().collect();
    let claims = Claims::Route { parents: parents.clone(), hostnames: hostnames.clone(), unread };
    let route = rules.filter(|_| all).map(|rules| {
        Resource::Route(RouteResource { parents, hostnames, rules, unsupported, foreign_backends })
    });
    (route, claims)
}

/// A route of which nothing could be read may have named any Server of its namespace.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::Route(route)) = resource else {
        return Claims::Route { parents: Vec::new(), hostnames: Vec::new(), unread: true };
    };
    let (parents, hostnames) = (route.parents.clone(), route.hostnames.clone());
    Claims::Route { parents, hostnames, unread: false }
}

/// The Servers and InboundRoutes among its parents, valid or not, and its backends in other namespaces.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let (parents, unread, backends) = match &object.body {
        Body::Valid(Resource::Route(route)) => {
            (&route.parents[..], false, &route.foreign_backends[..])
        }
        Body::Invalid(Invalid { claims: Claims::Route { parents, unread, .. }, .. }) => {
            (&parents[..], *unread, &[][..])
        }
        Body::Valid(_) | Body::Invalid(_) => (&[][..], false, &[][..]),
    };
    let namespace = &object.meta.key.namespace;
    let named = parents.iter().filter_map(|parent| ObjectKey::parent_of(parent, namespace));
    let any = unread.then(|| ReferenceTarget::AnyOf(Kind::Server, namespace.clone()));
    let parents = named.map(ReferenceTarget::One).chain(any);
    let parents = parents.map(|what| ObjectReference { field: Field::Parent, what });
    let backends = backends.iter().map(|backend| ObjectReference {
        field: Field::Backend,
        what: ReferenceTarget::Unread(backend.clone()),
    });
    parents.chain(backends).collect()
}

pub(super) fn idle(resource: &Resource, _: &str) -> Option<FieldError> {
    let Resource::Route(route) = resource else { return None };
    let message = "matches nothing: no Server that it is attached to owns a port of any workload";
    let inbound = route.parents.iter().any(ParentRef::is_server);
    inbound.then(|| FieldError::new("spec.parentRefs", message))
}

/// The parts of rules beside their matches.
struct Beside<'a> {
    /// The namespace of the route.
    namespace: &'a str,
    /// Filters that take no effect here.
    unsupported: Vec<UnsupportedFilter>,
    /// Backends in other namespaces.
    foreign_backends: BTreeSet<ObjectRef>,
}

impl<'a> Beside<'a> {
    fn of(namespace: &'a str) -> Self {
        Self { namespace, unsupported: Vec::new(), foreign_backends: BTreeSet::new() }
    }
}

/// The rules; empty: the route matches nothing. The schema of an HTTPRoute has a default that matches
/// everything and applies if the field is absent, not if the list is empty. The schema of a GRPCRoute
/// has none.
fn rules(spec: &Fields<'_>, dialect: Dialect, beside: &mut Beside<'_>) -> Option<Vec<RouteRule>> {
    let Some(node) = spec.get("rules") else {
        if dialect == Dialect::Grpc {
            return Some(Vec::new());
        }
        let matches = vec![RequestMatch::everything()];
        return Some(vec![RouteRule { matches, filters: Vec::new(), timeout: None }]);
    };
    let list = node.list_up_to(16)?;
    let rules: Vec<Option<RouteRule>> =
        list.iter().map(|node| rule(node, dialect, beside)).collect();
    rules.into_iter().collect()
}

fn rule(node: &JsonNode<'_>, dialect: Dialect, beside: &mut Beside<'_>) -> Option<RouteRule> {
    let known = match dialect {
        Dialect::Policy { timeouts: true } => {
            AllowedFields::Only(&["matches", "filters", "backendRefs", "timeouts"])
        }
        Dialect::Policy { timeouts: false } => {
            AllowedFields::Only(&["matches", "filters", "backendRefs"])
        }
        Dialect::Gateway | Dialect::Grpc => AllowedFields::Any,
    };
    let fields = node.fields(known)?;
    let matches = matches(&fields, dialect);
    let filters = filter::filters(&fields, dialect, &mut beside.unsupported);
    let timeout = timeout(&fields, dialect);
    let named = backends(&fields, dialect).into_iter();
    let foreign = named.filter(|backend| backend.namespace() != beside.namespace);
    beside.foreign_backends.extend(foreign);
    let (matches, filters) = (matches?, filters?);
    if !filter::prefix_replaced(&filters) || matches.iter().all(is_prefix) {
        return Some(RouteRule { matches, filters, timeout: timeout? });
    }
    fields.error_at("filters", "`ReplacePrefixMatch` needs matches whose path is a `PathPrefix`");
    None
}

fn is_prefix(request: &RequestMatch) -> bool {
    matches!(request.path, PathPattern::Segments { rest: true, .. })
}

/// Absent and empty stand for the match that matches everything.
fn matches(fields: &Fields<'_>, dialect: Dialect) -> Option<Vec<RequestMatch>> {
    let everything = match dialect {
        Dialect::Policy { .. } | Dialect::Gateway => RequestMatch::everything(),
        Dialect::Grpc => RequestMatch::grpc(None, None).with_written(WrittenMatch::Nothing),
    };
    // The definition of an HTTPRoute fills in a match where there is no list.
    let Some(node) = fields.get("matches") else { return Some(vec![everything]) };
    let list = node.list_up_to(dialect.max_matches())?;
    if list.is_empty() {
        return Some(vec![everything.with_written(WrittenMatch::Nothing)]);
    }
    let read: Vec<Option<RequestMatch>> = list
        .iter()
        .map(|node| match dialect {
            Dialect::Policy { .. } | Dialect::Gateway => http::request_match(node),
            Dialect::Grpc => grpc::request_match(node),
        })
        .collect();
    read.into_iter().collect()
}

/// `timeouts.request`; zero means none.
fn timeout(fields: &Fields<'_>, dialect: Dialect) -> Option<Option<Duration>> {
    let Some(node) = fields.get("timeouts").filter(|_| dialect != Dialect::Grpc) else {
        return Some(None);
    };
    let fields = node.fields(dialect.growing(&["request", "backendRequest"]))?;
    let read = |name: &str| match fields.get(name) {
        None => Some(None),
        Some(node) => {
            let text = node.text()?;
            match duration::go(text) {
                Ok(duration) => Some(Some(duration).filter(|d| !d.is_zero())),
                Err(reason) => {
                    node.error(format!("{} {reason}", quote(text)));
                    None
                }
            }
        }
    };
    let (request, backend) = (read("request"), read("backendRequest"));
    let (request, backend) = (request?, backend?);
    if let (Some(request), Some(backend)) = (request, backend)
        && backend > request
    {
        fields.error_at("backendRequest", "must not be longer than `request`");
        return None;
    }
    Some(request)
}

/// Backends matter to outbound traffic only; they are checked as admission would. Returns those
/// whose namespace is stated.
fn backends(fields: &Fields<'_>, dialect: Dialect) -> Vec<ObjectRef> {
    let mut named = Vec::new();
    let list = fields.get("backendRefs").and_then(|node| node.list_up_to(16));
    for node in list.unwrap_or_default() {
        let names = &["group", "kind", "name", "namespace", "port", "weight", "filters"];
        let Some(fields) = node.fields(dialect.growing(names)) else { continue };
        let text = |name: &str| fields.get(name).and_then(|node| node.text());
        let (group, kind) = (text("group").unwrap_or(""), text("kind").unwrap_or("Service"));
        let name = fields.require("name").and_then(|node| node.text_up_to(253));
        let port = fields.get("port");
        if let Some(port) = &port {
            port.integer(1, 65535);
        }
        let core = group.is_empty() || group.eq_ignore_ascii_case("core");
        let service = core && kind.eq_ignore_ascii_case("Service");
        if service && port.is_none() && !matches!(dialect, Dialect::Policy { .. }) {
            fields.error_at("port", "is required where the backend is a Service");
        }
        if let (Some(namespace), Some(name)) = (text("namespace"), name) {
            let group = if core { "" } else { group };
            named.push(ObjectRef::new(group, kind, namespace, name));
        }
    }
    named
}
