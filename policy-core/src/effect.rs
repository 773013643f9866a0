//! The effects on one request, explained: the bounds that hold, with the object that sets each, and what
//! happens to its headers.

use crate::decision::Permit;
use crate::filter::{Filter, FilterKind, Streams};
use crate::naive;
use crate::name::Source;
use crate::policy::ServerPolicy;
use crate::request::RequestView;
use http::{HeaderName, HeaderValue};
use std::fmt;
use std::time::Duration;

/// A part of an exchange that a timeout bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimeoutBound {
    /// From the arrival of the request to the end of the response.
    Complete,
    /// From the arrival of the request to the head of the response.
    Head,
    /// From the end of the request to the head of the response.
    Response,
    /// Without a frame of either body.
    Idle,
}

/// A bound that holds for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveBound {
    /// The part that it bounds.
    pub bound: TimeoutBound,
    /// The time.
    pub after: Duration,
    /// The object that sets it: of several with the same time, the first in the order of effects.
    pub source: Source,
}

/// A change to a header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderOperation {
    /// The object that configures it.
    pub source: Source,
    /// The header.
    pub name: HeaderName,
    /// The change.
    pub action: HeaderAction,
}

/// A change to all lines of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderAction {
    /// Removes them.
    Clear,
    /// Puts this one in their place.
    Set(HeaderValue),
    /// Appends this one.
    Add(HeaderValue),
}

/// The effects on a permitted request, explained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectsExplanation {
    /// The effects that apply, in order.
    pub applied: Vec<Filter>,
    /// The bounds that hold, at most one of each part.
    pub timeouts: Vec<EffectiveBound>,
    /// The changes to headers of the request, in order.
    pub headers: Vec<HeaderOperation>,
}

impl TimeoutBound {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Complete, Self::Head, Self::Response, Self::Idle];

    /// Returns the words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "from the request to the end of the response",
            Self::Head => "from the request to the head of the response",
            Self::Response => "from the end of the request to the head of the response",
            Self::Idle => "without a byte of either body",
        }
    }

    /// Returns the time by which `effect` bounds this part.
    fn of(self, effect: &FilterKind) -> Option<Duration> {
        let timeouts = match effect {
            FilterKind::Timeout(bound) => return (self == Self::Complete).then_some(*bound),
            FilterKind::Timeouts(timeouts) => timeouts,
            FilterKind::RequestHeaders(_)
            | FilterKind::ResponseHeaders(_)
            | FilterKind::Redirect(_)
            | FilterKind::Failure(_)
            | FilterKind::Rewrite(_) => return None,
        };
        match (self, timeouts.streams) {
            (Self::Complete, Streams::Bounded) | (Self::Head, Streams::Unbounded) => {
                timeouts.request
            }
            (Self::Complete, Streams::Unbounded) | (Self::Head, Streams::Bounded) => None,
            (Self::Response, _) => timeouts.response,
            (Self::Idle, _) => timeouts.idle,
        }
    }
}

impl fmt::Display for HeaderOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.action {
            HeaderAction::Clear => write!(f, "clear {name}"),
            HeaderAction::Set(value) => write!(f, "set {name}: {}", text(value)),
            HeaderAction::Add(value) => write!(f, "add {name}: {}", text(value)),
        }
    }
}

fn text(value: &HeaderValue) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Explains the effects on a permitted request. `request` is as it was received.
pub fn explain_effects(
    policy: &ServerPolicy,
    permit: &Permit,
    request: &RequestView<'_>,
) -> EffectsExplanation {
    let applied = naive::effects(policy, permit, request);
    let smallest = |bound: TimeoutBound| {
        let all = applied.iter().filter_map(|effect| Some((bound.of(&effect.kind)?, effect)));
        let (after, effect) = all.min_by_key(|(after, _)| *after)?;
        Some(EffectiveBound { bound, after, source: effect.source.clone() })
    };
    EffectsExplanation {
        timeouts: TimeoutBound::ALL.into_iter().filter_map(smallest).collect(),
        headers: applied.iter().flat_map(|effect| operations(effect)).collect(),
        applied: applied.into_iter().cloned().collect(),
    }
}

/// The changes of an effect, in the order in which they are made.
fn operations(effect: &Filter) -> Vec<HeaderOperation> {
    let clear = |name: &HeaderName| (name.clone(), HeaderAction::Clear);
    let set = |(name, value): &(HeaderName, HeaderValue)| {
        (name.clone(), HeaderAction::Set(value.clone()))
    };
    let add = |(name, value): &(HeaderName, HeaderValue)| {
        (name.clone(), HeaderAction::Add(value.clone()))
    };
    let changes: Vec<(HeaderName, HeaderAction)> = match &effect.kind {
        FilterKind::RequestHeaders(change) => {
            let written = change.add.iter().map(add).chain(change.set.iter().map(set));
            written.chain(change.remove.iter().map(clear)).collect()
        }
        FilterKind::Rewrite(rewrite) => {
            let gone = rewrite.clear.iter().map(clear);
            gone.chain(rewrite.set.iter().map(set)).chain(rewrite.add.iter().map(add)).collect()
        }
        FilterKind::ResponseHeaders(_)
        | FilterKind::Redirect(_)
        | FilterKind::Failure(_)
        | FilterKind::Timeout(_)
        | FilterKind::Timeouts(_) => Vec::new(),
    };
    let source = &effect.source;
    let operation = |(name, action)| HeaderOperation { source: source.clone(), name, action };
    changes.into_iter().map(operation).collect()
}
