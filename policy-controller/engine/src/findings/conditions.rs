//! Conditions that say something is not as it should be.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::condition::{ConditionKind, Conditions, ObjectCondition, Reason};
use policy_crds::{Field, Kind, ObjectKey};

impl Finder<'_> {
    /// The findings that the conditions of an object are.
    pub(super) fn conditions(&mut self, key: &ObjectKey) -> Vec<Finding> {
        let conditions = self.query(&Conditions(key.clone()));
        let mut findings: Vec<Finding> = Vec::new();
        for condition in conditions.iter() {
            let Some(kind) = kind(condition) else { continue };
            let message = message(condition);
            // Two conditions say that a reference is not permitted.
            if !findings.iter().any(|other| other.message == message) {
                findings.push(finding(key, kind, field(key.kind, condition.kind), message));
            }
        }
        findings
    }
}

/// The kind of finding for a condition, if it is one. Broken rules, annotations and displaced
/// Servers have findings of their own.
fn kind(condition: &ObjectCondition) -> Option<FindingKind> {
    match (condition.kind, condition.reason) {
        (_, Reason::Invalid | Reason::Conflicted) | (ConditionKind::AnnotationsValid, _) => None,
        (ConditionKind::PrecedenceDiffers, _) => Some(FindingKind::PrecedenceDiffers),
        (ConditionKind::Accepted | ConditionKind::ResolvedRefs, _) if condition.status => {
            (!condition.message.is_empty()).then_some(FindingKind::Remark)
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
        ConditionKind::ResolvedRefs => spec.reference(&[Field::Authentication]),
        ConditionKind::Accepted
        | ConditionKind::PrecedenceDiffers
        | ConditionKind::AnnotationsValid => None,
    };
    resolved.or_else(attached).map_or("spec", |reference| reference.path)
}
