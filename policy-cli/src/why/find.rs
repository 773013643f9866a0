//! Recorded decisions in the records of sidecars.

use super::recorded::RecordedDecision;
use crate::admin_port::{AdminError, AdminQuery, SidecarAdmin, ask};
use crate::cluster::api_error::explain;
use crate::cluster::{Cluster, Scope, list};
use anyhow::bail;
use futures_util::StreamExt;
use policy_core::{DecisionId, PodPart};
use serde_json::Value;

/// Sidecars that are read at the same time.
const AT_ONCE: usize = 16;
/// The words that follow "a version that does not".
const MISSING: &str = "record decisions";

/// Decisions that sidecars recorded, and the sidecars that could not be read.
#[derive(Debug, Default)]
pub(crate) struct FoundDecisions {
    /// The decisions.
    pub(crate) decisions: Vec<RecordedDecision>,
    /// The problems, in words.
    pub(crate) problems: Vec<String>,
}

/// Returns the decision of an id.
///
/// # Errors
/// No sidecar has it, with the reason of each that could have had it.
pub(crate) async fn by_id(
    ports: Vec<SidecarAdmin>,
    id: DecisionId,
) -> anyhow::Result<FoundDecisions> {
    let parameters = vec![("id", id.to_string())];
    let query = AdminQuery { path: "/decisions", parameters };
    let FoundDecisions { mut decisions, problems } = of_ports(ports, &query).await;
    decisions.retain(|decision| decision.id.as_deref() == Some(&id.to_string()));
    if decisions.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    // Other pods' ids may begin alike.
    Ok(FoundDecisions { decisions, problems: Vec::new() })
}

/// Returns the latest decisions of sidecars.
///
/// # Errors
/// None of them could be read.
pub(crate) async fn latest(
    ports: Vec<SidecarAdmin>,
    most: usize,
) -> anyhow::Result<FoundDecisions> {
    let (query, number) = (AdminQuery { path: "/decisions", parameters: Vec::new() }, ports.len());
    let mut found = of_ports(ports, &query).await;
    if number > 0 && found.problems.len() >= number {
        bail!("no sidecar could be asked:\n{}", found.problems.join("\n"));
    }
    found.decisions.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.id.cmp(&b.id)));
    found.decisions.truncate(most);
    Ok(found)
}

async fn of_ports(ports: Vec<SidecarAdmin>, query: &AdminQuery) -> FoundDecisions {
    let answers = futures_util::stream::iter(ports).map(|port| async move {
        let answer = ask(&port, query, MISSING).await;
        (port, answer)
    });
    let answers: Vec<(SidecarAdmin, Result<Value, AdminError>)> =
        answers.buffered(AT_ONCE).collect().await;
    let mut found = FoundDecisions::default();
    for (port, answer) in answers {
        let read = answer.map_err(|error| error.message);
        match read.and_then(|answer| of_answer(port.workload().as_deref(), &answer)) {
            Ok(decisions) => found.decisions.extend(decisions),
            Err(problem) => found.problems.push(format!("{}: {problem}", port.name())),
        }
    }
    found
}

/// The groups of an answer of the sidecar of `wanted`, or of any. A pod answers by itself what it likes.
///
/// # Errors
/// The answer is about another workload.
fn of_answer(wanted: Option<&str>, answer: &Value) -> Result<Vec<RecordedDecision>, String> {
    let workload = answer.get("workload").and_then(Value::as_str).unwrap_or_default();
    if wanted.is_some_and(|wanted| wanted != workload) {
        return Err(format!("its answer is about `{workload}`, and is left out"));
    }
    let groups = answer.get("groups").and_then(Value::as_array);
    let read = |group| RecordedDecision::of_group(workload, group);
    Ok(groups.into_iter().flatten().filter_map(read).collect())
}

/// The sidecars whose ids begin as this one does.
///
/// # Errors
/// There is none, or pods may not be listed.
pub(crate) async fn of_id(cluster: &Cluster, id: DecisionId) -> anyhow::Result<Vec<SidecarAdmin>> {
    let path = match &cluster.scope {
        Scope::Namespace(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        Scope::All => "/api/v1/pods".to_owned(),
    };
    let pods = list::pages(&cluster.client, &path)
        .await
        .map_err(|error| explain(&error, &cluster.source, "list pods"))?;
    let is_own = |pod: &&Value| PodPart::of(&id_source(pod)) == id.pod();
    let ports: Vec<SidecarAdmin> = pods
        .iter()
        .filter(is_own)
        .map(|pod| {
            let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            SidecarAdmin::pod(cluster, &namespace, &name)
        })
        .collect();
    if ports.is_empty() {
        let prefix: String = id.to_string().chars().take(4).collect();
        bail!(
            "no pod in {} makes ids that begin with `{prefix}`: it is gone, or in another namespace \
             (-n, -A); `--log FILE` explains what its log has",
            cluster.source
        );
    }
    Ok(ports)
}

/// The text that the ids of a pod's sidecar begin with a part of: the uid, or the name of the workload where
/// the sidecar does not know the uid.
fn id_source(pod: &Value) -> String {
    let named = |list: &str| pod.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let containers = named("/spec/containers").chain(named("/spec/initContainers"));
    let settings = containers.filter_map(|one| one.get("env")?.as_array()).flatten();
    let knows_uid =
        settings.filter_map(|one| one.get("name")).any(|name| name == "PORTCULLIS_POD_UID");
    match text(pod, "/metadata/uid") {
        uid if knows_uid && !uid.is_empty() => uid,
        _ => format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")),
    }
}

fn text(pod: &Value, pointer: &str) -> String {
    pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_cannot_answer_for_another_workload() {
        let group = json!({
            "id": "kwy4000001", "side": "inbound", "subject": {"identity": "cart.shop"}, "port": 80,
            "decision": "deny", "reason": "unauthorized", "on": "connection", "count": 3,
        });
        let forged = json!({"workload": "bank/vault-0", "groups": [group]});
        let refused = of_answer(Some("shop/web-0"), &forged);
        let problem = "its answer is about `bank/vault-0`, and is left out";
        assert_eq!(refused, Err(problem.to_owned()));
        for wanted in [Some("bank/vault-0"), None] {
            assert_eq!(of_answer(wanted, &forged).unwrap().len(), 1, "{wanted:?}");
        }
    }

    #[test]
    fn the_ids_of_a_sidecar_that_knows_the_pods_uid_are_not_found_by_a_name() {
        let pod = |env: Value| {
            json!({
                "metadata": {"namespace": "shop", "name": "web-0", "uid": "1-2"},
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"env": env}]},
            })
        };
        assert_eq!(id_source(&pod(json!([{"name": "PORTCULLIS_POD_UID"}]))), "1-2");
        assert_eq!(id_source(&pod(json!([]))), "shop/web-0");
    }
}
