//! Matches that other rules take all requests of.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::index::parents;
use crate::query::policy::AttachedRoutesOf;
use crate::view::{Shadowed, request, shadowed};
use policy_core::{ObjectRef, PathHandling, Route};
use policy_crds::{Object, ObjectKey, annotation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Messages by rule and match.
type Unreached = BTreeMap<(usize, usize), String>;

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
            let paths = self.index.object(&server).map_or(PathHandling::Canonical, |server| {
                annotation::path_normalization(&server.meta.annotations).value
            });
            let attached = self.query(&AttachedRoutesOf(server));
            if !attached.routes.iter().any(|r| r.origin.object() == Some(&name)) {
                continue;
            }
            let mut here = unreached(&attached.routes, paths, &name);
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
}

/// The matches of the route `own` that are never reached among `routes`.
fn unreached(routes: &[Arc<Route>], paths: PathHandling, own: &ObjectRef) -> Unreached {
    let message = |shadowed: Shadowed| {
        let Shadowed { route, rule, number, by } = shadowed;
        let (route, by) = (routes.get(route)?, routes.get(by)?.origin.object()?);
        if route.origin.object() != Some(own) {
            return None;
        }
        let by =
            if by == own { "an earlier rule of this route".to_owned() } else { by.to_string() };
        // A rule without matches takes every request.
        let wanted = route.rules.get(rule)?.matches.get(number).map(request);
        let wanted =
            wanted.map_or_else(|| "every request".to_owned(), |wanted| format!("`{wanted}`"));
        Some(((rule, number), format!("never reached: {by} matches {wanted} first")))
    };
    shadowed(routes, &BTreeMap::new(), paths).into_iter().filter_map(message).collect()
}
