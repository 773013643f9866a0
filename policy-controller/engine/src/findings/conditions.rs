//! Conditions that say something is not as it should be.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::condition::{ConditionKind, Conditions, ObjectCondition, Reason};
use crate::resolve::reference::ReferenceError;
use policy_crds::spec::ReferenceTarget;
use policy_crds::{Body, Field, Kind, ObjectKey, Resource};

impl Finder<'_> {
    /// The findings that the conditions of an object are.
    pub(super) fn conditions(&mut self, key: &ObjectKey) -> Vec<Finding> {
        let conditions = self.query(&Conditions(key.clone()));
        let mut findings: Vec<Finding> = Vec::new();
        for condition in conditions.iter() {
            if self.is_remarked(key, condition) {
                continue;
            }
            let Some(kind) = self.kind(condition) else { continue };
            for message in messages(condition) {
                let message = format!("{message}{}", self.suggest_elsewhere(key, &message));
                // Two conditions say that a reference is not permitted.
                if !findings.iter().any(|other| other.message == message) {
                    findings.push(finding(key, kind, field(key.kind, condition.kind), message));
                }
            }
        }
        findings
    }

    /// The namespace that was probably meant, if a message says of an object that it does not exist.
    fn suggest_elsewhere(&self, key: &ObjectKey, message: &str) -> String {
        if !message.ends_with(ReferenceError::Missing.as_str()) {
            return String::new();
        }
        let references = self.index.object(key).map(|object| object.references());
        let named = references.into_iter().flatten().filter_map(|reference| match reference.what {
            ReferenceTarget::One(target) => Some(target),
            ReferenceTarget::AnyOf(..) | ReferenceTarget::Unread(_) => None,
        });
        let mut missing = named.filter(|it| {
            self.index.object(it).is_none()
                && message.contains(&format!("{}/{} ", it.namespace, it.name))
        });
        let Some(target) = missing.next().filter(|_| self.may_search_namespaces()) else {
            return String::new();
        };
        let mut elsewhere = self.namespaces_of(target.kind, &target.name).into_iter();
        match (elsewhere.next(), elsewhere.next()) {
            (Some(only), None) => format!("; is that of namespace `{only}` meant?"),
            _ => String::new(),
        }
    }

    /// The kind of finding for a condition, if it is one. What breaks a rule is found where it is read; not so an
    /// object for which its namespace has no room.
    fn kind(&self, condition: &ObjectCondition) -> Option<FindingKind> {
        let lacks_room =
            condition.reason == Reason::Invalid && self.index.lacks_room(&condition.object);
        kind(condition).or_else(|| lacks_room.then_some(FindingKind::Ineffective(condition.kind)))
    }

    /// True if a condition says of a route's filters what the remarks on it say already.
    fn is_remarked(&self, key: &ObjectKey, condition: &ObjectCondition) -> bool {
        let object = self.index.object(key);
        object.is_some_and(|object| match &object.body {
            Body::Valid(Resource::Route(route)) => {
                route.denies_because().is_some_and(|reason| *reason == *condition.message)
            }
            Body::Valid(_) | Body::Invalid(_) => false,
        })
    }
}

/// The kind of finding for a condition, if it is one. Broken rules, annotations and displaced
/// Servers have findings of their own, and each filter that is not supported is remarked.
fn kind(condition: &ObjectCondition) -> Option<FindingKind> {
    match (condition.kind, condition.reason) {
        (_, Reason::Invalid)
        | (ConditionKind::AnnotationsValid | ConditionKind::PartiallyInvalid, _) => None,
        (_, Reason::Conflicted) if !condition.object.kind.is_route() => None,
        (ConditionKind::PrecedenceDiffers, _) => Some(FindingKind::PrecedenceDiffers),
        (ConditionKind::Overlaps, _) => Some(FindingKind::Overlaps),
        (ConditionKind::Accepted | ConditionKind::ResolvedRefs, _) if condition.status => {
            (!condition.message.is_empty()).then_some(FindingKind::Remark)
        }
        // Of a backend: a parent that may not be named is reported by `Accepted`.
        (kind @ ConditionKind::ResolvedRefs, Reason::RefNotPermitted)
            if condition.object.kind.is_route() =>
        {
            Some(FindingKind::Ineffective(kind))
        }
        (
            kind @ (ConditionKind::Accepted | ConditionKind::ResolvedRefs),
            Reason::NoMatchingParent
            | Reason::NoMatchingTarget
            | Reason::RefNotFound
            | Reason::RefNotPermitted
            | Reason::RefWarned
            | Reason::RefInvalid,
        ) => Some(FindingKind::Dangling(kind)),
        (kind @ (ConditionKind::Accepted | ConditionKind::ResolvedRefs), _) => {
            Some(FindingKind::Ineffective(kind))
        }
    }
}

/// The messages of a condition: of references that are not permitted one each, because each needs a
/// ReferenceGrant of its own.
fn messages(condition: &ObjectCondition) -> Vec<String> {
    let whole = message(condition);
    match condition.reason == Reason::RefNotPermitted {
        true => whole.split("; ").map(str::to_owned).collect(),
        false => vec![whole],
    }
}

fn message(condition: &ObjectCondition) -> String {
    match (&*condition.message, &condition.parent) {
        ("", Some(parent)) => format!("{} for {parent}", condition.reason.as_str()),
        ("", None) => condition.reason.as_str().to_owned(),
        (message, _) => message.to_owned(),
    }
}

/// The field that a condition is about: the reference that it names, or else the first one.
fn field(kind: Kind, condition: ConditionKind) -> &'static str {
    let spec = kind.spec();
    let attached = || spec.reference(&[Field::Target, Field::Server, Field::Parent]);
    let resolved = match condition {
        ConditionKind::Overlaps => return "spec.rules",
        ConditionKind::ResolvedRefs => spec.reference(&[Field::Authentication, Field::Backend]),
        ConditionKind::Accepted
        | ConditionKind::PartiallyInvalid
        | ConditionKind::PrecedenceDiffers
        | ConditionKind::AnnotationsValid => None,
    };
    resolved.or_else(attached).map_or("spec", |reference| reference.path)
}
