//! Routes of groups and services that no request reaches: others match them first, or their predicates
//! contradict each other.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::effective_servers::EffectiveServersOf;
use crate::query::policy::AttachedRoutesOf;
use crate::query::requests::{BindingRoutesOf, DescribedRoute};
use crate::resolve::requests::{own_routes, server_of};
use crate::view::shadowed;
use policy_core::{
    HeaderMatch, ObjectRef, PathHandling, QueryMatch, RequestMatch, Route, ValueMatch,
};
use policy_crds::{Kind, Object, ObjectKey, server_annotation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Messages by the place of a route in its group or service.
type Unreached = BTreeMap<usize, String>;

impl Finder<'_> {
    /// The routes of a group or service that no request reaches on any Server.
    pub(super) fn described_never_reached(&mut self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        if !matches!(key.kind, Kind::HttpRouteGroup | Kind::GrpcService) {
            return Vec::new();
        }
        let list = if key.kind == Kind::GrpcService { "methods" } else { "routes" };
        let own = own_routes(object);
        let contradicting = own.iter().filter_map(|route| {
            Some((route.place, (FindingKind::NeverReached, contradiction(route)?)))
        });
        let mut unreached: BTreeMap<usize, (FindingKind, String)> = contradicting.collect();
        let (kind, hidden) = self.hidden_everywhere(key);
        for (place, message) in hidden {
            unreached.entry(place).or_insert((kind, message));
        }
        let finding_of = |(place, (kind, message)): (usize, (FindingKind, String))| {
            finding(key, kind, &format!("spec.{list}[{place}]"), message)
        };
        unreached.into_iter().map(finding_of).collect()
    }

    /// The routes that others hide on every Server that has them. Where one of these is in another
    /// namespace, the author may not be allowed to know of it.
    fn hidden_everywhere(&mut self, key: &ObjectKey) -> (FindingKind, Unreached) {
        let servers = self.query(&EffectiveServersOf(key.clone())).servers.clone();
        let kind = match servers.iter().all(|server| server.namespace == key.namespace) {
            true => FindingKind::NeverReached,
            false => FindingKind::NeverReachedElsewhere,
        };
        let mut everywhere: Option<Unreached> = None;
        for server in servers {
            let mut here = self.hidden(key, &server);
            everywhere = Some(match everywhere {
                None => here,
                Some(mut both) => {
                    both.retain(|place, _| here.remove(place).is_some());
                    both
                }
            });
        }
        let mut everywhere = everywhere.unwrap_or_default();
        if kind == FindingKind::NeverReachedElsewhere {
            for message in everywhere.values_mut() {
                *message =
                    "never reached: on every Server that has it other routes match the same \
                            requests first"
                        .to_owned();
            }
        }
        (kind, everywhere)
    }

    fn hidden(&mut self, key: &ObjectKey, server: &ObjectKey) -> Unreached {
        let paths = self.index.object(server).map_or(PathHandling::Canonical, |server| {
            server_annotation::path_normalization(&server.meta.annotations).value
        });
        let attached = self.query(&AttachedRoutesOf(server.clone()));
        let hidden = hidden_routes(&attached.routes, paths);
        let (mut found, mut reached) = (Unreached::new(), BTreeSet::new());
        for binding in self.bindings(server) {
            let routes = self.query(&BindingRoutesOf(binding));
            for route in routes.each().filter(|route| route.holder == *key) {
                match hidden.iter().find(|(matches, _)| **matches == route.matches[..]) {
                    Some((_, other)) => _ = found.insert(route.place, message(other, key)),
                    None => _ = reached.insert(route.place),
                }
            }
        }
        found.retain(|place, _| !reached.contains(place));
        found
    }

    fn bindings(&self, server: &ObjectKey) -> Vec<ObjectKey> {
        let kinds = [Kind::HttpRouteBinding, Kind::GrpcServiceBinding];
        let all = kinds.into_iter().flat_map(|kind| self.index.list(kind, &server.namespace));
        let naming = all.filter(|object| server_of(object).as_ref() == Some(server));
        naming.map(|object| object.meta.key.clone()).collect()
    }
}

/// The message about a route that another one hides, for the author of a group.
fn message(other: &ObjectRef, group: &ObjectKey) -> String {
    let other = match other.namespace() == &*group.namespace {
        true => other.to_string(),
        false => "a route of another namespace".to_owned(),
    };
    format!("never reached: {other} matches the same requests first")
}

/// The matches of routes all of whose matches others have first, with the first of these.
fn hidden_routes(routes: &[Arc<Route>], paths: PathHandling) -> Vec<(&[RequestMatch], &ObjectRef)> {
    let mut by_route: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for one in shadowed(routes, &BTreeMap::new(), paths) {
        by_route.entry(one.route).or_default().push(one.by);
    }
    let hidden = by_route.into_iter().filter_map(|(number, others)| {
        let route = routes.get(number)?;
        let matches = &route.rules.first()?.matches;
        if others.len() < matches.len() {
            return None;
        }
        let other = routes.get(*others.first()?)?.origin.object()?;
        Some((&matches[..], other))
    });
    hidden.collect()
}

/// The message about predicates of which no request meets all, because one header or parameter would
/// have two values.
fn contradiction(route: &DescribedRoute) -> Option<String> {
    let header = |one: &HeaderMatch| (one.name.to_string(), one.value.clone());
    let query = |one: &QueryMatch| (one.name.to_string(), one.value.clone());
    let headers: Vec<_> = route.headers.iter().map(header).collect();
    let parameters: Vec<_> = route.query.iter().map(query).collect();
    let named = |what, name: &str| {
        format!("never reached: no request has two values of the {what} `{name}` at once")
    };
    let header = doubly(&headers).map(|name| named("header", name));
    header.or_else(|| doubly(&parameters).map(|name| named("query parameter", name)))
}

/// The name with two exact values that differ.
fn doubly(predicates: &[(String, ValueMatch)]) -> Option<&str> {
    let exact = |value: &ValueMatch| matches!(value, ValueMatch::Exact(_));
    let differs = |(name, value): &&(String, ValueMatch)| {
        let others = predicates.iter().filter(|(other, _)| other == name);
        exact(value) && others.into_iter().any(|(_, other)| exact(other) && other != value)
    };
    predicates.iter().find(differs).map(|(name, _)| name.as_str())
}
