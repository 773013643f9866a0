//! Effects on permitted requests: bounds on time, changes of headers, answers in the application's
//! place. Rules with equal ones are told together, those of the Server once.

use super::report::{EffectChange, RequestEffects, TimeoutEntry};
use super::requests::rule_matches;
use policy_core::effect::{PossibleBound, PossibleEffects, TimeoutBound, header_operations};
use policy_core::filter::{Failure, HeaderChange, Redirect};
use policy_core::{Filter, FilterKind, ServerPolicy};
use policy_engine::view::{Shadowed, host};
use std::collections::HashMap;

/// Returns the effects on requests of a port in the order in which they apply: those of rules, then
/// those on every request.
pub(super) fn effects(policy: &ServerPolicy, shadowed: &[Shadowed]) -> Vec<RequestEffects> {
    if policy.deny.is_some() || !policy.protocol.is_http() {
        return Vec::new();
    }
    let mut all: Vec<RequestEffects> = Vec::new();
    let mut places: HashMap<RequestEffects, usize> = HashMap::new();
    for (number, route) in policy.routes.routes.iter().enumerate() {
        if route.origin.refusal().is_some() {
            continue;
        }
        for (place, rule) in route.rules.iter().enumerate() {
            let possible = PossibleEffects::of(&rule.effects, &policy.effects);
            let hosts = route.hosts.iter().map(host).collect();
            let Some(found) = entry(Some(route.origin.to_string()), hosts, &possible) else {
                continue;
            };
            let (what, _) = rule_matches(route, (number, place), rule, shadowed);
            if what.is_empty() {
                continue;
            }
            let known = *places.entry(found.clone()).or_insert(all.len());
            match all.get_mut(known) {
                Some(known) => known.what.extend(what),
                None => all.push(RequestEffects { what, ..found }),
            }
        }
    }
    let every = entry(None, Vec::new(), &PossibleEffects::of(&policy.effects, &[]));
    all.extend(every.map(|every| RequestEffects { what: vec!["requests".to_owned()], ..every }));
    all
}

/// An entry without its requests; `None` if there are no effects.
fn entry(
    route: Option<String>,
    hosts: Vec<String>,
    possible: &PossibleEffects,
) -> Option<RequestEffects> {
    let timeouts: Vec<TimeoutEntry> = possible.timeouts.iter().map(timeout).collect();
    let changes: Vec<EffectChange> = possible.others.iter().map(change).collect();
    let is_empty = timeouts.is_empty() && changes.is_empty();
    (!is_empty).then(|| RequestEffects { route, hosts, what: Vec::new(), timeouts, changes })
}

fn timeout(possible: &PossibleBound) -> TimeoutEntry {
    let PossibleBound { when, bound } = possible;
    TimeoutEntry {
        bound: match bound.bound {
            TimeoutBound::Complete => "complete",
            TimeoutBound::Head => "head",
            TimeoutBound::Response => "response",
            TimeoutBound::Idle => "idle",
        },
        words: bound.bound.as_str(),
        after: format!("{:?}", bound.after),
        when: when.iter().map(ToString::to_string).collect(),
        by: bound.source.to_string(),
    }
}

fn change(effect: &Filter) -> EffectChange {
    let (what, when, required) = match &effect.kind {
        FilterKind::Rewrite(rewrite) => {
            let when = rewrite.when.iter().map(ToString::to_string).collect();
            (request_headers(effect), when, rewrite.required)
        }
        FilterKind::ResponseHeaders(change) => (response_headers(change), Vec::new(), false),
        FilterKind::Redirect(redirect) => (vec![redirected(redirect)], Vec::new(), false),
        FilterKind::Failure(failure) => (vec![failed(failure)], Vec::new(), false),
        FilterKind::RequestHeaders(_) | FilterKind::Timeout(_) | FilterKind::Timeouts(_) => {
            (request_headers(effect), Vec::new(), false)
        }
    };
    EffectChange { what, when, required, by: effect.source.to_string() }
}

fn request_headers(effect: &Filter) -> Vec<String> {
    header_operations(effect).iter().map(ToString::to_string).collect()
}

fn response_headers(change: &HeaderChange) -> Vec<String> {
    // The same changes of a request, in the same order.
    let kind = FilterKind::RequestHeaders(change.clone());
    let source = policy_core::Source::Default("response".into());
    let changes = request_headers(&Filter { source, kind });
    changes.into_iter().map(|change| format!("in the response {change}")).collect()
}

fn redirected(redirect: &Redirect) -> String {
    format!("answer with {}, a redirect", redirect.status)
}

fn failed(failure: &Failure) -> String {
    let Failure { status, numerator, denominator, .. } = failure;
    let share = match numerator >= denominator {
        true => String::new(),
        false => format!(" to {numerator} of {denominator} requests"),
    };
    format!("answer with {status}{share}")
}
