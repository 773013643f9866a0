//! The causes of `not_delegated`: the tree of the host, and the link of it that is missing.

use super::cause::{Cause, CauseFinder, Ranked, key_of};
use super::place::place;
use crate::grants::NamedObject;
use crate::routes::{self, ObjectItem, RuleEffect, RuleItem};
use policy_core::{HostPattern, ObjectRef};

/// The links that are missing, nearest to the request first.
pub(super) fn causes(finder: &CauseFinder<'_>) -> Vec<Ranked> {
    let unknown =
        || vec![(3, finder.by_owner("the path of the host belongs to nobody here".to_owned()))];
    let Some((Some(host), path)) = &finder.judged.target else { return unknown() };
    let pattern = HostPattern::Exact(host.as_str().into());
    let Ok(report) = routes::report(finder.inventory, Some(&pattern)) else { return unknown() };
    let mut ranked = Vec::new();
    for item in &report.hosts {
        for tree in item.trees.iter().flatten() {
            let found = deepest(&tree.root, path);
            ranked.extend(found.map(|(holder, rule)| of_rule(finder, host, holder, rule)));
        }
        for claim in item.claims.iter().filter(|claim| !claim.active) {
            let why = claim.message.as_deref().unwrap_or_default();
            let summary =
                format!("{} does not hold {}{}: {why}", claim.root, claim.host, claim.path);
            // A root beside the workload was meant to answer.
            let rank = if claim.root.namespace == *finder.workload.namespace { 0 } else { 4 };
            ranked.push((rank, by_named(finder, &claim.root, summary)));
        }
        if ranked.is_empty() {
            let owners: Vec<String> = item.owners.iter().map(ToString::to_string).collect();
            let summary = format!(
                "{} holds {host} and hands {path} to nobody; its owner decides who answers it",
                owners.join(" and ")
            );
            ranked.extend(item.owners.first().map(|root| (3, by_named(finder, root, summary))));
        }
    }
    if ranked.is_empty() { unknown() } else { ranked }
}

/// The rule that covers a path at the end of the way that the path goes, with its object.
fn deepest<'a>(object: &'a ObjectItem, path: &str) -> Option<(&'a NamedObject, &'a RuleItem)> {
    let covers = |rule: &&RuleItem| {
        let prefix = rule.path.trim_end_matches('/');
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let rule = object.rules.iter().filter(covers).max_by_key(|rule| rule.path.len())?;
    let below = rule.children.iter().filter_map(|child| deepest(child, path));
    below.max_by_key(|(_, rule)| rule.path.len()).or(Some((&object.object, rule)))
}

fn of_rule(finder: &CauseFinder<'_>, host: &str, holder: &NamedObject, rule: &RuleItem) -> Ranked {
    let at = format!("{host}{}", rule.path);
    if let Some(refused) = rule.refused.first() {
        let steps: Vec<&str> = refused.missing.iter().map(|item| item.what.as_str()).collect();
        let missing = match steps.is_empty() {
            true => String::new(),
            false => format!("; missing: {}", steps.join(", and ")),
        };
        let to = refused.object.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        let summary = format!(
            "{holder} hands {at} down{to}, and it does not arrive: {}{missing}",
            refused.message
        );
        return (1, by_named(finder, holder, summary));
    }
    let servers: Vec<String> = rule.servers.iter().map(|item| item.server.to_string()).collect();
    let summary = match rule.effect {
        RuleEffect::Serves => format!(
            "{holder} has {at}, and {} answers it, not {}",
            servers.join(" or "),
            finder.owner()
        ),
        RuleEffect::Delegates => {
            format!("{holder} hands {at} down, and none of those who have it takes this path")
        }
        RuleEffect::Denied => format!("{holder} has {at}, and nothing answers it"),
        RuleEffect::NotKnown => {
            format!("{holder} hands {at} down; what may not be listed decides if it arrives")
        }
        RuleEffect::Shadowed | RuleEffect::Inactive => {
            let note = rule.note.as_deref().unwrap_or("another has the path");
            format!("{holder} does not have {at}: {note}")
        }
    };
    (2, by_named(finder, holder, summary))
}

fn by_named(finder: &CauseFinder<'_>, object: &NamedObject, summary: String) -> Cause {
    let NamedObject { group, kind, namespace, name } = object;
    let named = ObjectRef::new(group, kind, namespace, name);
    let key = key_of(&named);
    let place = key.and_then(|key| place(finder.inventory, &key, "spec"));
    Cause { summary, object: Some(named.to_string()), place }
}
