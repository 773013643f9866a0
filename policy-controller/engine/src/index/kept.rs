//! Objects that stay in force although the definition of their kind is gone.
//!
//! When a CustomResourceDefinition is deleted, the API server deletes all its objects. Nobody decided
//! about the objects themselves, and most of them restrict, so each stays until another object of its
//! name is applied, its Namespace is deleted, or an administrator ends it.

use policy_crds::annotation::END_KEPT_OBJECTS;
use policy_crds::resource::Recorded;
use policy_crds::{Object, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kept objects by name, and the times that their successors take over.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptObjects {
    kept: BTreeSet<ObjectKey>,
    successors: BTreeMap<ObjectKey, FormerTimes>,
}

/// The times of a kept object that another of its name replaced.
#[derive(Clone, Debug)]
struct FormerTimes {
    /// The uid of the successor.
    uid: Option<Arc<str>>,
    /// The creation time of the kept object.
    created: i64,
    /// The times that the status of the kept object recorded.
    recorded: Option<Arc<Recorded>>,
}

impl KeptObjects {
    /// True if no object is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The names of the kept objects, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.kept.iter()
    }

    /// True if the object is kept.
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.kept.contains(key)
    }

    /// True if the object is kept, or replaced one that was.
    pub(super) fn knows(&self, key: &ObjectKey) -> bool {
        self.kept.contains(key) || self.successors.contains_key(key)
    }

    /// The names of the kept objects of a namespace, or of all.
    pub(super) fn of(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        let is_there = |key: &&ObjectKey| namespace.is_none_or(|name| *key.namespace == *name);
        self.kept.iter().filter(is_there).cloned().collect()
    }

    /// Keeps an object.
    pub(super) fn keep(&mut self, key: ObjectKey) {
        self.kept.insert(key);
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.kept.remove(key);
        self.successors.remove(key);
    }

    /// Notes that an object takes the place of a kept one.
    pub(super) fn replaced(&mut self, object: &Object, former: Option<&Object>) {
        let key = &object.meta.key;
        self.kept.remove(key);
        let Some(created) = former.and_then(|former| former.meta.created) else { return };
        let recorded = former.and_then(|former| former.meta.recorded.clone());
        let times = FormerTimes { uid: object.meta.uid.clone(), created, recorded };
        self.successors.insert(key.clone(), times);
    }

    /// The object with the times of the kept one that it replaced, so that its claims are as old as
    /// they were; `None` for every other object.
    pub(super) fn with_former_times(&self, object: &Object) -> Option<Object> {
        let former = self.successors.get(&object.meta.key)?;
        if former.uid != object.meta.uid {
            return None;
        }
        let mut object = object.clone();
        let created = object.meta.created.unwrap_or(former.created);
        object.meta.created = Some(created.min(former.created));
        object.meta.recorded = object.meta.recorded.or_else(|| former.recorded.clone());
        Some(object)
    }
}

/// True if the annotation of a Namespace has a new value. The first one that is read counts only if
/// the Namespace was known without it: what is kept later is not ended by an old value.
pub(super) fn is_end_requested(before: Option<&Object>, now: &Object) -> bool {
    let value = |object: &Object| object.meta.annotations.get(END_KEPT_OBJECTS).cloned();
    let Some(before) = before else { return false };
    value(now).is_some_and(|asked| value(before) != Some(asked))
}
