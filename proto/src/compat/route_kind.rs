//! The two kinds of route of Linkerd's messages, and the matches that each can express.

use super::filter::FilterEncoding;
use super::options::EncodeOptions;
use super::{deny_all, filter, meta};
use crate::linkerd::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use crate::linkerd::http_route::host_match::{Match as HostKind, Suffix};
use crate::linkerd::http_route::{HeaderMatch as WireHeader, HostMatch, HttpRouteMatch, PathMatch};
use crate::linkerd::http_route::{QueryParamMatch, header_match, path_match, query_param_match};
use crate::linkerd::http_types::{HttpMethod, http_method};
use crate::linkerd::inbound::{Authz, GrpcRoute, HttpRoute, grpc_route, http_route};
use crate::linkerd::meta::Metadata;
use http::Method;
use http::header::HOST;
use policy_core::filter::FilterKind;
use policy_core::host::canonical_host;
use policy_core::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, Segment, ValueMatch,
    WrittenMatch,
};
use policy_core::name::Origin;
use policy_core::pattern::Pattern;

/// A kind of route.
pub(super) trait LinkerdRoute: Sized {
    type Match: Clone;
    type Filter: Clone;
    type Route;

    /// Returns the equivalent match, if there is one.
    fn matched(wanted: &RequestMatch, options: &EncodeOptions) -> Option<Self::Match>;
    /// Returns a match for paths that an anchored expression covers, where there are such matches.
    fn expression(anchored: String) -> Option<Self::Match>;
    /// Returns true if a rule without matches means this match.
    fn is_meant_by_none(wanted: &RequestMatch) -> bool;
    /// Returns a match for every request.
    fn everything() -> Self::Match;
    /// Returns the matches of a rule without matches, which means every request.
    fn implicit() -> Vec<Self::Match>;
    /// Returns the equivalent filter.
    fn filter(effect: &FilterKind) -> FilterEncoding<Self::Filter>;
    fn route(planned: RoutePlan<Self>) -> Self::Route;
}

/// A route before it is encoded.
pub(super) struct RoutePlan<F: LinkerdRoute> {
    pub(super) metadata: Metadata,
    pub(super) hosts: Vec<HostPattern>,
    pub(super) rules: Vec<RulePlan<F>>,
    /// Its own grants.
    pub(super) grants: Vec<Authz>,
    /// True if the Server's grants count too.
    pub(super) inherits: bool,
}

pub(super) struct RulePlan<F: LinkerdRoute> {
    pub(super) matches: Vec<F::Match>,
    pub(super) filters: Vec<F::Filter>,
}

impl<F: LinkerdRoute> RoutePlan<F> {
    /// A route for everything on these hosts, without grants of its own.
    pub(super) fn everything(name: &str, hosts: Vec<HostPattern>, inherits: bool) -> Self {
        let rule = RulePlan { matches: vec![F::everything()], filters: Vec::new() };
        let metadata = meta::built_in(name);
        Self { metadata, hosts, rules: vec![rule], grants: Vec::new(), inherits }
    }

    pub(super) fn named(origin: &Origin) -> Metadata {
        meta::route(origin)
    }
}

/// The filters that every rule begins with.
pub(super) fn leading_filters<F: LinkerdRoute>(options: &EncodeOptions) -> Vec<F::Filter> {
    if options.connection_secure_header {
        return Vec::new();
    }
    match F::filter(&filter::strip_client_headers()) {
        FilterEncoding::Sent(filter) => vec![filter],
        FilterEncoding::Omitted(_) | FilterEncoding::Denied(_) => Vec::new(),
    }
}

/// Routes of HTTP requests.
pub(super) struct Http;

impl LinkerdRoute for Http {
    type Match = HttpRouteMatch;
    type Filter = http_route::Filter;
    type Route = HttpRoute;

    fn matched(request: &RequestMatch, options: &EncodeOptions) -> Option<HttpRouteMatch> {
        let (_, method, wanted, query) = request.parts();
        let query: Option<Vec<QueryParamMatch>> =
            query.iter().map(|parameter| query_match(parameter, options)).collect();
        Some(HttpRouteMatch {
            path: Some(PathMatch { kind: Some(path(request, options)?) }),
            headers: headers(wanted, options),
            query_params: query?,
            method: method.map(http_method),
        })
    }

    fn expression(anchored: String) -> Option<HttpRouteMatch> {
        let path = Some(PathMatch { kind: Some(path_match::Kind::Regex(anchored)) });
        Some(HttpRouteMatch { path, ..HttpRouteMatch::default() })
    }

    fn is_meant_by_none(wanted: &RequestMatch) -> bool {
        *wanted.parts().0 == PathPattern::prefix("/")
            && wanted.method().is_none()
            && wanted.headers().is_empty()
            && wanted.query().is_empty()
    }

    fn everything() -> HttpRouteMatch {
        deny_all::every_path()
    }

    fn implicit() -> Vec<HttpRouteMatch> {
        Vec::new()
    }

    fn filter(effect: &FilterKind) -> FilterEncoding<http_route::Filter> {
        filter::http(effect)
    }

    fn route(planned: RoutePlan<Self>) -> HttpRoute {
        let RoutePlan { metadata, hosts, rules, grants, inherits: _ } = planned;
        let rules = rules
            .into_iter()
            .map(|RulePlan { matches, filters }| http_route::Rule { matches, filters })
            .collect();
        let hosts = hosts.iter().map(host).collect();
        HttpRoute { metadata: Some(metadata), hosts, authorizations: grants, rules }
    }
}

/// Routes of gRPC calls.
pub(super) struct Grpc;

impl LinkerdRoute for Grpc {
    type Match = GrpcRouteMatch;
    type Filter = grpc_route::Filter;
    type Route = GrpcRoute;

    fn matched(request: &RequestMatch, options: &EncodeOptions) -> Option<GrpcRouteMatch> {
        let (path, method, wanted, query) = request.parts();
        let rpc = call(path, method)?;
        let headers = headers(wanted, options);
        query.is_empty().then_some(GrpcRouteMatch { rpc: Some(rpc), headers })
    }

    fn expression(_: String) -> Option<GrpcRouteMatch> {
        None
    }

    fn is_meant_by_none(_: &RequestMatch) -> bool {
        true
    }

    fn everything() -> GrpcRouteMatch {
        deny_all::every_call()
    }

    fn implicit() -> Vec<GrpcRouteMatch> {
        vec![deny_all::every_call()]
    }

    fn filter(effect: &FilterKind) -> FilterEncoding<grpc_route::Filter> {
        filter::grpc(effect)
    }

    fn route(planned: RoutePlan<Self>) -> GrpcRoute {
        let RoutePlan { metadata, hosts, rules, grants, inherits: _ } = planned;
        let rules = rules
            .into_iter()
            .map(|RulePlan { matches, filters }| grpc_route::Rule { matches, filters })
            .collect();
        let hosts = hosts.iter().map(host).collect();
        GrpcRoute { metadata: Some(metadata), hosts, authorizations: grants, rules }
    }
}

/// A call by service and method. Linkerd's proxies match `POST` and two segments, always.
fn call(path: &PathPattern, method: Option<&Method>) -> Option<GrpcRpcMatch> {
    let PathPattern::Segments { segments, rest } = path else { return None };
    match (segments.as_slice(), rest, method) {
        ([], true, None) => Some(GrpcRpcMatch::default()),
        ([service, method], false, Some(&Method::POST)) => {
            Some(GrpcRpcMatch { service: part(service)?, method: part(method)? })
        }
        (_, _, _) => None,
    }
}

/// Encodes a service or method. Empty stands for any, so an empty literal cannot be expressed.
fn part(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Parameter(_) => Some(String::new()),
        Segment::Literal(text) => {
            (!text.is_empty() && !text.contains('/')).then(|| text.to_string())
        }
    }
}

fn path(request: &RequestMatch, options: &EncodeOptions) -> Option<path_match::Kind> {
    let (segments, rest) = match &request.path {
        PathPattern::Regex(pattern) => {
            let expression = path_expression(pattern, request.written(), options);
            return Some(path_match::Kind::Regex(expression));
        }
        PathPattern::Segments { segments, rest } => (segments, *rest),
    };
    if let Some(WrittenMatch::Path(text)) = request.written()
        && options.matches_as_written
    {
        let text = text.to_string();
        let exact = path_match::Kind::Exact;
        return Some(if rest { path_match::Kind::Prefix(text) } else { exact(text) });
    }
    let has_parameter = segments.iter().any(|s| matches!(s, Segment::Parameter(_)));
    let has_empty = segments.iter().any(|s| matches!(s, Segment::Literal(text) if text.is_empty()));
    match (has_parameter, rest) {
        // `/` is the prefix of all; further down an empty segment cannot be distinguished from
        // none.
        (false, true) if has_empty => None,
        (false, true) if segments.is_empty() => Some(path_match::Kind::Prefix("/".to_owned())),
        (false, true) => Some(path_match::Kind::Prefix(joined(segments, |text| text.to_owned())?)),
        (false, false) => Some(path_match::Kind::Exact(joined(segments, |text| text.to_owned())?)),
        (true, false) => {
            let inner = joined(segments, escaped)?;
            Some(path_match::Kind::Regex(format!("^(?:{inner})$")))
        }
        (true, true) => None,
    }
}

/// The segments as a path; a parameter becomes an expression for any one segment.
fn joined(segments: &[Segment], write: impl Fn(&str) -> String) -> Option<String> {
    if segments.is_empty() {
        return None;
    }
    let mut text = String::new();
    for segment in segments {
        text.push('/');
        match segment {
            Segment::Literal(literal) if literal.contains('/') => return None,
            Segment::Literal(literal) => text.push_str(&write(literal)),
            Segment::Parameter(_) => text.push_str("[^/]+"),
        }
    }
    Some(text)
}

/// Text as an expression for exactly that text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// A regular expression. Linkerd's proxies take the first alternative that matches, so that one
/// without anchors may fail although another alternative matches the whole text.
fn expression(pattern: &Pattern, options: &EncodeOptions) -> String {
    match options.matches_as_written {
        true => pattern.source().to_owned(),
        false => pattern.anchored(),
    }
}

/// A regular expression over paths. Linkerd's proxies compare a path as it was received: where the
/// expression has another form as it is written, either may match.
fn path_expression(
    pattern: &Pattern,
    written: Option<&WrittenMatch>,
    options: &EncodeOptions,
) -> String {
    match written {
        Some(WrittenMatch::Path(text)) if options.matches_as_written => text.to_string(),
        Some(WrittenMatch::Path(text)) => format!("^(?:(?:{})|(?:{text}))$", pattern.source()),
        Some(WrittenMatch::Nothing) | None => expression(pattern, options),
    }
}

fn headers(headers: &[HeaderMatch], options: &EncodeOptions) -> Vec<WireHeader> {
    let wire = |HeaderMatch { name, value }: &HeaderMatch| WireHeader {
        name: name.as_str().to_owned(),
        value: Some(match value {
            ValueMatch::Exact(bytes) if *name == HOST && !options.matches_as_written => {
                any_spelling(bytes)
            }
            ValueMatch::Exact(bytes) => header_match::Value::Exact(bytes.to_vec()),
            ValueMatch::Regex(pattern) => header_match::Value::Regex(expression(pattern, options)),
        }),
    };
    headers.iter().map(wire).collect()
}

/// A value of `host` in every spelling that the canonical host stands for. Linkerd's proxies compare
/// the line as it was received.
fn any_spelling(bytes: &[u8]) -> header_match::Value {
    match std::str::from_utf8(bytes).ok().and_then(|text| canonical_host(text).ok()) {
        Some(host) => {
            let name = escaped(&host.name);
            header_match::Value::Regex(format!("^(?:(?i:{name})\\.?(?::[0-9]*)?)$"))
        }
        None => header_match::Value::Exact(bytes.to_vec()),
    }
}

fn query_match(parameter: &QueryMatch, options: &EncodeOptions) -> Option<QueryParamMatch> {
    let QueryMatch { name, value } = parameter;
    let value = match value {
        ValueMatch::Exact(bytes) => {
            query_param_match::Value::Exact(String::from_utf8(bytes.to_vec()).ok()?)
        }
        ValueMatch::Regex(pattern) => query_param_match::Value::Regex(expression(pattern, options)),
    };
    Some(QueryParamMatch { name: name.to_string(), value: Some(value) })
}

fn http_method(method: &Method) -> HttpMethod {
    use http_method::{Registered, Type};
    let number = Registered::from_str_name(method.as_str());
    let kind = match number {
        Some(number) => Type::Registered(i32::from(number)),
        None => Type::Unregistered(method.as_str().to_owned()),
    };
    HttpMethod { r#type: Some(kind) }
}

fn host(pattern: &HostPattern) -> HostMatch {
    let kind = match pattern {
        HostPattern::Exact(name) => HostKind::Exact(name.to_string()),
        HostPattern::Suffix(suffix) => {
            let reverse_labels = suffix.rsplit('.').map(str::to_owned).collect();
            HostKind::Suffix(Suffix { reverse_labels })
        }
    };
    HostMatch { r#match: Some(kind) }
}
