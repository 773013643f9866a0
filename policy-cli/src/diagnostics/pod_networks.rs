//! Pods outside the networks whose addresses sidecars look up.

use super::check::Check;
use super::fetch::FetchResult;
use super::metadata::{items, name, namespace, text};
use super::result::{CheckResult, abbreviated};
use ipnet::IpNet;
use serde::Serialize;
use serde_json::Value;
use std::net::IpAddr;

/// A pod with addresses that no sidecar looks up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OutsidePod {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// Those of its addresses.
    pub(crate) addresses: Vec<String>,
}

/// Returns the pods with an address outside `networks`, in order. Pods that have ended, or that use their
/// node's network, have none of their own.
pub(crate) fn outside<'p>(
    pods: impl Iterator<Item = &'p Value>,
    networks: &[IpNet],
) -> Vec<OutsidePod> {
    let is_outside = |address: &IpAddr| {
        let address = policy_core::fold_mapped(*address);
        !networks.iter().any(|network| network.contains(&address))
    };
    let mut found: Vec<OutsidePod> = pods
        .filter_map(|pod| {
            let addresses = addresses(pod).into_iter().filter(is_outside);
            let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
            let (namespace, name) = (namespace(pod).to_owned(), name(pod).to_owned());
            (!addresses.is_empty()).then_some(OutsidePod { namespace, name, addresses })
        })
        .collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}

fn addresses(pod: &Value) -> Vec<IpAddr> {
    let on_host = pod.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true);
    if on_host || ["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) {
        return Vec::new();
    }
    let listed = items(pod, "/status/podIPs").map(|one| text(one, "/ip"));
    let one = Some(text(pod, "/status/podIP"));
    let mut all: Vec<IpAddr> = listed.chain(one).filter_map(|text| text.parse().ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Checks the pods that `has_sidecar` selects. `networks`: those that are looked up; `None` if none is,
/// because outbound discovery is off.
pub(crate) fn pod_networks(
    pods: &FetchResult<Vec<Value>>,
    networks: Option<&[IpNet]>,
    has_sidecar: impl Fn(&Value) -> bool,
) -> CheckResult {
    let check = Check::PodNetworks;
    let Some(networks) = networks else {
        return CheckResult::pass(check, "outbound discovery is off: no address is looked up");
    };
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => return CheckResult::unknown(check, why),
    };
    let found = outside(pods.iter().filter(|pod| has_sidecar(pod)), networks);
    if found.is_empty() {
        return CheckResult::pass(check, "the addresses of all pods with sidecars are looked up");
    }
    let names: Vec<String> = found
        .iter()
        .map(|pod| format!("{}/{} ({})", pod.namespace, pod.name, pod.addresses.join(", ")))
        .collect();
    CheckResult::warn(
        check,
        format!(
            "{} pods are outside the networks that sidecars look up, so that what others send to them \
             leaves in plaintext: {}",
            names.len(),
            abbreviated(&names)
        ),
        "name their networks in policy.clusterNetworks, or in outbound.networks if that is set, and \
         recreate the pods that call them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn pod(name: &str, spec: Value, status: Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": status})
    }

    #[test]
    fn pods_whose_addresses_no_sidecar_looks_up_are_named_with_them() {
        let networks: Vec<IpNet> =
            ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).into();
        let both = json!({"podIP": "100.70.0.1",
            "podIPs": [{"ip": "100.70.0.1"}, {"ip": "fd00::1"}], "phase": "Running"});
        let pods = [
            pod("web", json!({}), both),
            pod("inside", json!({}), json!({"podIP": "10.1.0.1"})),
            pod("host", json!({"hostNetwork": true}), json!({"podIP": "192.0.2.1"})),
            pod("ended", json!({}), json!({"podIP": "192.0.2.2", "phase": "Succeeded"})),
            pod("new", json!({}), json!({})),
        ];
        let expected = OutsidePod {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            addresses: vec!["100.70.0.1".to_owned()],
        };
        assert_eq!(outside(pods.iter(), &networks), [expected]);
        let pods = Ok(pods.to_vec());
        let told = pod_networks(&pods, Some(&networks), |_| true);
        assert_eq!(told.outcome, CheckOutcome::Warn);
        assert!(told.message.ends_with(": shop/web (100.70.0.1)"), "{}", told.message);
        let outcome = |pods: &FetchResult<_>, networks: Option<&[IpNet]>, has| {
            pod_networks(pods, networks, |_| has).outcome
        };
        assert_eq!(outcome(&pods, Some(&networks), false), CheckOutcome::Pass);
        assert_eq!(outcome(&pods, None, true), CheckOutcome::Pass);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(outcome(&unread, Some(&networks), true), CheckOutcome::Unknown);
    }
}
