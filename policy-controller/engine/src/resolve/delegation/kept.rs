//! What stays with the rules above a child, or beside it: matches of a route inside it are left out, and
//! rules of a child are shadowed.

use policy_core::matching::Segment;
use policy_core::{HostPattern, OneOrMany, PathPattern, Rule};
use policy_crds::resource::PathPrefix;
use std::sync::Arc;

/// The paths of rules that are one set: what one of them lists, another that delegates does not hand
/// down.
pub(super) struct RuleSet<'r> {
    /// The hosts on which the rules are all there.
    pub(super) hosts: Arc<[HostPattern]>,
    /// The paths.
    pub(super) paths: Vec<&'r PathPrefix>,
}

/// The rules of several objects as sets. On a host only those count whose object has the host.
pub(super) fn together<'r>(hosts: &[HostPattern], each: &[RuleSet<'r>]) -> Vec<RuleSet<'r>> {
    let mut groups: Vec<(Vec<usize>, Vec<HostPattern>)> = Vec::new();
    for host in hosts {
        let with = each.iter().enumerate().filter(|(_, one)| one.hosts.contains(host));
        let with: Vec<usize> = with.map(|(number, _)| number).collect();
        match groups.iter_mut().find(|(group, _)| *group == with) {
            Some((_, hosts)) => hosts.push(host.clone()),
            None => groups.push((with, vec![host.clone()])),
        }
    }
    let set = |(with, hosts): (Vec<usize>, Vec<HostPattern>)| {
        let members = with.into_iter().filter_map(|number| each.get(number));
        let hosts = hosts.into();
        RuleSet { hosts, paths: members.flat_map(|one| one.paths.iter().copied()).collect() }
    };
    groups.into_iter().map(set).collect()
}

/// The rules of a route without matches inside paths that others keep. A regular expression could match
/// what is inside. A path with parameters cannot take anything: the text of what is kept comes first.
pub(super) fn beside<'k>(
    rules: &[Rule],
    kept: impl IntoIterator<Item = &'k PathPrefix>,
) -> OneOrMany<Rule> {
    let kept: Vec<&PathPrefix> = kept.into_iter().collect();
    let is_kept = |pattern: &PathPattern| match &*pattern.in_match_form() {
        PathPattern::Segments { segments, rest: _ } => {
            kept.iter().any(|kept| is_inside(segments, kept))
        }
        PathPattern::Regex(_) => !kept.is_empty(),
    };
    let rules = rules.iter().filter_map(|rule| {
        let matches: Vec<_> =
            rule.matches.iter().filter(|one| !is_kept(&one.path)).cloned().collect();
        // A rule without matches would match every request.
        let left = !matches.is_empty();
        left.then(|| Rule { matches: matches.into(), effects: rule.effects.clone() })
    });
    rules.collect()
}

/// True if a pattern of segments begins with those of a prefix, as text.
pub(super) fn is_inside<'s>(
    segments: impl IntoIterator<Item = &'s Segment>,
    prefix: &PathPrefix,
) -> bool {
    let mut own = segments.into_iter();
    prefix
        .segments()
        .all(|wanted| matches!(own.next(), Some(Segment::Literal(text)) if **text == *wanted))
}
