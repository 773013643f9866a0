//! The targets of policies.

use crate::key::ObjectKey;
use crate::kind::Kind;
use std::sync::Arc;

/// The target of a policy, in the namespace of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyTarget {
    /// A Server.
    Server(Arc<str>),
    /// Every Server of the namespace.
    Namespace,
    /// Requests on a Server: a route, or routes that were bound to it.
    Route {
        /// `PolicyHttpRoute`, `GatewayHttpRoute`, `GrpcRoute`, `InboundRoute`, `HttpRouteBinding`,
        /// `HttpRouteClass`, `GrpcServiceBinding` or `GrpcServiceClass`.
        kind: Kind,
        /// Name, compared without case if it is an HTTPRoute's or a GRPCRoute's.
        name: Arc<str>,
    },
}

impl PolicyTarget {
    /// The object that it names, seen from a policy.
    pub fn key(&self, policy: &ObjectKey) -> ObjectKey {
        match self {
            Self::Server(name) => policy.beside(Kind::Server, name),
            Self::Namespace => policy.own_namespace(),
            Self::Route { kind, name } => policy.beside(*kind, name),
        }
    }
}
