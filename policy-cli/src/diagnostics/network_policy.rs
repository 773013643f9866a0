//! NetworkPolicies of Kubernetes: the pods that they select, and the ports that they admit.

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

/// Reads a NetworkPolicy. One that cannot be read selects every pod of its namespace and admits
/// nothing, so that nothing is called admitted that may not be.
pub(crate) fn read(value: &Value) -> NetworkPolicy {
    let mut policy: NetworkPolicy = serde_json::from_value(value.clone()).unwrap_or_default();
    let text = |pointer: &str| super::metadata::text(value, pointer).to_owned();
    policy.metadata.name = Some(text("/metadata/name"));
    policy.metadata.namespace = Some(text("/metadata/namespace"));
    policy
}

/// Returns `namespace/name`.
pub(crate) fn named(policy: &NetworkPolicy) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&policy.metadata.namespace), part(&policy.metadata.name))
}

/// The directions of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Connections that pods receive.
    Ingress,
    /// Connections that pods open.
    Egress,
}

/// True if it decides on the connections of a pod with these labels. `label` returns the value of a
/// label.
pub(crate) fn selects<'a>(
    policy: &NetworkPolicy,
    direction: Direction,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let Some(spec) = &policy.spec else { return true };
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let states = |name: &str| types.iter().any(|one| one == name);
    let concerns = match direction {
        // Without types it is about what is received, and about what is sent if it has rules for that.
        Direction::Ingress => types.is_empty() || states("Ingress"),
        Direction::Egress => states("Egress") || (types.is_empty() && spec.egress.is_some()),
    };
    concerns && spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, label))
}

/// True if labels meet a selector. `label` returns the value of a label.
pub(crate) fn matches<'a>(
    selector: &LabelSelector,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    let mut labels = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    labels.all(|(key, value)| label(key) == Some(value))
        && expressions.all(|expression| {
            let found = label(&expression.key);
            let values = expression.values.as_deref().unwrap_or_default();
            let is_listed = found.is_some_and(|found| values.iter().any(|value| value == found));
            match expression.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                // One that nobody knows yet may select the pod.
                _ => true,
            }
        })
}

/// True if this TCP port, which has this name in the pod that receives, can be reached by some client,
/// or on some pod.
pub(crate) fn admits(policy: &NetworkPolicy, direction: Direction, port: u16, name: &str) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let is_open = |ports: &Option<Vec<NetworkPolicyPort>>| {
        let ports = ports.as_deref().unwrap_or_default();
        ports.is_empty() || ports.iter().any(|admitted| includes(admitted, port, name))
    };
    match direction {
        Direction::Ingress => spec.ingress.iter().flatten().any(|rule| is_open(&rule.ports)),
        Direction::Egress => spec.egress.iter().flatten().any(|rule| is_open(&rule.ports)),
    }
}

/// True if an admitted port is this TCP port, which has this name in the pod that receives.
pub(crate) fn includes(admitted: &NetworkPolicyPort, port: u16, name: &str) -> bool {
    if admitted.protocol.as_deref().is_some_and(|protocol| protocol != "TCP") {
        return false;
    }
    match (&admitted.port, admitted.end_port) {
        (None, _) => true,
        (Some(IntOrString::String(named)), _) => named == name,
        (Some(IntOrString::Int(first)), last) => {
            (*first..=last.unwrap_or(*first)).contains(&i32::from(port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(spec: Value) -> NetworkPolicy {
        read(&json!({"metadata": {"name": "db", "namespace": "shop"}, "spec": spec}))
    }

    #[test]
    fn pods_are_selected_by_labels_for_what_they_receive() {
        let db = |key: &str| (key == "app").then_some("db");
        for (spec, selected) in [
            (json!({"podSelector": {}}), true),
            (json!({"podSelector": {"matchLabels": {"app": "db"}}}), true),
            (json!({"podSelector": {"matchLabels": {"app": "web"}}}), false),
            (json!({"podSelector": {}, "policyTypes": ["Egress"]}), false),
            (json!({"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}), true),
        ] {
            assert_eq!(selects(&policy(spec.clone()), Direction::Ingress, db), selected, "{spec}");
        }
        for (spec, selected) in [
            (json!({"podSelector": {}}), false),
            (json!({"podSelector": {}, "egress": []}), true),
            (json!({"podSelector": {}, "egress": [], "policyTypes": ["Ingress"]}), false),
            (json!({"podSelector": {}, "policyTypes": ["Egress"]}), true),
        ] {
            assert_eq!(selects(&policy(spec.clone()), Direction::Egress, db), selected, "{spec}");
        }
        for (operator, values, selected) in [
            ("In", json!(["web", "db"]), true),
            ("In", json!(["web"]), false),
            ("NotIn", json!(["web"]), true),
            ("NotIn", json!(["db"]), false),
            ("Exists", json!([]), true),
            ("DoesNotExist", json!([]), false),
        ] {
            let expression = json!({"key": "app", "operator": operator, "values": values});
            let spec = json!({"podSelector": {"matchExpressions": [expression]}});
            let selects = selects(&policy(spec), Direction::Ingress, db);
            assert_eq!(selects, selected, "{operator} {values}");
        }
    }

    #[test]
    fn ports_are_admitted_by_number_range_and_name() {
        let rules = |ports: Value| {
            let rules = json!([{"ports": ports}]);
            policy(json!({"podSelector": {}, "ingress": rules, "egress": rules}))
        };
        let admits = |policy: &NetworkPolicy| {
            [Direction::Ingress, Direction::Egress]
                .map(|direction| admits(policy, direction, 4143, "proxy-inbound"))
        };
        for (ports, admitted) in [
            (json!([]), true),
            (json!([{"port": 4143}]), true),
            (json!([{"port": 5432}]), false),
            (json!([{"port": 5432}, {"port": 4000, "endPort": 5000}]), true),
            (json!([{"port": 4144, "endPort": 5000}]), false),
            (json!([{"port": "proxy-inbound"}]), true),
            (json!([{"port": "sql"}]), false),
            (json!([{"protocol": "UDP"}]), false),
            (json!([{"protocol": "TCP"}]), true),
        ] {
            assert_eq!(admits(&rules(ports.clone())), [admitted; 2], "{ports}");
        }
        for nothing in [json!({"podSelector": {}}), json!({"podSelector": {}, "ingress": []})] {
            assert_eq!(admits(&policy(nothing.clone())), [false; 2], "{nothing}");
        }
    }

    #[test]
    fn what_cannot_be_read_admits_nothing() {
        let unreadable = policy(json!({"podSelector": "all"}));
        for direction in [Direction::Ingress, Direction::Egress] {
            assert!(selects(&unreadable, direction, |_| None));
            assert!(!admits(&unreadable, direction, 4143, "proxy-inbound"));
        }
        assert_eq!(named(&unreadable), "shop/db");
    }
}
