//! The Servers through which groups, services, bindings and classes take effect.

use super::binding::{includers, is_binding, is_class, server_of};
use crate::incremental::Context;
use crate::query::requests::ClassSelectionOf;
use policy_crds::{Kind, ObjectKey};
use std::collections::BTreeSet;

/// The Servers that have routes of an object; `None` if its kind is none that describes, binds or
/// selects routes.
pub(crate) fn servers_through(
    cx: &mut Context<'_>,
    key: &ObjectKey,
) -> Option<BTreeSet<ObjectKey>> {
    if is_class(key.kind) {
        Some(cx.query(&ClassSelectionOf(key.clone())).servers.clone())
    } else if is_binding(key.kind) {
        Some(of_binding(cx, key).into_iter().collect())
    } else if matches!(key.kind, Kind::HttpRouteGroup | Kind::GrpcService) {
        Some(of_described(cx, key))
    } else {
        None
    }
}

/// The Server of a binding, if it exists.
fn of_binding(cx: &mut Context<'_>, key: &ObjectKey) -> Option<ObjectKey> {
    let server = server_of(cx.object(key)?)?;
    cx.object(&server).map(|object| object.meta.key.clone())
}

/// The Servers of the bindings that name a group or service, or a group that includes it.
fn of_described(cx: &mut Context<'_>, key: &ObjectKey) -> BTreeSet<ObjectKey> {
    let mut seen: BTreeSet<ObjectKey> = [key.clone()].into();
    let mut waiting = vec![key.clone()];
    let mut servers = BTreeSet::new();
    while let Some(next) = waiting.pop() {
        for from in includers(cx, &next) {
            if is_binding(from.kind) {
                servers.extend(of_binding(cx, from));
            } else if seen.insert(from.clone()) {
                waiting.push(from.clone());
            }
        }
    }
    servers
}
