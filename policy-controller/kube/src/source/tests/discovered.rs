//! What outbound discovery reads, projected and whole.

use super::pruned;
use policy_crds::annotation::SERVICE_NAME;
use policy_crds::{Body, Kind, NotAnObject, Object, Resource, parse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The object without what discovery does not read in a cluster.
pub(super) fn as_read(object: Result<Object, NotAnObject>) -> Result<Object, NotAnObject> {
    object.map(|mut object| {
        object.meta.labels.retain(|name, _| &**name == SERVICE_NAME);
        object.meta.annotations.clear();
        (object.meta.uid, object.meta.generation) = (None, None);
        match object.meta.key.kind {
            Kind::Service => object.meta.labels.clear(),
            _ => object.meta.created = None,
        }
        if let Body::Valid(Resource::Service(service)) = &mut object.body {
            service.selector.clear();
            service.ports.iter_mut().for_each(|port| port.target = None);
        }
        object
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "generation": 2, "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"app": "web"},
            "annotations": {"a": "b"},
            "managedFields": [{}],
        },
        "spec": {
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"],
            "externalIPs": ["192.0.2.1"], "internalTrafficPolicy": "Local",
            "ipFamilies": ["IPv4", "IPv6"], "selector": {"app": "web"}, "type": "LoadBalancer",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30000}],
            "publishNotReadyAddresses": true, "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        },
        "status": {"conditions": [{}], "loadBalancer": {"ingress": [
            {"ip": "192.0.2.2", "ipMode": "VIP", "ports": [{}]}, {"ip": "192.0.2.3", "ipMode": "Proxy"}]}},
    })
}

fn slice() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "web-x", "namespace": "shop", "uid": "u", "generation": 9, "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {"app": "web", "kubernetes.io/service-name": "web"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "now"},
        },
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}],
        "endpoints": [{
            "addresses": ["10.1.0.7"], "conditions": {"ready": true, "terminating": false},
            "hints": {"forNodes": [{"name": "n1"}], "forZones": [{"name": "a"}]}, "hostname": "web-0",
            "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "web-0", "uid": "u", "resourceVersion": "8"}, "zone": "a",
        }],
    })
}

/// A page of 500 slices, each as large as its author may make it, would be hundreds of megabytes.
#[test]
fn slices_come_in_small_pages() {
    let sizes = |configured| {
        [Kind::Pod, Kind::EndpointSlice]
            .map(|kind| super::super::pages::page_size(kind, configured))
    };
    assert_eq!([sizes(500), sizes(7)], [[500, 50], [7, 7]]);
}

#[test]
fn what_discovery_does_not_read_is_not_kept() {
    let kept = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "shop", "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
        },
        "spec": {
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"],
            "externalIPs": ["192.0.2.1"], "internalTrafficPolicy": "Local", "type": "LoadBalancer",
            "ports": [{"name": "http", "port": 80}], "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        },
        "status": {"loadBalancer": {"ingress": [
            {"ip": "192.0.2.2", "ipMode": "VIP"}, {"ip": "192.0.2.3", "ipMode": "Proxy"}]}},
    });
    assert_eq!(pruned(Kind::Service, &service().to_string()), kept);
    let kept = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "web-x", "namespace": "shop", "resourceVersion": "7",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": ["10.1.0.7"], "conditions": {"ready": true, "terminating": false},
            "hints": {"forNodes": [{"name": "n1"}], "forZones": [{"name": "a"}]}, "nodeName": "n1",
            "targetRef": {"kind": "Pod", "name": "web-0", "uid": "u"},
        }],
    });
    assert_eq!(pruned(Kind::EndpointSlice, &slice().to_string()), kept);
}

#[test]
fn the_projected_object_is_read_as_the_whole_one() {
    for (kind, value) in [(Kind::Service, service()), (Kind::EndpointSlice, slice())] {
        let whole = as_read(parse(&value));
        assert!(matches!(whole.as_ref().unwrap().body, Body::Valid(_)), "{whole:?}");
        assert_eq!(parse(&pruned(kind, &value.to_string())), whole);
    }
}

/// JSON in the shape of the fields that are read, and of some that are not.
fn part() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "None",
        "10.0.0.1",
        "fd00::1",
        "010.0.0.1",
        "ClientIP",
        "ExternalName",
        "Local",
        "Proxy",
        "TCP",
        "UDP",
        "IPv4",
        "IPv6",
        "FQDN",
        "web",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..90_000_i64).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "addresses",
        "annotations",
        "clientIP",
        "clusterIP",
        "clusterIPs",
        "conditions",
        "creationTimestamp",
        "externalIPs",
        "forNodes",
        "forZones",
        "hints",
        "ingress",
        "internalTrafficPolicy",
        "ip",
        "ipMode",
        "kubernetes.io/service-name",
        "labels",
        "loadBalancer",
        "name",
        "nodeName",
        "port",
        "ports",
        "protocol",
        "publishNotReadyAddresses",
        "ready",
        "serving",
        "sessionAffinity",
        "sessionAffinityConfig",
        "targetRef",
        "terminating",
        "timeoutSeconds",
        "type",
        "zone",
    ]);
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn services_and_slices_of_any_shape_are_read_like_the_whole_ones(
        spec in part(), status in part(), ports in part(), endpoints in part(), family in part(),
    ) {
        let metadata = json!({"name": "x", "labels": {SERVICE_NAME: "web"}});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
                             "spec": spec, "status": status});
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                           "metadata": metadata, "addressType": family, "ports": ports,
                           "endpoints": endpoints});
        for (kind, value) in [(Kind::Service, service), (Kind::EndpointSlice, slice)] {
            prop_assert_eq!(parse(&pruned(kind, &value.to_string())), as_read(parse(&value)));
        }
    }
}
