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
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most pairs of rules of a Server that are compared. What else is done is in proportion to the size
/// of its policy.
const MAX_COMPARED: usize = 4096;

query!(RewriteOverlapsOn, Arc<RewriteOverlaps>, overlaps);

fn overlaps(query: &RewriteOverlapsOn, cx: &mut Context<'_>) -> Arc<RewriteOverlaps> {
    Arc::new(among(&cx.query(&ServerBaseOf(query.0.clone()))))
}

fn among(policy: &ServerPolicy) -> RewriteOverlaps {
    let mut search = Search { found: RewriteOverlaps::default(), left: MAX_COMPARED };
    search.found.cut = search.all(policy).is_none();
    search.found
}

/// Rules by the header that they change, and by their policy, in the order of the policies.
type Changes<'p> = BTreeMap<&'p str, Vec<Rules<'p>>>;

/// The rules of a policy that change a header, in order.
type Rules<'p> = (&'p ObjectRef, Vec<&'p HeaderRewrite>);

fn changes<'p>(effects: impl IntoIterator<Item = &'p Filter>) -> Changes<'p> {
    let mut changes = Changes::new();
    for effect in effects {
        let Filter { source: Source::Object(policy), kind: FilterKind::Rewrite(rule) } = effect
        else {
            continue;
        };
        let names: BTreeSet<&str> = rule.names().map(HeaderName::as_str).collect();
        for name in names {
            let policies = changes.entry(name).or_default();
            match policies.last_mut().filter(|(last, _)| *last == policy) {
                Some((_, rules)) => rules.push(rule),
                None => policies.push((policy, vec![rule])),
            }
        }
    }
    changes
}

/// A search through what the policies on a Server and on its routes change.
struct Search {
    found: RewriteOverlaps,
    /// The pairs of rules that may still be compared.
    left: usize,
}

impl Search {
    /// Compares all policies that meet; `None` where it had to stop early.
    fn all(&mut self, policy: &ServerPolicy) -> Option<()> {
        let on_server = changes(policy.effects.iter());
        for (header, policies) in &on_server {
            self.among(header, policies)?;
        }
        let mut seen = HashSet::new();
        for rule in policy.routes.routes.iter().flat_map(|route| &route.rules) {
            let own: Vec<&Filter> = rule.effects.iter().filter(is_rewrite).collect();
            if own.is_empty() || !seen.insert(own.clone()) {
                continue;
            }
            for (header, policies) in &changes(own) {
                self.among(header, policies)?;
                let later = on_server.get(header).into_iter().flatten();
                for later in later {
                    for earlier in policies {
                        self.compare(header, earlier, later)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Compares each of these with each before it.
    fn among(&mut self, header: &str, policies: &[Rules<'_>]) -> Option<()> {
        for (number, later) in policies.iter().enumerate() {
            for earlier in policies.iter().take(number) {
                self.compare(header, earlier, later)?;
            }
        }
        Some(())
    }

    fn compare(
        &mut self,
        header: &str,
        (earlier, first): &Rules<'_>,
        (later, second): &Rules<'_>,
    ) -> Option<()> {
        if earlier == later || !self.contested(header, first, second)? {
            return Some(());
        }
        let before = self.found.after.entry((*later).clone()).or_default();
        before.entry((*earlier).clone()).or_default().insert(header.into());
        Some(())
    }

    /// True if the order of two policies matters to a header.
    fn contested(
        &mut self,
        header: &str,
        first: &[&HeaderRewrite],
        second: &[&HeaderRewrite],
    ) -> Option<bool> {
        for one in first {
            for other in second {
                self.left = self.left.checked_sub(1)?;
                let when: Vec<&EffectCondition> = one.when.iter().chain(&other.when).collect();
                if may_be_met(&when) && order_matters(first, second, &when, header) {
                    return Some(true);
                }
            }
        }
        Some(false)
    }
}

fn is_rewrite(effect: &&Filter) -> bool {
    matches!(effect.kind, FilterKind::Rewrite(_))
}

/// True if the order matters to a header of requests that meet these conditions, and of the others
/// those alone that follow.
fn order_matters(
    first: &[&HeaderRewrite],
    second: &[&HeaderRewrite],
    when: &[&EffectCondition],
    header: &str,
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
    fn of(rule: &HeaderRewrite, header: &str) -> Self {
        let of_header = |(name, _): &&(HeaderName, HeaderValue)| name.as_str() == header;
        let lines = |all: &[(HeaderName, HeaderValue)]| -> Vec<HeaderValue> {
            all.iter().filter(of_header).map(|(_, value)| value.clone()).collect()
        };
        let set = lines(&rule.set);
        let replaces = rule.clear.iter().any(|name| name.as_str() == header) || !set.is_empty();
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
