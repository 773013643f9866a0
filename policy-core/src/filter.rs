//! Gateway API filters and timeouts, applied to permitted requests.

use crate::name::Source;
use http::{HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// One filter and the object that configures it. Filters apply in order, those of the rule before
/// those of the Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The object that configures it.
    pub source: Source,
    /// The action.
    pub kind: FilterKind,
}

/// The kinds of filters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Changes headers of the request before it is forwarded.
    RequestHeaders(HeaderChange),
    /// Changes headers of the response before it is returned.
    ResponseHeaders(HeaderChange),
    /// Answers with a redirect instead of forwarding.
    Redirect(Redirect),
    /// Answers with a failure instead of forwarding, for a share of the requests.
    Failure(Failure),
    /// Bounds the time until the response is complete; the smallest of several counts.
    Timeout(Duration),
}

/// Header changes: first `add` (append), then `set` (replace), then `remove` (docs/spec/proxy.md 3.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderChange {
    /// Values appended.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Values that replace all of that name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Names removed.
    pub remove: Vec<HeaderName>,
}

/// A redirect (Gateway API HTTPRequestRedirectFilter).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    /// `http` or `https`; absent: as requested.
    pub scheme: Option<Arc<str>>,
    /// Host; absent: as requested.
    pub host: Option<Arc<str>>,
    /// Port; absent: as requested, or the scheme's own where host or scheme changed.
    pub port: Option<u16>,
    /// Path; absent: as requested.
    pub path: Option<RedirectPath>,
    /// 301 or 302.
    pub status: u16,
}

/// The path of a redirect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RedirectPath {
    /// Replaces the whole path.
    Full(Arc<str>),
    /// Replaces the prefix that matched; only on rules whose matches are prefixes.
    Prefix(Arc<str>),
}

/// An injected failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// HTTP status, 100 to 599. For gRPC requests the proxy answers with `grpc_status`.
    pub status: u16,
    /// gRPC status code, 0 to 16.
    pub grpc_status: u16,
    /// Message for the caller.
    pub message: Arc<str>,
    /// Share of the requests that fail: numerator of `denominator`.
    pub numerator: u32,
    /// Never 0.
    pub denominator: u32,
}
