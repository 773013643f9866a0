//! The owners of an address: who states it, and whose statement counts.

use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::destination::{AddressOwners, OwnersOf};
use policy_crds::resource::{Pod, PodSidecar, Resource, Service};
use policy_crds::{Body, Claims, Invalid, Object, ObjectKey};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

query!(OwnersOf, Arc<AddressOwners>, owners_of);

/// The objects that state the address, by kind.
#[derive(Default)]
struct Statements<'a> {
    services: Vec<&'a Object>,
    fronts: Vec<&'a Object>,
    pods: Vec<(&'a Object, &'a Pod)>,
    external: Vec<&'a Object>,
    is_node: bool,
}

fn owners_of(query: &OwnersOf, cx: &mut Context<'_>) -> Arc<AddressOwners> {
    let address = query.0;
    let mut found = Statements::default();
    for key in cx.edge(Edge::Address(address)) {
        if let Some(object) = cx.object(key) {
            found.add(object, address);
        }
    }
    let fronts = oldest_first(found.fronts);
    let external = keys(&oldest_first(found.external));
    let configured = |key: &&ObjectKey| counts_for_all(cx, key, address);
    Arc::new(AddressOwners {
        service: keys(&oldest_first(found.services)).into_iter().next(),
        front: keys(&fronts).into_iter().next(),
        fronts: by_port(&fronts),
        pod: newest(found.pods),
        external: external.iter().find(configured).cloned(),
        stated: external,
        is_node: found.is_node,
    })
}

impl<'a> Statements<'a> {
    fn add(&mut self, object: &'a Object, address: IpAddr) {
        match &object.body {
            Body::Valid(Resource::Service(service)) if is_in_cluster(service, address) => {
                self.services.push(object);
            }
            Body::Valid(Resource::Service(_))
            | Body::Invalid(Invalid { claims: Claims::Service { .. }, .. }) => {
                self.fronts.push(object);
            }
            Body::Valid(Resource::Pod(pod)) => self.pods.push((object, pod)),
            Body::Valid(Resource::ExternalWorkload(_))
            | Body::Invalid(Invalid { claims: Claims::ExternalWorkload { .. }, .. }) => {
                self.external.push(object);
            }
            Body::Valid(Resource::Node(_)) => self.is_node = true,
            // Objects of other kinds state no addresses.
            Body::Valid(_) | Body::Invalid(_) => {}
        }
    }
}

fn is_in_cluster(service: &Service, address: IpAddr) -> bool {
    service.cluster_addresses.contains(&address)
}

/// An ExternalWorkload takes no address that the cluster gives away itself, and only where the
/// operator trusts the authors of its namespace with addresses.
fn counts_for_all(cx: &Context<'_>, key: &ObjectKey, address: IpAddr) -> bool {
    let outbound = cx.config.outbound.as_ref();
    let names = outbound.map(|outbound| &outbound.external_workload_namespaces);
    names.is_some_and(|names| names.contains(&key.namespace))
        && !cx.config.cluster_networks.iter().any(|network| network.contains(&address))
}

/// By creation time, then by name. Objects without a time come first.
fn oldest_first(mut objects: Vec<&Object>) -> Vec<&Object> {
    objects.sort_by(|a, b| (a.meta.created, &a.meta.key).cmp(&(b.meta.created, &b.meta.key)));
    objects
}

fn keys(objects: &[&Object]) -> Vec<ObjectKey> {
    objects.iter().map(|object| object.meta.key.clone()).collect()
}

/// The first Service that declares each port. One that cannot be read declares none, so that it takes
/// no port from others.
fn by_port(services: &[&Object]) -> BTreeMap<NonZeroU16, ObjectKey> {
    let mut by_port = BTreeMap::new();
    for object in services {
        let Body::Valid(Resource::Service(service)) = &object.body else { continue };
        for declared in &service.ports {
            by_port.entry(declared.port).or_insert_with(|| object.meta.key.clone());
        }
    }
    by_port
}

/// The pod that started last: for a moment, an address may still be stated by the pod that had it
/// before. One without a sidecar counts only if no other has one: a node reports the addresses of its own
/// pods, and could otherwise have any pod of the mesh reached in plaintext.
fn newest(pods: Vec<(&Object, &Pod)>) -> Option<ObjectKey> {
    let newest = pods.into_iter().max_by_key(|(object, pod)| {
        (pod.sidecar != PodSidecar::None, pod.started, &object.meta.key)
    });
    newest.map(|(object, _)| object.meta.key.clone())
}
