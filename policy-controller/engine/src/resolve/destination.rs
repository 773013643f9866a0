//! What an address and port lead to.

use crate::incremental::{Context, query};
use crate::publish::destination::{PublishedDestination, ScopeKind};
use crate::query::destination::DestinationOf;
use policy_core::Destination;
use policy_crds::{Kind, Object, ObjectKey};
use std::sync::Arc;

/// The label that states the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";

query!(DestinationOf, Arc<PublishedDestination>, destination_of);

fn destination_of(_query: &DestinationOf, _cx: &mut Context<'_>) -> Arc<PublishedDestination> {
    let destination = Destination::Unknown;
    Arc::new(PublishedDestination { destination, needs: ScopeKind::All })
}

/// The key of a Node.
pub(crate) fn node_key(name: &Arc<str>) -> ObjectKey {
    ObjectKey { kind: Kind::Node, namespace: "".into(), name: name.clone() }
}

/// The zone that a Node states.
pub(crate) fn zone_of(node: &Object) -> Option<Arc<str>> {
    node.meta.labels.get(ZONE).filter(|zone| !zone.is_empty()).cloned()
}
