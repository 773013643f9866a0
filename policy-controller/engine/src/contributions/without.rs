//! A policy without what some namespaces contribute to it: their paths are denied.

use super::contributor::contributor;
use super::size::Measure;
use policy_core::{
    AuthorizationSet, DelegatedPath, Denied, HostPattern, OneOrMany, Origin, PathPattern,
    RequestMatch, Route, Rule, ServerPolicy, ThinVec, Unmatched,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The paths of one host, each with true if it is denied. A path comes behind those above it.
type Paths<'p> = BTreeMap<Vec<&'p str>, bool>;

/// A route of what was handed over, its path, and the hosts on which it has to be denied.
type Closed<'p> = (&'p Arc<Route>, &'p Arc<DelegatedPath>, Vec<HostPattern>);

/// The policy with everything that these namespaces contribute denied. What others have inside their paths
/// stays theirs.
pub fn without(policy: &ServerPolicy, namespaces: &BTreeSet<&str>) -> ServerPolicy {
    let lacks = |route: &Route| {
        contributor(&policy.owner, &route.origin).is_some_and(|own| namespaces.contains(own))
    };
    let mut rest = policy.clone();
    rest.routes.routes.clear();
    let (mut handed, mut first) = (Vec::new(), Vec::new());
    for route in &policy.routes.routes {
        if !lacks(route) {
            rest.routes.routes.push(Arc::clone(route));
        } else if let Some(path) = handed_down(&route.origin) {
            handed.push((route, path));
        } else {
            first.extend(denied(route).into_iter().map(Arc::new));
        }
    }
    // Among routes that match a request alike the first answers.
    first.append(&mut rest.routes.routes);
    rest.routes.routes = first;
    let closing = closing(&rest, &handed);
    rest.routes.routes.extend(closing);
    rest
}

fn handed_down(origin: &Origin) -> Option<&Arc<DelegatedPath>> {
    match origin {
        Origin::Delegated(path) | Origin::Undelegated(path) => Some(path),
        Origin::Objects(_)
        | Origin::Default
        | Origin::Probe
        | Origin::Guard
        | Origin::Deny(_)
        | Origin::Unreadable(_) => None,
    }
}

/// The most bytes of a match that is kept as it is.
const MAX_MATCH: usize = 256;

/// The denials in place of a route that was attached to the Server itself: one of its small matches, which
/// denies what they answered; one of the paths and methods of the others, before routes that match alike;
/// and, because nothing else comes before every path that an expression may match, one of the paths that
/// its expressions begin with before all other routes.
fn denied(route: &Route) -> Vec<Route> {
    if route.origin.comes_first() {
        // It is looked at before all others, and denies already.
        return vec![route.clone()];
    }
    let (mut alike, mut above) = (Vec::new(), Vec::new());
    for rule in &route.rules {
        if rule.matches.is_empty() {
            alike.push(RequestMatch::everything());
        }
        for wanted in &rule.matches {
            let (path, method, ..) = wanted.parts();
            let method = method.cloned();
            match path {
                PathPattern::Regex(pattern) => {
                    let path = PathPattern::prefix(&beginning(pattern.source()));
                    above.push(RequestMatch::path(path).with_method(method));
                }
                PathPattern::Segments { .. } if is_small(wanted) => alike.push(wanted.clone()),
                PathPattern::Segments { .. } => {
                    alike.push(RequestMatch::path(path.clone()).with_method(method));
                }
            }
        }
    }
    let unreadable = route.origin.object().cloned().map(Origin::Unreadable);
    let denial = Origin::Deny(Denied::ProxyUnsupported);
    let origins = [(denial.clone(), alike), (unreadable.unwrap_or(denial), above)];
    let filled = origins.into_iter().filter(|(_, matches)| !matches.is_empty());
    let route = |(origin, mut matches): (Origin, Vec<RequestMatch>)| {
        matches.dedup();
        let rule = Rule { matches: matches.into_iter().collect(), effects: ThinVec::new() };
        refusing(origin, route, route.hosts.iter().cloned(), rule)
    };
    filled.map(route).collect()
}

/// True if a match costs little in a message and has no expression.
fn is_small(wanted: &RequestMatch) -> bool {
    let mut measure = Measure::default();
    measure.wanted(wanted);
    measure.bytes <= MAX_MATCH && measure.expressions == 0
}

/// The segments with which every path that matches an expression begins.
pub(crate) fn beginning(expression: &str) -> String {
    // An alternative, or a flag, may begin otherwise.
    if expression.contains(['|', '(']) {
        return "/".to_owned();
    }
    let text = expression.strip_prefix('^').unwrap_or(expression);
    let end = text.find(['\\', '.', '+', '*', '?', '[', '{', '$']).unwrap_or(text.len());
    let (literal, after) = text.split_at_checked(end).unwrap_or_default();
    // What may be missing is the character before. `+` alone needs it; `+*` does not.
    let mut operators = after.chars().take(2);
    let literal = match (operators.next(), operators.next()) {
        (Some('*' | '?' | '{'), _) | (Some('+'), Some('*' | '?' | '{' | '+')) => {
            literal.strip_suffix(|_: char| true).unwrap_or_default()
        }
        _ => literal,
    };
    let segments = literal.rsplit_once('/').map_or("", |(segments, _)| segments);
    if segments.is_empty() { "/".to_owned() } else { segments.to_owned() }
}

fn refusing(
    origin: Origin,
    like: &Route,
    hosts: impl Iterator<Item = HostPattern>,
    rule: Rule,
) -> Route {
    Route {
        origin,
        kind: like.kind,
        created: like.created,
        label: None,
        hosts: hosts.collect(),
        rules: OneOrMany::from([rule]),
        authorizations: AuthorizationSet::default(),
        inherits_server: false,
        withheld: ThinVec::new(),
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// The routes that deny the paths that were handed down to somebody whose part is left out: one for each
/// path that a shorter one of the rest would answer otherwise.
fn closing(rest: &ServerPolicy, handed: &[(&Arc<Route>, &Arc<DelegatedPath>)]) -> Vec<Arc<Route>> {
    let mut paths: BTreeMap<&HostPattern, Paths<'_>> = BTreeMap::new();
    for route in &rest.routes.routes {
        let Some(path) = handed_down(&route.origin) else { continue };
        let denies = route.origin.refusal().is_some();
        for host in &route.hosts {
            // A route answers a part of its path, and the rest of it is denied.
            let known = paths.entry(host).or_default();
            *known.entry(segments(&path.prefix)).or_insert(true) &= denies;
        }
    }
    let mut handed: Vec<_> =
        handed.iter().map(|(route, path)| (segments(&path.prefix), *route, *path)).collect();
    handed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let mut closed: BTreeMap<&str, Closed<'_>> = BTreeMap::new();
    for (own, route, path) in handed {
        for host in &route.hosts {
            let known = paths.entry(host).or_default();
            let nearest = (0..=own.len()).rev().find_map(|n| known.get(own.get(..n)?).copied());
            let is_closed = matches!(rest.routes.hosts.get(host), Some(Unmatched::Deny(_)));
            if nearest.unwrap_or(is_closed) {
                continue;
            }
            known.insert(own.clone(), true);
            let (.., hosts) =
                closed.entry(&*path.prefix).or_insert_with(|| (route, path, Vec::new()));
            hosts.push(host.clone());
        }
    }
    let route = |(prefix, (route, path, hosts)): (&str, Closed<'_>)| {
        let matches = OneOrMany::from([RequestMatch::path(PathPattern::prefix(prefix))]);
        let rule = Rule { matches, effects: ThinVec::new() };
        Arc::new(refusing(Origin::Undelegated(path.clone()), route, hosts.into_iter(), rule))
    };
    closed.into_iter().map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn every_path_that_matches_an_expression_begins_with_its_beginning() {
        for (expression, expected) in [
            ("^/a/b/c.*", "/a/b"),
            ("/a/b*x", "/a"),
            ("/a/b+x", "/a"),
            ("/a/+x", "/a"),
            // It matches `/ax` as well.
            ("/a/+*x", "/"),
            ("/a/?x", "/"),
            ("/a/{0}x", "/"),
            ("/a|/b", "/"),
        ] {
            assert_eq!(beginning(expression), expected, "{expression}");
        }
    }
}
