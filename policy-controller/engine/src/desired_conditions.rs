//! What objects are told, with the version of each that it is about.

use crate::query::condition::ObjectCondition;
use policy_crds::ObjectKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every object is told, by object.
pub type DesiredConditionTable = BTreeMap<ObjectKey, DesiredConditions>;

/// What one object is told.
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
    /// Whether this is certainly the same statement, compared without looking into it.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.conditions, &other.conditions)
            && self.generation == other.generation
            && self.uid == other.uid
    }
}
