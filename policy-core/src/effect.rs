//! The effects on one request, explained: the bounds that hold, with the object that sets each, and what
//! happens to its headers. The same of a rule, for every request that it may match.

use crate::condition::SegmentCondition;
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
    /// The effect that answers in the application's place: a failure of every request, or a redirect.
    /// A redirect to the request's own location, which is not looked for here, answers nothing.
    pub answer: Option<Filter>,
    /// The bounds that hold, at most one of each part. None where the request is not forwarded.
    pub timeouts: Vec<EffectiveBound>,
    /// The changes to headers of the request, in order. None where it is not forwarded.
    pub headers: Vec<HeaderOperation>,
}

/// The effects that requests of one rule may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleEffects {
    /// The bounds: of each part the one for every request first, then shorter ones under conditions.
    pub timeouts: Vec<PossibleBound>,
    /// The other effects, in the order in which they apply. Where one answers every request, those that
    /// answer alone.
    pub others: Vec<Filter>,
}

/// A bound on the requests that meet every condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleBound {
    /// The conditions; none: every request.
    pub when: Vec<SegmentCondition>,
    /// The bound.
    pub bound: EffectiveBound,
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
    let answers = |effect: &&&Filter| {
        matches!(effect.kind, FilterKind::Redirect(_)) || answers_all(&effect.kind)
    };
    let answer = applied.iter().find(answers).map(|effect| Filter::clone(effect));
    let forwarded = if answer.is_some() { &[][..] } else { &applied[..] };
    let smallest = |bound: TimeoutBound| bound.smallest(forwarded.iter().copied());
    EffectsExplanation {
        timeouts: TimeoutBound::ALL.into_iter().filter_map(smallest).collect(),
        headers: forwarded.iter().flat_map(|effect| header_operations(effect)).collect(),
        answer,
        applied: applied.into_iter().cloned().collect(),
    }
}

/// True for a failure of every request.
fn answers_all(kind: &FilterKind) -> bool {
    matches!(kind, FilterKind::Failure(failure) if failure.numerator >= failure.denominator)
}

impl PossibleEffects {
    /// The effects of a rule that come from `own`, where those of the Server apply too: a bound that a
    /// shorter one of the Server outdoes is left out. Those of the Server itself are `own` beside none.
    pub fn of(own: &[Filter], server: &[Filter]) -> Self {
        let answered = own.iter().chain(server).any(|effect| answers_all(&effect.kind));
        let is_kept = |kind: &FilterKind| match kind {
            FilterKind::Timeout(_) | FilterKind::Timeouts(_) => false,
            FilterKind::Redirect(_) | FilterKind::Failure(_) => true,
            FilterKind::RequestHeaders(_)
            | FilterKind::ResponseHeaders(_)
            | FilterKind::Rewrite(_) => !answered,
        };
        let last = own.iter().position(|effect| answers_all(&effect.kind));
        let reached = last.map_or(own.len(), |last| last.saturating_add(1));
        let parts = if answered { &[][..] } else { &TimeoutBound::ALL[..] };
        Self {
            timeouts: parts.iter().flat_map(|part| part.possible(own, server)).collect(),
            others: own.iter().take(reached).filter(|one| is_kept(&one.kind)).cloned().collect(),
        }
    }
}

impl TimeoutBound {
    /// The smallest bound of this part; of equal ones the first.
    fn smallest<'a>(self, effects: impl Iterator<Item = &'a Filter>) -> Option<EffectiveBound> {
        let all = effects.filter_map(|effect| Some((self.of(&effect.kind)?, effect)));
        let (after, effect) = all.min_by_key(|(after, _)| *after)?;
        Some(EffectiveBound { bound: self, after, source: effect.source.clone() })
    }

    /// The bounds of this part that `own` sets and nothing outdoes.
    fn possible(self, own: &[Filter], server: &[Filter]) -> Vec<PossibleBound> {
        let always = |effect: &&Filter| !effect.kind.is_conditional();
        let of_server = self.smallest(server.iter().filter(always)).map(|bound| bound.after);
        let of_own = self.smallest(own.iter().filter(always));
        let of_own = of_own.filter(|own| of_server.is_none_or(|server| own.after <= server));
        let least = of_own.as_ref().map(|own| own.after).or(of_server);
        let mut found: Vec<PossibleBound> = Vec::new();
        for effect in own {
            let FilterKind::Timeouts(timeouts) = &effect.kind else { continue };
            let Some(after) = self.of(&effect.kind) else { continue };
            let when = &timeouts.when;
            let alike = |known: &PossibleBound| known.when == *when;
            let outdone = found.iter().any(|known| alike(known) && known.bound.after <= after);
            if when.is_empty() || outdone || least.is_some_and(|least| least <= after) {
                continue;
            }
            found.retain(|known| !alike(known));
            let bound = EffectiveBound { bound: self, after, source: effect.source.clone() };
            found.push(PossibleBound { when: when.clone(), bound });
        }
        let of_own = of_own.map(|bound| PossibleBound { when: Vec::new(), bound });
        of_own.into_iter().chain(found).collect()
    }
}

/// Returns the changes of an effect to headers of the request, in the order in which they are made.
pub fn header_operations(effect: &Filter) -> Vec<HeaderOperation> {
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
