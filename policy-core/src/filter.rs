//! Gateway API filters, timeouts and header rewriting, applied to permitted requests.

use crate::condition::{EffectCondition, SegmentCondition};
use crate::name::Source;
use crate::request::RequestView;
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
    /// Bounds parts of the exchange.
    Timeouts(Timeouts),
    /// Rewrites headers of the request before it is forwarded.
    Rewrite(HeaderRewrite),
}

/// The bounds of a TimeoutPolicy. Of several that apply, the smallest of each bound counts, so that
/// their order never matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// The requests that they apply to: those that meet every condition.
    pub when: Vec<SegmentCondition>,
    /// From the arrival of the request's head to the end that `streams` says.
    pub request: Option<Duration>,
    /// From the end of the request to the head of the response.
    pub response: Option<Duration>,
    /// The longest time without a byte of either body.
    pub idle: Option<Duration>,
    /// The end of the bound on the request.
    pub streams: Streams,
}

/// The part of an exchange that the bound on a request covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Streams {
    /// Up to the end of the response.
    #[default]
    Bounded,
    /// Up to the head of the response: a stream may take any time.
    Unbounded,
}

/// A rule of a HeaderRewritePolicy: first `clear`, then `set`, then `add`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderRewrite {
    /// The requests that it applies to: those that meet every condition as they were received.
    pub when: Vec<EffectCondition>,
    /// Names removed.
    pub clear: Vec<HeaderName>,
    /// Values that replace all of that name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Values appended.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// True if a proxy that cannot apply it has to refuse the request.
    pub required: bool,
}

impl Timeouts {
    /// Returns true if they apply to `request`, whose path is a match form.
    pub fn apply_to(&self, request: &RequestView<'_>) -> bool {
        self.when.iter().all(|condition| condition.holds(request))
    }
}

impl HeaderRewrite {
    /// Returns true if it applies to `request`, whose path is a match form.
    pub fn applies_to(&self, request: &RequestView<'_>) -> bool {
        self.when.iter().all(|condition| condition.holds(request))
    }
}

/// The bounds that hold for one request: the smallest of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectiveTimeouts {
    /// Until the response is complete.
    pub complete: Option<Duration>,
    /// Until the head of the response.
    pub head: Option<Duration>,
    /// From the end of the request to the head of the response.
    pub response: Option<Duration>,
    /// Without a byte of either body.
    pub idle: Option<Duration>,
}

impl EffectiveTimeouts {
    /// Adds the bound of a Gateway API route.
    pub fn add_complete(&mut self, bound: Duration) {
        least(&mut self.complete, Some(bound));
    }

    /// Adds the bounds of a TimeoutPolicy that applies.
    pub fn add(&mut self, timeouts: &Timeouts) {
        let request = match timeouts.streams {
            Streams::Bounded => &mut self.complete,
            Streams::Unbounded => &mut self.head,
        };
        least(request, timeouts.request);
        least(&mut self.response, timeouts.response);
        least(&mut self.idle, timeouts.idle);
    }
}

fn least(known: &mut Option<Duration>, bound: Option<Duration>) {
    *known = known.into_iter().chain(bound).min();
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
