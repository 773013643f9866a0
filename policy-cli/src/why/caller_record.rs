//! Connections that the client's own sidecar refused: a certificate that has expired, other roots, a
//! controller that does not answer, a Service without endpoints. The receiver knows nothing of them.

use super::cause::Cause;
use super::recorded::{RecordedDecision, ip};
use super::report::{Answer, CalledWorkload, WhyReport, WhyVerdict};
use crate::admin_port::{AdminQuery, SidecarAdmin, ask};
use crate::cluster::Cluster;
use futures_util::future::join_all;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use policy_core::WorkloadKey;
use serde_json::Value;
use std::net::IpAddr;

/// The most answers whose clients are read, and the most pods of a client.
const ANSWERS: usize = 8;
const PODS: usize = 2;
/// The longest time since a refusal that is a first cause.
const RECENT: SignedDuration = SignedDuration::from_mins(10);

/// Asks the sidecars of the client's pods what they refused on the way to the workload, and adds it to
/// the causes: in front where policy allows the access and the refusal is recent. A sidecar that does not
/// answer says nothing.
pub(crate) async fn ask_callers(report: &mut WhyReport, cluster: &Cluster) {
    let asking = report.answers.iter_mut().take(ANSWERS).map(|answer| async move {
        let called = &answer.called;
        let of_pods = called.callers.iter().take(PODS).map(|caller| async move {
            let port = SidecarAdmin::pod(cluster, &caller.namespace, &caller.name);
            let query = AdminQuery { path: "/decisions", parameters: Vec::new() };
            let recorded = ask(&port, &query, "record decisions").await;
            let now = Timestamp::now();
            recorded.map(|recorded| called.causes(caller, &recorded, now)).unwrap_or_default()
        });
        let found = join_all(of_pods).await.concat();
        add(answer, found);
    });
    join_all(asking).await;
}

/// A refusal of a client's sidecar; `is_recent`: it may be the one that is looked for.
#[derive(Clone)]
struct CallerCause {
    cause: Cause,
    is_recent: bool,
}

fn add(answer: &mut Answer, found: Vec<CallerCause>) {
    let is_allowed = match answer.verdict {
        WhyVerdict::Allow | WhyVerdict::Audit => true,
        WhyVerdict::Deny | WhyVerdict::Open | WhyVerdict::Blocked | WhyVerdict::NotKnown => false,
    };
    let (first, behind): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| is_allowed && found.is_recent);
    let _ = answer.causes.splice(0..0, first.into_iter().map(|found| found.cause));
    answer.causes.extend(behind.into_iter().map(|found| found.cause));
}

impl CalledWorkload {
    /// The refusals in the record of a caller's sidecar that are about this workload, as causes. An answer
    /// about another workload has none.
    fn causes(&self, caller: &WorkloadKey, recorded: &Value, now: Timestamp) -> Vec<CallerCause> {
        let caller = format!("{}/{}", caller.namespace, caller.name);
        if recorded.get("workload").and_then(Value::as_str) != Some(&caller) {
            return Vec::new();
        }
        let groups = recorded.get("groups").and_then(Value::as_array);
        let cause = |group: &Value| {
            let decision = RecordedDecision::of_group(&caller, group)?;
            if !decision.outbound || !self.is_subject(&decision, &addresses(group)) {
                return None;
            }
            let cause = decision.outbound_cause()?;
            let summary = format!("{cause} ({})", decision.words());
            let last = decision.last.as_ref().and_then(|last| last.parse::<Timestamp>().ok());
            let is_recent = last.is_some_and(|last| now.duration_since(last) <= RECENT);
            let cause = Cause { summary, object: Some(format!("Pod {caller}")), place: None };
            Some(CallerCause { cause, is_recent })
        };
        groups.into_iter().flatten().filter_map(cause).collect()
    }

    /// `dialled`: the addresses of the samples. Without samples the network of the group decides.
    fn is_subject(&self, decision: &RecordedDecision, dialled: &[IpAddr]) -> bool {
        if let Some(ports) = self.services.get(&decision.subject) {
            return ports.contains(&decision.port);
        }
        let Ok(network) = decision.subject.parse::<IpNet>() else { return false };
        let mut own = self.addresses.iter();
        decision.port == self.port
            && match dialled.is_empty() {
                true => own.any(|address| network.contains(address)),
                false => own.any(|address| dialled.contains(address)),
            }
    }
}

/// The addresses of the samples of a group.
fn addresses(group: &Value) -> Vec<IpAddr> {
    let samples = group.get("samples").and_then(Value::as_array);
    let address = |sample: &Value| ip(sample.get("address")?.as_str()?);
    samples.into_iter().flatten().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    fn called() -> CalledWorkload {
        CalledWorkload {
            callers: Vec::new(),
            services: BTreeMap::from([("web.shop".to_owned(), BTreeSet::from([80]))]),
            addresses: vec![[10, 1, 2, 3].into()],
            port: 8080,
        }
    }

    fn group(subject: Value, port: u16) -> Value {
        json!({
            "id": "kwy4000001", "side": "outbound", "subject": subject, "port": port,
            "decision": "deny", "reason": "identity", "on": "connection", "count": 3,
            "last": "2026-01-01T00:00:00Z",
        })
    }

    fn causes(workload: &str, group: &Value, now: &str) -> Vec<(String, bool)> {
        let recorded = json!({"workload": workload, "groups": [group]});
        let caller = WorkloadKey::pod("shop", "cart-0");
        let found = called().causes(&caller, &recorded, now.parse().unwrap());
        found.into_iter().map(|found| (found.cause.summary, found.is_recent)).collect()
    }

    const SOON: &str = "2026-01-01T00:09:00Z";

    #[test]
    fn refusals_of_the_clients_sidecar_count_that_are_about_this_workload() {
        let sampled = |address: &str| {
            let mut group = group(json!({"network": "10.1.2.0/24"}), 8080);
            group["samples"] = json!([{"address": address}]);
            group
        };
        for own in [
            group(json!({"service": "web.shop"}), 80),
            group(json!({"network": "10.1.2.0/24"}), 8080),
            sampled("10.1.2.3:8080"),
        ] {
            let found = causes("shop/cart-0", &own, SOON);
            let (summary, is_recent) = &found[0];
            assert!(
                summary.contains("the sidecar of shop/cart-0 refused the connection: no endpoint")
            );
            assert!(summary.contains("3 connections of shop/cart-0"), "{found:?}");
            assert!(*is_recent);
        }
        let mut inbound = group(json!({"service": "web.shop"}), 80);
        inbound["side"] = json!("inbound");
        for other in [
            group(json!({"service": "web.bank"}), 80),
            group(json!({"service": "web.shop"}), 81),
            group(json!({"network": "10.1.2.0/24"}), 9090),
            group(json!({"network": "10.9.0.0/24"}), 8080),
            sampled("10.1.2.4:8080"),
            inbound,
        ] {
            assert_eq!(causes("shop/cart-0", &other, SOON), []);
        }
    }

    #[test]
    fn a_refusal_of_long_ago_is_no_first_cause_and_no_pod_answers_for_another() {
        let own = group(json!({"service": "web.shop"}), 80);
        assert!(!causes("shop/cart-0", &own, "2026-01-01T00:11:00Z")[0].1);
        assert_eq!(causes("bank/vault-0", &own, SOON), []);
    }
}
