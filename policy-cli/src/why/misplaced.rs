//! Grants that the client meets and that are on something else than what decided: a route that lost, a
//! Server that does not own the port, an object that does not exist.

use super::cause::{CauseFinder, FAR, Ranked, key_of};
use policy_core::explain::{MatchPart, MatchPrecedence, OtherRule, RuleOutcome};
use policy_core::{Owner, Source};
use policy_crds::resource::{PolicyTarget, ServerRef};
use policy_crds::{Body, Kind, LabelSelector, ObjectKey, Resource, nearest};
use policy_engine::findings::{Finding, FindingKind};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The causes that grants elsewhere are, each with its rank.
pub(super) fn causes(finder: &CauseFinder<'_>) -> Vec<Ranked> {
    let explanation = finder.judged.explanation.as_ref();
    let considered = explanation.map(|one| &one.considered[..]).unwrap_or_default();
    // What was considered where it belongs is a near miss and not elsewhere: a class may ask for more.
    let is_elsewhere = |policy: &&ObjectKey| {
        let own = Source::Object(policy.to_ref());
        !considered.iter().any(|grant| grant.source == own)
    };
    let admitting = finder.judged.admitting.iter().filter(is_elsewhere);
    admitting.filter_map(|policy| of_policy(finder, policy)).collect()
}

fn of_policy(finder: &CauseFinder<'_>, policy: &ObjectKey) -> Option<Ranked> {
    let object = finder.inventory.object(policy)?;
    let by = |(rank, words): (u8, String)| {
        let summary = format!("{policy} admits this client, {words}");
        (rank, finder.by(policy, "spec.targetRef", summary))
    };
    let named = |kind: Kind, name: &Arc<str>| {
        let (namespace, name) = (policy.namespace.clone(), name.clone());
        ObjectKey { kind, namespace, name }
    };
    match &object.body {
        Body::Valid(Resource::AuthorizationPolicy(own)) => match &own.target {
            PolicyTarget::Namespace => on_namespace(finder).map(by),
            PolicyTarget::Server(name) => on_server(finder, &named(Kind::Server, name)).map(by),
            PolicyTarget::Route { kind, name } => on_route(finder, &named(*kind, name)).map(by),
        },
        Body::Valid(Resource::ServerAuthorization(own)) => match &own.server {
            ServerRef::Name(name) => on_server(finder, &named(Kind::Server, name)).map(by),
            ServerRef::Labels(selector) => on_labels(finder, selector).map(by),
        },
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// A grant on the namespace.
fn on_namespace(finder: &CauseFinder<'_>) -> Option<(u8, String)> {
    match &finder.judged.policy.owner {
        Owner::Default(default) => {
            let words = format!(
                "on every Server of the namespace, and no Server owns port {}: the default policy {} \
                 decides",
                finder.port,
                default.as_str()
            );
            Some((1, words))
        }
        Owner::Server(_) => Some((1, not_inherited(finder)?)),
    }
}

/// The words where the route that took the request counts no grant of its Server.
fn not_inherited(finder: &CauseFinder<'_>) -> Option<String> {
    let route = finder.judged.explanation.as_ref()?.route.as_ref()?;
    Some(format!(
        "on the Server, and {route} takes the request, which counts no grant of the Server"
    ))
}

/// A grant on the Servers with some labels.
fn on_labels(finder: &CauseFinder<'_>, selector: &LabelSelector) -> Option<(u8, String)> {
    let Owner::Server(server) = &finder.judged.policy.owner else { return None };
    let object = finder.inventory.object(&key_of(server)?)?;
    let lacks = !selector.matches(&object.meta.labels);
    lacks.then(|| {
        (1, format!("on the Servers that its selector selects, and {server} lacks the labels"))
    })
}

fn on_server(finder: &CauseFinder<'_>, server: &ObjectKey) -> Option<(u8, String)> {
    if finder.inventory.object(server).is_none() {
        return Some((1, format!("on {server}, which does not exist{}", near(finder, server))));
    }
    let owns = match &finder.judged.policy.owner {
        Owner::Server(owner) => *owner == server.to_ref(),
        Owner::Default(_) => false,
    };
    if owns {
        return Some((1, not_inherited(finder)?));
    }
    let said = said(finder, server, |kind| {
        matches!(
            kind,
            FindingKind::Displaced
                | FindingKind::DisplacedInPart
                | FindingKind::SelectsNothing
                | FindingKind::PortName
                | FindingKind::PortNumber
                | FindingKind::ServicePort
        )
    });
    let invalid = finder.error_of(server);
    match (said, invalid) {
        (Some(finding), _) => Some((1, format!("on {server}: {}", finding.message))),
        (None, Some((_, error))) => Some((1, format!("on {server}, which is invalid: {error}"))),
        (None, None) => {
            let owner = finder.owner();
            let words = match other_port(finder, server) {
                Some(other) => {
                    let port = finder.port;
                    format!("on {server}, which owns port {other}; of port {port} {owner} decides")
                }
                None => {
                    let words = format!("on {server}, which does not own the port: {owner} does");
                    return Some((FAR, words));
                }
            };
            Some((4, words))
        }
    }
}

/// Another port of the workload that a Server owns, where the default policy decides about this one.
fn other_port(finder: &CauseFinder<'_>, server: &ObjectKey) -> Option<NonZeroU16> {
    if !matches!(finder.judged.policy.owner, Owner::Default(_)) {
        return None;
    }
    let compiled = &finder.inventory.compiled;
    let state = &compiled.workloads.get(finder.workload)?.state;
    let owner = Owner::Server(server.to_ref());
    let owned = |port: &&NonZeroU16| {
        compiled.port(finder.workload, **port).is_some_and(|policy| policy.owner == owner)
    };
    state.declared.iter().find(owned).copied()
}

fn said<'a>(
    finder: &CauseFinder<'a>,
    object: &ObjectKey,
    is_about: impl Fn(FindingKind) -> bool,
) -> Option<&'a Finding> {
    finder.findings.iter().find(|finding| finding.object == *object && is_about(finding.kind))
}

/// A proposal for the name of an object that does not exist.
fn near(finder: &CauseFinder<'_>, wanted: &ObjectKey) -> String {
    let keys = finder.inventory.compiled.objects.iter().map(|object| &object.meta.key);
    let known: Vec<&str> = keys
        .filter(|key| key.kind == wanted.kind && key.namespace == wanted.namespace)
        .map(|key| &*key.name)
        .collect();
    let near = nearest(&wanted.name, &known);
    near.map(|near| format!("; is {near} meant?")).unwrap_or_default()
}

fn on_route(finder: &CauseFinder<'_>, route: &ObjectKey) -> Option<(u8, String)> {
    if finder.inventory.object(route).is_none() {
        let mut keys = finder.inventory.compiled.objects.iter().map(|object| &object.meta.key);
        let namesake = keys.find(|key| {
            key.kind.as_str() == route.kind.as_str()
                && (&key.namespace, &key.name) == (&route.namespace, &route.name)
        });
        if let Some(namesake) = namesake {
            let (wanted, has) = (route.kind.group(), namesake.kind.group());
            return Some((
                1,
                format!("on {route} of {wanted}, which does not exist; that of {has} does"),
            ));
        }
        return Some((1, format!("on {route}, which does not exist{}", near(finder, route))));
    }
    let explanation = finder.judged.explanation.as_ref()?;
    if matches!(route.kind, Kind::HttpRouteClass | Kind::GrpcServiceClass) {
        let took =
            explanation.route.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        let said = said(finder, route, |_| true);
        let why = said.map(|finding| format!(" ({})", finding.message)).unwrap_or_default();
        return Some((
            1,
            format!("on {route}, whose routes do not include this request of {took}{why}"),
        ));
    }
    let own =
        |other: &&OtherRule| other.origin.chain().iter().any(|object| *object == route.to_ref());
    let mut others = explanation.others.iter().filter(own);
    if let Some(other) = others.next() {
        return Some(beside(explanation.route.as_ref().map(ToString::to_string), route, other));
    }
    let attached = finder.judged.policy.routes.routes.iter();
    let is_attached =
        attached.flat_map(|own| own.origin.chain()).any(|object| *object == route.to_ref());
    if is_attached {
        return Some((FAR, format!("on {route}, which is not the route of this request")));
    }
    let said = said(finder, route, |kind| {
        matches!(kind, FindingKind::Dangling(_) | FindingKind::Ineffective(_))
    });
    let why = said.map(|finding| format!(": {}", finding.message));
    let why = why.or_else(|| only_on_services(finder, route));
    let rank = if why.is_some() { 1 } else { FAR };
    let why = why.unwrap_or_default();
    Some((rank, format!("on {route}, which is not on this port{why}")))
}

/// A remark where every parent of a route is a Service, to which the policy of a port does not go by.
fn only_on_services(finder: &CauseFinder<'_>, route: &ObjectKey) -> Option<String> {
    let Body::Valid(Resource::Route(own)) = &finder.inventory.object(route)?.body else {
        return None;
    };
    let first = own.parents.first()?;
    let are_services =
        own.parents.iter().all(|parent| parent.group.is_empty() && &*parent.kind == "Service");
    are_services.then(|| {
        let name = &first.name;
        format!(
            ": its parent is Service {name}, and what a port admits goes by routes of its Server"
        )
    })
}

/// A grant on a route that lost, or that the request misses.
fn beside(took: Option<String>, route: &ObjectKey, other: &OtherRule) -> (u8, String) {
    let (took, wanted) = (took.unwrap_or_else(|| "nothing".to_owned()), &other.wanted);
    match &other.outcome {
        RuleOutcome::Lost(by) => (
            1,
            format!("on {route} (`{wanted}`), and {took} takes the request first: {}", words(*by)),
        ),
        RuleOutcome::Missed(parts) => {
            let near = !parts.contains(&MatchPart::Path) && !parts.contains(&MatchPart::Host);
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let words = format!(
                "on {route} (`{wanted}`), which the request misses by {}",
                parts.join(" and ")
            );
            (if near { 2 } else { FAR }, words)
        }
    }
}

/// The criterion by which a match precedes another, in words.
pub(super) fn words(by: MatchPrecedence) -> &'static str {
    match by {
        MatchPrecedence::Unreadable => "it cannot be read, and may have been meant for the request",
        MatchPrecedence::Host => "its host is more specific",
        MatchPrecedence::Path => "its path is more specific",
        MatchPrecedence::Method => "it names the method",
        MatchPrecedence::Headers => "it names more headers",
        MatchPrecedence::Query => "it names more query parameters",
        MatchPrecedence::Earlier => "it is older, or first by name",
    }
}

/// Routes of the namespace that are on no port and say why.
pub(super) fn unattached_routes(finder: &CauseFinder<'_>) -> Vec<Ranked> {
    let attached: Vec<ObjectKey> = finder
        .judged
        .policy
        .routes
        .routes
        .iter()
        .flat_map(|route| route.origin.chain())
        .filter_map(key_of)
        .collect();
    let findings = finder.findings.iter().filter(|finding| {
        let key = &finding.object;
        matches!(finding.kind, FindingKind::Dangling(_) | FindingKind::Ineffective(_))
            && Kind::attached().any(|kind| kind == key.kind)
            && key.namespace == finder.workload.namespace
            && !attached.contains(key)
    });
    let cause = |finding: &Finding| -> Ranked {
        let key = &finding.object;
        let summary = format!("{key} is not on this port: {}", finding.message);
        (1, finder.by(key, &finding.field, summary))
    };
    findings.map(cause).collect()
}
