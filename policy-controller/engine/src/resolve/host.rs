//! Through which Servers an object takes effect: what it targets, what it is attached to.

use super::route::{Attachment, attachment};
use crate::incremental::{Context, query};
use crate::index::{Edge, authorized_servers, parents};
use crate::query::condition::Reason;
use crate::query::host::{Hosted, Hosts};
use policy_crds::resource::ServerRef;
use policy_crds::spec::{Named, NamedObject};
use policy_crds::{Field, Kind, Object, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(Hosts, Arc<Hosted>, hosts);

fn hosts(query: &Hosts, cx: &mut Context<'_>) -> Arc<Hosted> {
    let mut hosted = Hosted::default();
    let Some(object) = cx.object(&query.0) else { return Arc::new(hosted) };
    if query.0.kind == Kind::Server {
        hosted.servers.insert(query.0.clone());
    } else if query.0.kind.is_route() {
        attach(cx, object, &mut hosted);
    } else {
        for Named { field, what } in object.named() {
            match (field, what) {
                (Field::Target | Field::Server, NamedObject::One(target)) => {
                    targeted(cx, &query.0, &target, &mut hosted);
                }
                (Field::Target | Field::Server, NamedObject::AnyOf(..)) => {
                    selected(cx, object, &mut hosted);
                }
                (Field::Authentication, NamedObject::One(authentication)) => {
                    hosted.authentications.insert(authentication);
                }
                (Field::Authentication | Field::Parent | Field::Client, _) => {}
            }
        }
    }
    Arc::new(hosted)
}

/// What an object of the namespace targets.
fn targeted(cx: &mut Context<'_>, from: &ObjectKey, target: &ObjectKey, hosted: &mut Hosted) {
    let missing = |what: String| Some(Arc::from(what));
    if target.kind == Kind::Namespace {
        let namespace = &from.namespace;
        let servers = cx.list(Kind::Server, namespace).map(|server| server.meta.key.clone());
        hosted.servers.extend(servers.filter(|_| *target.name == **namespace));
        if hosted.servers.is_empty() {
            hosted.missing = missing(format!("no Server is in namespace `{namespace}`"));
        }
    } else if target.kind == Kind::Server {
        match cx.object(target) {
            Some(_) => _ = hosted.servers.insert(target.clone()),
            None => hosted.missing = missing(format!("{target} does not exist")),
        }
    } else {
        // Names of routes are compared without case.
        let named = cx.edge(Edge::named(target)).first().copied().cloned();
        match named.and_then(|route| cx.object(&route)) {
            Some(route) => {
                attach(cx, route, hosted);
                if hosted.servers.is_empty() {
                    hosted.missing = missing(format!("{target} is attached to no Server"));
                }
            }
            None => hosted.missing = missing(format!("{target} does not exist")),
        }
    }
}

/// The Servers that have the labels that are selected.
fn selected(cx: &mut Context<'_>, object: &Object, hosted: &mut Hosted) {
    let Some(ServerRef::Labels(selector)) = authorized_servers(object) else { return };
    let servers = cx.list(Kind::Server, &object.meta.key.namespace);
    let matching = servers.filter(|server| selector.matches(&server.meta.labels));
    hosted.servers.extend(matching.map(|server| server.meta.key.clone()));
    if hosted.servers.is_empty() {
        let words = "no Server of the namespace has the labels that are selected";
        hosted.missing = Some(words.into());
    }
}

/// The Servers that accept a route.
fn attach(cx: &mut Context<'_>, route: &Object, hosted: &mut Hosted) {
    let namespace = &route.meta.key.namespace;
    let mut refused = BTreeSet::new();
    for parent in parents(route) {
        let Some(server) = ObjectKey::server_of(parent, namespace) else { continue };
        match attachment(cx, route, parent, &server) {
            Attachment::Accepted => _ = hosted.servers.insert(server),
            // Otherwise it is about something, and is not accepted.
            Attachment::Refused { reason, message, .. } => {
                if matches!(reason, Reason::NoMatchingParent | Reason::RefNotPermitted) {
                    refused.insert(message);
                }
            }
        }
    }
    if hosted.servers.is_empty() {
        hosted.missing = refused.pop_first();
    }
}
