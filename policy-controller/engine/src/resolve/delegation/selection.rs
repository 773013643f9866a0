//! The InboundRoutes with labels.

use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::delegation::Labelled;
use policy_crds::{Kind, ObjectKey};
use std::sync::Arc;

query!(Labelled, Arc<[ObjectKey]>, labelled);

/// Looks at the objects with the rarest of the labels alone, of which there may be few in a large
/// namespace.
fn labelled(query: &Labelled, cx: &mut Context<'_>) -> Arc<[ObjectKey]> {
    let Labelled { namespace, labels } = query;
    let edges = labels
        .iter()
        .map(|(label, value)| Edge::Label(namespace.clone(), label.clone(), value.clone()));
    let Some(some) = cx.shortest_edge(edges) else {
        // Without labels all have them.
        let all = cx.list(Kind::InboundRoute, namespace);
        return all.map(|object| object.meta.key.clone()).collect();
    };
    let has = |key: &&ObjectKey| {
        let Some(object) = cx.object(key) else { return false };
        labels.iter().all(|(label, value)| object.meta.labels.get(label) == Some(value))
    };
    // All objects on the edge of a label have it.
    match labels.len() {
        1 => some.into_iter().cloned().collect(),
        _ => some.into_iter().filter(has).cloned().collect(),
    }
}
