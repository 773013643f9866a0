//! Reads routes.

use super::read_grant::read_grants;
use super::{filter, meta};
use crate::error::{At, DecodeError, Result, each, required};
use crate::linkerd::grpc_route::{GrpcFailureInjector, GrpcRouteMatch, GrpcRpcMatch};
use crate::linkerd::http_route::query_param_match;
use crate::linkerd::http_route::{HeaderMatch as WireHeader, HostMatch, HttpFailureInjector};
use crate::linkerd::http_route::{HttpRouteMatch, PathMatch, PathModifier, QueryParamMatch, Ratio};
use crate::linkerd::http_route::{RequestHeaderModifier, RequestRedirect};
use crate::linkerd::http_route::{header_match, host_match, path_match, path_modifier};
use crate::linkerd::http_types::{Headers, HttpMethod, Scheme, http_method, scheme};
use crate::linkerd::inbound::{GrpcRoute, HttpRoute, grpc_route, http_route};
use crate::native::{bounded, header_name, header_value, method, pattern};
use http::{HeaderName, HeaderValue, Method};
use policy_core::filter::{Failure, Filter, FilterKind, HeaderChange, Redirect, RedirectPath};
use policy_core::matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, ValueMatch,
};
use policy_core::name::{Origin, Source};
use policy_core::pattern::Pattern;
use policy_core::policy::{Route, RouteKind, Rule};

pub(super) fn http(route: &HttpRoute) -> Result<Route> {
    let HttpRoute { metadata, hosts, authorizations, rules } = route;
    let origin = meta::read_origin(metadata.as_ref())?;
    let source = source(&origin);
    let rules = each("rules", rules, |http_route::Rule { matches, filters }| {
        Ok(Rule {
            matches: each("matches", matches, http_match)?.into(),
            effects: without_stripping(each("filters", filters, |filter| {
                http_filter(filter, &source)
            })?)
            .into(),
        })
    })?;
    Ok(Route {
        origin,
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: each("hosts", hosts, host)?.into(),
        rules: rules.into(),
        authorizations: read_grants(authorizations)?,
        inherits_server: true,
        withheld: Vec::new().into(),
    })
}

pub(super) fn grpc(route: &GrpcRoute) -> Result<Route> {
    let GrpcRoute { metadata, hosts, authorizations, rules } = route;
    let origin = meta::read_origin(metadata.as_ref())?;
    let source = source(&origin);
    let rules = each("rules", rules, |grpc_route::Rule { matches, filters }| {
        Ok(Rule {
            matches: each("matches", matches, grpc_match)?.into(),
            effects: without_stripping(each("filters", filters, |filter| {
                grpc_filter(filter, &source)
            })?)
            .into(),
        })
    })?;
    Ok(Route {
        origin,
        kind: RouteKind::Grpc,
        created: None,
        label: None,
        hosts: each("hosts", hosts, host)?.into(),
        rules: rules.into(),
        authorizations: read_grants(authorizations)?,
        inherits_server: true,
        withheld: Vec::new().into(),
    })
}

fn source(origin: &Origin) -> Source {
    match origin.object() {
        Some(object) => Source::Object(object.clone()),
        None => Source::Default(origin.to_string().trim_start_matches("default ").into()),
    }
}

fn host(host: &HostMatch) -> Result<HostPattern> {
    match host.r#match.as_ref().ok_or_else(DecodeError::missing)? {
        host_match::Match::Exact(name) => {
            let name = name.to_ascii_lowercase();
            Ok(HostPattern::Exact(name.strip_suffix('.').unwrap_or(&name).into()))
        }
        host_match::Match::Suffix(host_match::Suffix { reverse_labels }) => {
            if reverse_labels.is_empty() {
                return Err(DecodeError::here("must not be empty"))
                    .at("reverse_labels")
                    .at("suffix");
            }
            let labels: Vec<&str> = reverse_labels.iter().rev().map(String::as_str).collect();
            Ok(HostPattern::Suffix(labels.join(".").to_ascii_lowercase().into()))
        }
    }
}

fn http_match(wanted: &HttpRouteMatch) -> Result<RequestMatch> {
    let HttpRouteMatch { path: wanted, headers, query_params, method } = wanted;
    let path = match wanted {
        Some(wanted) => path(wanted).at("path")?,
        None => PathPattern::prefix("/"),
    };
    let method = method.as_ref().map(read_method).transpose().at("method")?;
    let headers = each("headers", headers, header)?;
    Ok(RequestMatch::new(path, method, headers, each("query_params", query_params, query)?))
}

fn path(path: &PathMatch) -> Result<PathPattern> {
    match path.kind.as_ref().ok_or_else(DecodeError::missing)? {
        path_match::Kind::Exact(path) => Ok(PathPattern::exact(absolute(path).at("exact")?)),
        // Trimmed like a single `/`, it would match more than it says.
        path_match::Kind::Prefix(prefix) if prefix.starts_with("//") || prefix.ends_with("//") => {
            let message = format!("must not begin or end with `//`, is `{prefix}`");
            Err(DecodeError::here(message)).at("prefix")
        }
        path_match::Kind::Prefix(prefix) => Ok(PathPattern::prefix(absolute(prefix).at("prefix")?)),
        path_match::Kind::Regex(source) => Ok(PathPattern::Regex(expression(source).at("regex")?)),
    }
}

fn absolute(path: &str) -> Result<&str> {
    if path.starts_with('/') {
        Ok(path)
    } else {
        Err(DecodeError::here(format!("must begin with `/`, is `{path}`")))
    }
}

/// Reads a regular expression. Linkerd's proxies match the whole text, as we do. The anchors that
/// we send are removed if the rest is an expression by itself.
fn expression(source: &str) -> Result<Pattern> {
    let inner = source.strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$"));
    match inner.map(Pattern::parse) {
        Some(Ok(pattern)) => Ok(pattern),
        Some(Err(_)) | None => pattern(source),
    }
}

fn header(header: &WireHeader) -> Result<HeaderMatch> {
    let WireHeader { name, value } = header;
    let value = match value.as_ref().ok_or_else(DecodeError::missing).at("value")? {
        header_match::Value::Exact(bytes) => ValueMatch::Exact(bytes.as_slice().into()),
        header_match::Value::Regex(source) => ValueMatch::Regex(expression(source).at("regex")?),
    };
    Ok(HeaderMatch { name: header_name(name).at("name")?, value })
}

fn query(parameter: &QueryParamMatch) -> Result<QueryMatch> {
    let QueryParamMatch { name, value } = parameter;
    let value = match value.as_ref().ok_or_else(DecodeError::missing).at("value")? {
        query_param_match::Value::Exact(text) => ValueMatch::Exact(text.as_bytes().into()),
        query_param_match::Value::Regex(source) => {
            ValueMatch::Regex(expression(source).at("regex")?)
        }
    };
    Ok(QueryMatch { name: name.as_str().into(), value })
}

fn read_method(wanted: &HttpMethod) -> Result<Method> {
    use http_method::{Registered, Type};
    match wanted.r#type.as_ref().ok_or_else(DecodeError::missing)? {
        Type::Registered(number) => {
            let known = Registered::try_from(*number)
                .map_err(|_| DecodeError::here(format!("method {number} is not known here")));
            method(known.at("registered")?.as_str_name())
        }
        Type::Unregistered(name) => method(name).at("unregistered"),
    }
}

fn grpc_match(wanted: &GrpcRouteMatch) -> Result<RequestMatch> {
    let GrpcRouteMatch { rpc, headers } = wanted;
    let GrpcRpcMatch { service, method } = required("rpc", rpc.as_ref(), |rpc| Ok(rpc.clone()))?;
    for (field, name) in [("service", &service), ("method", &method)] {
        if name.contains('/') {
            let message = format!("must not contain `/`, is `{name}`");
            return Err(DecodeError::here(message)).at(field).at("rpc");
        }
    }
    // Empty is any, for `RequestMatch::grpc` as on the wire.
    let call = RequestMatch::grpc(Some(&service), Some(&method));
    Ok(call.with_headers(each("headers", headers, header)?))
}

/// Removes the filter that our own controller puts first; the sidecar strips these headers itself.
fn without_stripping(mut effects: Vec<Filter>) -> Vec<Filter> {
    if effects.first().is_some_and(|effect| effect.kind == filter::strip_client_headers()) {
        effects.remove(0);
    }
    effects
}

fn http_filter(filter: &http_route::Filter, source: &Source) -> Result<Filter> {
    use http_route::filter::Kind;
    let kind = match filter.kind.as_ref().ok_or_else(DecodeError::missing)? {
        Kind::FailureInjector(HttpFailureInjector { status, message, ratio }) => {
            let status = bounded(*status, 100, 599).at("status").at("failure_injector")?;
            let (numerator, denominator) = share(ratio.as_ref()).at("failure_injector")?;
            FilterKind::Failure(Failure {
                status,
                grpc_status: grpc_status(status),
                message: message.as_str().into(),
                numerator,
                denominator,
                required: false,
            })
        }
        Kind::RequestHeaderModifier(change) => {
            FilterKind::RequestHeaders(modifier(change).at("request_header_modifier")?)
        }
        Kind::Redirect(wanted) => FilterKind::Redirect(redirect(wanted).at("redirect")?),
    };
    Ok(Filter { source: source.clone(), kind })
}

fn grpc_filter(filter: &grpc_route::Filter, source: &Source) -> Result<Filter> {
    use grpc_route::filter::Kind;
    let kind = match filter.kind.as_ref().ok_or_else(DecodeError::missing)? {
        Kind::FailureInjector(GrpcFailureInjector { code, message, ratio }) => {
            let grpc_status = bounded(*code, 0, 16).at("code").at("failure_injector")?;
            let (numerator, denominator) = share(ratio.as_ref()).at("failure_injector")?;
            FilterKind::Failure(Failure {
                status: 500,
                grpc_status,
                message: message.as_str().into(),
                numerator,
                denominator,
                required: false,
            })
        }
        Kind::RequestHeaderModifier(change) => {
            FilterKind::RequestHeaders(modifier(change).at("request_header_modifier")?)
        }
    };
    Ok(Filter { source: source.clone(), kind })
}

/// The status for gRPC callers (gRPC's own table of HTTP statuses).
fn grpc_status(status: u16) -> u16 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

/// Absent: all.
fn share(ratio: Option<&Ratio>) -> Result<(u32, u32)> {
    match ratio {
        None => Ok((1, 1)),
        Some(Ratio { numerator, denominator: 0 }) => {
            Err(DecodeError::here(format!("must not be 0, is {numerator} of 0")))
                .at("denominator")
                .at("ratio")
        }
        Some(Ratio { numerator, denominator }) => Ok((*numerator, *denominator)),
    }
}

fn modifier(change: &RequestHeaderModifier) -> Result<HeaderChange> {
    let RequestHeaderModifier { add, set, remove } = change;
    Ok(HeaderChange {
        add: fields(add.as_ref()).at("add")?,
        set: fields(set.as_ref()).at("set")?,
        remove: each("remove", remove, |name| header_name(name))?,
    })
}

fn fields(headers: Option<&Headers>) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let Some(Headers { headers }) = headers else { return Ok(Vec::new()) };
    each("headers", headers, |header| {
        Ok((header_name(&header.name).at("name")?, header_value(&header.value).at("value")?))
    })
}

fn redirect(redirect: &RequestRedirect) -> Result<Redirect> {
    let RequestRedirect { scheme, host, path, port, status } = redirect;
    let status = match status {
        0 => 301,
        // Linkerd's controller sends this where the filter names no status, whose default is 302.
        200 => 302,
        other => bounded(*other, 300, 399).at("status")?,
    };
    let port = bounded(*port, 0, u16::MAX).at("port")?;
    Ok(Redirect {
        scheme: scheme.as_ref().map(read_scheme).transpose().at("scheme")?,
        host: (!host.is_empty()).then(|| host.as_str().into()),
        port: (port != 0).then_some(port),
        path: path.as_ref().map(replacement).transpose().at("path")?,
        status,
    })
}

fn replacement(path: &PathModifier) -> Result<RedirectPath> {
    use path_modifier::Replace;
    Ok(match path.replace.as_ref().ok_or_else(DecodeError::missing)? {
        Replace::Full(path) => RedirectPath::Full(absolute(path).at("full")?.into()),
        Replace::Prefix(prefix) => RedirectPath::Prefix(absolute(prefix).at("prefix")?.into()),
    })
}

fn read_scheme(scheme: &Scheme) -> Result<std::sync::Arc<str>> {
    use scheme::{Registered, Type};
    Ok(match scheme.r#type.as_ref().ok_or_else(DecodeError::missing)? {
        Type::Registered(number) => match Registered::try_from(*number) {
            Ok(Registered::Http) => "http".into(),
            Ok(Registered::Https) => "https".into(),
            Err(_) => {
                return Err(DecodeError::here(format!("scheme {number} is not known here")))
                    .at("registered");
            }
        },
        Type::Unregistered(name) => name.as_str().into(),
    })
}
