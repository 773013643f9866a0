//! A row of the table: what it writes, and what it expects.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The node of the clients.
pub const NODE: &str = "node-one";
/// The zone of that node, where it states one.
pub const ZONE: &str = "a";

/// A Service, its slices, and what connections to it reach.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the case is about.
    pub name: &'static str,
    spec: Value,
    slices: Vec<Value>,
    /// What is chosen, by what is dialled.
    pub expected: Vec<Expected>,
}

/// What clients on [`NODE`] reach at an address and port of the Service.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The address.
    pub front: Front,
    /// The port.
    pub port: u16,
    /// The choice if the node is in [`ZONE`].
    pub in_zone: Choice,
    /// The choice if the node states no zone.
    pub without_zone: Choice,
}

/// An address of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Its IPv4 address in the cluster.
    V4,
    /// Its IPv6 address in the cluster.
    V6,
    /// An address that its `externalIPs` state.
    External(IpAddr),
}

/// What kube-proxy does with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It forwards it to one of these.
    Endpoints(BTreeSet<SocketAddr>),
    /// It rejects it: there is no endpoint anywhere.
    Rejected,
    /// It drops it: the Service has endpoints, and these clients may use none of them.
    Dropped,
    /// It has no rule: the Service does not declare the port.
    Undeclared,
}

impl Choice {
    /// The endpoints by their addresses.
    pub fn of(endpoints: &[&str]) -> Self {
        Self::Endpoints(endpoints.iter().map(|text| address(text)).collect())
    }
}

impl Case {
    /// A Service whose port 80 has the name `http`.
    pub(super) fn new(name: &'static str) -> Self {
        let spec = json!({"ports": [{"name": "http", "port": 80}]});
        Self { name, spec, slices: Vec::new(), expected: Vec::new() }
    }

    /// These fields of the Service's `spec` besides.
    pub(super) fn spec(mut self, fields: Value) -> Self {
        merge(&mut self.spec, fields);
        self
    }

    /// An IPv4 slice with the port `http` at 8080. An endpoint is its address, then conditions
    /// (`+ready`, `-serving`; one that is not named is absent), its node as `on:node-one`, and hints
    /// as `zone:a` and `node:node-one`.
    pub(super) fn slice(self, endpoints: &[&str]) -> Self {
        self.slice_with(json!({}), endpoints)
    }

    /// A slice with other fields.
    pub(super) fn slice_with(mut self, fields: Value, endpoints: &[&str]) -> Self {
        let endpoints: Vec<Value> = endpoints.iter().map(|text| endpoint(text)).collect();
        let mut slice = json!({
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": endpoints,
        });
        merge(&mut slice, fields);
        self.slices.push(slice);
        self
    }

    /// What port 80 of the IPv4 address in the cluster leads to, in any zone.
    pub(super) fn chooses(self, endpoints: &[&str]) -> Self {
        self.leads(Front::V4, 80, Choice::of(endpoints))
    }

    /// The same, where the node states no zone.
    pub(super) fn without_zone(mut self, endpoints: &[&str]) -> Self {
        if let Some(last) = self.expected.last_mut() {
            last.without_zone = Choice::of(endpoints);
        }
        self
    }

    pub(super) fn leads(mut self, front: Front, port: u16, choice: Choice) -> Self {
        let without_zone = choice.clone();
        self.expected.push(Expected { front, port, in_zone: choice, without_zone });
        self
    }

    /// The Service and its slices. Without `cluster_addresses` an API server assigns them.
    pub fn objects(
        &self,
        namespace: &str,
        service: &str,
        cluster_addresses: &[IpAddr],
    ) -> Vec<Value> {
        let mut spec = self.spec.clone();
        merge(&mut spec, json!({"ipFamilyPolicy": "PreferDualStack"}));
        if let Some(first) = cluster_addresses.first() {
            merge(&mut spec, json!({"clusterIP": first, "clusterIPs": cluster_addresses}));
        }
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service, "namespace": namespace}, "spec": spec,
        });
        let slices = self.slices.iter().enumerate().map(|(number, slice)| {
            let mut object = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{service}-{number}"), "namespace": namespace,
                    "labels": {"kubernetes.io/service-name": service},
                },
            });
            merge(&mut object, slice.clone());
            object
        });
        std::iter::once(object).chain(slices).collect()
    }
}

fn endpoint(text: &str) -> Value {
    let mut words = text.split(' ');
    let mut endpoint = json!({"addresses": [words.next()], "conditions": {}});
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    for word in words {
        match word.split_once(':') {
            Some(("on", node)) => endpoint["nodeName"] = json!(node),
            Some(("zone", name)) => zones.push(json!({"name": name})),
            Some(("node", name)) => nodes.push(json!({"name": name})),
            Some(_) => panic!("`{word}` of `{text}`"),
            None => {
                let is_true = word.starts_with('+');
                assert!(is_true || word.starts_with('-'), "`{word}` of `{text}`");
                endpoint["conditions"][&word[1..]] = json!(is_true);
            }
        }
    }
    for (field, hints) in [("forZones", zones), ("forNodes", nodes)] {
        if !hints.is_empty() {
            endpoint["hints"][field] = Value::Array(hints);
        }
    }
    endpoint
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Puts the fields of `more` into an object.
fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("no object: {more}") };
    for (field, value) in more {
        into[field] = value;
    }
}
