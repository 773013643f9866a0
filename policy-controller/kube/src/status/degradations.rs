//! Degradations between the status that an object had and the one that is written: an Event for each.
//!
//! The status is the record of what was written before, so that a restarted controller or a new
//! leader repeats no Event.

use super::desired::STOPPED_MATCHING;
use policy_engine::delegation::OrphanReason;
use serde_json::Value;

/// The reasons of a conflict with another object. They are reported for new objects too, because
/// their author does not look for the other one.
const CONFLICT_REASONS: [&str; 3] =
    ["Conflicted", "RateLimitReasonAlreadyExists", "HostAlreadyClaimed"];

/// A condition that became worse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Degradation {
    /// Its reason.
    pub(crate) reason: String,
    /// Its message, for the note of an Event.
    pub(crate) note: String,
}

/// Returns the degradations of the object, of each parent of a route, and of each connection. `controller` is our name.
pub(crate) fn degradations(before: &Value, after: &Value, controller: &str) -> Vec<Degradation> {
    let mut found = of_conditions(conditions(before), conditions(after));
    for entry in ours(after, controller) {
        let same = |other: &&Value| other.get("parentRef") == entry.get("parentRef");
        let known = ours(before, controller).find(same);
        found.extend(of_conditions(known.and_then(conditions), conditions(entry)));
    }
    found.extend(orphaned(before, after));
    found
}

/// The connections of an InboundRoute that ended, where none of the same parent is left.
fn orphaned(before: &Value, after: &Value) -> Vec<Degradation> {
    let connected: Vec<&Value> =
        states(before, "connected").filter_map(|c| c.get("parent")).collect();
    let ended = states(after, "orphaned").filter_map(|state| {
        let parent = state.get("lastParent")?;
        let (namespace, name) = (text(parent, "namespace"), text(parent, "name"));
        let same = |of: &&Value| text(of, "namespace") == namespace && text(of, "name") == name;
        connected.iter().copied().find(same)?;
        let reason = text(state, "reason").to_owned();
        let parent = format!("InboundRoute {namespace}/{name}");
        let note = ended_because(&reason, &parent);
        Some(Degradation { reason, note })
    });
    ended.collect()
}

/// The end of a connection in words, by the reason that the status has.
fn ended_because(reason: &str, parent: &str) -> String {
    let known = [
        (
            OrphanReason::GrantRevoked,
            "no ReferenceGrant of its namespace lets {} delegate to it any more",
        ),
        (OrphanReason::DelegationRefused, "{} delegates to it, and a rule refuses that now"),
        (OrphanReason::NotPermitted, "it consents to no delegation by {} any more"),
        (OrphanReason::ParentRemoved, "{} delegated to it and is gone"),
        (OrphanReason::ParentInvalid, "{} delegates to it and is invalid"),
        (OrphanReason::ParentOrphaned, "{} delegates to it and has nothing to hand on any more"),
        (OrphanReason::RootInactive, "{} delegates to it and lost its claim"),
    ];
    let words = known.into_iter().find(|(known, _)| known.as_str() == reason);
    words.map_or("{} does not delegate to it any more", |(_, words)| words).replace("{}", parent)
}

fn states<'a>(status: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let entries = status.get("delegationStatuses").and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(move |entry| entry.get("state")?.get(name))
}

fn conditions(of: &Value) -> Option<&Vec<Value>> {
    of.get("conditions")?.as_array()
}

fn ours<'a>(status: &'a Value, controller: &str) -> impl Iterator<Item = &'a Value> {
    let entries = status.get("parents").and_then(Value::as_array).into_iter().flatten();
    entries.filter(move |entry| text(entry, "controllerName") == controller)
}

fn of_conditions(before: Option<&Vec<Value>>, after: Option<&Vec<Value>>) -> Vec<Degradation> {
    let named = |list: Option<&'_ Vec<Value>>, kind: &str| {
        list.and_then(|list| list.iter().find(|c| text(c, "type") == kind).cloned())
    };
    let mut found = Vec::new();
    for kind in ["Accepted", "ResolvedRefs", "Programmed"] {
        let Some(now) = named(after, kind).filter(|now| text(now, "status") == "False") else {
            continue;
        };
        let was = named(before, kind);
        let reason = text(&now, "reason");
        let reported = match &was {
            Some(was) if kind == "Programmed" => text(was, "reason") != STOPPED_MATCHING,
            Some(was) if text(was, "status") == "True" => true,
            Some(was) => CONFLICT_REASONS.contains(&reason) && text(was, "reason") != reason,
            None => CONFLICT_REASONS.contains(&reason),
        };
        // An object that is not accepted was already reported as such, and is in force nowhere
        // because of it.
        let accepted = named(after, "Accepted").is_none_or(|c| text(&c, "status") == "True");
        let stopped = reason == STOPPED_MATCHING && accepted;
        if reported && (kind != "Programmed" || stopped) {
            let note = format!("{kind}=False: {}", text(&now, "message"));
            found.push(Degradation { reason: reason.to_owned(), note });
        }
    }
    found
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "words"})
    }

    fn reported(before: &[Value], after: &[Value]) -> Vec<String> {
        let status = |conditions: &[Value]| json!({"conditions": conditions});
        let found = degradations(&status(before), &status(after), "us");
        found.into_iter().map(|one| format!("{} {}", one.reason, one.note)).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn what_is_lost_is_told_once_and_what_was_never_there_is_not() {
        let yes = condition("Accepted", "True", "Accepted");
        let lost = condition("Accepted", "False", "NoMatchingTarget");
        let words = ["NoMatchingTarget Accepted=False: words"];
        assert_eq!(reported(std::slice::from_ref(&yes), std::slice::from_ref(&lost)), words);
        assert_eq!(reported(std::slice::from_ref(&lost), std::slice::from_ref(&lost)), NONE);
        // The parts of a manifest come in any order.
        assert_eq!(reported(&[], std::slice::from_ref(&lost)), NONE);
        assert_eq!(reported(&[lost], &[yes]), NONE);
        let (resolved, broken) = (
            condition("ResolvedRefs", "True", "ResolvedRefs"),
            condition("ResolvedRefs", "False", "RefNotFound"),
        );
        let words = ["RefNotFound ResolvedRefs=False: words"];
        assert_eq!(reported(&[resolved], std::slice::from_ref(&broken)), words);
        assert_eq!(reported(std::slice::from_ref(&broken), std::slice::from_ref(&broken)), NONE);
    }

    #[test]
    fn a_conflict_is_told_of_a_new_object_too() {
        let conflict = condition("Accepted", "False", "Conflicted");
        let words = ["Conflicted Accepted=False: words"];
        assert_eq!(reported(&[], std::slice::from_ref(&conflict)), words);
        let invalid = condition("Accepted", "False", "Invalid");
        assert_eq!(reported(&[invalid], std::slice::from_ref(&conflict)), words);
        assert_eq!(
            reported(std::slice::from_ref(&conflict), std::slice::from_ref(&conflict)),
            NONE
        );
    }

    #[test]
    fn what_stops_matching_is_told_unless_that_it_is_not_accepted_was() {
        let yes = condition("Accepted", "True", "Accepted");
        let up = condition("Programmed", "True", "Programmed");
        let stopped = condition("Programmed", "False", STOPPED_MATCHING);
        let words = ["StoppedMatching Programmed=False: words"];
        assert_eq!(reported(&[yes.clone(), up.clone()], &[yes.clone(), stopped.clone()]), words);
        let again = [yes.clone(), stopped.clone()];
        assert_eq!(reported(&again, &again), NONE);
        let lost = condition("Accepted", "False", "NoMatchingTarget");
        assert_eq!(reported(&[lost.clone(), up.clone()], &[lost, stopped]), NONE);
        // Progress is no degradation.
        let pending = condition("Programmed", "False", "Pending");
        assert_eq!(reported(&[yes.clone(), up], &[yes, pending]), NONE);
    }

    #[test]
    fn a_route_is_told_about_each_of_its_parents_by_us_alone() {
        let entry = |name: &str, controller: &str, status: &str| {
            json!({"parentRef": {"name": name}, "controllerName": controller,
                "conditions": [condition("Accepted", status, "NoMatchingParent")]})
        };
        let before = json!({"parents": [entry("a", "us", "True"), entry("a", "them", "True"),
            entry("b", "us", "False")]});
        let after = json!({"parents": [entry("a", "us", "False"), entry("a", "them", "False"),
            entry("b", "us", "False")]});
        assert_eq!(degradations(&before, &after, "us").len(), 1);
    }

    #[test]
    fn an_object_that_becomes_orphaned_is_told_who_delegated_to_it() {
        let parent = |name: &str| json!({"namespace": "prod", "name": name, "prefix": "/a"});
        let connected = |name: &str| json!({"state": {"connected": {"parent": parent(name)}}});
        let orphaned = |name: &str| {
            let last = json!({"namespace": "prod", "name": name});
            json!({"state": {"orphaned": {"lastParent": last, "reason": "GrantRevoked"}}})
        };
        let reported = |before: &[Value], after: &[Value]| {
            let status = |entries: &[Value]| json!({"delegationStatuses": entries});
            let found = degradations(&status(before), &status(after), "us");
            found.into_iter().map(|one| format!("{} {}", one.reason, one.note)).collect::<Vec<_>>()
        };
        let words = [
            "GrantRevoked no ReferenceGrant of its namespace lets InboundRoute prod/one delegate to it any \
             more",
        ];
        let both = [connected("one"), connected("two")];
        assert_eq!(reported(&both, &[connected("two"), orphaned("one")]), words);
        assert_eq!(reported(&[orphaned("one")], &[orphaned("one")]), NONE);
        let never = json!({"state": {"orphaned": {"reason": "NeverDelegated"}}});
        assert_eq!(reported(&[], &[never]), NONE);
    }

    #[test]
    fn a_root_without_any_of_its_claims_is_told_even_if_it_is_new() {
        let yes = condition("Accepted", "True", "Accepted");
        let lost = condition("Accepted", "False", "HostAlreadyClaimed");
        let words = ["HostAlreadyClaimed Accepted=False: words"];
        assert_eq!(reported(&[yes], std::slice::from_ref(&lost)), words);
        assert_eq!(reported(&[], std::slice::from_ref(&lost)), words);
        assert_eq!(reported(std::slice::from_ref(&lost), std::slice::from_ref(&lost)), NONE);
    }
}
