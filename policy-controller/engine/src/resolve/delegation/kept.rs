//! What stays with the rules above a child, or beside it: matches of a route inside it are left out, and
//! rules of a child are shadowed.

use policy_core::matching::Segment;
use policy_core::{HostPattern, OneOrMany, PathPattern, Rule};
use policy_crds::resource::PathPrefix;

/// The paths of rules that are one set: what one of them lists, another that delegates does not hand
/// down.
pub(super) struct RuleSet<'r> {
    /// The hosts on which the rules are all there.
    pub(super) hosts: Vec<HostPattern>,
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
        RuleSet { hosts, paths: members.flat_map(|one| one.paths.iter().copied()).collect() }
    };
    groups.into_iter().map(set).collect()
}

/// A path that others have inside that of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kept {
    pub(super) path: PathPrefix,
    /// True if it is a method of a gRPC service that is matched before calls of the whole service.
    pub(super) before_calls: bool,
}

/// The rules of a route without matches inside paths that others keep. A regular expression could match
/// what is inside.
pub(super) fn beside<'k>(
    rules: &[Rule],
    kept: impl IntoIterator<Item = &'k Kept>,
) -> OneOrMany<Rule> {
    let kept: Vec<&Kept> = kept.into_iter().collect();
    let is_kept = |pattern: &PathPattern| match &*pattern.in_match_form() {
        PathPattern::Segments { segments, rest } => kept.iter().any(|kept| {
            let of_service = matches!(segments.first(), Some(Segment::Literal(_)));
            // Of prefixes the longer one comes first, and of two of one length the one without parameters.
            let behind = *rest && segments.len() <= kept.path.segments().count();
            is_inside(segments, &kept.path)
                || (!(behind || (of_service && kept.before_calls))
                    && may_be_inside(segments, &kept.path))
        }),
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

/// True if a pattern with parameters, such as one for every method of a gRPC service, matches a path
/// inside another. It would come before the rule that has the path, unless it is a prefix that is no longer.
fn may_be_inside<'s>(segments: impl IntoIterator<Item = &'s Segment>, prefix: &PathPrefix) -> bool {
    let mut own = segments.into_iter();
    prefix.segments().all(|wanted| own.next().is_some_and(|segment| segment.admits(wanted)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::RequestMatch;
    use policy_crds::resource::GroupPath;

    /// The paths of a group that are left beside a path that others keep.
    fn left<'p>(paths: &[&'p str], kept: &str) -> Vec<&'p str> {
        let path = PathPrefix::parse(kept).unwrap();
        let kept = [Kept { path, before_calls: false }];
        let is_left = |path: &&str| {
            let matches = GroupPath::parse(path).unwrap().patterns().into_iter();
            let matches: Vec<_> = matches.map(RequestMatch::path).collect();
            let rule = Rule { matches: matches.into(), effects: Vec::new().into() };
            let all = rule.matches.len();
            let left = beside(&[rule], &kept);
            left.first().is_some_and(|rule| rule.matches.len() == all)
        };
        paths.iter().copied().filter(is_left).collect()
    }

    /// A prefix with parameters that is longer than a path comes before it.
    #[test]
    fn parameters_stand_for_nothing_that_others_keep() {
        let files = ["/f/*rest", "/f/:a/*rest", "/f/:a/:b/*rest", "/f/other/*rest", "/f/own/*rest"];
        assert_eq!(left(&files, "/f/own"), ["/f/*rest", "/f/other/*rest"]);
        assert_eq!(
            left(&files, "/f/own/x"),
            ["/f/*rest", "/f/:a/*rest", "/f/other/*rest", "/f/own/*rest"]
        );
        let books = ["/f/:id", "/f/other", "/f/:id/x", "/f", "/f/other/:part"];
        assert_eq!(left(&books, "/f/own"), ["/f/other", "/f", "/f/other/:part"]);
    }
}
