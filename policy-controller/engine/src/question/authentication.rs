//! Who an authentication names.

use policy_core::{IdentityMatch, NetworkMatch};
use policy_crds::ObjectKey;
use std::sync::Arc;

/// The members of a MeshTLSAuthentication or NetworkAuthentication.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Members(pub(crate) ObjectKey);

/// See [`Members`]. Nobody, where the object is missing, invalid or of another kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Clients by identity.
    Identities(Arc<[IdentityMatch]>),
    /// Clients by network.
    Networks(Arc<[NetworkMatch]>),
    /// Nobody.
    Nobody,
}
