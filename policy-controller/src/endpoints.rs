//! Finds the replicas through the EndpointSlices of their Service.
//!
//! They are listed every few seconds: a watch would cost more than it saves, and a delay of seconds
//! is acceptable for a replica that came or went.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::ListParams;
use kube::{Api, Client};
use policy_discovery::peers::{Replica, Replicas};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Interval between lists.
const INTERVAL: Duration = Duration::from_secs(3);

/// Timeout of one list.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most replicas supported; with more the list is unusable, and an error says so.
const MAX_REPLICAS: usize = 100;

/// Name of the port of the slices, where they have several.
const PORT_NAME: &str = "grpc";

/// Name and address of this replica among the endpoints.
#[derive(Clone, Debug)]
pub struct OwnName {
    /// Name of its pod.
    pub name: Arc<str>,
    /// Address of its pod, if known.
    pub address: Option<IpAddr>,
}

/// Follows the endpoints of `service` until the receiver is dropped. The last list stays valid
/// while the API server is away.
pub async fn follow_endpoints(
    client: Client,
    namespace: Arc<str>,
    service: Arc<str>,
    own: OwnName,
    replicas: watch::Sender<Arc<Replicas>>,
) {
    let slices: Api<EndpointSlice> = Api::namespaced(client, &namespace);
    let wanted = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    loop {
        let listed = tokio::time::timeout(TIMEOUT, slices.list(&wanted)).await;
        let found = match listed {
            Ok(Ok(list)) => read(&list.items, &own),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
        };
        replicas.send_if_modified(|known| take(known, found, &service));
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = replicas.closed() => return,
        }
    }
}

/// Replaces the known replicas by those found; true if they differ.
fn take(
    known: &mut Arc<Replicas>,
    found: Result<BTreeSet<Replica>, String>,
    service: &str,
) -> bool {
    let now = match found {
        Ok(replicas) => Replicas::Known(replicas),
        Err(error) => {
            tracing::warn!(service, error, "cannot list the replicas");
            if matches!(**known, Replicas::Known(_)) {
                return false;
            }
            let why = format!("the endpoints of Service {service} cannot be listed: {error}");
            Replicas::Unknown(why.into())
        }
    };
    let differs = **known != now;
    if differs {
        *known = Arc::new(now);
    }
    differs
}

/// Every endpoint but our own, ready or not: one that is not ready still has clients.
fn read(slices: &[EndpointSlice], own: &OwnName) -> Result<BTreeSet<Replica>, String> {
    let mut found = BTreeSet::new();
    for slice in slices {
        let Some(port) = port(slice) else { continue };
        for endpoint in &slice.endpoints {
            found.extend(replica(endpoint, port, own));
        }
        if found.len() > MAX_REPLICAS {
            return Err(format!("there are more than {MAX_REPLICAS}"));
        }
    }
    Ok(found)
}

fn port(slice: &EndpointSlice) -> Option<u16> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let named = ports.iter().find(|port| port.name.as_deref() == Some(PORT_NAME));
    let only = match ports {
        [only] => Some(only),
        _ => None,
    };
    let number = named.or(only)?.port?;
    u16::try_from(number).ok().filter(|number| *number != 0)
}

fn replica(endpoint: &Endpoint, port: u16, own: &OwnName) -> Option<Replica> {
    // All addresses of an endpoint are the same pod's.
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let name = endpoint.target_ref.as_ref().and_then(|target| target.name.as_deref());
    if name == Some(&*own.name) || own.address == Some(address) {
        return None;
    }
    Some(Replica { address: SocketAddr::new(address, port), name: name.map(Arc::from) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(json: serde_json::Value) -> Vec<EndpointSlice> {
        serde_json::from_value(json).unwrap()
    }

    fn own() -> OwnName {
        OwnName { name: "policy-0".into(), address: Some([10, 0, 0, 10].into()) }
    }

    fn endpoint(address: &str, name: &str, ready: bool) -> serde_json::Value {
        serde_json::json!({
            "addresses": [address],
            "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "name": name},
        })
    }

    #[test]
    fn every_endpoint_but_our_own_is_a_replica_ready_or_not() {
        let slices = slices(serde_json::json!([
            {
                "addressType": "IPv4", "metadata": {},
                "ports": [{"name": "admin", "port": 8080}, {"name": "grpc", "port": 8090}],
                "endpoints": [
                    endpoint("10.0.0.9", "policy-0", true),
                    endpoint("10.0.0.10", "policy-7", true),
                    endpoint("10.0.0.1", "policy-1", true),
                    endpoint("10.0.0.2", "policy-2", false),
                ],
            },
            {
                "addressType": "IPv4", "metadata": {}, "ports": [{"name": "other", "port": 9}],
                "endpoints": [{"addresses": ["10.0.0.3"]}],
            },
            {"addressType": "IPv4", "metadata": {}, "endpoints": [{"addresses": ["10.0.0.4"]}]},
        ]));
        let found = read(&slices, &own()).unwrap();
        let names: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["policy-1 (10.0.0.1:8090)", "policy-2 (10.0.0.2:8090)", "10.0.0.3:9"]);
    }

    #[test]
    fn what_was_known_stays_known_while_nobody_answers() {
        let mut known = Arc::new(Replicas::Unknown("not listed yet".into()));
        assert!(take(&mut known, Err("refused".to_owned()), "policy"));
        let why = "the endpoints of Service policy cannot be listed: refused";
        assert_eq!(*known, Replicas::Unknown(why.into()));
        let some = BTreeSet::from([Replica { address: "10.0.0.1:1".parse().unwrap(), name: None }]);
        assert!(take(&mut known, Ok(some.clone()), "policy"));
        assert!(!take(&mut known, Err("refused".to_owned()), "policy"));
        assert!(!take(&mut known, Ok(some.clone()), "policy"));
        assert_eq!(*known, Replicas::Known(some));
        assert!(take(&mut known, Ok(BTreeSet::new()), "policy"));
    }
}
