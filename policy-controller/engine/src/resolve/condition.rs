//! The conditions of each object, whether or not a proxy watches it.

mod about;
mod effects;
mod target;

use super::delegation::EFFECTIVE;
use super::delegation::condition::{acceptance, child_acceptance, kept_words};
use super::delegation::{inbound_parents, lost_hosts, words};
use super::grant::reason;
use super::reference::{ReferenceError, follow, follow_unread};
use super::requests::condition::{binding_acceptance, class_acceptance, faults, group_acceptance};
use super::requests::is_binding;
use super::route::{Attachment, attachment};
use super::workload::reading;
use crate::annotations::{annotation_errors_in, foreign_mark};
use crate::config::ControllerConfig;
use crate::incremental::{Context, query};
use crate::index::parents;
use crate::query::condition::{
    AttachedHostname, ConditionKind, Conditions, ObjectCondition, Reason,
};
use crate::query::delegation_state::DelegationStateOf;
use crate::query::grant::{PolicyGrant, RefFault};
use crate::query::policy::{AttachedRoutesOf, RateLimitOf};
use crate::query::port_ownership::{DisplacedServersOf, displaced_message};
use crate::query::precedence::PrecedenceDifferencesOf;
use crate::query::smi::TargetGrantOf;
use about::About;
use policy_crds::resource::{
    InboundRoute, PolicyTarget, ProxyProtocol, RateLimitPolicy, ServerRef,
};
use policy_crds::spec::{ObjectReference, ReferenceTarget};
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;
use target::{policy_acceptance, targeted};

query!(Conditions, Arc<[ObjectCondition]>, conditions);

fn conditions(query: &Conditions, cx: &mut Context<'_>) -> Arc<[ObjectCondition]> {
    let Some(object) = cx.object(&query.0) else { return Arc::from([]) };
    let about = About { object: &query.0, parent: None, section: None, port: None };
    if !parents(object).is_empty() {
        return route_conditions(cx, object).into();
    }
    let resource = match &object.body {
        Body::Valid(resource) => resource,
        Body::Invalid(invalid) => {
            let kept = kept_words(cx, object);
            return Arc::from([about.invalid_root(invalid, kept)]);
        }
    };
    let mut conditions: Vec<ObjectCondition> = if let Resource::Server(_) = resource {
        server_conditions(cx, &about)
    } else if let Resource::AuthorizationPolicy(policy) = resource {
        policy_conditions(cx, &policy.target, about)
    } else if let Resource::ServerAuthorization(authorization) = resource {
        vec![server_authorization_condition(cx, &authorization.server, about)]
    } else if let Resource::RateLimit(limit) = resource {
        vec![rate_limit_condition(cx, limit, about)]
    } else if let Resource::InboundRoute(route) = resource {
        inbound_conditions(cx, route, &about)
    } else if let Resource::HttpRouteGroup(_)
    | Resource::HttpRouteBinding(_)
    | Resource::GrpcServiceBinding(_)
    | Resource::HttpRouteClass(_)
    | Resource::GrpcServiceClass(_) = resource
    {
        request_conditions(cx, object, about)
    } else if let Resource::RouteAdmission(_) = resource {
        vec![admission_condition(&about)]
    } else if let Resource::TrafficTarget(_) = resource {
        target_conditions(cx, &about)
    } else if let Resource::TimeoutPolicy(policy) = resource {
        effects::effect_conditions(cx, &policy.target, &about)
    } else if let Resource::HeaderRewritePolicy(policy) = resource {
        effects::effect_conditions(cx, &policy.target, &about)
    } else {
        plain_conditions(cx, object, about)
    };
    conditions.extend(annotations(object, cx.config));
    conditions.into()
}

/// The conditions of a kind that has none but the existence of its target. A route without a parent
/// has none.
fn plain_conditions(
    cx: &mut Context<'_>,
    object: &Object,
    about: About<'_>,
) -> Vec<ObjectCondition> {
    let kind = object.meta.key.kind;
    if kind.is_route() || kind.spec().conditions != policy_crds::spec::Conditions::Always {
        return Vec::new();
    }
    let target = object.references().into_iter().find(|named| named.field == Field::Target);
    let Some(ObjectReference { what: ReferenceTarget::One(target), .. }) = target else {
        return vec![about.accepted("")];
    };
    let about = About { parent: Some(target.clone()), ..about };
    vec![targeted(cx, &target, about)]
}

/// The condition of unreadable annotations, if there are any. The object takes effect nonetheless.
pub(crate) fn annotations(object: &Object, config: &ControllerConfig) -> Option<ObjectCondition> {
    let mut errors = annotation_errors_in(object, reading(config, object));
    errors.extend(foreign_mark(object, config));
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let about = About { object: &object.meta.key, parent: None, section: None, port: None };
    (!errors.is_empty()).then(|| {
        about.condition(
            ConditionKind::AnnotationsValid,
            Reason::UnsupportedValue,
            &errors.join("; "),
        )
    })
}

fn server_conditions(cx: &mut Context<'_>, about: &About<'_>) -> Vec<ObjectCondition> {
    let attached = cx.query(&AttachedRoutesOf(about.object.clone()));
    let displaced = cx.query(&DisplacedServersOf(about.object.namespace.clone()));
    let mut conditions = vec![if let Some(owners) = displaced.get(about.object) {
        about.refused(Reason::Conflicted, &displaced_message("takes no effect", owners))
    } else if attached.bound && attached.routes.is_empty() && attached.accepted {
        about.accepted("routes are attached and others hold every hostname of them")
    } else if attached.bound && attached.routes.is_empty() {
        about.accepted("routes are attached but none of them is valid: its ports are denied")
    } else {
        about.accepted("")
    }];
    if cx.query(&PrecedenceDifferencesOf(about.object.clone())).cut {
        let message = "Linkerd's proxies may pick other rules in more cases than are reported";
        conditions.push(about.differs(message));
    }
    conditions
}

fn policy_conditions(
    cx: &mut Context<'_>,
    target: &PolicyTarget,
    about: About<'_>,
) -> Vec<ObjectCondition> {
    let accepted = policy_acceptance(cx, target, &about);
    let grant = cx.query(&PolicyGrant(about.object.clone()));
    let resolved = about.resolved(&grant.faults);
    vec![accepted, resolved]
}

fn server_authorization_condition(
    cx: &mut Context<'_>,
    server: &ServerRef,
    about: About<'_>,
) -> ObjectCondition {
    let namespace = about.object.namespace.clone();
    match server {
        ServerRef::Name(name) => {
            let key = ObjectKey { kind: Kind::Server, namespace, name: name.clone() };
            let about = About { parent: Some(key.clone()), ..about };
            match follow(cx, about.object, Field::Server, &key) {
                Ok(_) | Err(ReferenceError::Invalid) => about.accepted(""),
                Err(
                    fault @ (ReferenceError::Missing
                    | ReferenceError::NotPermitted
                    | ReferenceError::Unsupported),
                ) => {
                    let message = format!("{key} {}", fault.as_str());
                    about.refused(Reason::NoMatchingTarget, &message)
                }
            }
        }
        ServerRef::Labels(selector) => {
            let mut servers = cx.list(Kind::Server, &namespace);
            if servers.any(|server| selector.matches(&server.meta.labels)) {
                about.accepted("")
            } else {
                let message = "no Server of the namespace has the labels that are selected";
                about.refused(Reason::NoMatchingTarget, message)
            }
        }
    }
}

fn rate_limit_condition(
    cx: &mut Context<'_>,
    limit: &RateLimitPolicy,
    about: About<'_>,
) -> ObjectCondition {
    let namespace = about.object.namespace.clone();
    let server = ObjectKey { kind: Kind::Server, namespace, name: limit.server.clone() };
    let about = About { parent: Some(server.clone()), ..about };
    let Some(object) = cx.object(&server) else {
        return about.refused(Reason::NoMatchingTarget, &format!("{server} does not exist"));
    };
    if let Body::Valid(Resource::Server(own)) = &object.body
        && matches!(own.protocol, ProxyProtocol::Opaque | ProxyProtocol::Tls)
    {
        let message = format!("{server} carries no requests that could be limited");
        return about.refused(Reason::UnsupportedValue, &message);
    }
    match cx.query(&RateLimitOf(server.clone())) {
        Some((winner, _)) if winner != *about.object => {
            let message = format!("{winner} limits {server} already");
            about.refused(Reason::RateLimitAlreadyExists, &message)
        }
        Some(_) | None => about.accepted(""),
    }
}

fn inbound_conditions(
    cx: &mut Context<'_>,
    route: &InboundRoute,
    about: &About<'_>,
) -> Vec<ObjectCondition> {
    let state = cx.query(&DelegationStateOf(about.object.clone()));
    let faults = state.faults.iter();
    let faults: Vec<RefFault> = faults
        .map(|fault| RefFault { reason: fault.reason, message: fault.message.clone() })
        .collect();
    vec![about.outcome(acceptance(route, &state)), about.resolved(&faults)]
}

/// The conditions of groups, bindings and classes.
fn request_conditions(
    cx: &mut Context<'_>,
    object: &Object,
    about: About<'_>,
) -> Vec<ObjectCondition> {
    let key = &object.meta.key;
    let target = object.references().into_iter().find(|named| named.field == Field::Target);
    let accepted = match target.map(|named| named.what) {
        Some(ReferenceTarget::One(target)) => {
            let about = About { parent: Some(target.clone()), ..about.clone() };
            let found = targeted(cx, &target, about.clone());
            if !found.status || !found.message.is_empty() {
                found
            } else if is_binding(key.kind) {
                about.outcome(binding_acceptance(cx, object))
            } else {
                about.outcome(class_acceptance(cx, key))
            }
        }
        Some(ReferenceTarget::AnyOf(..) | ReferenceTarget::Unread(_)) | None => {
            about.outcome(group_acceptance(cx, key))
        }
    };
    let resolved = faults(cx, object).map(|faults| about.resolved(&faults));
    std::iter::once(accepted).chain(resolved).collect()
}

/// The conditions of a TrafficTarget, whose pods are closed in any case.
fn target_conditions(cx: &mut Context<'_>, about: &About<'_>) -> Vec<ObjectCondition> {
    let grant = cx.query(&TargetGrantOf(about.object.clone()));
    let accepted = match &grant.outcome {
        Ok(_) => about.accepted(""),
        Err(reason) => {
            let message = format!("{reason}: it grants nothing and closes its destination");
            about.refused(Reason::NoMatchingTarget, &message)
        }
    };
    let fault = |message: &String| RefFault {
        reason: Reason::RefInvalid,
        message: message.as_str().into(),
    };
    let faults: Vec<RefFault> = grant.lost.iter().map(fault).collect();
    vec![accepted, about.resolved(&faults)]
}

fn admission_condition(about: &About<'_>) -> ObjectCondition {
    if *about.object.name == *EFFECTIVE {
        return about.accepted("");
    }
    let message = format!("only the RouteAdmissionPolicy named `{EFFECTIVE}` counts");
    about.refused(Reason::UnsupportedValue, &message)
}

fn route_conditions(cx: &mut Context<'_>, object: &Object) -> Vec<ObjectCondition> {
    let key = &object.meta.key;
    let backends = backend_faults(cx, object);
    let mut conditions = Vec::new();
    for parent in inbound_parents(object) {
        let about = About { object: key, parent: Some(parent.clone()), section: None, port: None };
        conditions.push(match &object.body {
            Body::Invalid(invalid) => about.invalid(invalid),
            Body::Valid(_) => about.outcome(child_acceptance(cx, object, &parent)),
        });
        conditions.extend(partial_condition(object, &about, conditions.last()));
    }
    for parent in parents(object) {
        let Some(server) = ObjectKey::server_of(parent, &key.namespace) else { continue };
        let about = About {
            object: key,
            parent: Some(server.clone()),
            section: parent.section.clone(),
            port: parent.port,
        };
        conditions.push(match (&object.body, attachment(cx, object, parent, &server)) {
            (Body::Valid(Resource::Route(own)), Attachment::Delegated) => {
                let denying = own.denies_because();
                denying.map_or_else(
                    || about.accepted(""),
                    |reason| about.refused(Reason::UnsupportedValue, &reason),
                )
            }
            (_, Attachment::Accepted) => accepted_route(cx, object, &about, &server),
            (_, Attachment::Delegated) => about.accepted(""),
            (_, Attachment::Lost { message }) => {
                about.refused(Reason::HostAlreadyClaimed, &message)
            }
            (_, Attachment::Denying { message }) => {
                about.refused(Reason::UnsupportedValue, &message)
            }
            (Body::Invalid(invalid), Attachment::Refused { reason: Reason::Invalid, .. }) => {
                about.invalid(invalid)
            }
            (_, Attachment::Refused { reason, message, .. }) => about.refused(reason, &message),
        });
        conditions.extend(partial_condition(object, &about, conditions.last()));
        let refused = conditions.last().filter(|c| c.reason == Reason::RefNotPermitted);
        let refused = refused.map(|c| RefFault { reason: c.reason, message: c.message.clone() });
        let faults: Vec<RefFault> = refused.into_iter().chain(backends.iter().cloned()).collect();
        conditions.push(about.resolved(&faults));
        conditions.extend(precedence_condition(cx, &about, &server));
    }
    if let (true, Body::Invalid(invalid)) = (conditions.is_empty(), &object.body) {
        conditions
            .push(About { object: key, parent: None, section: None, port: None }.invalid(invalid));
    }
    conditions
}

/// The condition of an accepted route, which says which hostnames others claimed later, or hosts below which
/// they claimed earlier.
fn accepted_route(
    cx: &mut Context<'_>,
    object: &Object,
    about: &About<'_>,
    server: &ObjectKey,
) -> ObjectCondition {
    let Body::Valid(Resource::Route(route)) = &object.body else { return about.accepted("") };
    let lost = lost_hosts(cx, &route.hostnames, server, &object.meta);
    let accepted = about.accepted(&words(&lost));
    let own = server.namespace == object.meta.key.namespace;
    let kept = lost.kept.into_iter().filter(|_| own);
    let hostnames = kept.map(|(host, after)| AttachedHostname { host, after }).collect();
    ObjectCondition { hostnames, ..accepted }
}

/// The condition of the rules of an accepted route that are denied. The Gateway API has it on routes alone
/// of which other rules are in force.
fn partial_condition(
    object: &Object,
    about: &About<'_>,
    accepted: Option<&ObjectCondition>,
) -> Option<ObjectCondition> {
    let Body::Valid(Resource::Route(route)) = &object.body else { return None };
    let dropped = route.dropped_because().filter(|_| accepted.is_some_and(|c| c.status));
    dropped.map(|message| about.partially_invalid(&message))
}

/// The backends that a route may not name. Nothing follows from them inbound, where requests are
/// sent to the workload itself.
fn backend_faults(cx: &mut Context<'_>, route: &Object) -> Vec<RefFault> {
    let mut faults = Vec::new();
    for ObjectReference { field, what } in route.references() {
        let (Field::Backend, ReferenceTarget::Unread(to)) = (field, what) else { continue };
        if let Err(fault) = follow_unread(cx, &route.meta.key, field, &to) {
            let message = format!("{to} {}", fault.as_str()).into();
            faults.push(RefFault { reason: reason(fault), message });
        }
    }
    faults
}

/// The condition of the rules of a route that Linkerd's proxies pick differently, or would.
fn precedence_condition(
    cx: &mut Context<'_>,
    about: &About<'_>,
    server: &ObjectKey,
) -> Option<ObjectCondition> {
    let route = about.object.to_ref().to_string();
    let differences = cx.query(&PrecedenceDifferencesOf(server.clone()));
    let own: Vec<String> = differences
        .found
        .iter()
        .filter(|d| *d.ours.name == *route || *d.linkerds.name == *route)
        .map(ToString::to_string)
        .collect();
    (!own.is_empty()).then(|| about.differs(&own.join("; ")))
}
