//! The policy of a port, its part that depends on the Server alone, and the routes and rate limit
//! of that.

use super::workload::WorkloadShape;
use policy_core::{HostPattern, Route};
use policy_crds::ObjectKey;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The policy of a port of every workload of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PolicyOf {
    /// The shape.
    pub(crate) shape: Arc<WorkloadShape>,
    /// The port.
    pub(crate) port: NonZeroU16,
}

/// The policy that a Server gives every port it owns, without exemptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerBaseOf(pub(crate) ObjectKey);

/// The grants of a Server, with those that its access policy and the configuration add; of an invalid
/// one none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerAuthorizationsOf(pub(crate) ObjectKey);

/// A route with its own grants, in parts that are served or denied; none if it does not exist or is
/// invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CompiledRoute(pub(crate) ObjectKey);

/// The requests that a route denies which permits nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DenyingRoutesOf(pub(crate) ObjectKey);

/// See [`DenyingRoutesOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DenyingRoutes {
    /// The matches that can be read, at their place among the routes of a Server.
    pub(crate) placed: Option<Arc<Route>>,
    /// The conditions that can be read of the other matches, before all routes.
    pub(crate) first: Option<Arc<Route>>,
}

/// The routes attached to a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AttachedRoutesOf(pub(crate) ObjectKey);

/// See [`AttachedRoutesOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AttachedRoutes {
    /// True if any route counts for the Server, accepted or not.
    pub(crate) bound: bool,
    /// True if one of them is accepted, if only for hosts that others hold.
    pub(crate) accepted: bool,
    /// The accepted ones, in tie-breaking order.
    pub(crate) routes: Vec<Arc<Route>>,
    /// Hosts of routes that others hold. Requests for them are denied: other routes must not decide
    /// about what these restricted.
    pub(crate) lost: BTreeSet<HostPattern>,
    /// The routes of matches that cannot be read, which deny before all others.
    pub(crate) first: Vec<Arc<Route>>,
}

/// The first GRPCRoute of a Server's own namespace that names it, valid or not. It takes the place of
/// the HTTPRoutes there as Linkerd decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GrpcRouteOf(pub(crate) ObjectKey);

/// The rate limit of a Server: the object that sets it, and the limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RateLimitOf(pub(crate) ObjectKey);
