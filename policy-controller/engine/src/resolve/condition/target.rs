//! The condition of an object about the target that it names.

use super::about::About;
use crate::behaviour::Behaviour;
use crate::incremental::Context;
use crate::index::Edge;
use crate::query::condition::{ObjectCondition, Reason};
use crate::resolve::reference::{FollowedReference, ReferenceError, follow};
use crate::resolve::requests::condition::target_acceptance;
use policy_crds::resource::PolicyTarget;
use policy_crds::{Body, Field, Kind, ObjectKey, Resource};
use std::sync::Arc;

/// The condition of a policy about its target.
pub(super) fn policy_acceptance(
    cx: &mut Context<'_>,
    target: &PolicyTarget,
    about: &About<'_>,
) -> ObjectCondition {
    let target = match target {
        PolicyTarget::Namespace => return about.accepted(""),
        PolicyTarget::Server(name) => about.object.beside(Kind::Server, name),
        PolicyTarget::Route { kind, name } => {
            let existing = route_named(cx, *kind, &about.object.namespace, name);
            existing.unwrap_or_else(|| about.object.beside(*kind, name))
        }
    };
    targeted(cx, &target, About { parent: Some(target.clone()), ..about.clone() })
}

/// The route of this name, compared without case.
fn route_named(
    cx: &mut Context<'_>,
    kind: Kind,
    namespace: &Arc<str>,
    name: &str,
) -> Option<ObjectKey> {
    let key = ObjectKey { kind, namespace: namespace.clone(), name: name.into() };
    cx.edge(Edge::named(&key)).first().copied().cloned()
}

/// The condition of an object about a target that it names.
pub(super) fn targeted(
    cx: &mut Context<'_>,
    target: &ObjectKey,
    about: About<'_>,
) -> ObjectCondition {
    match follow(cx, about.object, Field::Target, target) {
        Ok(FollowedReference { object, .. }) => {
            if let Some(acceptance) = target_acceptance(cx, object) {
                return about.outcome(acceptance);
            }
            let denying = match &object.body {
                // As in Linkerd it counts nowhere, which its own condition says.
                Body::Valid(Resource::Route(_))
                    if cx.config.follows_linkerd(Behaviour::InvalidRoutes) =>
                {
                    None
                }
                Body::Valid(Resource::Route(route)) => route.denies_because(),
                Body::Valid(_) | Body::Invalid(_) => None,
            };
            let message = denying.map(|reason| format!("{target}: {reason}"));
            about.accepted(&message.unwrap_or_default())
        }
        Err(fault @ ReferenceError::Invalid) => {
            let message = format!("{target} {} and permits nothing", fault.as_str());
            about.accepted(&message)
        }
        Err(ReferenceError::Missing) => {
            about.refused(Reason::NoMatchingTarget, &missing(cx, target))
        }
        Err(fault @ (ReferenceError::NotPermitted | ReferenceError::Unsupported)) => {
            about.refused(Reason::NoMatchingTarget, &format!("{target} {}", fault.as_str()))
        }
    }
}

/// The message about an object that does not exist. If a route of the same name exists in another
/// group, the message mentions it.
fn missing(cx: &mut Context<'_>, target: &ObjectKey) -> String {
    let ObjectKey { kind, namespace, name } = target;
    let message =
        format!("{} {namespace}/{name} {}", kind.in_full(), ReferenceError::Missing.as_str());
    let mut others = kind.namesakes().filter(|other| other.is_route());
    match others.find(|other| route_named(cx, *other, namespace, name).is_some()) {
        Some(other) => format!("{message}; there is one of {}; is that meant?", other.group()),
        None => message,
    }
}
