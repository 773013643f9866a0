//! Answers through a history of events.

use crate::world::{
    bare_pod, by_name, machine, meshed, node, object, of_pod, pod, published, question, server,
    service, slice, web, with, world, world_of, written,
};
use allocation_counter::measure;
use policy_crds::{Object, ObjectKey};
use policy_engine::outbound::{OutboundConfig, OutboundPeer};
use policy_engine::{
    ControllerConfig, DestinationClient, DestinationQuestion, DestinationScope, History, Latest,
    LookupError, PublishedDestination,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};

/// Every object that a history may contain, several versions of most.
fn catalogue() -> Vec<Object> {
    let annotated = |value, name: &str, text: &str| {
        with(value, json!({"metadata": {"annotations": {name: text}}}))
    };
    let mark = json!({
        "version": "1", "inboundPort": 4143, "outbound": "on", "capture": "cni-plugin",
        "skippedInboundPorts": "9090",
    });
    let foreign = json!({"metadata": {"labels": {"linkerd.io/control-plane-ns": "linkerd"}}});
    let ended = json!({"status": {"phase": "Succeeded"}});
    let late = json!({"status": {"startTime": "2026-02-01T00:00:00Z"}});
    let host = json!({"spec": {"hostNetwork": true}, "status": {"podIPs": [{"ip": "172.18.0.1"}]}});
    let elsewhere = json!({"status": {"podIPs": [{"ip": "10.42.0.3"}]}});
    let a = || pod("a", "10.42.0.1");
    let b = || bare_pod("b", "10.42.0.2");
    let hinted = |address: &str, zone: &str, node: &str| {
        let hints = json!({"forZones": [{"name": zone}], "forNodes": [{"name": node}]});
        with(of_pod(address), json!({"hints": hints, "nodeName": node}))
    };
    let ending = json!({"conditions": {"ready": false, "serving": true, "terminating": true}});
    let all: Vec<Value> = vec![
        a(),
        annotated(a(), "portcullis.dev/sidecar", &mark.to_string()),
        annotated(a(), "portcullis.dev/sidecar", "{}"),
        annotated(a(), "config.linkerd.io/opaque-ports", "8080"),
        with(a(), ended),
        with(a(), elsewhere),
        with(a(), host),
        b(),
        with(b(), foreign),
        with(bare_pod("c", "10.42.0.1"), late),
        service("web", "10.96.0.1"),
        with(service("web", "10.96.0.1"), json!({"spec": {"internalTrafficPolicy": "Local"}})),
        with(service("web", "10.96.0.1"), json!({"spec": {"sessionAffinity": "ClientIP"}})),
        with(service("web", "10.96.0.1"), json!({"spec": {"ports": [{"port": "x"}]}})),
        with(service("web", "10.96.0.2"), json!({"spec": {"ports": [{"port": 8080}]}})),
        with(service("other", "10.96.0.2"), json!({"spec": {"externalIPs": ["10.42.0.1"]}})),
        with(service("other", "10.96.0.3"), json!({"spec": {"externalIPs": ["172.18.0.1"]}})),
        slice("web", "s", json!([of_pod("10.42.0.1"), of_pod("10.42.0.2")])),
        slice("web", "s", json!([of_pod("10.42.0.2"), written("192.0.2.1")])),
        slice(
            "web",
            "s",
            json!([hinted("10.42.0.1", "east", "n1"), hinted("10.42.0.2", "west", "n2"),]),
        ),
        slice("other", "s", json!([of_pod("10.42.0.3")])),
        slice("web", "t", json!([with(of_pod("10.42.0.1"), ending)])),
        slice("web", "t", json!([written("172.18.0.1")])),
        node("n1", "172.18.0.1", "east"),
        node("n1", "172.18.0.1", "west"),
        node("n2", "10.42.0.1", "west"),
        machine("shop", "vm", "192.0.2.1"),
        machine("vms", "vm", "192.0.2.1"),
        server("http", "opaque"),
        server("http", "HTTP/1"),
    ];
    all.iter().map(object).collect()
}

/// Number of objects of the catalogue.
const CATALOGUE: usize = 30;

fn questions() -> Vec<DestinationQuestion> {
    let scopes = [
        DestinationScope::All,
        DestinationScope::Zone("west".into()),
        DestinationScope::Node("n1".into()),
    ];
    let addresses = [
        "10.96.0.1:80",
        "10.96.0.2:80",
        "10.96.0.2:8080",
        "10.42.0.1:8080",
        "10.42.0.1:9090",
        "10.42.0.2:80",
        "10.42.0.3:80",
        "172.18.0.1:80",
        "192.0.2.1:80",
    ];
    let asked = scopes.iter().flat_map(|scope| addresses.map(|address| question(address, scope)));
    asked.chain([by_name("web", 80), by_name("other", 80)]).collect()
}

fn config() -> ControllerConfig {
    let peer = OutboundPeer { namespace: "linkerd".into(), trust_domain: "example.org".into() };
    let external_workload_namespaces = ["vms".into()].into();
    let outbound =
        OutboundConfig { peers: [peer].into(), external_workload_namespaces, ..Default::default() };
    ControllerConfig { outbound: Some(outbound), ..ControllerConfig::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(usize),
    Delete(usize),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = prop_oneof![
        6 => (0..CATALOGUE).prop_map(Step::Apply),
        2 => (0..CATALOGUE).prop_map(Step::Delete),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(prop::collection::vec(step, 1..6), 1..16)
}

#[test]
fn histories_are_of_the_whole_catalogue() {
    assert_eq!(catalogue().len(), CATALOGUE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// After every transaction, what was published is what a fresh index answers.
    #[test]
    fn what_was_published_equals_the_answers_of_a_fresh_start(history in steps()) {
        let all = catalogue();
        let config = config();
        let mut kept = History::new(&config);
        let mut present: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        let mut followed: BTreeMap<DestinationQuestion, Latest<Arc<PublishedDestination>>> =
            BTreeMap::new();
        for transaction in history {
            let mut changes = Vec::new();
            for step in transaction {
                match step {
                    Step::Apply(i) => {
                        present.insert(all[i].meta.key.clone(), all[i].clone());
                        changes.push(Ok(all[i].clone()));
                    }
                    Step::Delete(i) => {
                        present.remove(&all[i].meta.key);
                        changes.push(Err(all[i].meta.key.clone()));
                    }
                    Step::Sweep => kept.sweep(),
                }
            }
            kept.apply(changes);
            let mut fresh = History::new(&config);
            fresh.apply(present.values().cloned().map(Ok).collect());
            for question in questions() {
                let receiver = followed.entry(question.clone()).or_insert_with(|| {
                    kept.follow_destination(&question).unwrap()
                });
                prop_assert!(!receiver.is_closed());
                prop_assert_eq!(&*receiver.current(), &published(&mut fresh, &question));
            }
        }
    }
}

/// So many Services of ten pods each, whose addresses are `10.42.x.y`; the first is followed.
fn crowd(services: usize) -> (History, Latest<Arc<PublishedDestination>>) {
    let mut all = vec![service("web", "10.96.0.1")];
    for number in 0..services {
        let address = |pod: usize| format!("10.42.{number}.{pod}");
        let name = format!("s{number}");
        let endpoints: Vec<Value> = (0..10).map(|pod| of_pod(&address(pod))).collect();
        let of = if number == 0 { "web" } else { &name };
        all.push(slice(of, &name, endpoints.into()));
        all.extend((0..10).map(|it| pod(&format!("p{number}-{it}"), &address(it))));
    }
    let mut history = world(&all);
    let asked = question("10.96.0.1:80", &DestinationScope::All);
    let receiver = history.follow_destination(&asked).unwrap();
    (history, receiver)
}

fn cost(history: &mut History, change: &Value) -> u64 {
    let before = history.effort().1;
    history.apply(vec![Ok(object(change))]);
    history.effort().1 - before
}

#[test]
fn an_event_costs_what_it_concerns() {
    let (mut small, _small) = crowd(2);
    let (mut large, mut receiver) = crowd(200);
    let pending = json!({"status": {"phase": "Pending"}});
    let own = with(pod("p0-1", "10.42.0.1"), pending.clone());
    let costs = [&mut small, &mut large].map(|history| cost(history, &own));
    assert_eq!(costs[0], costs[1]);
    assert!(costs[1] <= 5, "{costs:?} answers for an event of a pod that changes nothing");
    assert!(!receiver.has_changed());
    let other = with(pod("p7-1", "10.42.7.1"), pending);
    assert_eq!(cost(&mut large, &other), 0, "nobody follows that Service");
    let few: Vec<Value> = (0..9).map(|pod| of_pod(&format!("10.42.0.{pod}"))).collect();
    let costs = cost(&mut large, &slice("web", "s0", few.into()));
    assert!(costs <= 2, "{costs} answers for an event of a slice");
    let endpoints: Vec<_> = (0..9).map(|pod| meshed(&format!("10.42.0.{pod}:8080"))).collect();
    assert_eq!(receiver.read().destination, web(&endpoints));
}

#[test]
fn what_nobody_follows_is_forgotten() {
    let mut history = world(&[pod("a", "10.42.0.1")]);
    let none = history.effort().0;
    let ask = |history: &mut History, number: usize| {
        let address = format!("10.43.{}.{}:80", number / 250, number % 250);
        history.follow_destination(&question(&address, &DestinationScope::All)).unwrap()
    };
    // A client that asks for one address after the other.
    let mut most = 0;
    for number in 0..20_000 {
        ask(&mut history, number);
        most = most.max(history.effort().0);
    }
    assert!(most < 10_000, "{most} answers are kept");
    let kept = ask(&mut history, 1);
    history.sweep();
    assert!(!kept.is_closed());
    let kept_answers = "the answer, who owns the address, and where the API server is";
    assert_eq!(history.effort().0, none + 3, "{kept_answers}");
    drop(kept);
    history.sweep();
    assert_eq!(history.effort().0, none);
}

/// Ten thousand workloads with twenty destinations each.
#[test]
fn many_watchers_of_one_destination_take_little_room() {
    const KEYS: usize = 4000;
    const WATCHERS: usize = 50;
    let mut history = world_of(&config(), &[]);
    let asked: Vec<DestinationQuestion> = (0..KEYS)
        .map(|number| format!("10.43.{}.{}:80", number / 250, number % 250))
        .map(|address| question(&address, &DestinationScope::All))
        .collect();
    let mut kept = Vec::new();
    let taken = measure(|| {
        for question in asked.iter().flat_map(|question| [question; WATCHERS]) {
            let mut receiver = history.follow_destination(question).unwrap();
            assert!(receiver.poll_changed(&Context::from_waker(Waker::noop())).is_pending());
            kept.push(receiver);
        }
    });
    assert_eq!(kept.len(), 200_000);
    println!("{} bytes for {} watchers of {KEYS} keys", taken.bytes_current, kept.len());
    assert!(taken.bytes_current < 20_000_000, "{} bytes", taken.bytes_current);
}

/// Clients of many names could otherwise have the controller follow as many questions as they invent.
#[test]
fn what_is_followed_is_bounded_and_what_nobody_follows_makes_room() {
    let mut config = ControllerConfig::default();
    config.limits.destinations = 2;
    let mut history = world_of(&config, &[pod("a", "10.42.0.1")]);
    let mut follow = |address: &str| {
        let question = question(address, &DestinationScope::All);
        history.follow_destination(&question)
    };
    let (first, second) = (follow("10.42.0.1:1").unwrap(), follow("10.42.0.1:2").unwrap());
    assert_eq!(follow("10.42.0.1:3").map(|_| ()), Err(LookupError::TooManyDestinations));
    let again = follow("10.42.0.1:1").unwrap();
    drop((second, first));
    history.sweep();
    let mut follow = |address: &str| {
        let question = question(address, &DestinationScope::All);
        history.follow_destination(&question)
    };
    let third = follow("10.42.0.1:3").unwrap();
    assert_eq!(follow("10.42.0.1:4").map(|_| ()), Err(LookupError::TooManyDestinations));
    drop((again, third));
}

/// Seventeen clients that ask for as much as they may used to leave nothing for all others.
#[test]
fn who_follows_most_gives_way_and_a_client_that_follows_little_gets_its_own() {
    const MOST: usize = 320;
    let mut config = ControllerConfig::default();
    config.limits.destinations = MOST;
    let mut history = world_of(&config, &[pod("a", "10.42.0.1")]);
    let asked = |client: usize, number: usize| {
        let address = format!("10.9.{client}.{}:{}", number % 250, number / 250 + 1);
        question(&address, &DestinationScope::All)
    };
    let client = |number: usize| DestinationClient {
        group: format!("identity-{number}").into(),
        address: [10, 0, 0, u8::try_from(number).unwrap()].into(),
    };
    // Attackers take all that there is, and ask again for what is refused.
    let mut attacks: Vec<Vec<_>> = (0..17).map(|_| Vec::new()).collect();
    let mut attack = |history: &mut History| {
        for (number, held) in attacks.iter_mut().enumerate() {
            held.retain(|(_, receiver): &(usize, Latest<_>)| !receiver.is_closed());
            for at in 0..40 {
                let is_held = held.iter().any(|(number, _)| *number == at);
                let of = history.follow_destination_of(&asked(number, at), client(number));
                held.extend(of.ok().filter(|_| !is_held).map(|receiver| (at, receiver)));
            }
        }
        attacks.iter().map(Vec::len).sum::<usize>()
    };
    assert!(attack(&mut history) > MOST / 2);
    // Another one gets what it asks for, and keeps it.
    let mut own = Vec::new();
    for at in 0..8 {
        own.push(history.follow_destination_of(&asked(100, at), client(100)).unwrap());
        assert!(attack(&mut history) <= MOST);
    }
    // So does a neighbour of an attacker that has its identity.
    let neighbour = DestinationClient { address: [10, 0, 1, 1].into(), ..client(0) };
    for at in 0..4 {
        own.push(history.follow_destination_of(&asked(101, at), neighbour.clone()).unwrap());
        assert!(attack(&mut history) <= MOST);
    }
    assert!(own.iter().all(|receiver| !receiver.is_closed()));
    assert!(attack(&mut history) > MOST / 2, "the others have the rest");
}

/// It counts for one of them at a time.
#[test]
fn what_somebody_else_follows_is_closed_last_and_followed_again() {
    let mut config = ControllerConfig::default();
    config.limits.destinations = 8;
    let mut history = world_of(&config, &[pod("a", "10.42.0.1")]);
    let client =
        |name: &str| DestinationClient { group: name.into(), address: [10, 0, 0, 1].into() };
    let asked = |number: u16| question(&format!("10.9.0.1:{number}"), &DestinationScope::All);
    let mut many: Vec<_> = (1..=8)
        .map(|number| history.follow_destination_of(&asked(number), client("many")).unwrap())
        .collect();
    let shared = history.follow_destination_of(&asked(1), client("few")).unwrap();
    let mut own = Vec::new();
    for number in 10..14 {
        own.push(history.follow_destination_of(&asked(number), client("few")).unwrap());
    }
    assert!(!shared.is_closed());
    many.retain(|receiver| !receiver.is_closed());
    assert_eq!(many.len(), 4);
    let refused = history.follow_destination_of(&asked(20), client("many")).map(|_| ());
    assert_eq!(refused, Err(LookupError::TooManyDestinations));
}

/// A client that holds half as much as the largest lost what it followed when that one gave way.
#[test]
fn who_follows_what_another_gives_up_has_its_place() {
    let mut config = ControllerConfig::default();
    config.limits.destinations = 8;
    let mut history = world_of(&config, &[pod("a", "10.42.0.1")]);
    let client =
        |name: &str| DestinationClient { group: name.into(), address: [10, 0, 0, 1].into() };
    let asked = |number: u16| question(&format!("10.9.0.1:{number}"), &DestinationScope::All);
    let mut follow = |name: &str, number: u16| {
        history.follow_destination_of(&asked(number), client(name)).map(|latest| (number, latest))
    };
    let many: Vec<_> = (1..=5).map(|number| follow("many", number).unwrap()).collect();
    let own: Vec<_> = (6..=8).map(|number| follow("half", number).unwrap()).collect();
    let shared: Vec<_> = (1..=5).map(|number| follow("half", number).unwrap()).collect();
    let of_new = follow("new", 20).unwrap();
    let lost = shared.iter().filter(|(_, receiver)| receiver.is_closed());
    let lost: Vec<u16> = lost.map(|(number, _)| *number).collect();
    assert_eq!(lost.len(), 2, "half of what it holds more");
    let again: Vec<_> = lost.iter().map(|number| follow("half", *number).map(|_| ())).collect();
    assert_eq!(again, [Ok(()), Ok(())]);
    drop((many, own, of_new));
}
