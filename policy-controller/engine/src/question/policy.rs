//! The policy of a port, and the part of it that its Server gives.

use super::workload::Shape;
use policy_core::ServerPolicy;
use policy_crds::ObjectKey;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The policy of a port of every workload of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PolicyOf {
    /// The shape.
    pub(crate) shape: Arc<Shape>,
    /// The port.
    pub(crate) port: NonZeroU16,
}

/// What a Server gives every port it owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerPieces(pub(crate) ObjectKey);

/// See [`ServerPieces`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pieces {
    /// The policy, without exemptions.
    pub(crate) policy: ServerPolicy,
    /// Whether routes are attached.
    pub(crate) routed: bool,
}
