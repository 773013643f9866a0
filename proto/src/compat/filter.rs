//! Conversion of filters.

use crate::linkerd::grpc_route::GrpcFailureInjector;
use crate::linkerd::http_route::{HttpFailureInjector, PathModifier, Ratio};
use crate::linkerd::http_route::{RequestHeaderModifier, RequestRedirect, path_modifier};
use crate::linkerd::http_types::{Headers, Scheme, headers, scheme};
use crate::linkerd::inbound::{grpc_route, http_route};
use http::{HeaderName, HeaderValue};
use policy_core::filter::{
    Failure, FilterKind, HeaderChange, HeaderRewrite, Redirect, RedirectPath,
};

/// The encoding of a filter.
pub(super) enum FilterEncoding<T> {
    /// This filter does the same.
    Sent(T),
    /// Left out; the request is forwarded without it.
    Omitted(&'static str),
    /// Linkerd has no such filter, and forwarding without it would be wrong.
    Denied(&'static str),
}

/// The filter that removes `l5d-connection-secure` from every request. Linkerd's proxies set
/// `l5d-client-id` themselves but do not know this header, so a client could forge it.
pub(super) fn strip_client_headers() -> FilterKind {
    const SECURE: [&str; 4] = [
        "l5d-connection-secure",
        "l5d-connection_secure",
        "l5d_connection-secure",
        "l5d_connection_secure",
    ];
    let remove = SECURE.map(HeaderName::from_static).to_vec();
    FilterKind::RequestHeaders(HeaderChange { remove, ..HeaderChange::default() })
}

pub(super) fn http(effect: &FilterKind) -> FilterEncoding<http_route::Filter> {
    use http_route::filter::Kind;
    let kind = match effect {
        FilterKind::RequestHeaders(change) => Kind::RequestHeaderModifier(modifier(change)),
        FilterKind::Redirect(wanted) => match redirect(wanted) {
            Some(redirect) => Kind::Redirect(redirect),
            None => {
                return FilterEncoding::Denied("a redirect to a path that does not begin with `/`");
            }
        },
        FilterKind::Failure(failure) if failure.required => return required_failure(),
        FilterKind::Failure(failure) => {
            let Failure { status, grpc_status: _, message, numerator, denominator, required: _ } =
                failure;
            Kind::FailureInjector(HttpFailureInjector {
                status: u32::from(*status),
                message: message.to_string(),
                ratio: Some(ratio(*numerator, *denominator)),
            })
        }
        FilterKind::ResponseHeaders(_) => return FilterEncoding::Omitted(RESPONSE_HEADERS),
        FilterKind::Timeout(_) => return FilterEncoding::Omitted(TIMEOUT),
        FilterKind::Timeouts(_) => return FilterEncoding::Omitted(TIMEOUTS),
        FilterKind::Rewrite(wanted) => return rewrite(wanted),
    };
    FilterEncoding::Sent(http_route::Filter { kind: Some(kind) })
}

pub(super) fn grpc(effect: &FilterKind) -> FilterEncoding<grpc_route::Filter> {
    use grpc_route::filter::Kind;
    let kind = match effect {
        FilterKind::RequestHeaders(change) => Kind::RequestHeaderModifier(modifier(change)),
        FilterKind::Failure(failure) if failure.required => return required_failure(),
        FilterKind::Failure(failure) => {
            let Failure { status: _, grpc_status, message, numerator, denominator, required: _ } =
                failure;
            Kind::FailureInjector(GrpcFailureInjector {
                code: u32::from(*grpc_status),
                message: message.to_string(),
                ratio: Some(ratio(*numerator, *denominator)),
            })
        }
        FilterKind::Redirect(_) => return FilterEncoding::Denied("a redirect of gRPC calls"),
        FilterKind::ResponseHeaders(_) => return FilterEncoding::Omitted(RESPONSE_HEADERS),
        FilterKind::Timeout(_) => return FilterEncoding::Omitted(TIMEOUT),
        FilterKind::Timeouts(_) => return FilterEncoding::Omitted(TIMEOUTS),
        FilterKind::Rewrite(wanted) => return rewrite(wanted),
    };
    FilterEncoding::Sent(grpc_route::Filter { kind: Some(kind) })
}

const RESPONSE_HEADERS: &str = "changes to response headers (`response-headers`)";
const TIMEOUT: &str = "a timeout (`timeouts`)";
const TIMEOUTS: &str = "bounds on parts of an exchange (`timeout-policies`)";

/// As the rewrite that it stands for: a failure on a route says nothing about connections that are not
/// HTTP, nor about requests that another route takes.
fn required_failure<T>() -> FilterEncoding<T> {
    FilterEncoding::Denied("a rewrite that is required and invalid (`required-rewrites`)")
}

/// Returns true if clients do the same with and without it.
pub(super) fn is_omitted(effect: &FilterKind) -> bool {
    matches!(http(effect), FilterEncoding::Omitted(_))
}

/// A modifier has no conditions, and another order: it cannot set and then add.
fn rewrite<T>(rewrite: &HeaderRewrite) -> FilterEncoding<T> {
    if rewrite.required {
        FilterEncoding::Denied("rewriting of headers that is required (`required-rewrites`)")
    } else {
        FilterEncoding::Omitted("rewriting of headers (`header-rewrites`)")
    }
}

fn modifier(change: &HeaderChange) -> RequestHeaderModifier {
    let HeaderChange { add, set, remove } = change;
    // Both are always present, empty or not.
    RequestHeaderModifier {
        add: Some(fields(add)),
        set: Some(fields(set)),
        remove: remove.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}

fn fields(fields: &[(HeaderName, HeaderValue)]) -> Headers {
    let field = |(name, value): &(HeaderName, HeaderValue)| headers::Header {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Headers { headers: fields.iter().map(field).collect() }
}

/// Nothing if Linkerd's proxies would refuse it, and with it the whole port.
fn redirect(redirect: &Redirect) -> Option<RequestRedirect> {
    use path_modifier::Replace;
    let Redirect { scheme, host, port, path, status } = redirect;
    let replace = match path {
        None => None,
        Some(RedirectPath::Full(path)) => Some((path, Replace::Full(path.to_string()))),
        Some(RedirectPath::Prefix(prefix)) => Some((prefix, Replace::Prefix(prefix.to_string()))),
    };
    if replace.as_ref().is_some_and(|(path, _)| !path.starts_with('/')) {
        return None;
    }
    Some(RequestRedirect {
        scheme: scheme.as_deref().map(scheme_of),
        host: host.as_deref().unwrap_or_default().to_owned(),
        path: replace.map(|(_, replace)| PathModifier { replace: Some(replace) }),
        port: port.map(u32::from).unwrap_or_default(),
        status: u32::from(*status),
    })
}

fn scheme_of(name: &str) -> Scheme {
    use scheme::{Registered, Type};
    let kind = match name {
        "http" => Type::Registered(i32::from(Registered::Http)),
        "https" => Type::Registered(i32::from(Registered::Https)),
        other => Type::Unregistered(other.to_owned()),
    };
    Scheme { r#type: Some(kind) }
}

/// A share of more than one is refused by Linkerd's proxies, and with it the whole port.
fn ratio(numerator: u32, denominator: u32) -> Ratio {
    let denominator = denominator.max(1);
    Ratio { numerator: numerator.min(denominator), denominator }
}
