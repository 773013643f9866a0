//! Which routes a Server has.

use policy_core::Route;
use policy_crds::ObjectKey;
use std::sync::Arc;

/// A route with its own grants; none if it does not exist or is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CompiledRoute(pub(crate) ObjectKey);

/// The routes attached to a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attached(pub(crate) ObjectKey);

/// See [`Attached`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attachments {
    /// Whether any route counts for the Server, accepted or not.
    pub(crate) bound: bool,
    /// The accepted ones, in tie-breaking order.
    pub(crate) routes: Vec<Arc<Route>>,
}
