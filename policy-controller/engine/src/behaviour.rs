//! Behaviour of Linkerd's controller that is taken over on request, one item each.

/// Behaviour of Linkerd's controller that a flag of its own takes over. Its row in
/// [`DIFFERENCES`](crate::compatibility::DIFFERENCES) says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Behaviour {
    /// The proxy's admin port follows the default policy.
    AdminPort,
    /// Requests keep the header `l5d-connection-secure` of a client.
    ConnectionSecureHeader,
    /// Routes with a parent in another namespace count nowhere.
    CrossNamespaceRoutes,
    /// Former names of the annotation of the default policy mean nothing.
    DefaultPolicyAnnotations,
    /// GRPCRoutes take effect on gRPC Servers alone.
    GrpcRoutes,
    /// Invalid routes are as if they were not there.
    InvalidRoutes,
    /// Invalid Servers and rate limits are as if they were not there.
    InvalidServers,
    /// Routes that the protocol of a Server cannot carry do not bind it.
    MismatchedRoutes,
    /// Annotations of a Namespace count as the injector has copied them to a pod.
    NamespaceAnnotations,
    /// Messages do not have the addresses of the pod.
    PodAddresses,
    /// A list of ports is numbers alone.
    PortLists,
    /// HTTP probes are exempt, of every scheme and host, and nothing else of the kubelet.
    ProbeKinds,
    /// A GRPCRoute takes the place of the HTTPRoutes of its Server.
    RouteConflicts,
    /// Matches are sent as they are written.
    RouteMatches,
    /// A default policy of an unknown name is as if it were not there.
    UnknownDefaultPolicies,
}

/// A set of [`Behaviour`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Behaviours(u32);

impl Behaviours {
    /// Returns true if `behaviour` is in the set.
    pub fn contains(self, behaviour: Behaviour) -> bool {
        self.0 & bit(behaviour) != 0
    }

    /// Removes `behaviour`.
    pub fn remove(&mut self, behaviour: Behaviour) {
        self.0 &= !bit(behaviour);
    }

    /// Adds `behaviour`.
    pub fn insert(&mut self, behaviour: Behaviour) {
        self.0 |= bit(behaviour);
    }
}

fn bit(behaviour: Behaviour) -> u32 {
    1_u32.checked_shl(behaviour as u32).unwrap_or_default()
}
