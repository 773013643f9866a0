//! The numbers of routes that HttpRouteGroups describe, for their status.

use crate::desired_conditions::StatusFields;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::BTreeMap;

/// The number of routes of each valid HttpRouteGroup, included ones among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupSizes(BTreeMap<ObjectKey, usize>);

impl GroupSizes {
    /// Sets the size of a group; `None`: it is gone or invalid. True if it differs.
    pub(crate) fn set(&mut self, key: &ObjectKey, size: Option<usize>) -> bool {
        let before = match size {
            Some(size) => self.0.insert(key.clone(), size),
            None => self.0.remove(key),
        };
        before != size
    }

    /// The names of all of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.keys()
    }

    /// The fields of a group's status besides its conditions.
    pub(crate) fn fields(&self, object: &Object) -> Option<StatusFields> {
        let key = &object.meta.key;
        (key.kind == policy_crds::Kind::HttpRouteGroup)
            .then(|| StatusFields::Group(self.0.get(key).copied()))
    }
}

/// True for an object whose size is kept.
pub(crate) fn has_size(object: &Object) -> bool {
    matches!(object.body, Body::Valid(Resource::HttpRouteGroup(_)))
}
