//! One condition about an object, or about one of its parents or targets.

use crate::query::condition::{ConditionKind, ObjectCondition, Reason};
use crate::query::grant::RefFault;
use policy_crds::{Claims, Invalid, ObjectKey};
use std::sync::Arc;

/// The subject of a condition.
#[derive(Clone)]
pub(super) struct About<'a> {
    pub(super) object: &'a ObjectKey,
    pub(super) parent: Option<ObjectKey>,
    pub(super) section: Option<Arc<str>>,
    pub(super) port: Option<u16>,
}

impl About<'_> {
    pub(super) fn condition(
        &self,
        kind: ConditionKind,
        reason: Reason,
        message: &str,
    ) -> ObjectCondition {
        ObjectCondition {
            object: self.object.clone(),
            parent: self.parent.clone(),
            section: self.section.clone(),
            port: self.port,
            kind,
            status: kind == ConditionKind::PartiallyInvalid
                || matches!(
                    reason,
                    Reason::Accepted
                        | Reason::ResolvedRefs
                        | Reason::PrecedenceDiffers
                        | Reason::Overlaps
                ),
            reason,
            message: message.into(),
            hostnames: Vec::new(),
        }
    }

    pub(super) fn accepted(&self, message: &str) -> ObjectCondition {
        self.condition(ConditionKind::Accepted, Reason::Accepted, message)
    }

    pub(super) fn refused(&self, reason: Reason, message: &str) -> ObjectCondition {
        self.condition(ConditionKind::Accepted, reason, message)
    }

    pub(super) fn outcome(&self, outcome: Result<String, (Reason, String)>) -> ObjectCondition {
        match outcome {
            Ok(message) => self.accepted(&message),
            Err((reason, message)) => self.refused(reason, &message),
        }
    }

    /// Some rules are denied, while others of the route take effect.
    pub(super) fn partially_invalid(&self, message: &str) -> ObjectCondition {
        self.condition(ConditionKind::PartiallyInvalid, Reason::UnsupportedValue, message)
    }

    pub(super) fn differs(&self, message: &str) -> ObjectCondition {
        self.condition(ConditionKind::PrecedenceDiffers, Reason::PrecedenceDiffers, message)
    }

    pub(super) fn invalid(&self, invalid: &Invalid) -> ObjectCondition {
        self.invalid_root(invalid, None)
    }

    /// The same of an object that keeps claims, as `kept` says.
    pub(super) fn invalid_root(&self, invalid: &Invalid, kept: Option<String>) -> ObjectCondition {
        let mut errors: Vec<String> = invalid.errors.iter().map(ToString::to_string).collect();
        if let Claims::HeaderRewrite { required: true, target } = &invalid.claims {
            let of = target.as_ref().map_or("every Server of the namespace", |_| "its target");
            errors.push(format!("requests of {of} fail, because its changes may be required"));
        }
        errors.extend(kept);
        self.refused(Reason::Invalid, &errors.join("; "))
    }

    /// The reason is that of the first reference that cannot be used, if there is one.
    pub(super) fn resolved(&self, faults: &[RefFault]) -> ObjectCondition {
        let unusable = faults.iter().find(|fault| fault.reason != Reason::RefWarned);
        let Some(first) = unusable.or_else(|| faults.first()) else {
            return self.condition(ConditionKind::ResolvedRefs, Reason::ResolvedRefs, "");
        };
        let messages: Vec<&str> = faults.iter().map(|fault| &*fault.message).collect();
        self.condition(ConditionKind::ResolvedRefs, first.reason, &messages.join("; "))
    }
}
