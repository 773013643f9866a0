//! On how many of the proxies that depend on an object it is in force.

use crate::query::condition::{ConditionKind, ObjectCondition, Reason};
use crate::reach::{CONFLICTED, NO_TARGET, NOT_REFERENCED, Reach, Skipping};
use crate::unsent::Unsent;
use policy_crds::ObjectKey;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The extent to which an object's current revision is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// Counts of all replicas.
    Counted {
        /// Proxies that decide by it.
        in_force: u64,
        /// Running pods with a sidecar of ours that depend on it, connected or not.
        concerned: u64,
        /// Those among `concerned` whose proxy refused it.
        refused: u64,
        /// The other workloads that it applies to.
        reach: Arc<Reach>,
    },
    /// The extent is unknown.
    Unknown {
        /// The reason, in one word for programs, for example `ReplicaUnreachable`.
        reason: Arc<str>,
        /// The message for people; names the replicas that did not answer.
        message: Arc<str>,
    },
}

/// The extent to which one version of an object is in force. It says nothing of later versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgrammedAt {
    /// The uid of the object, if its source states one.
    pub uid: Option<Arc<str>>,
    /// Its generation, if its source states one.
    pub generation: Option<i64>,
    /// The extent.
    pub programmed: Programmed,
    /// The parts that are not sent to clients because these could not enforce them.
    pub unsent: Unsent,
}

/// Extents by object, with the version that each is about. An object that is not in it is unknown.
pub type ProgrammedTable = BTreeMap<ObjectKey, ProgrammedAt>;

/// The reason of an object that is in force on every proxy concerned.
const PROGRAMMED: &str = "Programmed";
/// The reason of an object that some proxy refused.
const REFUSED: &str = "Refused";
/// The reason of an object that some proxy has not acknowledged yet.
const PENDING: &str = "Pending";
/// The reason of an object whose workloads have no sidecar.
const NO_SIDECAR: &str = "NoSidecar";
/// The reason of an object that only proxies enforce which do not acknowledge policies.
pub const COMPATIBLE_PROXIES: &str = "CompatibleProxies";
/// The reason of an object whose ports are all skipped by redirection.
const PORTS_SKIPPED: &str = "PortsSkipped";
/// The reason of an object none of whose workloads runs.
const NOT_RUNNING: &str = "NotRunning";
/// The reason of an object that is not accepted, and has no effect.
const NOT_ACCEPTED: &str = "NotAccepted";
/// The reason of what grants nothing, because it refers to what cannot be used.
const NOT_RESOLVED: &str = "NotResolved";
/// The reason of an object that is part of no policy although its Servers own ports.
const NOT_USED: &str = "NotUsed";

/// The reasons of objects that may have been in force before their workloads changed, permanently
/// or until they start again.
pub const NOWHERE: [&str; 5] = [NO_TARGET, NO_SIDECAR, PORTS_SKIPPED, NOT_RUNNING, NOT_USED];

/// Every reason of an object whose proxies are counted.
pub const REASONS: [&str; 13] = [
    PROGRAMMED,
    PENDING,
    REFUSED,
    NO_TARGET,
    NOT_REFERENCED,
    CONFLICTED,
    NO_SIDECAR,
    PORTS_SKIPPED,
    NOT_RUNNING,
    NOT_ACCEPTED,
    NOT_RESOLVED,
    NOT_USED,
    COMPATIBLE_PROXIES,
];

/// True if this is the reason of an object that no longer matches, if it was in force before. An
/// object whose workloads do not run still matches them.
pub fn no_longer_matches(reason: &str) -> bool {
    reason != NOT_RUNNING && NOWHERE.contains(&reason)
}

impl Programmed {
    /// In force on `in_force` of the `concerned`, refused by `refused` of them; other workloads are
    /// unknown.
    pub fn counted(in_force: u64, concerned: u64, refused: u64) -> Self {
        Self::Counted { in_force, concerned, refused, reach: Arc::default() }
    }

    /// The extent for an object with these conditions. An object that no parent or target accepts
    /// gets the reason `NotAccepted` if nothing else explains why it is in force nowhere. A
    /// withheld grant gets its reason once it is withheld everywhere, because proxies know it only
    /// as a missing grant.
    #[must_use]
    pub fn of(&self, conditions: &[ObjectCondition]) -> Self {
        let Self::Counted { in_force, concerned, reach, .. } = self else { return self.clone() };
        let lacking = match *concerned {
            0 if reach.gap.is_none() => not_accepted(conditions),
            1.. if in_force >= concerned && only_grants(conditions) => {
                not_accepted(conditions).or_else(|| not_resolved(conditions))
            }
            _ => None,
        };
        lacking.map_or_else(
            || self.clone(),
            |reach| Self::Counted { in_force: 0, concerned: 0, refused: 0, reach: reach.into() },
        )
    }

    /// `True`, `False` or `Unknown`. What is in force nowhere is never `True`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Counted { concerned: 0, reach, .. } => match nowhere(reach) {
                COMPATIBLE_PROXIES => "Unknown",
                _ => "False",
            },
            Self::Counted { in_force, concerned, .. } if in_force >= concerned => "True",
            Self::Counted { .. } => "False",
            Self::Unknown { .. } => "Unknown",
        }
    }

    /// The reason of the condition.
    pub fn reason(&self) -> Arc<str> {
        match self {
            Self::Counted { concerned: 0, reach, .. } => nowhere(reach).into(),
            Self::Counted { in_force, concerned, .. } if in_force >= concerned => PROGRAMMED.into(),
            Self::Counted { refused: 1.., .. } => REFUSED.into(),
            Self::Counted { .. } => PENDING.into(),
            Self::Unknown { reason, .. } => reason.clone(),
        }
    }
}

/// True if the conditions are about an object that only grants.
fn only_grants(conditions: &[ObjectCondition]) -> bool {
    conditions.first().is_some_and(|condition| condition.object.kind.spec().only_grants)
}

/// The reason why an object has no effect if no parent or target accepts it.
fn not_accepted(conditions: &[ObjectCondition]) -> Option<Reach> {
    let mut accepted = conditions.iter().filter(|c| c.kind == ConditionKind::Accepted);
    let refused = accepted.clone().next().filter(|_| accepted.all(|accepted| !accepted.status))?;
    let message = match &*refused.message {
        "" => "it is not accepted".to_owned(),
        message => format!("it is not accepted: {message}"),
    };
    Some(Reach::nowhere(NOT_ACCEPTED, message))
}

/// The reason why a policy grants nothing if a reference cannot be used. A reference that is used
/// with a warning does not count.
fn not_resolved(conditions: &[ObjectCondition]) -> Option<Reach> {
    let unusable = |c: &&ObjectCondition| {
        c.kind == ConditionKind::ResolvedRefs && !c.status && c.reason != Reason::RefWarned
    };
    let unusable = conditions.iter().find(unusable)?;
    Some(Reach::nowhere(NOT_RESOLVED, format!("it grants nothing: {}", unusable.message)))
}

/// The reason why an object is in force on no sidecar.
fn nowhere(reach: &Reach) -> &'static str {
    let Reach { gap, compatible, bare, idle, skipping, elsewhere: _ } = reach;
    match gap {
        Some(gap) => gap.reason,
        None if *compatible > 0 => COMPATIBLE_PROXIES,
        None if *bare > 0 => NO_SIDECAR,
        None if skipping.is_some() => PORTS_SKIPPED,
        None if *idle > 0 => NOT_RUNNING,
        None => NOT_USED,
    }
}

/// The message of the condition.
impl fmt::Display for Programmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted { in_force, concerned, refused, reach } => {
                let mut parts = Vec::new();
                if *concerned > 0 {
                    parts.push(format!("in force on {in_force} of {concerned} proxies"));
                    if let (Some(first), 1..) = (parts.first_mut(), *refused) {
                        first.push_str(&format!(", refused by {refused}"));
                    }
                }
                parts.extend(reach_remarks(reach, *concerned > 0));
                f.write_str(&parts.join("; "))
            }
            Self::Unknown { message, .. } => f.write_str(message),
        }
    }
}

/// Remarks beside the count. Workloads that do not run are mentioned only if none runs.
fn reach_remarks(reach: &Reach, somewhere: bool) -> Vec<String> {
    let Reach { gap, compatible, bare, idle, skipping, elsewhere } = reach;
    if let Some(gap) = gap {
        return vec![gap.message.to_string()];
    }
    let mut remarks = Vec::new();
    if *compatible > 0 {
        let (has, does) = if *compatible == 1 { ("has", "does") } else { ("have", "do") };
        remarks.push(format!(
            "{} {has} a proxy of Linkerd's API and {does} not report what is in force there",
            number(*compatible, "workload")
        ));
    }
    if *bare > 0 {
        let has = if *bare == 1 { "has" } else { "have" };
        let pods = number(*bare, "pod");
        remarks.push(format!("{pods} {has} no sidecar, so it is not enforced there"));
    }
    if let Some(Skipping { workloads, ports }) = skipping {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let takes = if *workloads == 1 { "takes" } else { "take" };
        remarks.push(format!(
            "{} {takes} port {} out of redirection (skip-inbound-ports), so it is not enforced \
             there",
            number(*workloads, "pod"),
            ports.join(", ")
        ));
    }
    remarks.extend(elsewhere.iter().map(ToString::to_string));
    if remarks.is_empty() && !somewhere {
        remarks.push(match idle {
            0 => "no pod's policy uses it".to_owned(),
            idle => format!("{} selected, none of which runs", number(*idle, "pod")),
        });
    }
    remarks
}

/// `1 pod`, `2 pods`.
fn number(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
