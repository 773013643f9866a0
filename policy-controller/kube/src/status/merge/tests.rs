//! Merges of desired conditions with a current status.

mod attached;

use super::*;
use policy_engine::testing::key;

const OURS: &str = "portcullis.dev/policy-controller";

fn desired_condition(kind: &'static str, status: &'static str, reason: &str) -> DesiredCondition {
    DesiredCondition { kind, status, reason: reason.into(), message: "".into() }
}

fn desired(conditions: Vec<DesiredCondition>, parents: Vec<ParentStatus>) -> DesiredStatus {
    DesiredStatus {
        generation: Some(7),
        uid: None,
        conditions,
        keep: false,
        provisional: false,
        parents,
        fields: None,
    }
}

fn item(spec: Value, status: Value) -> Item {
    let metadata = json!({"name": "o", "namespace": "ns", "generation": 7});
    let object = json!({"metadata": metadata, "spec": spec, "status": status});
    serde_json::from_value(object).unwrap()
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00.5Z".parse().unwrap()
}

/// The status to write for an object of `kind`.
fn written(kind: Kind, item: &Item, desired: &DesiredStatus) -> Option<Value> {
    status(kind, item, desired, OURS, now())
}

fn condition(kind: &str, status: &str, reason: &str, since: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": since, "observedGeneration": 7,
    })
}

const BEFORE: &str = "2020-01-01T00:00:00Z";
const NOW: &str = "2026-11-21T12:00:00Z";

#[test]
fn a_first_status_has_the_conditions_the_time_and_the_generation() {
    let desired = desired(vec![desired_condition("Accepted", "True", "Accepted")], vec![]);
    assert_eq!(
        written(Kind::Server, &item(json!({}), Value::Null), &desired),
        Some(json!({"conditions": [condition("Accepted", "True", "Accepted", NOW)]}))
    );
}

#[test]
fn what_is_already_so_is_not_written() {
    let current = json!({"conditions": [
        condition("Ready", "True", "Theirs", BEFORE),
        condition("ResolvedRefs", "False", "RefNotFound", BEFORE),
        condition("Accepted", "True", "Accepted", BEFORE),
    ]});
    let desired = desired(
        vec![
            desired_condition("Accepted", "True", "Accepted"),
            desired_condition("ResolvedRefs", "False", "RefNotFound"),
        ],
        vec![],
    );
    for kind in [Kind::AuthorizationPolicy, Kind::ExternalWorkload] {
        assert_eq!(written(kind, &item(json!({}), current.clone()), &desired), None, "{kind:?}");
    }
}

#[test]
fn the_time_moves_only_with_the_status_and_the_generation_always() {
    let current = |generation: i64| {
        let mut condition = condition("Accepted", "False", "Invalid", BEFORE);
        condition["observedGeneration"] = json!(generation);
        item(json!({}), json!({"conditions": [condition]}))
    };
    let outcome = |condition, generation| {
        let written =
            written(Kind::Server, &current(generation), &desired(vec![condition], vec![]));
        written.map(|status| status["conditions"][0].clone())
    };
    assert_eq!(outcome(desired_condition("Accepted", "False", "Invalid"), 7), None);
    assert_eq!(
        outcome(desired_condition("Accepted", "False", "Invalid"), 6),
        Some(condition("Accepted", "False", "Invalid", BEFORE))
    );
    assert_eq!(
        outcome(desired_condition("Accepted", "False", "NoMatchingTarget"), 7),
        Some(condition("Accepted", "False", "NoMatchingTarget", BEFORE))
    );
    assert_eq!(
        outcome(desired_condition("Accepted", "True", "Accepted"), 7),
        Some(condition("Accepted", "True", "Accepted", NOW))
    );
}

#[test]
fn a_schema_that_prunes_the_generation_causes_no_rewriting() {
    let mut current = condition("Accepted", "True", "Accepted", BEFORE);
    current.as_object_mut().unwrap().remove("observedGeneration");
    let current = item(json!({}), json!({"conditions": [current]}));
    let desired = desired(vec![desired_condition("Accepted", "True", "Accepted")], vec![]);
    assert_eq!(written(Kind::Server, &current, &desired), None);
}

#[test]
fn a_condition_of_ours_that_is_not_told_any_more_goes() {
    let current = json!({"conditions": [
        condition("Accepted", "True", "Accepted", BEFORE),
        condition("Programmed", "True", "Programmed", BEFORE),
    ]});
    let desired = desired(vec![desired_condition("Accepted", "True", "Accepted")], vec![]);
    assert_eq!(
        written(Kind::Server, &item(json!({}), current), &desired),
        Some(json!({"conditions": [condition("Accepted", "True", "Accepted", BEFORE)]}))
    );
}

#[test]
fn how_far_it_was_programmed_stays_until_this_version_has_been_counted() {
    let mut counted = condition("Programmed", "True", "Programmed", BEFORE);
    counted["observedGeneration"] = json!(6);
    let current = |reason: &str| {
        let accepted = condition("Accepted", "True", reason, BEFORE);
        item(json!({}), json!({"conditions": [accepted, counted]}))
    };
    let desired = DesiredStatus {
        keep: true,
        ..desired(vec![desired_condition("Accepted", "True", "Accepted")], vec![])
    };
    assert_eq!(written(Kind::Server, &current("Accepted"), &desired), None);
    let accepted = condition("Accepted", "True", "Accepted", BEFORE);
    assert_eq!(
        written(Kind::Server, &current("PrecedenceDiffers"), &desired),
        Some(json!({"conditions": [accepted, counted]}))
    );
}

#[test]
fn a_count_that_is_not_complete_yet_is_no_news_unless_the_object_is_new_or_edited() {
    let counted = |generation: i64| {
        let mut counted = condition("Programmed", "True", "Programmed", BEFORE);
        counted["observedGeneration"] = json!(generation);
        let accepted = condition("Accepted", "True", "Accepted", BEFORE);
        item(json!({}), json!({"conditions": [accepted, counted]}))
    };
    let conditions = vec![
        desired_condition("Accepted", "True", "Accepted"),
        desired_condition("Programmed", "False", "Pending"),
    ];
    let complete = desired(conditions, vec![]);
    let incomplete = DesiredStatus { provisional: true, ..complete.clone() };
    let accepted = condition("Accepted", "True", "Accepted", BEFORE);
    let pending = condition("Programmed", "False", "Pending", NOW);
    let news = Some(json!({"conditions": [accepted, pending]}));
    assert_eq!(written(Kind::Server, &counted(7), &incomplete), None);
    assert_eq!(written(Kind::Server, &counted(7), &complete), news);
    assert_eq!(written(Kind::Server, &counted(6), &incomplete), news);
    let first = item(json!({}), json!({"conditions": [accepted]}));
    assert_eq!(written(Kind::Server, &first, &incomplete), news);
}

#[test]
fn others_conditions_on_a_list_are_kept() {
    let theirs = json!({"type": "Ready", "status": "True", "lastProbeTime": BEFORE});
    let current = item(json!({}), json!({"conditions": [theirs]}));
    let desired = desired(vec![desired_condition("Accepted", "True", "Accepted")], vec![]);
    assert_eq!(
        written(Kind::ExternalWorkload, &current, &desired),
        Some(json!({"conditions": [theirs, condition("Accepted", "True", "Accepted", NOW)]}))
    );
}

#[test]
fn a_rate_limit_says_what_it_is_about_even_if_it_is_invalid() {
    let desired = desired(vec![desired_condition("Accepted", "False", "Invalid")], vec![]);
    let spec = json!({"targetRef": {"group": "policy.linkerd.io", "kind": "Server", "name": "s"}});
    let expected = json!({
        "conditions": [condition("Accepted", "False", "Invalid", NOW)],
        "targetRef": {"group": "policy.linkerd.io", "kind": "Server", "name": "s"},
    });
    let kind = Kind::HttpLocalRateLimitPolicy;
    let status = written(kind, &item(spec.clone(), Value::Null), &desired).unwrap();
    assert_eq!(status, expected);
    assert_eq!(written(kind, &item(spec.clone(), status.clone()), &desired), None);
    let mut elsewhere = status;
    elsewhere["targetRef"]["name"] = json!("other");
    assert_eq!(written(kind, &item(spec, elsewhere), &desired), Some(expected));
}

fn about(name: &str, port: Option<u16>, status: &'static str, reason: &str) -> ParentStatus {
    let server = key(Kind::Server, "ns", name);
    let conditions = vec![desired_condition("Accepted", status, reason)];
    let hostnames = Vec::new();
    ParentStatus { server, section: None, port, conditions, keep: false, hostnames }
}

fn entry(reference: &Value, controller: &str, conditions: &[Value]) -> Value {
    json!({"parentRef": reference, "controllerName": controller, "conditions": conditions})
}

fn server(name: &str) -> Value {
    json!({"group": "policy.linkerd.io", "kind": "Server", "name": name})
}

#[test]
fn entries_of_other_controllers_survive_and_ours_stay_in_their_place() {
    let gateway = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"});
    let spec = json!({"parentRefs": [gateway, server("a"), server("b")]});
    let theirs = entry(&gateway, "other.example/gateway", &[json!({"type": "Accepted"})]);
    let same_server = entry(&server("a"), "linkerd.io/policy-controller", &[]);
    let vanished = entry(&server("gone"), OURS, &[]);
    let of_a = entry(&server("a"), OURS, &[condition("Accepted", "True", "Accepted", BEFORE)]);
    let current = json!({"parents": [vanished, of_a, theirs, same_server]});
    let desired = desired(
        vec![],
        vec![about("a", None, "True", "Accepted"), about("b", None, "False", "NoMatchingParent")],
    );
    let no = condition("Accepted", "False", "NoMatchingParent", NOW);
    let of_b = entry(&server("b"), OURS, &[no]);
    let expected = json!({"parents": [of_a, theirs, same_server, of_b]});
    let kind = Kind::GatewayHttpRoute;
    let status = written(kind, &item(spec.clone(), current), &desired).unwrap();
    assert_eq!(status, expected);
    assert_eq!(written(kind, &item(spec, status), &desired), None);
}

#[test]
fn a_route_that_names_no_server_is_left_alone() {
    let service = json!({"group": "core", "kind": "Service", "name": "s", "port": 80});
    let spec = json!({"parentRefs": [service]});
    // Under Linkerd's controller name its entries about Services are kept, too.
    let of_service = entry(&service, OURS, &[]);
    let nothing = desired(vec![], vec![]);
    for current in [Value::Null, json!({"parents": [of_service]})] {
        let item = item(spec.clone(), current);
        assert_eq!(written(Kind::PolicyHttpRoute, &item, &nothing), None);
    }
}

#[test]
fn the_last_entry_of_ours_goes_with_its_parent() {
    let current = json!({"parents": [entry(&server("a"), OURS, &[])]});
    let item = item(json!({"parentRefs": []}), current);
    assert_eq!(
        written(Kind::PolicyHttpRoute, &item, &desired(vec![], vec![])),
        Some(json!({"parents": []}))
    );
}

#[test]
fn a_reference_is_copied_as_the_route_spells_it_and_told_apart_by_port() {
    let spelled = json!({"group": "POLICY.linkerd.io", "kind": "server", "namespace": "ns",
        "name": "a", "port": 80});
    let item = item(json!({"parentRefs": [server("a"), spelled, spelled]}), Value::Null);
    let desired = desired(
        vec![],
        vec![
            about("a", None, "True", "Accepted"),
            about("a", Some(80), "False", "UnsupportedValue"),
        ],
    );
    let yes = condition("Accepted", "True", "Accepted", NOW);
    let no = condition("Accepted", "False", "UnsupportedValue", NOW);
    assert_eq!(
        written(Kind::GrpcRoute, &item, &desired),
        Some(json!({"parents": [entry(&server("a"), OURS, &[yes]), entry(&spelled, OURS, &[no])]}))
    );
}

#[test]
fn what_another_wrote_under_our_name_with_other_words_is_rewritten_once() {
    // Linkerd states the namespace and drops port and section.
    let theirs = json!({"group": "policy.linkerd.io", "kind": "Server", "namespace": "ns",
        "name": "a"});
    let same = condition("Accepted", "True", "Accepted", BEFORE);
    let current = json!({"parents": [entry(&theirs, OURS, std::slice::from_ref(&same))]});
    let item = item(json!({"parentRefs": [server("a")]}), current);
    let desired = desired(vec![], vec![about("a", None, "True", "Accepted")]);
    assert_eq!(
        written(Kind::PolicyHttpRoute, &item, &desired),
        Some(json!({"parents": [entry(&server("a"), OURS, &[same])]}))
    );
}

#[test]
fn a_policy_that_stops_matching_is_told_so_until_it_matches_again_or_is_edited() {
    let none = |message: &str| DesiredCondition {
        message: message.into(),
        ..desired_condition("Programmed", "False", "NoSidecar")
    };
    let stopped = |message: &str| {
        let mut condition = condition("Programmed", "False", "StoppedMatching", BEFORE);
        condition["message"] = json!(message);
        condition
    };
    let current = |mut condition: Value, generation: i64| {
        condition["observedGeneration"] = json!(generation);
        item(json!({}), json!({"conditions": [condition]}))
    };
    let outcome = |item: Item, condition: DesiredCondition| {
        let written = written(Kind::Server, &item, &desired(vec![condition], vec![]));
        written.map(|status| status["conditions"][0].clone())
    };
    let mut counted = condition("Programmed", "True", "Programmed", BEFORE);
    counted["message"] = json!("in force on 3 of 3 proxies");
    let message = |now: &str| {
        format!(
            "in force on 3 of 3 proxies, and now: {now}. Unless its workloads were scaled to zero or \
             removed, check its selector, port and target"
        )
    };
    let (bare, gone) = ("1 pod has no sidecar", "selects no pod of namespace `ns`");
    let mut expected = stopped(&message(bare));
    expected["lastTransitionTime"] = json!(NOW);
    assert_eq!(outcome(current(counted.clone(), 7), none(bare)), Some(expected));
    let before = || current(stopped(&message(bare)), 7);
    assert_eq!(outcome(before(), none(bare)), None, "it stays");
    assert_eq!(outcome(before(), none(gone)), Some(stopped(&message(gone))), "what is so now");
    let again = desired_condition("Programmed", "True", "Programmed");
    let matches = condition("Programmed", "True", "Programmed", NOW);
    assert_eq!(outcome(before(), again), Some(matches));
    let edited = |reason: &str| {
        let mut condition = condition("Programmed", "False", reason, NOW);
        condition["message"] = json!(bare);
        condition
    };
    let outcome_now = outcome(current(counted.clone(), 6), none(bare));
    assert_eq!(outcome_now, Some(edited("NoSidecar")), "it was edited");
    let mut never = condition("Programmed", "False", "NoTarget", BEFORE);
    never["message"] = json!(gone);
    let mut still = edited("NoSidecar");
    still["lastTransitionTime"] = json!(BEFORE);
    assert_eq!(outcome(current(never, 7), none(bare)), Some(still), "it never matched");
    // Its pods only do not run: they are still those that it matches.
    let idle = desired_condition("Programmed", "False", "NotRunning");
    let outcome_now = outcome(current(counted.clone(), 7), idle);
    assert_eq!(outcome_now.map(|condition| condition["reason"].clone()), Some(json!("NotRunning")));
    // A reason that says more by itself is preserved.
    let displaced = desired_condition("Programmed", "False", "Conflicted");
    let outcome_now = outcome(current(counted, 7), displaced);
    assert_eq!(outcome_now.map(|condition| condition["reason"].clone()), Some(json!("Conflicted")));
}

#[test]
fn a_route_is_told_about_the_inbound_route_that_it_names() {
    let reference = json!({"group": "portcullis.dev", "kind": "InboundRoute", "name": "root",
        "namespace": "prod"});
    let root = key(Kind::InboundRoute, "prod", "root");
    let conditions = vec![desired_condition("Accepted", "True", "Accepted")];
    let (section, port, hostnames) = (None, None, Vec::new());
    let about = ParentStatus { server: root, section, port, conditions, keep: false, hostnames };
    let route = item(json!({"parentRefs": [reference]}), Value::Null);
    let status = written(Kind::GatewayHttpRoute, &route, &desired(vec![], vec![about])).unwrap();
    assert_eq!(status["parents"][0]["parentRef"], reference);
    assert_eq!(status["parents"][0]["conditions"][0]["status"], "True");
}
