//! Recorded decisions, explained by what there is now.

use super::answer::WhyCase;
use super::in_force::{InForceSource, ask_sidecars, first_cause};
use super::outside::NetworkPolicyList;
use super::recorded::RecordedDecision;
use super::report::{WhyReport, WhyVerdict};
use super::target::TargetPort;
use crate::inventory::Inventory;
use crate::output::{Paint, WideFormat};
use crate::tap::line::visible;
use policy_core::WorkloadKey;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroU16;

/// Result of `portcullis why` about recorded decisions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedReport {
    /// The decisions, each with its explanation.
    pub(crate) decisions: Vec<ExplainedDecision>,
    /// Sidecars that could not be read, lines that could not be read, and what was left out, in words.
    pub(crate) problems: Vec<String>,
}

/// A recorded decision and its explanation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedDecision {
    /// The record.
    pub(crate) recorded: RecordedDecision,
    /// The answer to its question by what there is now; absent: there is none, and `problem` says why.
    pub(crate) why: Option<WhyReport>,
    /// The cause where no policy decides, or the reason why the question cannot be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The state by which recorded decisions are explained.
pub(crate) struct Explainer<'a> {
    /// The objects; absent: the sidecar's own explanation is all there is.
    pub(crate) inventory: Option<&'a Inventory>,
    /// NetworkPolicies.
    pub(crate) network_policies: &'a NetworkPolicyList,
    /// The sidecars whose policy in force is read.
    pub(crate) sidecars: Option<InForceSource<'a>>,
}

impl Explainer<'_> {
    /// Explains a decision.
    pub(crate) async fn explain(&self, recorded: RecordedDecision) -> ExplainedDecision {
        if let Some(cause) = recorded.outbound_cause() {
            return ExplainedDecision { recorded, why: None, problem: Some(cause) };
        }
        let why = match self.inventory {
            None => Err("no objects were read to explain it by".to_owned()),
            Some(inventory) => self.by_objects(inventory, &recorded).await,
        };
        match why {
            Ok(why) => ExplainedDecision { recorded, why: Some(why), problem: None },
            Err(problem) => ExplainedDecision { recorded, why: None, problem: Some(problem) },
        }
    }

    async fn by_objects(
        &self,
        inventory: &Inventory,
        recorded: &RecordedDecision,
    ) -> Result<WhyReport, String> {
        let port = NonZeroU16::new(recorded.port).ok_or("its port is 0")?;
        let (workload, remark) = workload(inventory, &recorded.workload)?;
        let question = recorded.question(inventory, (&workload, port))?;
        let case = WhyCase {
            inventory,
            question,
            target: TargetPort {
                workloads: BTreeMap::from([(workload, port)]),
                host: None,
                remark,
            },
            to: format!("{}:{port}", recorded.workload),
            request: recorded.request(),
            network_policies: self.network_policies,
        };
        let mut report = case.report().map_err(|error| format!("{error:#}"))?;
        if let Some(sidecars) = &self.sidecars {
            ask_sidecars(&mut report, sidecars).await;
        }
        report.question.recorded = Some(recorded.words());
        report.question.recorded_otherwise = otherwise(recorded, &report);
        Ok(report)
    }
}

/// The words where the answer is another one now.
fn otherwise(recorded: &RecordedDecision, report: &WhyReport) -> Option<String> {
    let answer = report.answers.first()?;
    let now = match answer.verdict {
        WhyVerdict::Allow => ("allow", None),
        WhyVerdict::Audit => ("audit", None),
        WhyVerdict::Deny => ("deny", answer.reason),
        WhyVerdict::Open | WhyVerdict::Blocked | WhyVerdict::NotKnown => return None,
    };
    let same = (recorded.decision.as_str(), recorded.reason.as_deref()) == now;
    // A limit refuses what policy permits.
    let limited = recorded.reason.as_deref() == Some("rate_limited");
    if same {
        return None;
    }
    let because = match (limited, &recorded.route) {
        (true, _) => "; a rate limit refused what policy permits".to_owned(),
        (false, _) if answer.in_force.as_ref().is_some_and(|own| own.differs) => String::new(),
        (false, _) => {
            "; policy has changed since, or the request had headers or a query, which are not \
                       recorded"
                .to_owned()
        }
    };
    Some(format!("it was {}{because}", recorded.verdict()))
}

/// The workload of a record. Where a pod is gone, or has another name in manifests, another pod of its
/// owner stands in its place, which a remark says.
fn workload(inventory: &Inventory, name: &str) -> Result<(WorkloadKey, Option<String>), String> {
    let (namespace, pod) = name.split_once('/').ok_or("its workload has no namespace")?;
    let mut own = inventory.compiled.workloads.keys().filter(|key| *key.namespace == *namespace);
    if let Some(key) = own.clone().find(|key| *key.name == *pod) {
        return Ok((key.clone(), None));
    }
    let stem = stem(pod);
    let found = own.find(|key| self::stem(&key.name) == stem);
    let found =
        found.ok_or_else(|| format!("there is no workload {name} in {}", inventory.source))?;
    let remark = format!("{name} is not there; {found} stands in its place");
    Ok((found.clone(), Some(remark)))
}

/// The name of a pod's owner, by the forms of names that controllers give: `web-7d9f8c6b5-x2x4z`, `web-0`.
fn stem(pod: &str) -> &str {
    let is_random = |part: &str| {
        part.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)) && !part.is_empty()
    };
    let Some((first, last)) = pod.rsplit_once('-') else { return pod };
    if last.bytes().all(|b| b.is_ascii_digit()) && !last.is_empty() {
        return first;
    }
    if last.len() != 5 || !is_random(last) {
        return pod;
    }
    match first.rsplit_once('-') {
        Some((name, hash)) if (6..=10).contains(&hash.len()) && is_random(hash) => name,
        Some(_) | None => first,
    }
}

impl RecordedReport {
    /// The answers, one after another.
    pub(crate) fn text(&self, paint: Paint, format: WideFormat) -> String {
        let mut text = String::new();
        for (number, decision) in self.decisions.iter().enumerate() {
            if number > 0 {
                text.push('\n');
            }
            match &decision.why {
                Some(why) => text.push_str(&why.text(paint, format)),
                None => text.push_str(&decision.bare()),
            }
        }
        text
    }
}

impl ExplainedDecision {
    /// The record alone, with the sidecar's own explanation.
    fn bare(&self) -> String {
        let mut text = String::new();
        let problem = self.problem.as_deref().unwrap_or_default();
        let own = self.recorded.explanation.get("explanation").and_then(first_cause);
        let first = own.as_deref().unwrap_or(problem);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {}", self.recorded.verdict(), visible(first));
        let _ = writeln!(text, "  recorded  {}", visible(&self.recorded.words()));
        if own.is_some() {
            let _ = writeln!(text, "  note      this is the sidecar's own explanation: {problem}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_one_owner_have_one_stem() {
        for (pod, owner) in [
            ("web-7d9f8c6b5-x2x4z", "web"),
            ("web-0", "web"),
            ("web-x2x4z", "web"),
            ("web", "web"),
            ("web-server", "web-server"),
            ("my-web-12", "my-web"),
        ] {
            assert_eq!(stem(pod), owner, "{pod}");
        }
    }
}
