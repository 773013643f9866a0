//! Servers that trees decide about no more once an object is deleted, and on which something is
//! granted: what the trees denied is permitted then.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::parents;
use crate::query::delegation::{TreeHosts, TreeHostsOf};
use crate::query::policy::{AttachedRoutes, AttachedRoutesOf};
use crate::resolve::delegation::is_decided;
use policy_core::{HostPattern, Route};
use policy_crds::spec::ReferenceTarget;
use policy_crds::{Field, Kind, Object, ObjectKey};
use std::collections::BTreeSet;

/// The most hosts that a message names.
const MAX_NAMED: usize = 3;

impl Finder<'_> {
    /// Findings about Servers that leave trees with this object, as a whole or on some hosts, where
    /// something else permits requests.
    pub(crate) fn leaves_trees(&mut self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        let mut bound = Vec::new();
        for server in self.servers_named_by(object) {
            let before = self.query(&TreeHostsOf(server.clone()));
            if before.bound {
                bound.push((server, before));
            }
        }
        if bound.is_empty() {
            return Vec::new();
        }
        let without = self.without(key);
        let mut memo = Memo::default();
        let mut findings = Vec::new();
        for (server, before) in bound {
            let (after, _) = memo.query(&TreeHostsOf(server.clone()), &without, self.config);
            let (attached, _) =
                memo.query(&AttachedRoutesOf(server.clone()), &without, self.config);
            let Some(opened) = self.opened(&server, &before, &after, &attached) else { continue };
            let message = format!("without it {opened}");
            let found = finding(key, FindingKind::OnlyRoute, "spec", message);
            findings.push(Finding { other: Some(server), ..found });
        }
        findings
    }

    /// The requests for a Server that are permitted without an object although trees denied them.
    fn opened(
        &mut self,
        server: &ObjectKey,
        before: &TreeHosts,
        after: &TreeHosts,
        attached: &AttachedRoutes,
    ) -> Option<String> {
        if !attached.bound {
            let opens = !after.bound && self.grants(server);
            return opens.then(|| {
                format!(
                    "{server} is in no tree: what is granted on the Server holds for every request \
                     then, not only for the paths that were handed out"
                )
            });
        }
        let own = self.grants(server);
        let freed: Vec<&HostPattern> = before
            .hosts
            .iter()
            .filter(|host| !is_decided(after, host))
            .filter(|host| attached.routes.iter().any(|route| permits(route, host, own)))
            .collect();
        let mut named: Vec<String> = freed.iter().map(ToString::to_string).collect();
        named.truncate(MAX_NAMED);
        if freed.len() > MAX_NAMED {
            named.push("others".to_owned());
        }
        (!freed.is_empty()).then(|| {
            let hosts = named.join(", ");
            format!("no tree decides about {hosts} on {server}: its other routes do")
        })
    }

    /// The Servers that an InboundRoute or a route of their namespace names, or may name.
    fn servers_named_by(&self, object: &Object) -> BTreeSet<ObjectKey> {
        let key = &object.meta.key;
        if key.kind.is_route() {
            let named = parents(object).iter();
            return named.filter_map(|it| ObjectKey::server_of(it, &key.namespace)).collect();
        }
        let mut servers = BTreeSet::new();
        for reference in object.references() {
            match (reference.field, reference.what) {
                (Field::Serving, ReferenceTarget::One(server)) => {
                    servers.insert(server);
                }
                (Field::Serving, ReferenceTarget::AnyOf(..)) => {
                    let all = self.index.list(Kind::Server, &key.namespace);
                    servers.extend(all.map(|server| server.meta.key.clone()));
                }
                _ => {}
            }
        }
        servers
    }
}

/// True if a route may permit requests for a host. `own`: something is granted on its Server.
fn permits(route: &Route, host: &HostPattern, own: bool) -> bool {
    let applies = route.hosts.is_empty() || route.hosts.iter().any(|own| own.overlaps(host));
    applies && ((own && route.inherits_server) || !route.authorizations.is_empty())
}
