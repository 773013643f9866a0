//! Choices that kube-proxy does not make: for clients that share an answer, and where it leaves the
//! choice to chance. `tests/destinations/kube_proxy.rs` has the others.

use super::*;
use policy_crds::resource::SlicePort;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// An endpoint: its address, `ready`, `serving` (while it ends), `ending` (without serving) or
/// `unready`, then its node as `on:n1` and hints as `zone:a` and `node:n1`.
fn endpoint(text: &str) -> SliceEndpoint {
    let mut words = text.split(' ');
    let address: IpAddr = words.next().unwrap().parse().unwrap();
    let (is_ready, is_serving, is_terminating) = match words.next().unwrap() {
        "ready" => (true, true, false),
        "serving" => (false, true, true),
        "ending" => (false, false, true),
        "unready" => (false, false, false),
        other => panic!("{other}"),
    };
    let words: Vec<(&str, &str)> = words.map(|word| word.split_once(':').unwrap()).collect();
    let all = |name: &str| -> Vec<Arc<str>> {
        words.iter().filter(|(word, _)| *word == name).map(|(_, value)| (*value).into()).collect()
    };
    SliceEndpoint {
        address,
        is_ready,
        is_serving,
        is_terminating,
        node: all("on").first().cloned(),
        zones: all("zone"),
        nodes: all("node"),
        pod: None,
    }
}

fn slice(ports: &[(&str, Option<u16>)], endpoints: &[&str]) -> EndpointSlice {
    let endpoints: Vec<SliceEndpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
    let port = |(name, number): &(&str, Option<u16>)| SlicePort {
        name: (*name).into(),
        port: number.map(|number| NonZeroU16::new(number).unwrap()),
    };
    EndpointSlice {
        version: None,
        service: Some("web".into()),
        family: endpoints.first().map(|endpoint| AddressFamily::of(endpoint.address)),
        ports: ports.iter().map(port).collect(),
        endpoints,
    }
}

/// The choice of a client in zone `a` on node `n1`.
const HERE: Choice<'static> = Choice {
    port: "http",
    family: AddressFamily::V4,
    local_only: false,
    node: Some("n1"),
    zone: Some("a"),
};

const LOCAL: Choice<'static> = Choice { local_only: true, ..HERE };

fn check(name: &str, choice: Choice<'_>, slices: &[EndpointSlice], expected: &[&str]) {
    let chosen = |slices: &[&EndpointSlice]| -> Vec<SocketAddr> {
        choice.usable(slices).into_iter().map(|(address, _)| address).collect()
    };
    let all: Vec<&EndpointSlice> = slices.iter().collect();
    let expected: Vec<SocketAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(chosen(&all), expected, "{name}");
    let reversed: Vec<&EndpointSlice> = slices.iter().rev().collect();
    assert_eq!(chosen(&reversed), expected, "{name}, in another order");
}

/// The rows of one slice with the port `http` at 8080.
fn rows(choice: Choice<'_>, rows: &[(&str, &[&str], &[&str])]) {
    for (name, endpoints, expected) in rows {
        let expected: Vec<String> = expected.iter().map(|ip| format!("{ip}:8080")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(name, choice, &[slice(&[("http", Some(8080))], endpoints)], &expected);
    }
}

#[test]
fn clients_whose_node_is_not_known_have_what_is_for_all_of_them() {
    let nowhere = Choice { node: None, ..LOCAL };
    rows(nowhere, &[("no node", &["10.0.0.1 ready on:n1", "10.0.0.3 ready"], &[])]);
    let zoned: &[&str] = &["10.0.0.1 ready zone:a node:n1", "10.0.0.2 ready zone:b node:n2"];
    rows(Choice { node: None, ..HERE }, &[("in a zone", zoned, &["10.0.0.1"])]);
    let both = &["10.0.0.1", "10.0.0.2"];
    rows(Choice { node: None, zone: None, ..HERE }, &[("anywhere", zoned, both)]);
}

#[test]
fn an_endpoint_that_moves_between_slices_is_used_once_as_the_readiest() {
    let port = &[("http", Some(80))];
    let slices = [
        slice(port, &["10.0.0.1 serving", "10.0.0.2 ready"]),
        slice(port, &["10.0.0.1 ready", "10.0.0.2 ready"]),
    ];
    check("twice", HERE, &slices, &["10.0.0.1:80", "10.0.0.2:80"]);
}

#[test]
fn an_answer_depends_on_no_more_of_a_client_than_it_must() {
    let needs = |choice: Choice<'_>, endpoints: &[&str]| {
        let slice = slice(&[("http", Some(80))], endpoints);
        choice.needs(&[&slice])
    };
    assert_eq!(needs(HERE, &[]), ScopeKind::All);
    assert_eq!(needs(HERE, &["10.0.0.1 ready on:n1"]), ScopeKind::All);
    // Hints appear and go one by one; answers to clients of one zone stay good meanwhile.
    assert_eq!(needs(HERE, &["10.0.0.1 ready zone:a", "10.0.0.2 ready"]), ScopeKind::Zone);
    assert_eq!(needs(HERE, &["10.0.0.1 ready zone:a node:n1"]), ScopeKind::Node);
    assert_eq!(needs(LOCAL, &["10.0.0.1 ready"]), ScopeKind::Node);
    assert_eq!(needs(LOCAL, &[]), ScopeKind::Node);
    let v6 = Choice { family: AddressFamily::V6, ..HERE };
    assert_eq!(needs(v6, &["10.0.0.1 ready zone:a"]), ScopeKind::All);
}
