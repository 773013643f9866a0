//! Conditions to be written to objects, with the version of the object that they are about.

use crate::query::condition::ObjectCondition;
use crate::query::delegation_state::DelegationState;
use policy_crds::ObjectKey;
use policy_crds::resource::RouteAdmission;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The desired conditions of every object.
pub type DesiredConditionTable = BTreeMap<ObjectKey, DesiredConditions>;

/// The desired conditions of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredConditions {
    /// Its conditions; may be empty.
    pub conditions: Arc<[ObjectCondition]>,
    /// The generation that they are about, if the source states one.
    pub generation: Option<i64>,
    /// The uid of the object, if the source states one.
    pub uid: Option<Arc<str>>,
    /// The fields of its status besides the conditions; absent for kinds that have none.
    pub fields: Option<StatusFields>,
}

/// Fields of a status besides the conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StatusFields {
    /// The state of an InboundRoute; absent if the object is invalid.
    Delegation(Option<Arc<DelegationState>>),
    /// The number of routes of an HttpRouteGroup; absent if the object is invalid.
    Group(Option<usize>),
    /// The rules in effect, in the status of the RouteAdmissionPolicy that counts.
    Admission {
        /// `namespaceOwnership`.
        ownership: &'static str,
        /// `wildcardPolicy`.
        wildcards: &'static str,
    },
}

impl StatusFields {
    /// The words for rules in effect.
    pub fn admission(rules: &RouteAdmission) -> Self {
        let wildcards = if rules.wildcards { "WildcardsAllowed" } else { "WildcardsDisallowed" };
        Self::Admission { ownership: rules.ownership.as_str(), wildcards }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Delegation(Some(own)), Self::Delegation(Some(other))) => Arc::ptr_eq(own, other),
            _ => self == other,
        }
    }
}

impl DesiredConditions {
    /// True if both are certainly equal, by pointer comparison of what is shared.
    pub fn is_same(&self, other: &Self) -> bool {
        let fields = match (&self.fields, &other.fields) {
            (Some(own), Some(other)) => own.is_same(other),
            (own, other) => own == other,
        };
        fields
            && Arc::ptr_eq(&self.conditions, &other.conditions)
            && self.generation == other.generation
            && self.uid == other.uid
    }
}
