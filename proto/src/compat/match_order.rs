//! The order of matches: where Linkerd's proxies would pick another one than ours, and it makes a
//! difference.

use super::filter::is_omitted;
use policy_core::filter::FilterKind;
use policy_core::matching::{PathPattern, RequestMatch, Segment};
use policy_core::policy::{Route, Rule, ServerPolicy};
use std::collections::{BTreeMap, BTreeSet};

/// Segments with parameters are sent as expressions. Linkerd's proxies rank a path by the length that
/// was matched alone, so that an expression ties with every exact path and with every other
/// expression that matches the same request. That is the same only where it makes no difference which
/// of them wins.
pub(super) fn http_order_is_kept(policy: &ServerPolicy) -> Result<(), String> {
    let mut expressions: Vec<Contender<'_>> = Vec::new();
    let mut by_length: BTreeMap<usize, Vec<Contender<'_>>> = BTreeMap::new();
    for contender in matches(policy) {
        match &contender.wanted.path {
            PathPattern::Regex(_) => expressions.push(contender),
            PathPattern::Segments { segments, rest: _ } => {
                by_length.entry(segments.len()).or_default().push(contender);
            }
        }
    }
    let translated = || by_length.values().flatten().filter(|one| shape(one.wanted).is_some());
    if translated().next().is_none() {
        return Ok(());
    }
    let among_expressions = expressions.is_empty() || {
        expressions.extend(translated().copied());
        is_indifferent(&expressions)
    };
    let among_segments =
        by_length.values().all(|same| contests(same).iter().all(|all| is_indifferent(all)));
    if among_expressions && among_segments && is_outranked_by_none(&by_length) {
        return Ok(());
    }
    Err("paths with parameters that compete with others".to_owned())
}

/// Returns true if no path with parameters competes with a prefix that comes before it, because it has
/// text where the path has a parameter. There the path would win, because it matches more.
fn is_outranked_by_none(by_length: &BTreeMap<usize, Vec<Contender<'_>>>) -> bool {
    let all = || by_length.values().flatten();
    let shapes: BTreeSet<Vec<bool>> = all().filter_map(|one| shape(one.wanted)).collect();
    shapes.iter().all(|shape| {
        let with_parameter = (1..=shape.len()).filter_map(|length| shape.get(..length));
        let mut begins = with_parameter.filter(|begin| begin.contains(&true));
        begins.all(|begin| {
            // By the text of the segments that are text in both.
            let mut meeting: BTreeMap<Vec<&Segment>, Meeting<'_>> = BTreeMap::new();
            for one in all() {
                let PathPattern::Segments { segments, rest } = &one.wanted.path else { continue };
                let is_own = self::shape(one.wanted).as_ref() == Some(shape);
                let is_rival = *rest && segments.len() == begin.len();
                if !is_own && !is_rival {
                    continue;
                }
                let texts = segments.iter().zip(begin).filter(|(_, parameter)| !**parameter);
                let key = texts.map(|(segment, _)| segment).collect();
                let met = meeting.entry(key).or_default();
                met.all.push(*one);
                met.has_own |= is_own;
                met.has_rival |= is_rival;
            }
            let mut met = meeting.values().filter(|met| met.has_own && met.has_rival);
            met.all(|met| is_indifferent(&met.all))
        })
    })
}

/// Paths with parameters, and prefixes that may match the same paths.
#[derive(Default)]
struct Meeting<'p> {
    all: Vec<Contender<'p>>,
    has_own: bool,
    has_rival: bool,
}

/// A match, and the rule and the route it belongs to.
#[derive(Clone, Copy)]
struct Contender<'p> {
    route: &'p Route,
    rule: &'p Rule,
    wanted: &'p RequestMatch,
}

/// Returns for each segment of a path whether it is a parameter; `None` if none is.
fn shape(wanted: &RequestMatch) -> Option<Vec<bool>> {
    let PathPattern::Segments { segments, rest: _ } = &wanted.path else { return None };
    let shape: Vec<bool> = segments.iter().map(|s| matches!(s, Segment::Parameter(_))).collect();
    shape.contains(&true).then_some(shape)
}

/// Of matches with equally many segments, those that may match the same path as one with parameters,
/// together.
fn contests<'p>(same_length: &[Contender<'p>]) -> Vec<Vec<Contender<'p>>> {
    let shapes: BTreeSet<Vec<bool>> =
        same_length.iter().filter_map(|one| shape(one.wanted)).collect();
    let mut shapes = shapes.into_iter();
    let (shape, other) = (shapes.next(), shapes.next());
    let Some(shape) = shape else { return Vec::new() };
    if other.is_some() {
        return vec![same_length.to_vec()];
    }
    // With one shape, paths that differ where it has literals never meet.
    let mut groups: BTreeMap<Vec<&Segment>, Vec<Contender<'p>>> = BTreeMap::new();
    for one in same_length {
        let PathPattern::Segments { segments, rest: _ } = &one.wanted.path else { continue };
        let literals = segments.iter().zip(&shape).filter(|(_, parameter)| !**parameter);
        let literals = literals.map(|(segment, _)| segment).collect();
        groups.entry(literals).or_default().push(*one);
    }
    let has_shape =
        |group: &[Contender<'_>]| group.iter().any(|one| self::shape(one.wanted).is_some());
    groups.into_values().filter(|group| has_shape(group)).collect()
}

/// A call of any service and any method ranks above a match of every request, but is sent as the
/// same.
pub(super) fn grpc_order_is_kept(policy: &ServerPolicy) -> Result<(), String> {
    let is_wild = |wanted: &RequestMatch| match &wanted.path {
        PathPattern::Regex(_) => false,
        PathPattern::Segments { segments, rest: _ } => {
            segments.iter().all(|s| matches!(s, Segment::Parameter(_)))
        }
    };
    let wild: Vec<Contender<'_>> = matches(policy).filter(|one| is_wild(one.wanted)).collect();
    let is_call = |wanted: &RequestMatch| wanted.method().is_some();
    let all_calls = wild.iter().all(|one| is_call(one.wanted));
    let no_calls = !wild.iter().any(|one| is_call(one.wanted));
    // A rule without matches is one that matches every request.
    let implicit = policy.routes.routes.iter().flat_map(|r| &r.rules).any(|r| r.matches.is_empty());
    if no_calls || (all_calls && !implicit) || (!implicit && is_indifferent(&wild)) {
        return Ok(());
    }
    Err("matches of any call that compete with matches of every request".to_owned())
}

fn matches(policy: &ServerPolicy) -> impl Iterator<Item = Contender<'_>> {
    let routes = policy.routes.routes.iter();
    let rules = routes.flat_map(|route| route.rules.iter().map(move |rule| (&**route, rule)));
    rules.flat_map(|(route, rule)| {
        rule.matches.iter().map(move |wanted| Contender { route, rule, wanted })
    })
}

/// Returns true if every one of these matches leads to the same permission and the same effects.
fn is_indifferent(matches: &[Contender<'_>]) -> bool {
    let Some((first, others)) = matches.split_first() else { return true };
    if others.is_empty() {
        return true;
    }
    matches.iter().all(|Contender { route, rule, wanted }| {
        wanted.headers().is_empty()
            && wanted.query().is_empty()
            && route.authorizations == first.route.authorizations
            && route.inherits_server == first.route.inherits_server
            && route.origin.refusal().is_some() == first.route.origin.refusal().is_some()
            && !needs_rewrite(route)
            && sent_effects(rule).eq(sent_effects(first.rule))
    })
}

/// The effects of a rule that clients get.
fn sent_effects(rule: &Rule) -> impl Iterator<Item = &FilterKind> {
    rule.effects.iter().map(|effect| &effect.kind).filter(|kind| !is_omitted(kind))
}

/// Returns true if requests of the route must not be forwarded without a rewrite of their headers.
fn needs_rewrite(route: &Route) -> bool {
    let mut effects = route.rules.iter().flat_map(|rule| &rule.effects);
    effects.any(|effect| effect.kind.is_required())
}
