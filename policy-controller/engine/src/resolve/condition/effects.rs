//! The conditions of policies about requests: their target, and what overlaps.

use super::about::About;
use super::target::policy_acceptance;
use crate::incremental::Context;
use crate::query::condition::{ConditionKind, ObjectCondition, Reason};
use crate::query::effective_servers::EffectiveServersOf;
use crate::query::effects::RewriteOverlapsOn;
use crate::query::requests::ClassSelectionOf;
use crate::resolve::effects::unread;
use crate::resolve::requests::is_class;
use policy_core::ObjectRef;
use policy_crds::resource::{PolicyTarget, ProxyProtocol};
use policy_crds::{Body, Kind, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most policies that a condition names.
const MAX_NAMED: usize = 8;

/// The conditions of a TimeoutPolicy or HeaderRewritePolicy.
pub(super) fn effect_conditions(
    cx: &mut Context<'_>,
    target: &PolicyTarget,
    about: &About<'_>,
) -> Vec<ObjectCondition> {
    let accepted = match target {
        PolicyTarget::Server(name) => {
            let server = about.object.beside(Kind::Server, name);
            without_requests(cx, &server, about)
        }
        PolicyTarget::Namespace | PolicyTarget::Route { .. } => None,
    };
    let accepted = accepted.unwrap_or_else(|| policy_acceptance(cx, target, about));
    let accepted = with_refusals(cx, about, accepted);
    let parent = accepted.parent.clone();
    let overlaps = (about.object.kind == Kind::HeaderRewritePolicy)
        .then(|| overlaps(cx, &About { parent, ..about.clone() }));
    std::iter::once(accepted).chain(overlaps.flatten()).collect()
}

/// The condition of a policy about its target, with the requests that fail because its changes are
/// required and cannot be made.
fn with_refusals(
    cx: &mut Context<'_>,
    about: &About<'_>,
    accepted: ObjectCondition,
) -> ObjectCondition {
    let Some(object) = cx.object(about.object) else { return accepted };
    let about = About { parent: accepted.parent.clone(), ..about.clone() };
    if let (Some(_), Some(target)) = (unread(cx, object), &accepted.parent) {
        let message = format!(
            "{target} is invalid, so that nobody knows its requests: those of every Server of the \
             namespace fail, because the changes are required"
        );
        return about.refused(Reason::Invalid, &message);
    }
    let Body::Valid(Resource::HeaderRewritePolicy(policy)) = &object.body else { return accepted };
    let class = accepted.parent.as_ref().filter(|target| policy.required && is_class(target.kind));
    let Some(class) = class else { return accepted };
    if cx.query(&ClassSelectionOf(class.clone())).inexpressible.is_none() {
        return accepted;
    }
    let message = format!(
        "{}; requests of such routes fail, because the changes are required",
        accepted.message
    );
    about.condition(ConditionKind::Accepted, accepted.reason, &message)
}

/// The condition of a policy on a Server that carries no requests.
fn without_requests(
    cx: &mut Context<'_>,
    server: &ObjectKey,
    about: &About<'_>,
) -> Option<ObjectCondition> {
    let Body::Valid(Resource::Server(spec)) = &cx.object(server)?.body else { return None };
    match spec.protocol {
        ProxyProtocol::Opaque | ProxyProtocol::Tls => {
            let about = About { parent: Some(server.clone()), ..about.clone() };
            let message = format!("{server} carries no requests, by its proxyProtocol");
            Some(about.refused(Reason::ProtocolMismatch, &message))
        }
        ProxyProtocol::Unknown
        | ProxyProtocol::Http1
        | ProxyProtocol::Http2
        | ProxyProtocol::Grpc => None,
    }
}

/// The condition of a policy that comes after others with which its order matters.
fn overlaps(cx: &mut Context<'_>, about: &About<'_>) -> Option<ObjectCondition> {
    let own = about.object.to_ref();
    let mut before: BTreeMap<ObjectRef, BTreeSet<Arc<str>>> = BTreeMap::new();
    let mut cut = false;
    let effective = cx.query(&EffectiveServersOf(about.object.clone()));
    for server in &effective.servers {
        let found = cx.query(&RewriteOverlapsOn(server.clone()));
        cut |= found.cut;
        for (earlier, headers) in found.after.get(&own).into_iter().flatten() {
            before.entry(earlier.clone()).or_default().extend(headers.iter().cloned());
        }
    }
    let mut parts = Vec::new();
    if !before.is_empty() {
        let others = named(&before, &about.object.namespace);
        parts.push(format!("the order matters to some requests, and it is applied after {others}"));
    }
    if cut {
        parts.push("its Server has more policies about headers than are compared".to_owned());
    }
    let message = parts.join("; ");
    (!parts.is_empty())
        .then(|| about.condition(ConditionKind::Overlaps, Reason::Overlaps, &message))
}

/// The policies in words. Whoever reads this may not be allowed to know what is in other namespaces.
fn named(before: &BTreeMap<ObjectRef, BTreeSet<Arc<str>>>, namespace: &str) -> String {
    let of_namespace = |policy: &ObjectRef| policy.namespace() == namespace;
    let own: Vec<_> = before.iter().filter(|(policy, _)| of_namespace(policy)).collect();
    let shown = own.iter().take(MAX_NAMED);
    let mut others: Vec<String> = shown.map(|(policy, on)| named_with(policy, on)).collect();
    let more = own.len().saturating_sub(MAX_NAMED);
    others.extend((more > 0).then(|| format!("{more} more")));
    let foreign = own.len() < before.len();
    others.extend(foreign.then(|| "a policy of another namespace".to_owned()));
    others.join(", ")
}

/// `HeaderRewritePolicy shop/other (`x-a`, `x-b`)`
fn named_with(policy: &ObjectRef, headers: &BTreeSet<Arc<str>>) -> String {
    let headers: Vec<String> = headers.iter().map(|name| format!("`{name}`")).collect();
    format!("{policy} ({})", headers.join(", "))
}
