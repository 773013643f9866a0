//! What a cluster adds to Services and pods: addresses of both, and the endpoints of Services.

use ipnet::Ipv4Net;
use policy_core::AddressFamily;
use policy_crds::resource::{
    EndpointSlice, Pod, PodSidecar, PodTarget, PortRef, Service, ServicePort, SliceEndpoint,
    SlicePort,
};
use policy_crds::{Body, Kind, Object, ObjectKey, ObjectMeta, Resource};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The network of Services whose manifests state no address.
pub(crate) const SERVICE_NETWORK: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 96, 0, 0), 12);

/// Objects by name.
pub(crate) type Objects = BTreeMap<ObjectKey, Arc<Object>>;

/// The pods that run, and the addresses of Services. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LocalServices {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The ports of pods: where each listens.
    pods: BTreeMap<ObjectKey, BTreeMap<NonZeroU16, SocketAddr>>,
    /// The addresses given to Services. A Service keeps its address.
    addresses: BTreeMap<ObjectKey, Ipv4Addr>,
}

impl LocalServices {
    /// No pod runs.
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), changed: watch::Sender::new(0) }
    }

    /// Replaces the pods that run, each with the address of every port.
    pub(crate) fn announce(&self, pods: BTreeMap<ObjectKey, BTreeMap<NonZeroU16, SocketAddr>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pods != pods {
            state.pods = pods;
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Counter that is incremented when other pods run.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The objects as a cluster would have them: pods with addresses, Services with addresses and
    /// endpoints. Nothing differs before a pod runs.
    pub(crate) fn complete(&self, given: &Objects) -> Objects {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut completed = given.clone();
        if state.pods.is_empty() {
            return completed;
        }
        for (key, object) in given {
            let mut object = Object::clone(object);
            if let Body::Valid(Resource::Pod(pod)) = &mut object.body {
                if let Some(ports) = state.pods.get(key) {
                    run(pod, ports);
                }
            } else if let Body::Valid(Resource::Service(service)) = &mut object.body {
                state.give_address(key, service);
                let slices = state.endpoints(given, key, service);
                completed.extend(slices.into_iter().map(|own| (own.meta.key.clone(), own)));
            }
            completed.insert(key.clone(), Arc::new(object));
        }
        completed
    }
}

/// Every pod that runs here has a sidecar, whose identity is that of the ServiceAccount.
fn run(pod: &mut Pod, ports: &BTreeMap<NonZeroU16, SocketAddr>) {
    pod.addresses = ports.values().map(SocketAddr::ip).take(1).collect();
    pod.sidecar = PodSidecar::Unmarked;
}

impl State {
    fn give_address(&mut self, key: &ObjectKey, service: &mut Service) {
        if !service.cluster_addresses.is_empty() || service.is_external_name {
            return;
        }
        let address = match self.addresses.get(key) {
            Some(address) => *address,
            None => {
                let number = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
                let offset = number.saturating_add(1);
                let IpAddr::V4(address) = super::address_at(&SERVICE_NETWORK.into(), offset) else {
                    return;
                };
                self.addresses.insert(key.clone(), address);
                address
            }
        };
        service.cluster_addresses = vec![address.into()];
    }

    /// The endpoints of a Service, a slice for each pod, unless manifests state them.
    fn endpoints(&self, given: &Objects, key: &ObjectKey, service: &Service) -> Vec<Arc<Object>> {
        let stated = given.values().any(|object| is_slice_of(object, key));
        if stated || service.selector.is_empty() {
            return Vec::new();
        }
        let pods = self.pods.iter().filter_map(|(name, listening)| {
            let object = given.get(name).filter(|_| name.namespace == key.namespace)?;
            let Body::Valid(Resource::Pod(pod)) = &object.body else { return None };
            service
                .selects(&object.meta.labels)
                .then(|| slice(key, service, (name, pod), listening))
                .flatten()
        });
        pods.map(Arc::new).collect()
    }
}

fn is_slice_of(object: &Object, service: &ObjectKey) -> bool {
    match &object.body {
        Body::Valid(Resource::EndpointSlice(slice)) => {
            object.meta.key.namespace == service.namespace
                && slice.service.as_ref() == Some(&service.name)
        }
        Body::Valid(_) | Body::Invalid(_) => false,
    }
}

/// The endpoint of a Service that is one pod.
fn slice(
    service: &ObjectKey,
    declared: &Service,
    (name, pod): (&ObjectKey, &Pod),
    listening: &BTreeMap<NonZeroU16, SocketAddr>,
) -> Option<Object> {
    let address = listening.values().map(SocketAddr::ip).next()?;
    let port = |port: &ServicePort| {
        let at = listening.get(&target(port, pod)?)?;
        Some(SlicePort { name: port.name.clone(), port: NonZeroU16::new(at.port()) })
    };
    let endpoint = SliceEndpoint {
        address,
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        pod: Some(Arc::new(PodTarget {
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            uid: None,
        })),
        node: pod.node.clone(),
        zones: Vec::new(),
        nodes: Vec::new(),
    };
    let key = ObjectKey {
        kind: Kind::EndpointSlice,
        namespace: service.namespace.clone(),
        name: format!("{}-{}", service.name, name.name).into(),
    };
    let meta = ObjectMeta {
        key,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created: None,
        uid: None,
        generation: None,
        is_ending: false,
        recorded: None,
    };
    let slice = EndpointSlice {
        version: None,
        service: Some(service.name.clone()),
        family: Some(AddressFamily::of(address)),
        ports: declared.ports.iter().filter_map(port).collect(),
        endpoints: vec![endpoint],
    };
    Some(Object { meta, body: Body::Valid(Resource::EndpointSlice(slice)) })
}

/// The port of a pod that a Service's port leads to.
fn target(port: &ServicePort, pod: &Pod) -> Option<NonZeroU16> {
    match &port.target {
        None => Some(port.port),
        Some(PortRef::Number(number)) => Some(*number),
        Some(PortRef::Name(name)) => {
            let named = pod.ports.iter().find(|port| port.name.as_ref() == Some(name));
            named.map(|port| port.number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Objects {
        let documents = policy_crds::document::read(text);
        let values = documents.into_iter().map(|document| document.value.unwrap());
        let objects = values.map(|value| Arc::new(policy_crds::parse(&value).unwrap()));
        objects.map(|object| (object.meta.key.clone(), object)).collect()
    }

    fn key(kind: Kind, name: &str) -> ObjectKey {
        ObjectKey { kind, namespace: "shop".into(), name: name.into() }
    }

    const SHOP: &str = "apiVersion: v1\n\
        kind: Service\n\
        metadata: {name: web, namespace: shop}\n\
        spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}]}\n\
        ---\n\
        apiVersion: v1\n\
        kind: Pod\n\
        metadata: {name: web-0, namespace: shop, labels: {app: web}}\n\
        spec: {containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}\n\
        ---\n\
        apiVersion: v1\n\
        kind: Pod\n\
        metadata: {name: other, namespace: shop, labels: {app: other}}\n\
        spec: {containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}\n";

    #[test]
    fn a_service_leads_to_the_pods_that_it_selects() {
        let (given, services) = (given(SHOP), LocalServices::new());
        assert_eq!(services.complete(&given), given, "nothing runs");
        let port = NonZeroU16::new(8080).unwrap();
        let at = |text: &str| BTreeMap::from([(port, text.parse::<SocketAddr>().unwrap())]);
        services.announce(BTreeMap::from([
            (key(Kind::Pod, "web-0"), at("127.10.64.1:8080")),
            (key(Kind::Pod, "other"), at("127.10.64.2:8080")),
        ]));
        let completed = services.complete(&given);
        let Body::Valid(Resource::Service(service)) = &completed[&key(Kind::Service, "web")].body
        else {
            panic!("no Service");
        };
        assert_eq!(service.cluster_addresses, ["10.96.0.1".parse::<IpAddr>().unwrap()]);
        let Body::Valid(Resource::EndpointSlice(slice)) =
            &completed[&key(Kind::EndpointSlice, "web-web-0")].body
        else {
            panic!("no slice");
        };
        assert_eq!(slice.ports, [SlicePort { name: "http".into(), port: Some(port) }]);
        let addresses: Vec<_> = slice.endpoints.iter().map(|own| own.address.to_string()).collect();
        assert_eq!(addresses, ["127.10.64.1"]);
        assert_eq!(completed.len(), 4, "{:?}", completed.keys());
    }
}
