//! Answers of a sidecar about itself: its record of decisions, explanations by the policy in force,
//! the policy in force.

use super::answer::json;
use super::decision_fields;
use super::policy_fields;
use super::query::Query;
use super::question;
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use policy_core::{DecisionId, Denied, Revision};
use policy_enforce::record::Decisions;
use policy_enforce::store::{Live, PolicyStore};
use policy_tls::datetime::rfc3339;
use serde_json::{Value, json};
use std::num::NonZeroU16;
use std::time::SystemTime;

/// The parameters of a question.
pub(super) const QUESTION: [&str; 8] =
    ["port", "client", "tls", "identity", "method", "host", "path", "header"];

/// A response, or the status and message of an error.
pub(super) type Inspection = Result<Response<Full<Bytes>>, (StatusCode, String)>;

pub(super) fn bad(error: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, error)
}

pub(super) fn not_recorded() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "this proxy records no decisions (--decisions=off)".to_owned())
}

/// Answers with all groups, or with that of an id, which is explained.
pub(super) fn decisions(
    store: &PolicyStore,
    decisions: &Decisions,
    workload: &str,
    query: &Query,
) -> Inspection {
    let state = decisions.state();
    let groups = match query.one("id").map_err(bad)? {
        None => decisions.groups(),
        Some(text) => {
            let invalid = || bad(format!("id: `{}`: expected an id", text.escape_default()));
            let id = DecisionId::parse(text).ok_or_else(invalid)?;
            let gone = || (StatusCode::NOT_FOUND, gone(decisions, id));
            let mut group = decisions.group(id).ok_or_else(gone)?;
            if group.explanation.is_none() {
                let explanation = decision_fields::explanation(store, &group);
                group.explanation = explanation.map(|own| own.to_string().into());
            }
            vec![group]
        }
    };
    let current = |port| store.live(port).map(|live| generation(&live));
    let groups = groups.iter().map(|group| decision_fields::group(group, current));
    let answer = json!({
        "workload": workload,
        "mode": state.mode.as_str(),
        "since": rfc3339(state.since),
        "now": rfc3339(SystemTime::now()),
        "leftOut": state.left_out,
        "replaced": state.replaced,
        "groups": groups.collect::<Vec<Value>>(),
    });
    Ok(json(StatusCode::OK, &answer))
}

/// The reason why no group has an id.
fn gone(decisions: &Decisions, id: DecisionId) -> String {
    let state = decisions.state();
    let since = rfc3339(state.since);
    if id.pod() != state.pod {
        return format!("no decision has the id {id}: it is the id of another pod");
    }
    if id.process() != state.process {
        return format!(
            "no decision has the id {id}: the sidecar started again since, and records since {since}"
        );
    }
    // Groups give their place to newer ones before the process ends.
    let oldest = decisions.groups().iter().map(|group| group.first).min();
    let oldest = rfc3339(oldest.unwrap_or(state.since));
    format!(
        "no decision has the id {id}: its group has left the record, which reaches back to {oldest}"
    )
}

/// Answers with the decision on a connection or request, and its explanation, by the policy in force.
pub(super) fn explain(store: &PolicyStore, workload: &str, query: &Query) -> Inspection {
    let question = question::read(query).map_err(bad)?;
    let mut answer = port_fields(store, workload, question.port)?;
    let live = store.live(question.port);
    let decided = match live.as_ref().map(|live| live.in_force()) {
        Some(Ok(policy)) => question.explain(policy).map_err(Denied::Target),
        Some(Err(reason)) => Err(reason),
        None => Err(Denied::PolicyPending),
    };
    let ((decision, reason), explanation) = match &decided {
        Ok(explained) => {
            (decision_fields::words(&explained.decision), serde_json::to_value(explained).ok())
        }
        Err(reason) => (("deny", Some(reason.as_str())), None),
    };
    set(&mut answer, "decision", decision.into());
    set(&mut answer, "reason", reason.into());
    set(&mut answer, "explanation", explanation.into());
    Ok(json(StatusCode::OK, &answer))
}

/// Answers with the policy of a port.
pub(super) fn policy(store: &PolicyStore, workload: &str, query: &Query) -> Inspection {
    let port = query.parsed::<NonZeroU16>("port", "a port").map_err(bad)?;
    let port = port.ok_or_else(|| bad("port: missing".to_owned()))?;
    let mut answer = port_fields(store, workload, port)?;
    let live = store.live(port);
    let policy = live.as_ref().and_then(|live| live.in_force().ok());
    let policy = policy.map(|policy| policy_fields::policy(policy.evaluator.policy()));
    set(&mut answer, "policy", policy.into());
    Ok(json(StatusCode::OK, &answer))
}

/// The state of a port, its revision and its age.
fn port_fields(
    store: &PolicyStore,
    workload: &str,
    port: NonZeroU16,
) -> Result<Value, (StatusCode, String)> {
    let status = store.status().into_iter().find(|status| status.port == port);
    let unknown = format!("port {port} has no policy here: no connection has come to it");
    let status = status.ok_or((StatusCode::NOT_FOUND, unknown))?;
    Ok(json!({
        "workload": workload,
        "port": port,
        "declared": status.declared,
        "state": status.state,
        "staleSeconds": status.age.as_secs(),
        "revision": status.revision.as_ref().map(revision),
    }))
}

fn revision(revision: &Revision) -> Value {
    let Revision { epoch, content, versions } = revision;
    let versions = versions.iter().map(|(kind, version)| (kind.to_string(), (*version).into()));
    json!({
        "epoch": &**epoch,
        "content": decision_fields::content(*content),
        "versions": versions.collect::<serde_json::Map<String, Value>>(),
    })
}

fn set(answer: &mut Value, name: &str, value: Value) {
    if let Some(fields) = answer.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// The generation of the policy in force; 0 without one.
fn generation(live: &Live) -> u64 {
    live.in_force().map_or(0, |policy| policy.generation)
}
