//! The policy that sidecars have in force, beside the objects: their own answers to a question.

use super::report::{Answer, InForceItem, SidecarQuestion, WhyReport, WhyVerdict};
use crate::admin_port::{AdminError, AdminQuery, SidecarAdmin, ask};
use crate::cluster::Cluster;
use futures_util::future::join_all;
use policy_core::WorkloadKind;
use serde_json::Value;

/// The most sidecars that one question is put to.
const MOST: usize = 8;
/// The words that follow "a version that does not".
const MISSING: &str = "explain decisions: what it has in force is not known";

/// The sidecars that answer questions.
pub(crate) enum InForceSource<'a> {
    /// Those of the pods of a cluster.
    Cluster(&'a Cluster),
    /// One, by the address of its admin port.
    Address(SidecarAdmin),
}

/// Asks one sidecar of each answer, and adds what it has in force.
pub(crate) async fn ask_sidecars(report: &mut WhyReport, source: &InForceSource<'_>) {
    let answers = report.answers.iter_mut().filter(|answer| can_answer(answer, source));
    let asking = answers.take(MOST).filter_map(|answer| {
        let question = answer.sidecar_question.clone()?;
        let port = match source {
            InForceSource::Cluster(cluster) => {
                SidecarAdmin::pod(cluster, &question.workload.namespace, &question.workload.name)
            }
            InForceSource::Address(port) => port.clone(),
        };
        Some(async move {
            answer.in_force = Some(of_sidecar(&port, &question, answer.verdict).await);
        })
    });
    join_all(asking).await;
}

fn can_answer(answer: &Answer, source: &InForceSource<'_>) -> bool {
    let is_pod =
        answer.sidecar_question.as_ref().is_some_and(|one| one.workload.kind == WorkloadKind::Pod);
    let has_sidecar = answer.verdict != WhyVerdict::Open;
    matches!(source, InForceSource::Address(_)) || (is_pod && has_sidecar)
}

async fn of_sidecar(
    port: &SidecarAdmin,
    question: &SidecarQuestion,
    verdict: WhyVerdict,
) -> InForceItem {
    let query = AdminQuery { path: "/explain", parameters: question.parameters.clone() };
    let none = |problem: String| InForceItem {
        sidecar: port.name(),
        problem: Some(problem),
        state: None,
        revision: None,
        stale_seconds: None,
        decision: None,
        reason: None,
        differs: false,
        explanation: Value::Null,
    };
    let answer = match ask(port, &query, MISSING).await {
        Ok(answer) => answer,
        Err(AdminError { message }) => return none(message),
    };
    let workload = format!("{}/{}", question.workload.namespace, question.workload.name);
    if let Some(other) = other_workload(&answer, &workload) {
        return none(format!("it is the sidecar of `{other}`, not of {workload}"));
    }
    let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (decision, reason) = (text("/decision"), text("/reason"));
    // What may not be listed cannot differ.
    let is_known = verdict != WhyVerdict::NotKnown;
    let differs = question.decided.filter(|_| is_known).is_some_and(|(decided, why)| {
        decision.as_deref() != Some(decided) || reason.as_deref() != why
    });
    InForceItem {
        problem: decision.is_none().then(|| "its answer has no decision".to_owned()),
        state: text("/state"),
        revision: text("/revision/content"),
        stale_seconds: answer.get("staleSeconds").and_then(Value::as_u64),
        differs: differs && decision.is_some(),
        decision,
        reason,
        explanation: answer.get("explanation").cloned().unwrap_or_default(),
        ..none(String::new())
    }
}

/// The workload of an answer, if it is not the one that was meant.
fn other_workload<'a>(answer: &'a Value, workload: &str) -> Option<&'a str> {
    let own = answer.get("workload").and_then(Value::as_str).unwrap_or_default();
    Some(own).filter(|own| *own != workload)
}

impl InForceItem {
    /// The answer in one line.
    pub(super) fn words(&self) -> String {
        if let Some(problem) = &self.problem {
            return format!("not known: {}: {problem}", self.sidecar);
        }
        let decision = self.decision.as_deref().unwrap_or_default();
        let reason = self.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        let revision = match (&self.revision, self.stale_seconds) {
            (Some(revision), Some(0)) => format!("revision {revision}, the newest"),
            (Some(revision), Some(age)) => {
                format!("revision {revision}, not confirmed by the controller for {age} s")
            }
            (Some(revision), None) => format!("revision {revision}"),
            (None, _) => "no revision".to_owned(),
        };
        let sidecar = &self.sidecar;
        format!("the sidecar of {sidecar} decides {}{reason} ({revision})", word(decision))
    }

    /// The first cause of the sidecar's own decision, in words.
    pub(super) fn cause(&self) -> String {
        if self.reason.as_deref() == Some("policy_pending") {
            return "it has received no policy of the port from the controller".to_owned();
        }
        first_cause(&self.explanation).unwrap_or_else(|| match &self.state {
            Some(state) => format!("the state of its policy is {state}"),
            None => "it does not say why".to_owned(),
        })
    }
}

fn word(decision: &str) -> &str {
    match decision {
        "allow" => "allowed",
        "audit" => "allowed, audited",
        "deny" => "denied",
        other => other,
    }
}

/// The first cause in an explanation of a sidecar: the nearest miss, or what granted nothing.
pub(super) fn first_cause(explanation: &Value) -> Option<String> {
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
    };
    let owner = text(explanation, "/owner")?;
    let route = text(explanation, "/route/origin");
    let at = route.map_or_else(|| owner.clone(), |route| format!("{route} of {owner}"));
    if let Some(granted) = text(explanation, "/authorization") {
        return Some(format!("{granted} grants it, at {at}"));
    }
    let Some(grant) = explanation.pointer("/considered/0") else {
        return Some(format!("nothing is granted by {at}"));
    };
    let source = text(grant, "/source")?;
    let wanted = text(grant, "/failed/asked");
    let client = text(grant, "/failed/client").unwrap_or_default();
    Some(match wanted {
        Some(wanted) => format!("{source} asks for {wanted}; the client has {client} (at {at})"),
        None => format!("{source} holds for nobody (at {at})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_answer_of_the_sidecar_of_another_workload_is_none() {
        let answer = json!({"workload": "shop/web-1", "decision": "deny"});
        assert_eq!(other_workload(&answer, "shop/web-0"), Some("shop/web-1"));
        assert_eq!(other_workload(&answer, "shop/web-1"), None);
    }

    #[test]
    fn the_sidecars_own_cause_is_the_nearest_miss() {
        let grant = json!({"source": "AuthorizationPolicy shop/a", "holds": false, "failures": 1,
            "failed": {"asked": "identity a.b", "client": "c.d"}});
        let explanation = json!({"owner": "Server shop/web", "considered": [grant],
            "route": {"origin": "HTTPRoute shop/api"}, "authorization": null});
        let expected = "AuthorizationPolicy shop/a asks for identity a.b; the client has c.d \
                        (at HTTPRoute shop/api of Server shop/web)";
        assert_eq!(first_cause(&explanation).as_deref(), Some(expected));
        let nothing = json!({"owner": "default deny", "considered": []});
        let expected = "nothing is granted by default deny";
        assert_eq!(first_cause(&nothing).as_deref(), Some(expected));
        assert_eq!(first_cause(&Value::Null), None);
    }
}
