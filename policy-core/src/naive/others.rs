//! The rules that did not decide a request, each with the reason.

use super::matches::{by_header, by_parameter, evaluate, has_path, in_order};
use crate::decision::RuleId;
use crate::match_form;
use crate::match_result::MatchResult;
use crate::matching::{HostPattern, RequestMatch};
use crate::name::Origin;
use crate::policy::{Route, ServerPolicy};
use crate::request::RequestView;
use std::cmp::Ordering;
use std::cmp::Reverse;

/// A match of a rule that did not decide a request.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherRule {
    /// The origin of its route.
    pub origin: Origin,
    /// The match; that for every request where the rule states none.
    pub wanted: RequestMatch,
    /// The reason why it did not decide.
    pub outcome: RuleOutcome,
}

/// The reason why a match did not decide a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The request fulfils it, and another one precedes it by this criterion.
    Lost(MatchPrecedence),
    /// The request does not fulfil these parts of it. Never empty.
    Missed(Vec<MatchPart>),
}

/// The criterion by which one match precedes another (Gateway API, HTTPRouteRule).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchPrecedence {
    /// The other may have been meant for the request and cannot be read.
    Unreadable,
    /// The other's host is more specific, or the host has rules of its own.
    Host,
    /// The other's path is more specific.
    Path,
    /// The other names a method.
    Method,
    /// The other names more headers.
    Headers,
    /// The other names more query parameters.
    Query,
    /// The other's route is older, or comes first by name; or the rule comes first in its route.
    Earlier,
}

/// A part of a match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MatchPart {
    /// The hosts of its route.
    Host,
    /// The path.
    Path,
    /// The method.
    Method,
    /// The header of this name.
    Header(String),
    /// The query parameter of this name.
    Query(String),
}

/// The place of a match among those that a request fulfils.
struct MatchPlace<'a> {
    host: Option<&'a HostPattern>,
    wanted: &'a RequestMatch,
}

/// Returns the matches that did not decide a request: first those that it fulfils, in order of
/// precedence, then the others, fewest parts missed first. `decided` is the rule that did, if any. The
/// path of `request` is as it was received.
pub fn other_rules(
    policy: &ServerPolicy,
    decided: Option<RuleId>,
    request: &RequestView<'_>,
) -> Vec<OtherRule> {
    let path = match_form::matched(request.path, policy.paths);
    let request = &RequestView { path: &path, ..*request };
    let everything = RequestMatch::everything();
    let winner = decided.and_then(|id| place_of(policy, id, request, &everything));
    let first =
        decided.and_then(|id| route_of(policy, id)).is_some_and(|own| own.origin.comes_first());
    let mut lost: Vec<(MatchPlace<'_>, OtherRule)> = Vec::new();
    let mut missed: Vec<(usize, OtherRule)> = Vec::new();
    for (number, route) in (0_u32..).zip(&policy.routes.routes) {
        for (rule, entry) in (0_u32..).zip(&route.rules) {
            if decided == Some(RuleId { route: number, rule }) {
                continue;
            }
            let stated = &entry.matches[..];
            let all = if stated.is_empty() { std::slice::from_ref(&everything) } else { stated };
            for wanted in all {
                let other = |outcome| OtherRule {
                    origin: route.origin.clone(),
                    wanted: wanted.clone(),
                    outcome,
                };
                let parts = missed_parts(policy, route, wanted, request);
                if parts.is_empty() {
                    let place = MatchPlace { host: host_of(route, request.host), wanted };
                    let by = match &winner {
                        _ if first => MatchPrecedence::Unreadable,
                        Some(winner) => criterion(winner, &place),
                        None => MatchPrecedence::Host,
                    };
                    lost.push((place, other(RuleOutcome::Lost(by))));
                } else {
                    missed.push((parts.len(), other(RuleOutcome::Missed(parts))));
                }
            }
        }
    }
    lost.sort_by(|(a, _), (b, _)| in_sequence(a, b));
    missed.sort_by_cached_key(|(parts, other)| {
        (*parts, Reverse(shared(&other.wanted, request.path)))
    });
    let lost = lost.into_iter().map(|(_, other)| other);
    lost.chain(missed.into_iter().map(|(_, other)| other)).collect()
}

fn route_of(policy: &ServerPolicy, id: RuleId) -> Option<&Route> {
    let route = policy.routes.routes.get(usize::try_from(id.route).ok()?)?;
    Some(route)
}

/// The match of a rule that took the request; of one that cannot tell, its first.
fn place_of<'a>(
    policy: &'a ServerPolicy,
    id: RuleId,
    request: &RequestView<'_>,
    everything: &'a RequestMatch,
) -> Option<MatchPlace<'a>> {
    let route = route_of(policy, id)?;
    let rule = route.rules.get(usize::try_from(id.rule).ok()?)?;
    let taken = rule
        .matches
        .iter()
        .filter(|wanted| evaluate(wanted, policy.paths, request) != MatchResult::NoMatch);
    let wanted = taken.min_by(|a, b| in_order(a, b)).unwrap_or(everything);
    Some(MatchPlace { host: host_of(route, request.host), wanted })
}

/// The most specific host of a route that the request has.
fn host_of<'a>(route: &'a Route, host: Option<&str>) -> Option<&'a HostPattern> {
    let own = host?;
    route
        .hosts
        .iter()
        .filter(|pattern| pattern.admits(own))
        .min_by_key(|one| specificity(Some(one)))
}

/// The rank of a table among those that a host names: its own, the longest suffix, that of every host.
fn specificity(host: Option<&HostPattern>) -> (u8, Reverse<usize>) {
    match host {
        Some(HostPattern::Exact(_)) => (0, Reverse(0)),
        Some(HostPattern::Suffix(suffix)) => (1, Reverse(suffix.len())),
        None => (2, Reverse(0)),
    }
}

fn in_sequence(a: &MatchPlace<'_>, b: &MatchPlace<'_>) -> Ordering {
    specificity(a.host).cmp(&specificity(b.host)).then_with(|| in_order(a.wanted, b.wanted))
}

/// The criterion by which `first` precedes `second`.
fn criterion(first: &MatchPlace<'_>, second: &MatchPlace<'_>) -> MatchPrecedence {
    let (a, b) = (first.wanted, second.wanted);
    let path = |one: &RequestMatch| RequestMatch::path(one.path.clone());
    if specificity(first.host) != specificity(second.host) {
        MatchPrecedence::Host
    } else if in_order(&path(a), &path(b)) != Ordering::Equal {
        MatchPrecedence::Path
    } else if a.method().is_some() != b.method().is_some() {
        MatchPrecedence::Method
    } else if a.headers().len() != b.headers().len() {
        MatchPrecedence::Headers
    } else if a.query().len() != b.query().len() {
        MatchPrecedence::Query
    } else {
        MatchPrecedence::Earlier
    }
}

/// The parts of a match that a request does not fulfil.
fn missed_parts(
    policy: &ServerPolicy,
    route: &Route,
    wanted: &RequestMatch,
    request: &RequestView<'_>,
) -> Vec<MatchPart> {
    let on_host = |pattern: &HostPattern| request.host.is_some_and(|own| pattern.admits(own));
    let mut parts = Vec::new();
    if !route.hosts.is_empty() && !route.hosts.iter().any(on_host) {
        parts.push(MatchPart::Host);
    }
    if !has_path(&wanted.path, policy.paths, request.path) {
        parts.push(MatchPart::Path);
    }
    if wanted.method().is_some_and(|method| method != request.method) {
        parts.push(MatchPart::Method);
    }
    for header in wanted.headers() {
        if by_header(header, request) == MatchResult::NoMatch {
            parts.push(MatchPart::Header(header.name.to_string()));
        }
    }
    for parameter in wanted.query() {
        if by_parameter(parameter, request) == MatchResult::NoMatch {
            parts.push(MatchPart::Query(parameter.name.to_string()));
        }
    }
    parts
}

/// Number of bytes that the words of a match's path and the path of a request begin with alike.
fn shared(wanted: &RequestMatch, path: &str) -> usize {
    let words = wanted.path.to_string();
    words.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count()
}
