//! The endpoints that kube-proxy chooses, case by case. The test of the same name on a node compares
//! the cases with kube-proxy.

use crate::world::{port, published, world};
use policy_core::Destination;
use policy_engine::{ClientPlace, DestinationKey, DestinationQuestion, History};
use policy_testkit::endpoints::{Case, Choice, Front, NODE, ZONE, cases};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

const CLUSTER: [&str; 2] = ["10.96.0.1", "fd10:96::1"];

/// The answer to a client of a place, as its session looks it up.
fn ask(history: &mut History, address: IpAddr, number: u16, place: &ClientPlace) -> Destination {
    let question = |kind| {
        let (port, scope) = (port(number), place.scope(kind));
        DestinationQuestion::Address(DestinationKey { address, port, scope })
    };
    let general = published(history, &question(policy_engine::ScopeKind::All));
    let answer = published(history, &question(general.needs));
    assert_eq!(answer.needs, general.needs, "{address}");
    answer.destination
}

/// The choice as an answer states it: a client is refused whether kube-proxy rejects or drops.
fn stated(choice: &Choice) -> Option<BTreeSet<std::net::SocketAddr>> {
    match choice {
        Choice::Endpoints(endpoints) => Some(endpoints.clone()),
        Choice::Rejected | Choice::Dropped => Some(BTreeSet::new()),
        Choice::Undeclared => None,
    }
}

fn answered(destination: &Destination) -> Option<BTreeSet<std::net::SocketAddr>> {
    match destination {
        Destination::Service(service) => {
            let endpoints = service.endpoints.iter().map(|endpoint| endpoint.address);
            let (all, each): (Vec<_>, BTreeSet<_>) =
                (endpoints.clone().collect(), endpoints.collect());
            assert_eq!(all.len(), each.len(), "{destination:?}");
            Some(each)
        }
        Destination::UndeclaredPort(_) => None,
        Destination::Unknown | Destination::Node | Destination::Workload(_) => {
            panic!("{destination:?}")
        }
    }
}

fn node(zone: Option<&str>) -> Value {
    let labels = zone.map_or(json!({}), |zone| json!({"topology.kubernetes.io/zone": zone}));
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}})
}

fn check(case: &Case, mut objects: Vec<Value>) {
    for zone in [Some(ZONE), None] {
        objects.push(node(zone));
        let mut history = world(&objects);
        objects.pop();
        let place = ClientPlace { node: Some(NODE.into()), zone: zone.map(Into::into) };
        for expected in &case.expected {
            let address = match expected.front {
                Front::V4 => CLUSTER[0].parse().unwrap(),
                Front::V6 => CLUSTER[1].parse().unwrap(),
                Front::External(address) => address,
            };
            let choice = match zone {
                Some(_) => &expected.in_zone,
                None => &expected.without_zone,
            };
            let answer = ask(&mut history, address, expected.port, &place);
            let dialled = format!("{}: {address} {}, zone {zone:?}", case.name, expected.port);
            assert_eq!(answered(&answer), stated(choice), "{dialled}");
        }
    }
}

#[test]
fn endpoints_are_those_that_kube_proxy_chooses() {
    let addresses = CLUSTER.map(|address| address.parse().unwrap());
    for case in cases() {
        let objects = case.objects("shop", "web", &addresses);
        check(&case, objects.clone());
        // The slices in the opposite order of their names.
        let (service, slices) = objects.split_first().unwrap();
        let mut names: Vec<Value> =
            slices.iter().map(|slice| slice["metadata"]["name"].clone()).collect();
        let mut renamed = vec![service.clone()];
        for slice in slices {
            let mut slice = slice.clone();
            slice["metadata"]["name"] = names.pop().unwrap();
            renamed.push(slice);
        }
        check(&case, renamed);
    }
}
