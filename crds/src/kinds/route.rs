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
use crate::resource::{
    ParentRef, Resource, RouteClaims, RouteResource, RouteRule, UnreadParent, UnsupportedFilter,
};
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use dialect::Dialect;
use policy_core::{FilterKind, ObjectRef, PathPattern, RequestMatch, WrittenMatch};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) use definition::definition;
pub(super) use remark::remarks;

/// The fields of the spec.
const SPEC: &[&str] = &["parentRefs", "hostnames", "rules"];

pub(super) fn read(input: &Input<'_>) -> Draft {
    let dialect = Dialect::of(input);
    let Some(spec) = input.spec(AllowedFields::Any) else {
        return (None, Claims::Route(Box::new(RouteClaims::of_nothing())));
    };
    let others_may_know_more = !matches!(dialect, Dialect::Policy { .. });
    if !others_may_know_more {
        spec.refuse(dialect.growing(SPEC));
    }
    let (parents, mut unread) = parent::parents(&spec, dialect, &input.meta.key.namespace);
    if parents.iter().any(ParentRef::is_outbound) {
        annotation::check(input, dialect.is_grpc());
    }
    if unread.is_empty() && !parents.is_empty() && parents.iter().all(ParentRef::is_of_others) {
        // Whether it is valid is for the controllers of its parents to say, which may know more of the
        // Gateway API. It binds nothing here.
        let route = RouteResource {
            parents,
            hostnames: Vec::new(),
            rules: Vec::new(),
            foreign_backends: Vec::new(),
        };
        return (Some(Resource::Route(route)), Claims::Nothing);
    }
    if others_may_know_more {
        spec.refuse(dialect.growing(SPEC));
    }
    let (hostnames, all) = hostnames::hostnames(&spec);
    let mut beside = Beside::of(&input.meta.key.namespace);
    // An unknown field may be the misspelt name of one that is absent.
    let is_misspelt = dialect.is_misspelt(&spec, SPEC);
    let absent = |name: &str| is_misspelt && spec.get(name).is_none();
    let rules = rules(&spec, dialect, &mut beside);
    if spec.errors().count() == 0 && rules.iter().all(ReadRule::is_whole) {
        let Beside { namespace: _, foreign_backends } = beside;
        let foreign_backends = foreign_backends.into_iter().collect();
        let rules = rules.into_iter().filter_map(ReadRule::whole).collect();
        let route = RouteResource { parents, hostnames, rules, foreign_backends };
        return (Some(Resource::Route(route)), Claims::Nothing);
    }
    if absent("parentRefs") {
        unread.push(UnreadParent::default());
    }
    let mut claims = RouteClaims {
        parents,
        unread,
        hostnames,
        any_host: !all || absent("hostnames"),
        ..RouteClaims::default()
    };
    for rule in rules {
        // Of any host, a match may come before those of each host.
        let readable = if claims.any_host { &mut claims.unreadable } else { &mut claims.matches };
        readable.extend(rule.matches);
        claims.unreadable.extend(rule.unreadable);
    }
    (None, Claims::Route(Box::new(claims)))
}

/// The claims of a route that was valid. One of which nothing could be read may have named any Server
/// of its namespace.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    Claims::Route(Box::new(match resource {
        Some(Resource::Route(route)) => RouteClaims::of(route),
        Some(_) | None => RouteClaims::of_nothing(),
    }))
}

/// The Servers and InboundRoutes among its parents, valid or not, and its backends in other namespaces.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let (parents, unread, backends) = match &object.body {
        Body::Valid(Resource::Route(route)) => {
            (&route.parents[..], false, &route.foreign_backends[..])
        }
        Body::Invalid(Invalid { claims: Claims::Route(claims), .. }) => {
            (&claims.parents[..], !claims.unread.is_empty(), &[][..])
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
    /// Backends in other namespaces.
    foreign_backends: BTreeSet<ObjectRef>,
}

impl<'a> Beside<'a> {
    fn of(namespace: &'a str) -> Self {
        Self { namespace, foreign_backends: BTreeSet::new() }
    }
}

/// A rule, as far as it can be read.
#[derive(Default)]
struct ReadRule {
    /// The matches that can be read.
    matches: Vec<RequestMatch>,
    /// Of each other match, the conditions that can be read.
    unreadable: Vec<RequestMatch>,
    /// The parts beside the matches, if all can be read.
    rest: Option<RuleRest>,
}

/// The parts of a rule beside its matches.
#[derive(Default)]
struct RuleRest {
    filters: Vec<FilterKind>,
    /// Filters that are not applied here.
    unsupported: Vec<UnsupportedFilter>,
    timeout: Option<Duration>,
}

impl ReadRule {
    /// A rule of which nothing can be read.
    fn unreadable(dialect: Dialect) -> Self {
        Self { unreadable: vec![dialect.everything()], ..Self::default() }
    }

    fn is_whole(&self) -> bool {
        self.unreadable.is_empty() && self.rest.is_some()
    }

    fn whole(self) -> Option<RouteRule> {
        let Self { matches, unreadable: _, rest } = self;
        let RuleRest { filters, unsupported, timeout } = rest?;
        Some(RouteRule { matches, filters, timeout, unsupported })
    }
}

/// The rules; empty: the route matches nothing. The schema of an HTTPRoute has a default that matches
/// everything and applies if the field is absent, not if the list is empty. The schema of a GRPCRoute
/// has none.
fn rules(spec: &Fields<'_>, dialect: Dialect, beside: &mut Beside<'_>) -> Vec<ReadRule> {
    let Some(node) = spec.get("rules") else {
        if dialect.lacks(spec, SPEC, "rules") {
            return vec![ReadRule::unreadable(dialect)];
        }
        if dialect.is_grpc() {
            return Vec::new();
        }
        let (matches, rest) = (vec![RequestMatch::everything()], Some(RuleRest::default()));
        return vec![ReadRule { matches, rest, ..ReadRule::default() }];
    };
    match node.list_up_to(16) {
        Some(list) => list.iter().map(|node| rule(node, dialect, beside)).collect(),
        None => vec![ReadRule::unreadable(dialect)],
    }
}

fn rule(node: &JsonNode<'_>, dialect: Dialect, beside: &mut Beside<'_>) -> ReadRule {
    let known: &[&str] = match dialect {
        Dialect::Policy { timeouts: false } => &["matches", "filters", "backendRefs"],
        Dialect::Policy { timeouts: true } | Dialect::Gateway(_) | Dialect::Grpc(_) => {
            &["matches", "filters", "backendRefs", "timeouts"]
        }
    };
    let Some(fields) = node.fields(dialect.growing(known)) else {
        return ReadRule::unreadable(dialect);
    };
    let mut read = match fields.get("matches") {
        // An unknown field may be the misspelt name of this one.
        None if dialect.lacks(&fields, known, "matches") => ReadRule::unreadable(dialect),
        node => matches(node, dialect),
    };
    let mut unsupported = Vec::new();
    let filters = filter::filters(&fields, dialect, &mut unsupported);
    let timeout = timeout(&fields, dialect);
    let named = backends(&fields, dialect).into_iter();
    let foreign = named.filter(|backend| backend.namespace() != beside.namespace);
    beside.foreign_backends.extend(foreign);
    let (Some(filters), Some(timeout)) = (filters, timeout) else { return read };
    if filter::prefix_replaced(&filters) && !read.matches.iter().all(is_prefix) {
        let message = "`ReplacePrefixMatch` needs matches whose path is a `PathPrefix`";
        fields.error_at("filters", message);
        return read;
    }
    read.rest = Some(RuleRest { filters, unsupported, timeout });
    read
}

fn is_prefix(request: &RequestMatch) -> bool {
    matches!(request.path, PathPattern::Segments { rest: true, .. })
}

/// The matches of a rule. Absent and empty stand for the match that matches everything.
fn matches(node: Option<JsonNode<'_>>, dialect: Dialect) -> ReadRule {
    let of = |matches| ReadRule { matches, ..ReadRule::default() };
    // The definition of an HTTPRoute fills in a match where there is no list.
    let Some(node) = node else {
        let everything = dialect.everything();
        return of(vec![match dialect {
            Dialect::Policy { .. } | Dialect::Gateway(_) => everything,
            Dialect::Grpc(_) => everything.with_written(WrittenMatch::Nothing),
        }]);
    };
    let Some(list) = node.list_up_to(dialect.max_matches()) else {
        return ReadRule::unreadable(dialect);
    };
    if list.is_empty() {
        return of(vec![dialect.everything().with_written(WrittenMatch::Nothing)]);
    }
    let mut read = ReadRule::default();
    for node in &list {
        let one = match dialect {
            Dialect::Policy { .. } | Dialect::Gateway(_) => http::request_match(node),
            Dialect::Grpc(_) => grpc::request_match(node),
        };
        match one {
            Ok(one) => read.matches.push(one),
            Err(readable) => read.unreadable.push(readable),
        }
    }
    read
}

/// The form of a duration of the Gateway API (GEP-2257): an API server stores no other.
const GATEWAY_DURATION: &str = "is not a duration such as `10s`, `500ms` or `1m30s`";

/// `timeouts.request`; zero means none.
fn timeout(fields: &Fields<'_>, dialect: Dialect) -> Option<Option<Duration>> {
    let Some(node) = fields.get("timeouts").filter(|_| !dialect.is_grpc()) else {
        return Some(None);
    };
    let fields = node.fields(dialect.growing(&["request", "backendRequest"]))?;
    let read = |name: &str| match fields.get(name) {
        None => Some(None),
        Some(node) => {
            let text = node.text()?;
            let duration = match dialect {
                Dialect::Gateway(_) => duration::gateway(text).ok_or(GATEWAY_DURATION),
                Dialect::Policy { .. } | Dialect::Grpc(_) => duration::go(text),
            };
            match duration {
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
