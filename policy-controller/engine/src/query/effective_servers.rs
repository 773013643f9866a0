//! Through which Servers an object takes effect.

use policy_crds::ObjectKey;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The Servers through which an object takes effect, whatever they select.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EffectiveServersOf(pub(crate) ObjectKey);

/// See [`EffectiveServersOf`]. An authentication takes effect through the policies that name it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EffectiveServers {
    /// The Servers.
    pub(crate) servers: BTreeSet<ObjectKey>,
    /// The missing object that it refers to, in words.
    pub(crate) missing: Option<Arc<str>>,
    /// The authentications that it names.
    pub(crate) authentications: BTreeSet<ObjectKey>,
}
