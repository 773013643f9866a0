//! Matches that other rules take all requests of.

use super::finder::{Finder, Unreached, UnreachedByRoute, finding};
use super::finding::{Finding, FindingKind};
use crate::index::parents;
use crate::query::policy::AttachedRoutesOf;
use crate::view::{Shadowed, shadowed};
use policy_core::{ObjectRef, PathHandling, Route};
use policy_crds::{Object, ObjectKey, server_annotation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Finder<'_> {
    /// The matches of a route that are reached on no Server of it.
    pub(super) fn never_reached(&mut self, route: &Object) -> Vec<Finding> {
        let key = &route.meta.key;
        let name = key.to_ref();
        let mut everywhere: Option<Unreached> = None;
        let servers: BTreeSet<ObjectKey> = parents(route)
            .iter()
            .filter_map(|parent| ObjectKey::server_of(parent, &key.namespace))
            .collect();
        for server in servers {
            let on_server = self.unreached_on(server);
            let Some(mut here) = on_server.get(&name).cloned() else { continue };
            everywhere = Some(match everywhere {
                None => here,
                Some(mut both) => {
                    both.retain(|place, _| here.remove(place).is_some());
                    both
                }
            });
        }
        let found = everywhere.into_iter().flatten();
        found
            .map(|((rule, number), message)| {
                let field = format!("spec.rules[{rule}].matches[{number}]");
                finding(key, FindingKind::NeverReached, &field, message)
            })
            .collect()
    }

    /// The matches that are never reached on a Server, of each route that is attached to it. Computed
    /// once, because otherwise the time would grow with the square of the routes.
    fn unreached_on(&mut self, server: ObjectKey) -> Arc<UnreachedByRoute> {
        if let Some(known) = self.unreached.get(&server) {
            return Arc::clone(known);
        }
        let paths = self.index.object(&server).map_or(PathHandling::Canonical, |server| {
            server_annotation::path_normalization(&server.meta.annotations).value
        });
        let attached = self.query(&AttachedRoutesOf(server.clone()));
        let found = Arc::new(unreached(&attached.routes, paths));
        self.unreached.insert(server, Arc::clone(&found));
        found
    }
}

/// The matches that are never reached among `routes`, by the object of the route. Every object has an
/// entry.
fn unreached(routes: &[Arc<Route>], paths: PathHandling) -> UnreachedByRoute {
    let objects = routes.iter().filter_map(|route| route.origin.object());
    let mut found: UnreachedByRoute =
        objects.map(|object| (object.clone(), Unreached::new())).collect();
    let firsts = first_rules(routes);
    for Shadowed { route, rule, number, by } in shadowed(routes, &BTreeMap::new(), paths) {
        let first = firsts.get(route).copied().unwrap_or_default();
        let (Some(route), Some(by)) = (routes.get(route), routes.get(by)) else { continue };
        let (Some(own), Some(by)) = (route.origin.object(), by.origin.object()) else { continue };
        let by =
            if by == own { "an earlier rule of this route".to_owned() } else { by.to_string() };
        let Some(stated) = route.rules.get(rule) else { continue };
        // A rule without matches takes every request.
        let wanted = stated.matches.get(number).map(ToString::to_string);
        let wanted =
            wanted.map_or_else(|| "every request".to_owned(), |wanted| format!("`{wanted}`"));
        let message = format!("never reached: {by} matches {wanted} first");
        found.entry(own.clone()).or_default().insert((first.saturating_add(rule), number), message);
    }
    found
}

/// The number that the first rule of each route has in its object, of which it may be a part.
fn first_rules(routes: &[Arc<Route>]) -> Vec<usize> {
    let mut passed: BTreeMap<Option<&ObjectRef>, usize> = BTreeMap::new();
    let mut firsts = Vec::new();
    for route in routes {
        let first = passed.entry(route.origin.object()).or_default();
        firsts.push(*first);
        *first = first.saturating_add(route.rules.len());
    }
    firsts
}
