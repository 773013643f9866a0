//! Servers on which nothing is granted, routes and bindings without which more would be, and those that
//! take grants away.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::parents;
use crate::query::delegation::{DelegatedRoutesOf, TreeHostsOf};
use crate::query::grant::ServerGrants;
use crate::query::policy::AttachedRoutesOf;
use crate::query::port_ownership::listed;
use crate::resolve::requests::server_of;
use policy_core::{DefaultPolicy, ObjectRef, RequestMatch, Route, Rule};
use policy_crds::resource::Server;
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Finder<'_> {
    /// The finding about a Server that denies every client, although it does not say `deny`. A
    /// grant that was withheld is reported at its own object.
    pub(super) fn grants_nobody(&mut self, key: &ObjectKey, server: &Server) -> Option<Finding> {
        if server.access_policy != DefaultPolicy::Deny {
            return None;
        }
        let own = self.query(&ServerGrants(key.clone()));
        let attached = self.query(&AttachedRoutesOf(key.clone()));
        let delegated = self.query(&DelegatedRoutesOf(key.clone()));
        let granted = |route: &Route| {
            // A route that denies lists itself among what is withheld.
            let denying = |source: &ObjectRef| route.origin.object() == Some(source);
            !route.authorizations.is_empty() || route.withheld.iter().any(|w| !denying(&w.source))
        };
        let some = !own.authorizations.is_empty()
            || !own.withheld.is_empty()
            || attached.routes.iter().any(|route| granted(route))
            || delegated
                .parts
                .iter()
                .any(|(_, part)| part.answered.iter().any(|route| granted(route)));
        // A remark reports routes that are all invalid.
        if some || (attached.bound && attached.routes.is_empty()) {
            return None;
        }
        let kind = FindingKind::GrantsNobody { stated: server.access_policy_stated };
        let message = "grants nobody: every connection and request to its port is refused until a \
                       policy grants it";
        Some(finding(key, kind, "spec.accessPolicy", message.to_owned()))
    }

    /// Findings about Servers on which objects grant something, and of whose routes this is the first: what
    /// none of them matches is granted no longer.
    pub(crate) fn takes_away(&mut self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        let own = key.to_ref();
        let mut findings = Vec::new();
        // The groups of a binding describe what there is of a service.
        if key.kind.is_binding() {
            return findings;
        }
        for server in self.servers_bound_by(object) {
            let attached = self.query(&AttachedRoutesOf(server.clone()));
            let is_first =
                attached.routes.first().is_some_and(|route| route.origin.object() == Some(&own));
            if !is_first || self.query(&TreeHostsOf(server.clone())).bound {
                continue;
            }
            let grants = self.query(&ServerGrants(server.clone()));
            let mut granting: Vec<String> =
                grants.authorizations.iter().map(|grant| grant.source.to_string()).collect();
            granting.dedup();
            let served = || attached.routes.iter().filter(|route| route.inherits_server);
            if granting.is_empty() || served().any(|route| takes_every_request(route)) {
                continue;
            }
            let left = left(served());
            let granting = listed(granting.iter());
            let (_, field) = words(key.kind);
            let message = format!(
                "of what {granting} grants on {server}, routes leave {left}: every other request is \
                 answered 404; a rule without matches leaves the rest as it was"
            );
            let found = finding(key, FindingKind::TakesAway, field, message);
            findings.push(Finding { other: Some(server), ..found });
        }
        findings
    }

    /// Findings about Servers of which this is the only route or binding, and that have grants of their
    /// own: requests that it does not match are denied now and would be permitted without it.
    pub(crate) fn only_route(&mut self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        let mut without = None;
        let mut findings = Vec::new();
        for server in self.bound_only_by(object) {
            let without = without.get_or_insert_with(|| self.without(key));
            let (after, _) =
                Memo::default().query(&AttachedRoutesOf(server.clone()), without, self.config);
            if after.bound {
                continue;
            }
            let (word, field) = words(key.kind);
            let message = format!(
                "is the only {word} of {server}: without it, what is granted on the Server holds for \
                 every request, not only for what it matches"
            );
            let found = finding(key, FindingKind::OnlyRoute, field, message);
            findings.push(Finding { other: Some(server), ..found });
        }
        findings
    }

    /// Findings about Servers that an object bound to routes until it was changed, which nothing binds
    /// now, and that have grants of their own. `before`: the Servers that may be left.
    pub(crate) fn leaves(&mut self, object: &ObjectKey, before: &[ObjectKey]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for server in before {
            let bound = self.query(&AttachedRoutesOf(server.clone())).bound
                || self.query(&TreeHostsOf(server.clone())).bound;
            if bound || !self.grants(server) {
                continue;
            }
            let (word, field) = words(object.kind);
            let message = format!(
                "was the only {word} of {server}: what is granted on the Server holds for every \
                 request now, not only for what it matched"
            );
            let found = finding(object, FindingKind::OnlyRoute, field, message);
            findings.push(Finding { other: Some(server.clone()), ..found });
        }
        findings
    }

    /// The Servers with grants of their own that are bound to routes and have none of another object;
    /// others may bind them without.
    pub(crate) fn bound_only_by(&mut self, object: &Object) -> Vec<ObjectKey> {
        let own = object.meta.key.to_ref();
        let mut servers = Vec::new();
        for server in self.servers_bound_by(object) {
            // A tree keeps the Server closed without the route, too.
            if self.query(&TreeHostsOf(server.clone())).bound {
                continue;
            }
            let attached = self.query(&AttachedRoutesOf(server.clone()));
            // A binding brings many routes. Of two objects that are accepted one is left.
            let others = attached.routes.iter().any(|route| route.origin.object() != Some(&own));
            if attached.bound && !others && self.grants(&server) {
                servers.push(server);
            }
        }
        servers
    }

    /// The Servers that a route or binding names, or may name.
    fn servers_bound_by(&self, object: &Object) -> BTreeSet<ObjectKey> {
        let key = &object.meta.key;
        if !key.kind.is_binding() {
            let named = parents(object).iter();
            return named.filter_map(|it| ObjectKey::server_of(it, &key.namespace)).collect();
        }
        match server_of(object) {
            Some(server) => [server].into(),
            None => {
                let all = self.index.list(Kind::Server, &key.namespace);
                all.map(|server| server.meta.key.clone()).collect()
            }
        }
    }

    /// True if something is granted on the Server itself.
    pub(super) fn grants(&mut self, server: &ObjectKey) -> bool {
        let Some(object) = self.index.object(server) else { return false };
        let Body::Valid(Resource::Server(own)) = &object.body else { return false };
        own.access_policy != DefaultPolicy::Deny
            || !self.query(&ServerGrants(server.clone())).authorizations.is_empty()
    }
}

/// True if a route takes every request of every host.
fn takes_every_request(route: &Route) -> bool {
    let everything = [RequestMatch::everything(), RequestMatch::grpc(None, None)];
    let is_everything =
        |one: &RequestMatch| everything.iter().any(|whole| whole.parts() == one.parts());
    let all = |rule: &Rule| rule.matches.is_empty() || rule.matches.iter().any(is_everything);
    route.hosts.is_empty() && route.rules.iter().any(all)
}

/// The most matches that a message names.
const MAX_NAMED: usize = 4;

/// The requests that routes match, in words.
fn left<'r>(routes: impl Iterator<Item = &'r Arc<Route>>) -> String {
    let mut all: Vec<String> = Vec::new();
    for route in routes {
        let hosts: Vec<String> = route.hosts.iter().map(ToString::to_string).collect();
        let on = if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) };
        for wanted in route.rules.iter().flat_map(|rule| &rule.matches) {
            let words = format!("`{wanted}`{on}");
            if !all.contains(&words) && all.len() < MAX_NAMED.saturating_add(1) {
                all.push(words);
            }
        }
    }
    if all.is_empty() {
        return "nothing".to_owned();
    }
    if all.len() > MAX_NAMED {
        all.truncate(MAX_NAMED);
        return format!("{} and what further matches name", all.join(", "));
    }
    listed(all.iter())
}

/// The word for an object that binds a Server, and the field that names the Server.
fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind.is_binding() {
        true => ("binding", "spec.targetRef"),
        false => ("route", "spec.parentRefs"),
    }
}
