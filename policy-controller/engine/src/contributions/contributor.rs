//! The namespace that answers for a route.

use policy_core::{ObjectRef, Origin, Owner};

/// The namespace that contributes a route to a port; `None` if it is that of the port's Server. It is the
/// first one behind the Server's own in the chain: who hands on what was handed over answers for it.
pub(crate) fn contributor<'o>(owner: &Owner, origin: &'o Origin) -> Option<&'o str> {
    let Owner::Server(server) = owner else { return None };
    let is_own = |object: &ObjectRef| object.namespace() == server.namespace();
    let chain = origin.chain();
    let own = chain.iter().rposition(is_own).map_or(0, |last| last.saturating_add(1));
    chain.get(own).map(ObjectRef::namespace)
}
