//! The answers to a question, one for each group of workloads that agree.

use super::cause::Cause;
use crate::cluster::QuerySource;
use crate::cluster::permissions::ListFailure;
use crate::cluster::settings::Settings;
use policy_core::WorkloadKey;
use policy_core::explain::Explanation;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Result of `portcullis why`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyReport {
    /// Source of the objects.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// Settings that the objects are compiled with.
    pub(crate) settings: Settings,
    /// Kinds that could not be listed.
    #[serde(rename = "gaps")]
    pub(crate) list_failures: Vec<ListFailure>,
    /// The question.
    pub(crate) question: QuestionItem,
    /// The answers. Never empty.
    pub(crate) answers: Vec<Answer>,
}

/// A question as it was understood.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionItem {
    /// The client.
    pub(crate) from: String,
    /// The port, as it was named.
    pub(crate) to: String,
    /// The request; absent: the connection itself.
    pub(crate) request: Option<String>,
    /// A remark about the port that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remark: Option<String>,
    /// The record that the question comes from, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<String>,
    /// The recorded decision, where the answer is another one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded_otherwise: Option<String>,
}

/// The outcome of a connection or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WhyVerdict {
    /// Permitted.
    Allow,
    /// Permitted by a grant that asks for a line in the log.
    Audit,
    /// Refused.
    Deny,
    /// Nothing decides: everybody reaches the application.
    Open,
    /// The connection never arrives.
    Blocked,
    /// It depends on what may not be listed.
    NotKnown,
}

impl WhyVerdict {
    /// The outcome in a word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Audit => "allowed, audited",
            Self::Deny => "denied",
            Self::Open => "open",
            Self::Blocked => "blocked",
            Self::NotKnown => "not known",
        }
    }
}

/// The answer for workloads that agree.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// The workloads.
    pub(crate) workloads: Vec<String>,
    /// The port.
    pub(crate) port: u16,
    /// The outcome.
    pub(crate) verdict: WhyVerdict,
    /// The stable reason of a refusal by policy.
    pub(crate) reason: Option<&'static str>,
    /// The causes, the first cause first. Never empty.
    pub(crate) causes: Vec<Cause>,
    /// Resources that decide and may not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_known: Vec<String>,
    /// The client as the sidecar sees it.
    pub(crate) client: String,
    /// The way of the decision; absent where a step before the policy refused the request.
    pub(crate) explanation: Option<Explanation>,
    /// The file and line of the objects that the explanation names, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) places: Vec<PlaceItem>,
    /// The least change that would allow it.
    pub(crate) least_change: ChangeItem,
    /// The answer of a sidecar of these workloads, by the policy that it has in force; absent: none was
    /// asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<InForceItem>,
    /// The question to a sidecar of these workloads.
    #[serde(skip)]
    pub(super) sidecar_question: Option<SidecarQuestion>,
    /// The ends of the connection, as the client's sidecar names them.
    #[serde(skip)]
    pub(super) called: CalledWorkload,
}

/// The answer of one sidecar.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InForceItem {
    /// The sidecar: its pod, or its address.
    pub(crate) sidecar: String,
    /// The reason why there is no answer; absent: there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The state of the port's policy.
    pub(crate) state: Option<String>,
    /// The revision.
    pub(crate) revision: Option<String>,
    /// Time since it was last known to be the newest, in seconds.
    pub(crate) stale_seconds: Option<u64>,
    /// `allow`, `audit` or `deny`.
    pub(crate) decision: Option<String>,
    /// The reason of a denial.
    pub(crate) reason: Option<String>,
    /// True if the objects say otherwise.
    pub(crate) differs: bool,
    /// The way of the decision, as in `answers[].explanation`.
    pub(crate) explanation: Value,
}

/// The question of an answer, as the admin port reads it, and the decision of the objects.
#[derive(Clone, Debug)]
pub(crate) struct SidecarQuestion {
    /// The workload of the sidecar.
    pub(super) workload: WorkloadKey,
    /// The parameters of `/explain`.
    pub(super) parameters: Vec<(&'static str, String)>,
    /// The decision of the objects and its reason; absent: a step before policy decided.
    pub(super) decided: Option<(&'static str, Option<&'static str>)>,
}

/// The ends of a connection, as the client's sidecar names them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CalledWorkload {
    /// The pods that may be the client.
    pub(super) callers: Vec<WorkloadKey>,
    /// The Services that lead to the workload, as `name.namespace`, with their ports that lead to this one.
    pub(super) services: BTreeMap<String, BTreeSet<u16>>,
    /// Its addresses and the port.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
}

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlaceItem {
    /// The object, as `Kind namespace/name`.
    pub(crate) object: String,
    /// Its file and line, or how `kubectl` names it.
    pub(crate) place: String,
}

/// Changes that would allow what is refused.
#[derive(Default, Serialize)]
pub(crate) struct ChangeItem {
    /// Proposals, the one that newly allows least first.
    pub(crate) proposals: Vec<ProposalItem>,
    /// Changes that are not proposed, and whose they are.
    pub(crate) notes: Vec<String>,
}

/// Objects to apply.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProposalItem {
    /// The objects.
    pub(crate) objects: Vec<Value>,
    /// Everything that they newly allow.
    pub(crate) newly_allows: Vec<NewlyAllowed>,
    /// True if not every request could be asked about.
    pub(crate) incomplete: bool,
}

/// A client that may newly send requests of a route to a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NewlyAllowed {
    /// The client.
    pub(crate) client: String,
    /// The workload.
    pub(crate) workload: String,
    /// Its port.
    pub(crate) port: u16,
    /// The route.
    pub(crate) route: String,
}
