//! Servers on which nothing is granted, and routes without which more would be.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::parents;
use crate::query::delegation::{DelegatedRoutesOf, TreeHostsOf};
use crate::query::grant::ServerGrants;
use crate::query::policy::AttachedRoutesOf;
use policy_core::{DefaultPolicy, ObjectRef, Route};
use policy_crds::resource::Server;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::collections::BTreeSet;

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

    /// Findings about Servers of which this is the only route, and that have grants of their own:
    /// requests that the route does not match are denied now and would be permitted without it.
    pub(crate) fn only_route(&mut self, route: &Object) -> Vec<Finding> {
        let key = &route.meta.key;
        let servers: BTreeSet<ObjectKey> = parents(route)
            .iter()
            .filter_map(|parent| ObjectKey::server_of(parent, &key.namespace))
            .collect();
        let mut findings = Vec::new();
        let mut without = None;
        for server in servers {
            // A tree keeps the Server closed without the route, too.
            if self.query(&TreeHostsOf(server.clone())).bound {
                continue;
            }
            let attached = self.query(&AttachedRoutesOf(server.clone()));
            // Of two that are accepted one is left.
            let several = attached.routes.len() > 1;
            if !attached.bound || several || !self.grants(&server) {
                continue;
            }
            let without = without.get_or_insert_with(|| self.without(key));
            let (after, _) =
                Memo::default().query(&AttachedRoutesOf(server.clone()), without, self.config);
            if after.bound {
                continue;
            }
            let message = format!(
                "is the only route of {server}: without it, what is granted on the Server holds for \
                 every request, not only for what it matches"
            );
            let found = finding(key, FindingKind::OnlyRoute, "spec.parentRefs", message);
            findings.push(Finding { other: Some(server), ..found });
        }
        findings
    }

    /// True if something is granted on the Server itself.
    pub(super) fn grants(&mut self, server: &ObjectKey) -> bool {
        let Some(object) = self.index.object(server) else { return false };
        let Body::Valid(Resource::Server(own)) = &object.body else { return false };
        own.access_policy != DefaultPolicy::Deny
            || !self.query(&ServerGrants(server.clone())).authorizations.is_empty()
    }
}
