//! Conditions to be written to objects, with the version of the object that they are about.

use crate::query::condition::ObjectCondition;
use policy_crds::ObjectKey;
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
}

impl DesiredConditions {
    /// True if both are certainly equal, by pointer comparison of the conditions.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.conditions, &other.conditions)
            && self.generation == other.generation
            && self.uid == other.uid
    }
}
