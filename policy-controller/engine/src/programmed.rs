//! On how many of the proxies that depend on an object it is in force.

use crate::unsent::Unsent;
use policy_crds::ObjectKey;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How far an object's current revision is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programmed {
    /// Every replica has told its count.
    Counted {
        /// Proxies that decide by it.
        in_force: u64,
        /// Running pods with a sidecar of ours that depend on it, connected or not.
        concerned: u64,
        /// Those among `concerned` whose proxy refused it.
        refused: u64,
    },
    /// It cannot be told.
    Unknown {
        /// Why, in one word for programs, for example `ReplicaUnreachable`.
        reason: Arc<str>,
        /// Why, for people; names what did not answer.
        message: Arc<str>,
    },
}

/// How far one version of an object is in force. Where the object has moved on, it says nothing of
/// the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgrammedAt {
    /// The uid of the object, if its source states one.
    pub uid: Option<Arc<str>>,
    /// Its generation, if its source states one.
    pub generation: Option<i64>,
    /// How far.
    pub programmed: Programmed,
    /// What clients are not sent of it because they could not enforce it.
    pub unsent: Unsent,
}

/// By object, with the version that each is about. Of an object that is not in it nothing is known.
pub type VersionedTable = BTreeMap<ObjectKey, ProgrammedAt>;

impl Programmed {
    /// `True`, `False` or `Unknown`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Counted { in_force, concerned, .. } if in_force >= concerned => "True",
            Self::Counted { .. } => "False",
            Self::Unknown { .. } => "Unknown",
        }
    }

    /// Why, for programs.
    pub fn reason(&self) -> Arc<str> {
        match self {
            Self::Counted { concerned: 0, .. } => "NoProxies".into(),
            Self::Counted { in_force, concerned, .. } if in_force >= concerned => {
                "Programmed".into()
            }
            Self::Counted { refused: 1.., .. } => "Refused".into(),
            Self::Counted { .. } => "Pending".into(),
            Self::Unknown { reason, .. } => reason.clone(),
        }
    }
}

/// The message of the condition.
impl fmt::Display for Programmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted { concerned: 0, .. } => {
                f.write_str("no running pod with a sidecar depends on it")
            }
            Self::Counted { in_force, concerned, refused } => {
                write!(f, "in force on {in_force} of {concerned} proxies")?;
                if *refused == 0 { Ok(()) } else { write!(f, ", refused by {refused}") }
            }
            Self::Unknown { message, .. } => f.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_status_reason_and_words() {
        let told = |in_force, concerned, refused| {
            let programmed = Programmed::Counted { in_force, concerned, refused };
            format!("{} {} {programmed}", programmed.status(), programmed.reason())
        };
        assert_eq!(told(3, 3, 0), "True Programmed in force on 3 of 3 proxies");
        assert_eq!(told(1, 3, 0), "False Pending in force on 1 of 3 proxies");
        assert_eq!(told(1, 3, 2), "False Refused in force on 1 of 3 proxies, refused by 2");
        assert_eq!(told(0, 0, 0), "True NoProxies no running pod with a sidecar depends on it");
        let unknown = Programmed::Unknown {
            reason: "ReplicaUnreachable".into(),
            message: "10.0.0.7:8090 does not answer".into(),
        };
        assert_eq!(unknown.status(), "Unknown");
        assert_eq!(&*unknown.reason(), "ReplicaUnreachable");
        assert_eq!(unknown.to_string(), "10.0.0.7:8090 does not answer");
    }
}
