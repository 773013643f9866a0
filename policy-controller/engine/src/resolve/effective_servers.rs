//! The Servers through which an object takes effect: by its target, or by its parents.

use super::delegation::{served_by, served_through};
use super::effects::unread;
use super::reference::is_permitted;
use super::requests::servers_through;
use super::route::{Attachment, attachment};
use crate::incremental::{Context, query};
use crate::index::{Edge, authorized_servers, parents};
use crate::query::condition::Reason;
use crate::query::effective_servers::{EffectiveServers, EffectiveServersOf};
use policy_crds::resource::ServerRef;
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Field, Kind, Object, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(EffectiveServersOf, Arc<EffectiveServers>, effective_servers);

fn effective_servers(query: &EffectiveServersOf, cx: &mut Context<'_>) -> Arc<EffectiveServers> {
    let mut effective = EffectiveServers::default();
    let Some(object) = cx.object(&query.0) else { return Arc::new(effective) };
    if query.0.kind == Kind::Server {
        effective.servers.insert(query.0.clone());
    } else if query.0.kind.is_route() {
        attach(cx, object, &mut effective);
    } else if query.0.kind == Kind::InboundRoute {
        let servers = served_through(cx, object);
        delegated(object, servers, &mut effective);
    } else if let Some(mut servers) = servers_through(cx, &query.0) {
        // A group may be a child of InboundRoutes.
        servers.extend(served_by(cx, object));
        through(&query.0, servers, &mut effective);
    } else if unread(cx, object).is_some() {
        let servers = cx.list(Kind::Server, &query.0.namespace);
        effective.servers.extend(servers.map(|server| server.meta.key.clone()));
    } else {
        for ObjectReference { field, what } in object.references() {
            match (field, what) {
                (Field::Target | Field::Server, ReferenceTarget::One(target)) => {
                    targeted(cx, &query.0, &target, &mut effective);
                }
                (Field::Target | Field::Server, ReferenceTarget::AnyOf(..)) => {
                    selected(cx, object, &mut effective);
                }
                (Field::Authentication, ReferenceTarget::One(authentication)) => {
                    if is_permitted(cx, &query.0, field, &authentication) {
                        effective.authentications.insert(authentication);
                    }
                }
                (_, ReferenceTarget::Unread(_))
                | (
                    Field::Authentication
                    | Field::Parent
                    | Field::Client
                    | Field::Backend
                    | Field::Delegate
                    | Field::Include
                    | Field::Serving,
                    _,
                ) => {}
            }
        }
    }
    Arc::new(effective)
}

/// Adds the Servers that a target of the namespace leads to.
fn targeted(
    cx: &mut Context<'_>,
    from: &ObjectKey,
    target: &ObjectKey,
    effective: &mut EffectiveServers,
) {
    let missing = |what: String| Some(Arc::from(what));
    if target.kind == Kind::Namespace {
        let namespace = &from.namespace;
        let servers = cx.list(Kind::Server, namespace).map(|server| server.meta.key.clone());
        effective.servers.extend(servers.filter(|_| *target.name == **namespace));
        if effective.servers.is_empty() {
            effective.missing = missing(format!("no Server is in namespace `{namespace}`"));
        }
    } else if target.kind == Kind::Server {
        match cx.object(target) {
            Some(_) => _ = effective.servers.insert(target.clone()),
            None => effective.missing = missing(format!("{target} does not exist")),
        }
    } else if target.kind == Kind::InboundRoute {
        match cx.object(target) {
            // A policy counts on rules of the object alone.
            Some(object) => {
                let servers = served_by(cx, object);
                delegated(object, servers, effective);
            }
            None => effective.missing = missing(format!("{target} does not exist")),
        }
    } else if !target.kind.is_route() {
        match cx.object(target) {
            Some(_) => {
                let servers = servers_through(cx, target).unwrap_or_default();
                through(target, servers, effective);
            }
            None => effective.missing = missing(format!("{target} does not exist")),
        }
    } else {
        // Names of routes are compared without case.
        let named = cx.edge(Edge::named(target)).first().copied().cloned();
        match named.and_then(|route| cx.object(&route)) {
            Some(route) => {
                attach(cx, route, effective);
                if effective.servers.is_empty() {
                    effective.missing = missing(format!("{target} is attached to no Server"));
                }
            }
            None => effective.missing = missing(format!("{target} does not exist")),
        }
    }
}

/// The Servers that have the labels that are selected.
fn selected(cx: &mut Context<'_>, object: &Object, effective: &mut EffectiveServers) {
    if object.meta.key.kind == Kind::HttpLocalRateLimitPolicy {
        // Its target cannot be read.
        let servers = cx.list(Kind::Server, &object.meta.key.namespace);
        effective.servers.extend(servers.map(|server| server.meta.key.clone()));
        return;
    }
    let Some(ServerRef::Labels(selector)) = authorized_servers(object) else { return };
    let servers = cx.list(Kind::Server, &object.meta.key.namespace);
    let matching = servers.filter(|server| selector.matches(&server.meta.labels));
    effective.servers.extend(matching.map(|server| server.meta.key.clone()));
    if effective.servers.is_empty() {
        let words = "no Server of the namespace has the labels that are selected";
        effective.missing = Some(words.into());
    }
}

/// The Servers on which a route takes effect, if only by what it denies.
fn attach(cx: &mut Context<'_>, route: &Object, effective: &mut EffectiveServers) {
    let namespace = &route.meta.key.namespace;
    let mut refused = BTreeSet::new();
    for parent in parents(route) {
        let Some(server) = ObjectKey::server_of(parent, namespace) else { continue };
        match attachment(cx, route, parent, &server) {
            Attachment::Accepted
            | Attachment::Delegated
            | Attachment::Lost { .. }
            | Attachment::Denying { .. } => {
                effective.servers.insert(server);
            }
            // For other reasons the Server exists, and the route is not accepted.
            Attachment::Refused { reason, message, .. } => {
                if matches!(reason, Reason::NoMatchingParent | Reason::RefNotPermitted) {
                    refused.insert(message);
                }
            }
        }
    }
    effective.servers.extend(served_by(cx, route));
    if effective.servers.is_empty() {
        effective.missing = refused.pop_first();
    }
}

/// Adds the Servers that have routes of a group, a service, a binding or a class.
fn through(key: &ObjectKey, servers: BTreeSet<ObjectKey>, effective: &mut EffectiveServers) {
    effective.servers.extend(servers);
    if effective.servers.is_empty() {
        effective.missing = Some(format!("no Server has routes of {key}").into());
    }
}

/// Adds the Servers that answer for an InboundRoute, in any tree.
fn delegated(object: &Object, servers: BTreeSet<ObjectKey>, effective: &mut EffectiveServers) {
    effective.servers.extend(servers);
    if effective.servers.is_empty() {
        let words = format!("{} is answered by no Server", object.meta.key);
        effective.missing = Some(words.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ControllerConfig;
    use crate::engine::Engine;
    use crate::source::{Batch, Change};
    use crate::testing;

    /// A root or vertex that only hands its paths on was never programmed.
    #[test]
    fn who_only_delegates_takes_effect_through_the_servers_of_those_below() {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let inbound = |name: &str, spec: &str| {
            testing::object(&format!(
                "{{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, \
                  metadata: {{name: {name}, namespace: shop}}, spec: {{{spec}}}}}"
            ))
        };
        let policy = testing::object(
            "{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
              metadata: {name: policy, namespace: shop}, \
              spec: {targetRef: {group: portcullis.dev, kind: InboundRoute, name: root}, \
              requiredAuthenticationRefs: []}}",
        );
        let below = "delegatedFrom: [{fqdn: a.io}]";
        let changes = [
            testing::server("shop", "web", 8080),
            inbound("root", "virtualhost: {fqdn: a.io}, routes: [{match: /, delegate: {name: v}}]"),
            inbound("v", &format!("{below}, routes: [{{match: /, delegate: {{name: w}}}}]")),
            inbound("w", &format!("{below}, routes: [{{match: /, servers: [{{name: web}}]}}]")),
            policy.clone(),
        ];
        let changes = changes.into_iter().map(Change::Apply).collect();
        engine.apply(&Batch { changes, ..Batch::default() });
        let web = testing::key(Kind::Server, "shop", "web");
        for name in ["root", "v", "w"] {
            let found = engine.effective_servers(&testing::key(Kind::InboundRoute, "shop", name));
            assert_eq!((&found.servers, &found.missing), (&[web.clone()].into(), &None), "{name}");
        }
        // Grants do not flow down.
        let found = engine.effective_servers(&policy.meta.key);
        assert!(found.servers.is_empty());
        let missing = found.missing.as_deref();
        assert_eq!(missing, Some("InboundRoute shop/root is answered by no Server"));
    }
}
