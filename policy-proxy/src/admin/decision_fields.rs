//! Groups of decisions as JSON, and their explanations.

use http::{HeaderMap, Method};
use policy_core::explain::explain;
use policy_core::host::canonical_host;
use policy_core::{Decision, RequestView};
use policy_enforce::record::{
    ClientKey, DecisionGroup, DecisionSample, GroupReason, GroupSubject, MAX_TEXT, SampleTls,
};
use policy_enforce::store::PolicyStore;
use policy_tls::datetime::rfc3339;
use policy_tls::peer::{Peer, PeerTls};
use serde_json::{Value, json};
use std::num::NonZeroU16;

/// A group. `current`: the generation of the policy in force on a port.
pub(super) fn group(group: &DecisionGroup, current: impl Fn(NonZeroU16) -> Option<u64>) -> Value {
    let outbound = matches!(group.key.reason, GroupReason::Outbound(_));
    let port = NonZeroU16::new(group.key.port);
    let now = port.filter(|_| !outbound).and_then(current);
    let explanation = group.explanation.as_deref().map(serde_json::from_str::<Value>);
    json!({
        "id": group.id.to_string(),
        "side": if outbound { "outbound" } else { "inbound" },
        "subject": subject(&group.subject),
        "port": group.key.port,
        "decision": decision(group.key.reason),
        "reason": reason(group.key.reason),
        "on": if group.key.connection { "connection" } else { "request" },
        "route": group.origin.as_ref().map(ToString::to_string),
        "httpRoute": group.http_route,
        "authorization": group.authorization.as_ref().map(ToString::to_string),
        "revision": group.revision.map(content),
        "current": now.is_some_and(|now| now == group.key.generation),
        "first": rfc3339(group.first),
        "last": rfc3339(group.last),
        "count": group.count,
        "samples": group.samples.iter().map(sample).collect::<Vec<Value>>(),
        "explanation": explanation.and_then(Result::ok),
    })
}

fn decision(reason: GroupReason) -> &'static str {
    match reason {
        GroupReason::Denied(_) | GroupReason::Outbound(_) => "deny",
        GroupReason::Audited => "audit",
    }
}

fn reason(reason: GroupReason) -> Option<&'static str> {
    match reason {
        GroupReason::Denied(_) | GroupReason::Outbound(_) => Some(reason.as_str()),
        GroupReason::Audited => None,
    }
}

fn subject(subject: &GroupSubject) -> Value {
    let kind = match subject {
        GroupSubject::Client(ClientKey::Identity(_)) => "identity",
        GroupSubject::Client(ClientKey::Network(_)) | GroupSubject::Dialled(_) => "network",
        GroupSubject::Service { .. } => "service",
    };
    json!({ kind: subject.to_string() })
}

fn sample(sample: &DecisionSample) -> Value {
    let DecisionSample { at, address, tls, method, host, path } = sample;
    json!({
        "at": rfc3339(*at),
        "address": address.map(|address| address.to_string()),
        "tls": match tls {
            SampleTls::Absent => "none",
            SampleTls::Passthrough => "passthrough",
            SampleTls::Mesh(_) => "mesh",
        },
        "method": method,
        "host": host,
        "path": path,
    })
}

/// The content hash of a revision, as metrics show it.
pub(super) fn content(content: u64) -> String {
    format!("{content:016x}")
}

/// The explanation of a group by the policy in force, from its last sample; `None` if there is none, or
/// no policy, or if something else settled the decision than a policy.
pub(super) fn explanation(store: &PolicyStore, group: &DecisionGroup) -> Option<Value> {
    let own = match group.key.reason {
        GroupReason::Denied(reason) => Some(reason.as_str()),
        GroupReason::Audited => None,
        GroupReason::Outbound(_) => return None,
    };
    let sample = group.samples.last()?;
    let live = store.live(NonZeroU16::new(group.key.port)?)?;
    let policy = live.in_force().ok()?;
    let tls = match &sample.tls {
        SampleTls::Absent => PeerTls::Absent,
        SampleTls::Passthrough => PeerTls::Passthrough,
        SampleTls::Mesh(identity) => PeerTls::Terminated(identity.clone()),
    };
    let peer = Peer::new(sample.address?, tls);
    let connection = peer.connection(&policy.facts);
    let (server, headers) = (policy.evaluator.policy(), HeaderMap::new());
    let explained = match (&sample.method, &sample.path) {
        (Some(method), Some(path)) => {
            let is_whole = |text: &str| text.len() <= MAX_TEXT;
            let method = Method::from_bytes(method.as_bytes()).ok()?;
            let host = sample.host.as_deref().map(canonical_host).transpose().ok()?;
            if !is_whole(path) || !sample.host.as_deref().is_none_or(is_whole) {
                return None;
            }
            let host = host.as_ref().map(|host| &*host.name);
            let view = RequestView { method: &method, host, path, query: None, headers: &headers };
            explain(server, &connection, Some(&view))
        }
        (_, _) => explain(server, &connection, None),
    };
    let (_, reason) = words(&explained.decision);
    let as_decided = policy.generation == group.key.generation;
    Some(json!({
        "revision": content(policy.revision.content),
        "asDecided": as_decided && reason == own,
        // What is not recorded cannot be explained.
        "without": ["query", "headers"],
        "explanation": serde_json::to_value(&explained).ok()?,
    }))
}

/// The decision and its reason.
pub(super) fn words(decision: &Decision) -> (&'static str, Option<&'static str>) {
    match decision {
        Decision::Permit(permit) if permit.is_audited() => ("audit", None),
        Decision::Permit(_) => ("allow", None),
        Decision::Deny(denial) => ("deny", Some(denial.reason.as_str())),
    }
}
