//! Which endpoints a Service has.

use crate::world::{
    ask, bare_pod, by_name, meshed, node, object, of_pod, of_service, plaintext, pod, published,
    question, service, slice, undeclared, unknown, web, with, world, written,
};
use policy_core::{Destination, PlaintextReason};
use policy_engine::{DestinationScope, ScopeKind};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_service_leads_to_its_ready_pods() {
    let not_ready = with(of_pod("10.42.0.3"), json!({"conditions": {"ready": false}}));
    let mut history = world(&[
        service("web", "10.96.0.1"),
        slice("web", "s1", json!([of_pod("10.42.0.2"), not_ready])),
        slice("web", "s2", json!([of_pod("10.42.0.1")])),
        slice("other", "s3", json!([of_pod("10.42.0.3")])),
        pod("a", "10.42.0.1"),
        bare_pod("b", "10.42.0.2"),
        pod("c", "10.42.0.3"),
    ]);
    let endpoints =
        [meshed("10.42.0.1:8080"), plaintext("10.42.0.2:8080", PlaintextReason::Unmeshed)];
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&endpoints));
    assert_eq!(published(&mut history, &by_name("web", 80)).destination, web(&endpoints));
    assert_eq!(ask(&mut history, "10.96.0.1:81"), undeclared("web"));
    assert_eq!(published(&mut history, &by_name("none", 80)).destination, Destination::Unknown);
}

#[test]
fn each_port_has_the_number_of_its_name_in_each_slice() {
    let ports = json!({"spec": {"ports": [
        {"name": "http", "port": 80}, {"name": "db", "port": 5432, "targetPort": "db"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]}});
    let named = |name: &str, address: &str, ports: Value| {
        with(slice("web", name, json!([of_pod(address)])), json!({"ports": ports}))
    };
    let mut history = world(&[
        with(service("web", "10.96.0.1"), ports),
        named(
            "s1",
            "10.42.0.1",
            json!([{"name": "http", "port": 8080}, {"name": "db", "port": 1}]),
        ),
        named("s2", "10.42.0.2", json!([{"name": "db", "port": 2}])),
        pod("a", "10.42.0.1"),
        pod("b", "10.42.0.2"),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
    let both = [meshed("10.42.0.1:1"), meshed("10.42.0.2:2")];
    assert_eq!(ask(&mut history, "10.96.0.1:5432"), of_service("web", 5432, None, &both));
    assert_eq!(ask(&mut history, "10.96.0.1:53"), undeclared("web"), "it is not of TCP");
}

#[test]
fn affinity_has_the_time_of_the_service() {
    let affine = json!({"spec": {"sessionAffinity": "ClientIP"}});
    let usual = with(service("web", "10.96.0.1"), affine.clone());
    let time = json!({"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}});
    for (spec, seconds) in [(usual.clone(), 10_800), (with(usual, time), 60)] {
        let expected = of_service("web", 80, Some(Duration::from_secs(seconds)), &[]);
        assert_eq!(ask(&mut world(&[spec]), "10.96.0.1:80"), expected);
    }
}

#[test]
fn endpoints_are_of_the_family_that_was_dialled() {
    let v6 = with(slice("web", "s6", json!([of_pod("fd00::1")])), json!({"addressType": "IPv6"}));
    let both = json!({"spec": {"clusterIPs": ["fd00:96::1", "10.96.0.1"]}});
    let mut history = world(&[
        with(service("web", ""), both),
        slice("web", "s4", json!([of_pod("10.42.0.1")])),
        v6.clone(),
        pod("a", "10.42.0.1"),
        pod("b", "fd00::1"),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
    let of_v6 = web(&[meshed("[fd00::1]:8080")]);
    assert_eq!(ask(&mut history, "[fd00:96::1]:80"), of_v6);
    // Its first address is of IPv6.
    assert_eq!(published(&mut history, &by_name("web", 80)).destination, of_v6);
    let headless = with(service("web", ""), json!({"spec": {"clusterIPs": ["None"]}}));
    let mut history = world(&[headless, v6, pod("b", "fd00::1")]);
    assert_eq!(published(&mut history, &by_name("web", 80)).destination, of_v6);
}

#[test]
fn a_headless_service_has_endpoints_by_name_alone() {
    let mut history = world(&[
        with(service("web", ""), json!({"spec": {"clusterIPs": ["None"]}})),
        slice("web", "s", json!([of_pod("10.42.0.1")])),
        pod("a", "10.42.0.1"),
    ]);
    let answer = published(&mut history, &by_name("web", 80));
    assert_eq!(answer.destination, web(&[meshed("10.42.0.1:8080")]));
    assert_eq!(ask(&mut history, "10.42.0.1:80"), Destination::Workload(meshed("10.42.0.1:80")));
}

#[test]
fn another_name_of_a_host_outside_leads_nowhere() {
    let name = json!({"spec": {"type": "ExternalName", "externalName": "db.example"}});
    let mut history = world(&[with(service("web", "10.96.0.1"), name)]);
    assert_eq!(published(&mut history, &by_name("web", 80)).destination, Destination::Unknown);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), Destination::Unknown);
}

/// Who holds an address is known from the pods, whoever wrote the slice and whatever it claims.
#[test]
fn what_a_slice_claims_about_its_endpoints_makes_none_in_plaintext() {
    let lie = json!({"targetRef": {"kind": "Pod", "name": "bare", "namespace": "shop"}});
    let mut history = world(&[
        service("web", "10.96.0.1"),
        slice(
            "web",
            "s",
            json!([written("10.42.0.1"), with(written("10.42.0.2"), lie), written("192.0.2.1"),]),
        ),
        pod("a", "10.42.0.1"),
        pod("b", "10.42.0.2"),
        bare_pod("bare", "10.42.0.3"),
    ]);
    let endpoints = [meshed("10.42.0.1:8080"), unknown("192.0.2.1:8080")];
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&endpoints));
}

/// The address of a pod that has ended is given to a pod of another tenant before the slices are
/// written again.
#[test]
fn an_address_that_another_pod_has_by_now_is_no_endpoint_of_a_stale_slice() {
    let target = |namespace: &str, name: &str, uid: Option<&str>| {
        let mut target = json!({"kind": "Pod", "name": name, "namespace": namespace});
        if let Some(uid) = uid {
            target["uid"] = uid.into();
        }
        with(written("10.42.0.1"), json!({"targetRef": target}))
    };
    let without_uid = |mut pod: Value| {
        pod["metadata"].as_object_mut().unwrap().remove("uid");
        pod
    };
    let elsewhere = |pod: Value| with(pod, json!({"metadata": {"namespace": "other"}}));
    let here = web(&[meshed("10.42.0.1:8080")]);
    let held = pod("a", "10.42.0.1");
    let cases = [
        ("the same", target("shop", "a", Some("of-10.42.0.1")), held.clone(), true),
        ("the uid decides", target("shop", "b", Some("of-10.42.0.1")), held.clone(), true),
        ("of its name, made anew", target("shop", "a", Some("of-before")), held.clone(), false),
        ("no uid is stated", target("shop", "a", None), held.clone(), true),
        ("another name", target("shop", "b", None), held.clone(), false),
        ("another namespace", target("shop", "a", None), elsewhere(held.clone()), false),
        ("of files", target("shop", "a", Some("u")), without_uid(held.clone()), true),
        ("another of files", target("shop", "b", Some("u")), without_uid(held.clone()), false),
        (
            "another tenant's",
            of_pod("10.42.0.1"),
            elsewhere(with(held.clone(), json!({"metadata": {"uid": "new"}}))),
            false,
        ),
        (
            "in plaintext",
            of_pod("10.42.0.1"),
            with(bare_pod("b", "10.42.0.1"), json!({"metadata": {"uid": "new"}})),
            false,
        ),
    ];
    for (what, endpoint, pod, counts) in cases {
        let mut history =
            world(&[service("web", "10.96.0.1"), slice("web", "s", json!([endpoint])), pod]);
        let expected = if counts { here.clone() } else { web(&[]) };
        assert_eq!(ask(&mut history, "10.96.0.1:80"), expected, "{what}");
    }
    // The namespace of a reference is the slice's where it states none.
    let own = json!({"targetRef": {"kind": "Pod", "name": "a"}});
    let mut history = world(&[
        service("web", "10.96.0.1"),
        slice("web", "s", json!([with(written("10.42.0.1"), own)])),
        held.clone(),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), here);
    // It changes hands, and back.
    let next = with(held.clone(), json!({"metadata": {"name": "next", "uid": "new"}}));
    let slice = |uid: &str| slice("web", "s", json!([target("shop", "any", Some(uid))]));
    let mut history = world(&[service("web", "10.96.0.1"), slice("of-10.42.0.1"), held.clone()]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), here);
    let ended = with(held, json!({"status": {"phase": "Succeeded"}}));
    history.apply(vec![Ok(object(&ended)), Ok(object(&next))]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[]));
    history.apply(vec![Ok(object(&slice("new")))]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), here);
}

/// A pod in its node's network has no address of its own.
#[test]
fn an_address_of_a_node_is_the_endpoint_of_a_pod_that_uses_its_network_there() {
    let node = node("n1", "192.0.2.7", "a");
    let on_host =
        |address: &str| with(bare_pod("host", address), json!({"spec": {"hostNetwork": true}}));
    let named = json!({"targetRef": {"kind": "Pod", "name": "host", "uid": "of-192.0.2.7"}});
    let endpoint = with(written("192.0.2.7"), named);
    let renewed = with(on_host("192.0.2.7"), json!({"metadata": {"uid": "new"}}));
    for (pod, counts) in [
        (on_host("192.0.2.7"), true),
        (renewed, false),
        (with(on_host("192.0.2.8"), json!({"metadata": {"uid": "of-192.0.2.7"}})), false),
        (bare_pod("host", "10.42.0.9"), false),
        (bare_pod("other", "10.42.0.9"), false),
    ] {
        let mut history = world(&[
            service("web", "10.96.0.1"),
            slice("web", "s", json!([endpoint])),
            node.clone(),
            pod.clone(),
        ]);
        let answer = ask(&mut history, "10.96.0.1:80");
        let Destination::Service(service) = answer else { panic!("{answer:?}") };
        assert_eq!(service.endpoints.len(), usize::from(counts), "{pod}");
    }
}

/// Slices and pods are read by watches of their own.
#[test]
fn an_endpoint_that_is_said_to_be_a_pod_counts_once_the_pod_is_known() {
    let mut history = world(&[
        service("web", "10.96.0.1"),
        slice("web", "s", json!([of_pod("10.42.0.1"), written("10.42.0.2")])),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[unknown("10.42.0.2:8080")]));
    history.apply(vec![Ok(object(&pod("a", "10.42.0.1")))]);
    let both = [meshed("10.42.0.1:8080"), unknown("10.42.0.2:8080")];
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&both));
}

#[test]
fn pods_that_are_not_ready_count_where_their_slices_say_so() {
    // As the controller of slices writes those of a Service that publishes them.
    let early = json!({"conditions": {"ready": true, "serving": false, "terminating": false}});
    let mut history = world(&[
        with(service("web", "10.96.0.1"), json!({"spec": {"publishNotReadyAddresses": true}})),
        slice("web", "s", json!([with(of_pod("10.42.0.1"), early)])),
        with(pod("a", "10.42.0.1"), json!({"status": {"phase": "Pending"}})),
    ]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
}

#[test]
fn endpoints_that_end_are_used_where_no_other_is_ready() {
    let ending = json!({"conditions": {"ready": false, "serving": true, "terminating": true}});
    let ends = slice("web", "s", json!([with(of_pod("10.42.0.1"), ending.clone())]));
    let all = [service("web", "10.96.0.1"), ends, pod("a", "10.42.0.1"), pod("b", "10.42.0.2")];
    let mut history = world(&all);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.1:8080")]));
    let new = json!([with(of_pod("10.42.0.1"), ending), of_pod("10.42.0.2")]);
    history.apply(vec![Ok(object(&slice("web", "s", new)))]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[meshed("10.42.0.2:8080")]));
}

#[test]
fn a_service_or_slice_that_cannot_be_read_has_no_endpoint() {
    let broken = with(service("web", "10.96.0.1"), json!({"spec": {"ports": [{"port": "80"}]}}));
    let ready = slice("web", "s", json!([of_pod("10.42.0.1")]));
    let mut history = world(&[broken, ready.clone(), pod("a", "10.42.0.1")]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[]));
    let broken = with(ready, json!({"ports": [{"name": "http", "port": "x"}]}));
    let mut history = world(&[service("web", "10.96.0.1"), broken, pod("a", "10.42.0.1")]);
    assert_eq!(ask(&mut history, "10.96.0.1:80"), web(&[]));
}

/// The endpoints of clients of a scope, by the last number of their addresses.
fn chosen(all: &[Value], scope: &DestinationScope) -> (Vec<String>, ScopeKind) {
    let answer = published(&mut world(all), &question("10.96.0.1:80", scope));
    let endpoints = answer.destination.endpoints().iter();
    let last = |address: String| address.rsplit('.').next().unwrap().to_owned();
    (endpoints.map(|it| last(it.address.ip().to_string())).collect(), answer.needs)
}

/// Two endpoints on two nodes in two zones, with these parts more.
fn on_nodes(service_parts: Value, parts: [Value; 2]) -> Vec<Value> {
    let [first, second] = parts;
    let endpoint = |address: &str, node: &str, more: Value| {
        with(with(of_pod(address), json!({"nodeName": node})), more)
    };
    vec![
        with(service("web", "10.96.0.1"), service_parts),
        slice(
            "web",
            "s",
            json!([endpoint("10.42.0.1", "n1", first), endpoint("10.42.0.2", "n2", second),]),
        ),
        pod("a", "10.42.0.1"),
        pod("b", "10.42.0.2"),
        node("n1", "172.18.0.1", "east"),
        node("n2", "172.18.0.2", "west"),
        node("n3", "172.18.0.3", "east"),
    ]
}

#[test]
fn clients_of_a_node_have_the_endpoints_that_are_for_it() {
    let on = |name: &str| DestinationScope::Node(name.into());
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    let all = on_nodes(local, [json!({}), json!({})]);
    assert_eq!(chosen(&all, &on("n1")), (vec!["1".into()], ScopeKind::Node));
    assert_eq!(chosen(&all, &on("n2")), (vec!["2".into()], ScopeKind::Node));
    assert_eq!(chosen(&all, &on("n3")), (vec![], ScopeKind::Node));
    let hint = |node: &str, zone: &str| json!({"hints": {"forNodes": [{"name": node}], "forZones": [{"name": zone}]}});
    let all = on_nodes(json!({}), [hint("n1", "east"), hint("n2", "west")]);
    assert_eq!(chosen(&all, &on("n2")), (vec!["2".into()], ScopeKind::Node));
    assert_eq!(chosen(&all, &on("n3")), (vec!["1".into()], ScopeKind::Node), "by its zone");
    let zone = DestinationScope::Zone("west".into());
    assert_eq!(chosen(&all, &zone), (vec!["2".into()], ScopeKind::Node));
}

#[test]
fn clients_of_a_zone_have_the_endpoints_that_are_for_it() {
    let hint = |zone: &str| json!({"hints": {"forZones": [{"name": zone}]}});
    let all = on_nodes(json!({}), [hint("east"), hint("west")]);
    let both: Vec<String> = vec!["1".into(), "2".into()];
    let zone = |name: &str| DestinationScope::Zone(name.into());
    assert_eq!(chosen(&all, &zone("west")), (vec!["2".into()], ScopeKind::Zone));
    assert_eq!(chosen(&all, &zone("north")), (both.clone(), ScopeKind::Zone));
    assert_eq!(chosen(&all, &DestinationScope::All), (both, ScopeKind::Zone));
    let node = DestinationScope::Node("n3".into());
    assert_eq!(chosen(&all, &node), (vec!["1".into()], ScopeKind::Zone));
}
