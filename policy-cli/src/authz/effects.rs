//! Effects on permitted requests: bounds on time, changes of headers, answers in the application's
//! place. Rules with equal ones are told together, those of the Server once.

use super::report::{EffectChange, RequestEffects, TimeoutEntry};
use super::requests::rule_matches;
use policy_core::effect::{PossibleBound, PossibleEffects, TimeoutBound, header_operations};
use policy_core::filter::{Failure, HeaderChange, Redirect};
use policy_core::{Filter, FilterKind, ServerPolicy};
use policy_engine::view::Shadowed;
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
            let hosts = route.hosts.iter().map(ToString::to_string).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::testing::{object, policy, route};
    use policy_core::{
        Denied, EffectCondition, HeaderCondition, HeaderOperator, HeaderRewrite, Origin,
        PathPattern, Protocol, RequestMatch, Source,
    };
    use std::sync::Arc;

    fn effect(name: &str, kind: FilterKind) -> Filter {
        Filter { source: Source::Object(object("Policy", name)), kind }
    }

    fn failure(numerator: u32) -> FilterKind {
        let (status, grpc_status, denominator) = (500, 13, 4);
        FilterKind::Failure(Failure {
            status,
            grpc_status,
            message: "m".into(),
            numerator,
            denominator,
            required: false,
        })
    }

    fn all(effects: Vec<Filter>) -> ServerPolicy {
        let mut policy = policy();
        let wanted = vec![RequestMatch::path(PathPattern::exact("/a"))];
        let mut only = route("r", wanted);
        only.rules[0].effects = effects.into();
        policy.routes.routes.push(Arc::new(only));
        policy
    }

    fn changes(policy: &ServerPolicy) -> Vec<EffectChange> {
        effects(policy, &[]).into_iter().flat_map(|entry| entry.changes).collect()
    }

    fn told(what: &[&str], name: &str) -> EffectChange {
        let what = what.iter().map(|one| (*one).to_owned()).collect();
        EffectChange { what, when: Vec::new(), required: false, by: format!("Policy test/{name}") }
    }

    #[test]
    fn every_effect_is_told_in_its_order() {
        let (name, value) = (http::HeaderName::from_static, http::HeaderValue::from_static);
        let change = HeaderChange {
            add: vec![(name("x-a"), value("1"))],
            set: vec![(name("x-b"), value("2"))],
            remove: vec![name("x-c")],
        };
        let condition = HeaderCondition { name: "x-d".into(), operator: HeaderOperator::Exists };
        let rewrite = HeaderRewrite {
            when: vec![EffectCondition::Header(condition)],
            clear: vec![name("x-e")],
            required: true,
            ..HeaderRewrite::default()
        };
        let redirect = Redirect { scheme: None, host: None, port: None, path: None, status: 302 };
        let filters = vec![
            effect("q", FilterKind::RequestHeaders(change.clone())),
            effect("s", FilterKind::ResponseHeaders(change)),
            effect("w", FilterKind::Rewrite(rewrite)),
            effect("f", failure(1)),
            effect("r", FilterKind::Redirect(redirect)),
        ];
        let mut policy = all(filters);
        let rewritten = EffectChange {
            when: vec!["header x-d Exists".to_owned()],
            required: true,
            ..told(&["clear x-e"], "w")
        };
        let mut expected = vec![
            told(&["add x-a: 1", "set x-b: 2", "clear x-c"], "q"),
            told(
                &[
                    "in the response add x-a: 1",
                    "in the response set x-b: 2",
                    "in the response clear x-c",
                ],
                "s",
            ),
            rewritten,
            told(&["answer with 500 to 1 of 4 requests"], "f"),
            told(&["answer with 302, a redirect"], "r"),
        ];
        assert_eq!(changes(&policy), expected);
        // Where every request fails, nothing is forwarded that a change could be seen of.
        policy.effects = vec![effect("all", failure(4)), effect("late", failure(4))];
        expected.drain(..3);
        expected.push(told(&["answer with 500"], "all"));
        assert_eq!(changes(&policy), expected);
    }

    #[test]
    fn what_permits_nothing_or_has_no_requests_has_no_effects() {
        let timeout = || FilterKind::Timeout(std::time::Duration::from_secs(1));
        let mut policy = all(vec![effect("t", timeout())]);
        policy.effects = vec![effect("s", timeout())];
        assert_eq!(effects(&policy, &[]).len(), 2);
        let never = Shadowed { route: 0, rule: 0, number: 0, by: 0 };
        assert_eq!(effects(&policy, &[never]).len(), 1);
        let denying = Arc::make_mut(&mut policy.routes.routes[0]);
        denying.origin = Origin::Deny(Denied::ProxyUnsupported);
        assert_eq!(effects(&policy, &[]).len(), 1);
        policy.protocol = Protocol::Opaque;
        assert_eq!(effects(&policy, &[]), []);
        policy.protocol = Protocol::Http1;
        policy.deny = Some(Denied::ProxyUnsupported);
        assert_eq!(effects(&policy, &[]), []);
    }
}
