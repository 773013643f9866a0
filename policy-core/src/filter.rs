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
    /// Without a frame of either body.
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

impl FilterKind {
    /// Returns true if it bounds the time of an exchange.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Timeouts(_))
    }

    /// Returns true if it applies to some requests alone.
    pub fn is_conditional(&self) -> bool {
        match self {
            Self::Timeouts(timeouts) => !timeouts.when.is_empty(),
            Self::Rewrite(rewrite) => !rewrite.when.is_empty(),
            Self::RequestHeaders(_)
            | Self::ResponseHeaders(_)
            | Self::Redirect(_)
            | Self::Failure(_)
            | Self::Timeout(_) => false,
        }
    }

    /// Returns true if it applies to requests of some paths alone.
    pub fn depends_on_path(&self) -> bool {
        match self {
            Self::Timeouts(timeouts) => !timeouts.when.is_empty(),
            Self::Rewrite(rewrite) => rewrite.when.iter().any(|condition| match condition {
                EffectCondition::Segment(_) => true,
                EffectCondition::Header(_) => false,
            }),
            Self::RequestHeaders(_)
            | Self::ResponseHeaders(_)
            | Self::Redirect(_)
            | Self::Failure(_)
            | Self::Timeout(_) => false,
        }
    }

    /// Returns true if no request that it applies to may be forwarded without it.
    pub fn is_required(&self) -> bool {
        match self {
            Self::Rewrite(rewrite) => rewrite.required,
            Self::Failure(failure) => failure.required,
            Self::RequestHeaders(_)
            | Self::ResponseHeaders(_)
            | Self::Redirect(_)
            | Self::Timeout(_)
            | Self::Timeouts(_) => false,
        }
    }

    /// Returns true if it applies to `request`, whose path is in the form that routes are matched on. Where
    /// parsers could read different segments in it, conditions on segments count as met.
    pub fn applies_to(&self, request: &RequestView<'_>) -> bool {
        match self {
            Self::Timeouts(timeouts) => timeouts.when.iter().all(|one| one.may_hold(request)),
            Self::Rewrite(rewrite) => rewrite.when.iter().all(|one| one.may_hold(request)),
            Self::RequestHeaders(_)
            | Self::ResponseHeaders(_)
            | Self::Redirect(_)
            | Self::Failure(_)
            | Self::Timeout(_) => true,
        }
    }
}

impl HeaderRewrite {
    /// The names that it clears, sets or adds to.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        let Self { when: _, clear, set, add, required: _ } = self;
        clear.iter().chain(set.iter().chain(add).map(|(name, _)| name))
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
    /// Without a frame of either body.
    pub idle: Option<Duration>,
}

impl EffectiveTimeouts {
    /// Adds the bounds of an effect that applies, if it has any.
    pub fn add(&mut self, effect: &FilterKind) {
        match effect {
            FilterKind::Timeout(bound) => least(&mut self.complete, Some(*bound)),
            FilterKind::Timeouts(timeouts) => {
                let request = match timeouts.streams {
                    Streams::Bounded => &mut self.complete,
                    Streams::Unbounded => &mut self.head,
                };
                least(request, timeouts.request);
                least(&mut self.response, timeouts.response);
                least(&mut self.idle, timeouts.idle);
            }
            FilterKind::RequestHeaders(_)
            | FilterKind::ResponseHeaders(_)
            | FilterKind::Redirect(_)
            | FilterKind::Failure(_)
            | FilterKind::Rewrite(_) => {}
        }
    }

    /// Returns true if there is no bound.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn least(known: &mut Option<Duration>, bound: Option<Duration>) {
    *known = known.iter().copied().chain(bound).min();
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
    /// 301, 302, 303, 307 or 308.
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
    /// True if it stands for a rewrite without which no request may be forwarded.
    pub required: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Option<Duration> {
        Some(Duration::from_secs(count))
    }

    fn policy(request: u64, response: u64, streams: Streams) -> FilterKind {
        let (request, response) = (seconds(request), seconds(response));
        FilterKind::Timeouts(Timeouts { request, response, streams, ..Timeouts::default() })
    }

    #[test]
    fn the_smallest_of_each_bound_holds_in_any_order() {
        let idle = FilterKind::Timeouts(Timeouts { idle: seconds(7), ..Timeouts::default() });
        let all = [
            policy(10, 4, Streams::Bounded),
            FilterKind::Timeout(Duration::from_secs(5)),
            policy(3, 6, Streams::Unbounded),
            idle,
            FilterKind::Redirect(Redirect {
                scheme: None,
                host: None,
                port: None,
                path: None,
                status: 301,
            }),
        ];
        for first in 0..all.len() {
            let mut found = EffectiveTimeouts::default();
            assert!(found.is_empty());
            all.iter().cycle().skip(first).take(all.len()).for_each(|one| found.add(one));
            let wanted = EffectiveTimeouts {
                complete: seconds(5),
                head: seconds(3),
                response: seconds(4),
                idle: seconds(7),
            };
            assert_eq!(found, wanted, "from {first}");
        }
    }

    #[test]
    fn a_bound_on_unbounded_streams_never_ends_a_response() {
        let mut found = EffectiveTimeouts::default();
        found.add(&policy(1, 2, Streams::Unbounded));
        assert_eq!((found.complete, found.head), (None, seconds(1)));
    }
}
