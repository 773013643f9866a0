//! Changes of objects, as a source sends them.

use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object exists like this, valid or not.
    Apply(Arc<Object>),
    /// The object is gone.
    Delete(ObjectKey),
    /// Every kind has been listed completely. Before it, nothing is answered.
    Synced,
}

/// Changes that belong together: nothing between the first and the last is ever seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The epoch that begins with this batch; absent: the one before goes on. Nothing that was stated
    /// of versions before counts any more.
    pub epoch: Option<Arc<str>>,
    /// Per kind that has news in here, the newest resource version that any of its watches has told,
    /// deletes and relists included: an event may be older, because another watch of its kind is
    /// further. Never smaller than in an earlier batch of the same epoch.
    pub versions: BTreeMap<Kind, u64>,
    /// Of kinds that several watches share, each of a namespace: the resource version up to which
    /// all of them have seen everything, where it has changed. What is published is labelled by the
    /// newest version of any of them; whether something has been missed is a question to the oldest.
    pub passed: BTreeMap<Kind, u64>,
}
