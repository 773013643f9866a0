//! HeaderRewritePolicies whose order changes what becomes of a request.
//!
//! Two overlap where both apply to requests of one rule, or to all of a Server, and change a header so
//! that the other order would have another outcome. The order is fixed, so that this is no error.
//!
//! Rules are compared two by two, each with what its policy does besides wherever both apply. Whether
//! rules that apply to some of these requests alone would hide the difference is not looked at.

use crate::incremental::{Context, query};
use crate::query::effects::{RewriteOverlaps, RewriteOverlapsOn};
use crate::query::policy::ServerBaseOf;
use hashbrown::HashSet;
use http::{HeaderName, HeaderValue};
use policy_core::filter::HeaderRewrite;
use policy_core::{
    EffectCondition, Filter, FilterKind, HeaderCondition, HeaderOperator, ObjectRef,
    SegmentCondition, SegmentOperator, ServerPolicy, Source,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most pairs of rules of a Server that are compared.
const MAX_COMPARED: usize = 4096;

query!(RewriteOverlapsOn, Arc<RewriteOverlaps>, overlaps);

fn overlaps(query: &RewriteOverlapsOn, cx: &mut Context<'_>) -> Arc<RewriteOverlaps> {
    Arc::new(among(&cx.query(&ServerBaseOf(query.0.clone()))))
}

/// The rules of a policy for one request, in order.
type Rules<'p> = (&'p ObjectRef, Vec<&'p HeaderRewrite>);

fn among(policy: &ServerPolicy) -> RewriteOverlaps {
    let mut found = RewriteOverlaps::default();
    let mut left = MAX_COMPARED;
    let mut seen = HashSet::new();
    let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let effects = rules.map(|rule| &rule.effects[..]).chain([&[][..]]);
    for own in effects {
        let all: Vec<&Filter> = own.iter().chain(&policy.effects).filter(is_rewrite).collect();
        if all.len() < 2 || seen.contains(&all) {
            continue;
        }
        if compare(&by_policy(&all), &mut found, &mut left).is_none() {
            found.cut = true;
            break;
        }
        seen.insert(all);
    }
    found
}

fn is_rewrite(effect: &&Filter) -> bool {
    matches!(effect.kind, FilterKind::Rewrite(_))
}

/// The rules by policy, in the order of the policies.
fn by_policy<'p>(effects: &[&'p Filter]) -> Vec<Rules<'p>> {
    let mut policies: Vec<Rules<'p>> = Vec::new();
    for effect in effects {
        let Filter { source: Source::Object(object), kind: FilterKind::Rewrite(rule) } = effect
        else {
            continue;
        };
        match policies.iter_mut().find(|(policy, _)| *policy == object) {
            Some((_, rules)) => rules.push(rule),
            None => policies.push((object, vec![rule])),
        }
    }
    policies
}

/// Compares each policy with each before it; `None` where it had to stop early.
fn compare(policies: &[Rules<'_>], found: &mut RewriteOverlaps, left: &mut usize) -> Option<()> {
    for (number, (later, second)) in policies.iter().enumerate() {
        for (earlier, first) in policies.iter().take(number) {
            let headers = contested(first, second, left)?;
            if !headers.is_empty() {
                let before = found.after.entry((*later).clone()).or_default();
                before.entry((*earlier).clone()).or_default().extend(headers);
            }
        }
    }
    Some(())
}

/// The headers to which the order of two policies matters.
fn contested(
    first: &[&HeaderRewrite],
    second: &[&HeaderRewrite],
    left: &mut usize,
) -> Option<BTreeSet<Arc<str>>> {
    let names = |rules: &[&HeaderRewrite]| -> BTreeSet<Arc<str>> {
        rules.iter().flat_map(|rule| rule.names()).map(|name| name.as_str().into()).collect()
    };
    let mut contested = BTreeSet::new();
    for name in names(first).intersection(&names(second)) {
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        let changes = |rule: &&&HeaderRewrite| rule.names().any(|own| *own == header);
        'pairs: for one in first.iter().filter(changes) {
            for other in second.iter().filter(changes) {
                *left = left.checked_sub(1)?;
                let when: Vec<&EffectCondition> = one.when.iter().chain(&other.when).collect();
                if may_be_met(&when) && order_matters(first, second, &when, &header) {
                    contested.insert(name.clone());
                    break 'pairs;
                }
            }
        }
    }
    Some(contested)
}

/// True if the order matters to a header of requests that meet these conditions, and of the others
/// those alone that follow.
fn order_matters(
    first: &[&HeaderRewrite],
    second: &[&HeaderRewrite],
    when: &[&EffectCondition],
    header: &HeaderName,
) -> bool {
    let change = |rules: &[&HeaderRewrite]| {
        let applies = |rule: &&HeaderRewrite| rule.when.iter().all(|one| when.contains(&one));
        let mut change = Change::default();
        for rule in rules.iter().copied().filter(applies) {
            change = change.then(&Change::of(rule, header));
        }
        change
    };
    let (first, second) = (change(first), change(second));
    first.then(&second) != second.then(&first)
}

/// A change to the lines of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Change {
    /// True if the lines that are there go.
    replaces: bool,
    /// The lines appended.
    lines: Vec<HeaderValue>,
}

impl Change {
    fn of(rule: &HeaderRewrite, header: &HeaderName) -> Self {
        let of_header = |(name, _): &&(HeaderName, HeaderValue)| name == header;
        let lines = |all: &[(HeaderName, HeaderValue)]| -> Vec<HeaderValue> {
            all.iter().filter(of_header).map(|(_, value)| value.clone()).collect()
        };
        let set = lines(&rule.set);
        let replaces = rule.clear.contains(header) || !set.is_empty();
        Self { replaces, lines: [set, lines(&rule.add)].concat() }
    }

    /// This change, and then another one.
    fn then(&self, next: &Self) -> Self {
        if next.replaces {
            return next.clone();
        }
        let lines = [&self.lines[..], &next.lines[..]].concat();
        Self { replaces: self.replaces, lines }
    }
}

/// True if one request may meet all of these conditions, as far as the request alone says.
fn may_be_met(all: &[&EffectCondition]) -> bool {
    all.iter().all(|condition| match condition {
        EffectCondition::Segment(own) => segment_may_meet(own, all),
        EffectCondition::Header(own) => header_may_meet(own, all),
    })
}

/// True if one of the texts of a segment is in every other list of it.
fn segment_may_meet(own: &SegmentCondition, all: &[&EffectCondition]) -> bool {
    let admits = |text: &Arc<str>| {
        all.iter().all(|other| match other {
            EffectCondition::Segment(other) if other.place == own.place => {
                let listed = other.values().contains(text);
                listed == (other.operator == SegmentOperator::In)
            }
            EffectCondition::Segment(_) | EffectCondition::Header(_) => true,
        })
    };
    own.operator == SegmentOperator::NotIn || own.values().iter().any(admits)
}

/// True if the other conditions on a header leave a line that this one asks for. A header may have
/// several lines, a request has one host.
fn header_may_meet(own: &HeaderCondition, all: &[&EffectCondition]) -> bool {
    let of_header = |operator: &dyn Fn(&HeaderOperator) -> bool| {
        all.iter().all(|other| match other {
            EffectCondition::Header(other) if other.name == own.name => operator(&other.operator),
            EffectCondition::Header(_) | EffectCondition::Segment(_) => true,
        })
    };
    let single = *own.name == *http::header::HOST.as_str();
    let admits = |text: &Arc<str>| {
        of_header(&|other| match other {
            HeaderOperator::In(texts) => !single || texts.contains(text),
            HeaderOperator::NotIn(texts) => !texts.contains(text),
            HeaderOperator::Exists => true,
            HeaderOperator::DoesNotExist => false,
        })
    };
    match &own.operator {
        HeaderOperator::In(texts) => texts.iter().any(admits),
        HeaderOperator::Exists => of_header(&|other| *other != HeaderOperator::DoesNotExist),
        HeaderOperator::NotIn(_) | HeaderOperator::DoesNotExist => true,
    }
}

#[cfg(test)]
mod tests;
