//! Objects that seem to be about a port and do not count for it: invalid policies, policies of another
//! namespace, routes that name its Server and are not on it, annotations at a place where nobody reads them.

use super::cause::{Cause, CauseFinder, Ranked};
use super::target::object_key;
use policy_core::Owner;
use policy_crds::resource::{PolicyTarget, RouteRule, ServerRef};
use policy_crds::{Body, Kind, ObjectKey, Resource};
use policy_engine::findings::Finding;
use policy_webhooks::injector::{misplaced, templates};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The causes that such objects are, each with its rank.
pub(super) fn causes(finder: &CauseFinder<'_>) -> Vec<Ranked> {
    let routes = route_beside(finder).map(|finding| {
        let key = &finding.object;
        let summary = format!("{key} is not on this port: {}", finding.message);
        (2, finder.by(key, &finding.field, summary))
    });
    let mut causes: Vec<Ranked> = routes.into_iter().chain(annotation(finder)).collect();
    let objects = finder.inventory.compiled.objects.iter();
    let policies = objects.filter(|object| {
        matches!(object.meta.key.kind, Kind::AuthorizationPolicy | Kind::ServerAuthorization)
    });
    for object in policies {
        let key = &object.meta.key;
        let is_own = key.namespace == finder.workload.namespace;
        causes.extend(match is_own {
            true => invalid(finder, key),
            false => foreign(finder, key, &object.body),
        });
    }
    causes
}

/// A finding about a route that names the port's Server and is not on it.
pub(super) fn route_beside<'a>(finder: &CauseFinder<'a>) -> Option<&'a Finding> {
    let Owner::Server(server) = &finder.judged.policy.owner else { return None };
    let named = format!("{server} ");
    finder.findings.iter().find(|finding| {
        Kind::attached().any(|kind| kind == finding.object.kind)
            && finding.field.starts_with("spec.parentRefs")
            && finding.message.contains(&named)
    })
}

/// The first rule, of a route of the port's Server, that permits nothing because of a filter: the route,
/// the filter's field and the reason. The route that took the request comes first.
pub(super) fn unsupported_rule(finder: &CauseFinder<'_>) -> Option<(ObjectKey, String, String)> {
    let Owner::Server(server) = &finder.judged.policy.owner else { return None };
    let took = finder.judged.explanation.as_ref().and_then(|one| one.route.as_ref());
    let rules = finder.inventory.compiled.objects.iter().filter_map(|object| {
        let key = &object.meta.key;
        let Body::Valid(Resource::Route(route)) = &object.body else { return None };
        let mut parents =
            route.parents.iter().filter_map(|parent| ObjectKey::server_of(parent, &key.namespace));
        let filter = route.unsupported().next()?;
        let reason = route.rules.iter().find_map(RouteRule::denies_because)?;
        let is_own = parents.any(|own| own.to_ref() == *server);
        is_own.then(|| (key.clone(), filter.field.clone(), reason))
    });
    rules.min_by_key(|(key, ..)| {
        !took.is_some_and(|took| took.chain().iter().any(|one| *one == key.to_ref()))
    })
}

/// An annotation for the default policy that the workload's manifest has beside its pod template.
fn annotation(finder: &CauseFinder<'_>) -> Option<Ranked> {
    if !matches!(finder.judged.policy.owner, Owner::Default(_)) {
        return None;
    }
    let at = finder.inventory.locations.get(&object_key(finder.workload))?;
    let file = finder.inventory.files.get(&at.file)?;
    file.documents.iter().find_map(|document| {
        let value = document.value.as_ref().ok()?;
        let name = value.pointer("/metadata/name").and_then(Value::as_str);
        if name != Some(&*at.declared.name) {
            return None;
        }
        templates(value).into_iter().find_map(|template| {
            let errors = misplaced(value, template.place);
            let error =
                errors.into_iter().find(|error| error.field.contains("default-inbound-policy"))?;
            let line = document.locate(&error.field)?.line;
            let cause = Cause {
                summary: format!("{template}: {error}"),
                object: Some(template.to_string()),
                place: Some(format!("{}:{line}", at.file)),
            };
            Some((1, cause))
        })
    })
}

/// A policy of the workload's namespace that nobody can read.
fn invalid(finder: &CauseFinder<'_>, key: &ObjectKey) -> Option<Ranked> {
    let withheld = finder.judged.explanation.iter().flat_map(|one| &one.withheld);
    let is_known = withheld.into_iter().any(|one| one.source == key.to_ref());
    let (field, error) = finder.error_of(key).filter(|_| !is_known)?;
    let summary = format!("{key} is invalid, and grants nothing: {error}");
    Some((4, finder.by(key, &field, summary)))
}

/// A policy of another namespace that names what is in the workload's namespace alone.
fn foreign(finder: &CauseFinder<'_>, key: &ObjectKey, body: &Body) -> Option<Ranked> {
    let (kind, name) = match body {
        Body::Valid(Resource::AuthorizationPolicy(policy)) => match &policy.target {
            PolicyTarget::Server(name) => (Kind::Server, name),
            PolicyTarget::Route { kind, name } => (*kind, name),
            PolicyTarget::Namespace => return None,
        },
        Body::Valid(Resource::ServerAuthorization(policy)) => match &policy.server {
            ServerRef::Name(name) => (Kind::Server, name),
            ServerRef::Labels(_) => return None,
        },
        Body::Invalid(_) => return across(finder, key),
        Body::Valid(_) => return None,
    };
    let at =
        |namespace: &Arc<str>| ObjectKey { kind, namespace: namespace.clone(), name: name.clone() };
    let (wanted, own) = (at(&key.namespace), at(&finder.workload.namespace));
    let route = finder.judged.explanation.as_ref().and_then(|one| one.route.as_ref());
    let is_route = route.is_some_and(|route| route.chain().iter().any(|one| *one == own.to_ref()));
    let is_owner = match &finder.judged.policy.owner {
        Owner::Server(server) => *server == own.to_ref(),
        Owner::Default(_) => false,
    };
    if finder.inventory.object(&wanted).is_some() || !(is_owner || is_route) {
        return None;
    }
    let summary = format!(
        "{key} names {wanted}, which does not exist: a policy is about objects of its own namespace, and \
         {own} is in another"
    );
    Some((2, finder.by(key, "spec.targetRef", summary)))
}

/// A policy of another namespace whose reference names the workload's in a field that no policy has.
fn across(finder: &CauseFinder<'_>, key: &ObjectKey) -> Option<Ranked> {
    const FIELD: &str = "spec.targetRef.namespace";
    let (field, error) = finder.error_of(key).filter(|(field, _)| field == FIELD)?;
    let namespace = &finder.workload.namespace;
    let is_named = |value: Cow<'_, Value>| {
        let named = value.pointer("/spec/targetRef/namespace").and_then(Value::as_str);
        let own = || policy_crds::parse_written(&value).is_ok_and(|own| own.meta.key == *key);
        named == Some(&**namespace) && own()
    };
    finder.inventory.declared().any(is_named).then(|| {
        let summary = format!(
            "{key} is about objects of its own namespace alone, and grants nothing in {namespace}: {error}"
        );
        (2, finder.by(key, &field, summary))
    })
}
