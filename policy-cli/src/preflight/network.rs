//! What the cluster's network does to connections between sidecars.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::text;
use crate::diagnostics::network_policy::{Direction, admits, named, read, selects};
use crate::diagnostics::result::{CheckResult, abbreviated};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use policy_crds::SidecarMark;
use serde_json::Value;

/// Checks the NetworkPolicies of the namespaces that are to have sidecars.
pub(super) fn network_policies(
    policies: &FetchResult<Vec<Value>>,
    has_sidecars: impl Fn(&str) -> bool,
) -> CheckResult {
    let check = Check::NetworkPolicies;
    let policies = match policies {
        Ok(policies) => policies,
        Err(why) => return CheckResult::unknown(check, why),
    };
    let port = SidecarMark::INBOUND_PORT;
    let concerned = policies.iter().map(read).filter(|policy| {
        policy.metadata.namespace.as_deref().is_some_and(&has_sidecars) && is_of_ingress(policy)
    });
    let without: Vec<String> = concerned
        .filter(|policy| !admits(policy, Direction::Ingress, port, "proxy-inbound"))
        .map(|policy| named(&policy))
        .collect();
    if without.is_empty() {
        let message = format!("no NetworkPolicy keeps clients from port {port} of sidecars");
        return CheckResult::pass(check, message);
    }
    CheckResult::warn(
        check,
        format!("NetworkPolicies that do not admit port {port}: {}", abbreviated(&without)),
        format!(
            "admit {port} where pods have opaque ports, or with outbound.transport=header: pods with the \
             outbound half reach these by it; `portcullis check --outbound` names them later"
        ),
    )
}

/// True if a NetworkPolicy decides what some pods receive.
fn is_of_ingress(policy: &NetworkPolicy) -> bool {
    let mut any = policy.clone();
    if let Some(spec) = &mut any.spec {
        spec.pod_selector = None;
    }
    selects(&any, Direction::Ingress, |_| None)
}

/// Checks the settings of Cilium, the object of its ConfigMap.
pub(super) fn socket_balancer(settings: &FetchResult<Option<Value>>) -> CheckResult {
    let check = Check::SocketBalancer;
    let settings = match settings {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            return CheckResult::pass(check, "no load balancer of sockets is known to be here");
        }
        Err(why) => return CheckResult::unknown(check, why),
    };
    let is = |key: &str, value: &str| text(settings, &format!("/data/{key}")) == value;
    let balances = is("bpf-lb-sock", "true")
        || is("enable-host-reachable-services", "true")
        || is("kube-proxy-replacement", "true")
        || is("kube-proxy-replacement", "strict");
    if !balances {
        return CheckResult::pass(check, "Cilium leaves sockets of pods to the sidecar");
    }
    if is("bpf-lb-sock-hostns-only", "true") {
        return CheckResult::pass(check, "Cilium balances sockets of nodes alone");
    }
    CheckResult::warn(
        check,
        "Cilium chooses an endpoint when a pod's socket connects to a Service, so that the sidecar sees \
         the pod's address alone and cannot choose another when that one fails",
        "set `socketLB.hostNamespaceOnly: true` in Cilium's chart; mutual TLS works without it, too",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn policy(namespace: &str, name: &str, spec: Value) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
    }

    #[test]
    fn network_policies_without_the_port_of_sidecars_are_named() {
        let ingress = |port: u16| {
            json!({"podSelector": {"matchLabels": {"app": "db"}},
            "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": port}]}]})
        };
        let all = Ok(vec![
            policy("shop", "db", ingress(5432)),
            policy("shop", "mesh", ingress(4143)),
            policy("shop", "out", json!({"podSelector": {}, "policyTypes": ["Egress"]})),
            policy("bank", "db", ingress(5432)),
        ]);
        let result = network_policies(&all, |namespace| namespace == "shop");
        assert_eq!(result.outcome, CheckOutcome::Warn);
        assert_eq!(result.message, "NetworkPolicies that do not admit port 4143: shop/db");
        let result = network_policies(&all, |_| false);
        assert_eq!(result.outcome, CheckOutcome::Pass);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(network_policies(&unread, |_| true).outcome, CheckOutcome::Unknown);
    }

    #[test]
    fn a_load_balancer_of_sockets_is_told_unless_it_is_for_nodes_alone() {
        let outcome = |data: Value| socket_balancer(&Ok(Some(json!({"data": data})))).outcome;
        let (pass, warn) = (CheckOutcome::Pass, CheckOutcome::Warn);
        for (data, expected) in [
            (json!({}), pass),
            (json!({"bpf-lb-sock": "false"}), pass),
            (json!({"bpf-lb-sock": "true"}), warn),
            (json!({"kube-proxy-replacement": "true"}), warn),
            (json!({"kube-proxy-replacement": "strict"}), warn),
            (json!({"bpf-lb-sock": "true", "bpf-lb-sock-hostns-only": "true"}), pass),
            (json!({"bpf-lb-sock": "true", "bpf-lb-sock-hostns-only": "false"}), warn),
        ] {
            assert_eq!(outcome(data.clone()), expected, "{data}");
        }
        assert_eq!(socket_balancer(&Ok(None)).outcome, pass);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(socket_balancer(&unread).outcome, CheckOutcome::Unknown);
    }
}
