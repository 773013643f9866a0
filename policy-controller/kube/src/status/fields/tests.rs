//! The fields of a status besides its conditions.

use super::*;
use crate::status::desired::DesiredStatus;
use crate::status::merge::status;
use policy_core::HostPattern;
use policy_crds::Kind;
use policy_crds::resource::PathPrefix;
use policy_engine::conditions::Reason;
use policy_engine::delegation::{OrphanReason, RouteEntry, RouteState};
use policy_engine::testing::key;
use std::sync::Arc;

const CREATED: &str = "2026-11-20T08:00:00Z";
const BEFORE: &str = "2026-11-20T09:00:00Z";
const NOW: &str = "2026-11-21T12:00:00Z";

fn seconds(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_second()
}

fn item(status: Value) -> Item {
    let metadata =
        json!({"name": "o", "namespace": "ns", "generation": 7, "creationTimestamp": CREATED});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
}

fn desired(fields: StatusFields) -> DesiredStatus {
    DesiredStatus {
        generation: Some(7),
        uid: None,
        conditions: vec![],
        keep: false,
        provisional: false,
        parents: vec![],
        fields: Some(fields),
    }
}

fn delegation_of(state: DelegationState) -> DesiredStatus {
    desired(StatusFields::Delegation(Some(Arc::new(state))))
}

/// The status to write to an InboundRoute with the current status.
fn written(current: &Value, desired: &DesiredStatus) -> Option<Value> {
    let now = NOW.parse().unwrap();
    status(Kind::InboundRoute, &item(current.clone()), desired, "us", now)
}

fn entry(path: &str, active: bool, claimed_at: Option<i64>) -> ClaimEntry {
    ClaimEntry {
        host: HostPattern::parse("www.example.com"),
        path: PathPrefix::parse(path).unwrap(),
        active,
        admitted: true,
        claimed_at,
        after: None,
        reason: (!active).then_some(Reason::HostAlreadyClaimed),
        message: if active { "".into() } else { "it is held".into() },
    }
}

fn root(claims: Vec<ClaimEntry>) -> DesiredStatus {
    let claims = claims.into_iter().collect();
    delegation_of(DelegationState { claims, ..DelegationState::default() })
}

/// The claims that are written: path, state and time.
fn claims(current: &Value, desired: &DesiredStatus) -> Option<Vec<String>> {
    let status = written(current, desired)?;
    let line = |claim: &Value| {
        ["path", "state", "claimedAt"].map(|name| text(claim, name).to_owned()).join(" ")
    };
    Some(list(&status, "claims").iter().map(line).collect())
}

#[test]
fn a_claim_has_the_time_that_is_known_or_else_now() {
    let desired = root(vec![entry("/", true, Some(seconds(BEFORE))), entry("/a", false, None)]);
    let first = written(&Value::Null, &desired).unwrap();
    let expected = json!({"conditions": [], "claims": [
        {"host": "www.example.com", "path": "/", "state": "Active", "claimedAt": BEFORE},
        {"host": "www.example.com", "path": "/a", "state": "Inactive", "claimedAt": NOW,
            "reason": "HostAlreadyClaimed", "message": "it is held"},
    ]});
    assert_eq!(first, expected);
    assert_eq!(written(&first, &desired), None, "what is so is not written again");
}

#[test]
fn a_time_stays_although_the_index_does_not_know_it_yet_and_the_state_changes() {
    let first = json!({"claims": [{"host": "www.example.com", "path": "/", "state": "Active",
        "claimedAt": BEFORE}]});
    assert_eq!(written(&first, &root(vec![entry("/", true, None)])), None);
    let lost = root(vec![entry("/", false, None)]);
    assert_eq!(claims(&first, &lost), Some(vec![format!("/ Inactive {BEFORE}")]));
    let more = root(vec![entry("/", true, None), entry("/b", true, None)]);
    let expected = vec![format!("/ Active {BEFORE}"), format!("/b Active {NOW}")];
    assert_eq!(claims(&first, &more), Some(expected));
    let gone = root(vec![]);
    assert_eq!(claims(&first, &gone), Some(vec![]), "and it does not come back");
}

#[test]
fn a_time_before_the_object_or_far_in_the_future_or_no_time_is_replaced() {
    for wrong in ["2020-01-01T00:00:00Z", "2031-01-01T00:00:00Z", "soon", ""] {
        let current = json!({"claims": [{"host": "www.example.com", "path": "/",
            "state": "Active", "claimedAt": wrong}]});
        let known = root(vec![entry("/", true, Some(seconds(CREATED)))]);
        assert_eq!(claims(&current, &known), Some(vec![format!("/ Active {CREATED}")]), "{wrong}");
        let unknown = root(vec![entry("/", true, None)]);
        assert_eq!(claims(&current, &unknown), Some(vec![format!("/ Active {NOW}")]), "{wrong}");
    }
    // The clock of the leader before was a little ahead.
    let current = json!({"claims": [{"host": "www.example.com", "path": "/", "state": "Active",
        "claimedAt": "2026-11-21T12:00:30Z"}]});
    assert_eq!(claims(&current, &root(vec![entry("/", true, None)])), None);
}

/// The clock of a new leader was behind that of the one before, and a later claim came first.
#[test]
fn a_slow_clock_gives_no_host_to_a_later_claim() {
    let first = |after: Option<i64>| {
        let claim = ClaimEntry { after, ..entry("/", false, None) };
        claims(&Value::Null, &root(vec![claim])).unwrap()
    };
    assert_eq!(first(None), [format!("/ Inactive {NOW}")]);
    assert_eq!(first(Some(seconds(BEFORE))), [format!("/ Inactive {NOW}")]);
    let ahead = seconds(NOW) + 30;
    assert_eq!(first(Some(ahead)), ["/ Inactive 2026-11-21T12:00:31Z"]);
    // A time that is recorded stays.
    let current = json!({"claims": [{"host": "www.example.com", "path": "/", "state": "Inactive",
        "claimedAt": BEFORE, "reason": "HostAlreadyClaimed", "message": "it is held"}]});
    let known = ClaimEntry { after: Some(ahead), ..entry("/", false, None) };
    assert_eq!(written(&current, &root(vec![known])), None);
}

#[test]
fn an_object_that_keeps_nothing_has_no_claims_and_claims_anew_when_it_is_corrected() {
    let first = written(&Value::Null, &root(vec![entry("/", true, Some(seconds(BEFORE)))]));
    let invalid = desired(StatusFields::Delegation(None));
    let second = written(&first.unwrap(), &invalid).unwrap();
    assert_eq!(second["claims"], json!([]));
    assert_eq!(written(&second, &invalid), None);
    let valid = root(vec![entry("/", true, None)]);
    assert_eq!(claims(&second, &valid), Some(vec![format!("/ Active {NOW}")]));
}

#[test]
fn a_claim_that_is_not_admitted_has_no_time_and_begins_when_it_is_admitted() {
    let parked = |reason: Reason| ClaimEntry {
        admitted: false,
        reason: Some(reason),
        ..entry("/", false, None)
    };
    let first = written(&Value::Null, &root(vec![entry("/", true, Some(seconds(BEFORE)))]));
    let first = first.unwrap();
    for reason in [Reason::RootNotAllowedInNamespace, Reason::WildcardNotAllowed] {
        let parked = root(vec![parked(reason)]);
        for before in [&Value::Null, &first] {
            let second = written(before, &parked).unwrap();
            assert_eq!(second["claims"][0].get("claimedAt"), None, "{second}");
            assert_eq!(written(&second, &parked), None);
            // The index may not have seen that the status has no time.
            for known in [None, Some(seconds(CREATED))] {
                let admitted = root(vec![entry("/", true, known)]);
                assert_eq!(claims(&second, &admitted), Some(vec![format!("/ Active {NOW}")]));
            }
        }
    }
}

fn vertex(delegations: Vec<DelegationEntry>) -> DesiredStatus {
    delegation_of(DelegationState { delegations, ..DelegationState::default() })
}

fn connected(prefix: &str, connected_at: Option<i64>) -> DelegationEntry {
    DelegationEntry::Connected {
        parent: key(Kind::InboundRoute, "prod", "root"),
        prefix: PathPrefix::parse(prefix).unwrap(),
        fqdn: HostPattern::parse("www.example.com"),
        hosts: vec![HostPattern::parse("www.example.com"), HostPattern::parse("example.com")],
        connected_at,
    }
}

fn orphaned(parent: Option<&str>, reason: OrphanReason) -> DelegationEntry {
    let last_parent = parent.map(|name| key(Kind::InboundRoute, "prod", name));
    DelegationEntry::Orphaned { last_parent, reason, since: None }
}

#[test]
fn a_connection_begins_once_and_so_does_its_end() {
    let first = written(&Value::Null, &vertex(vec![connected("/a", None)])).unwrap();
    let expected = json!([{"state": {"connected": {
        "parent": {"namespace": "prod", "name": "root", "prefix": "/a"},
        "fqdn": "www.example.com", "hosts": ["www.example.com", "example.com"],
        "connectedAt": NOW,
    }}}]);
    assert_eq!(first["delegationStatuses"], expected);
    assert_eq!(written(&first, &vertex(vec![connected("/a", None)])), None);

    let lost = vertex(vec![orphaned(Some("root"), OrphanReason::GrantRevoked)]);
    let mut second = written(&first, &lost).unwrap();
    let end = |reason: &str, since: &str| {
        json!([{"state": {"orphaned": {"lastParent": {"namespace": "prod", "name": "root"},
            "reason": reason, "since": since}}}])
    };
    assert_eq!(second["delegationStatuses"], end("GrantRevoked", NOW));
    assert_eq!(written(&second, &lost), None);
    // Another reason is no other end.
    second["delegationStatuses"] = end("GrantRevoked", BEFORE);
    let removed = vertex(vec![orphaned(Some("root"), OrphanReason::ParentRemoved)]);
    let third = written(&second, &removed).unwrap();
    assert_eq!(third["delegationStatuses"], end("ParentRemoved", BEFORE));
    // A connection after an interruption is a new one.
    let again = written(&third, &vertex(vec![connected("/a", None)])).unwrap();
    assert_eq!(again["delegationStatuses"], expected);
}

/// It was the first host of the connection.
#[test]
fn the_fqdn_of_a_connection_is_that_of_its_root() {
    let of = |root: &str| DelegationEntry::Connected {
        parent: key(Kind::InboundRoute, "prod", "root"),
        prefix: PathPrefix::parse("/a").unwrap(),
        fqdn: HostPattern::parse(root),
        hosts: vec![HostPattern::parse("example.com")],
        connected_at: None,
    };
    let told = |status: &Value, place: usize| {
        let connected = &status["delegationStatuses"][place]["state"]["connected"];
        (connected["fqdn"].clone(), connected["hosts"].clone(), connected["connectedAt"].clone())
    };
    let mut first = written(&Value::Null, &vertex(vec![of("www.example.com")])).unwrap();
    assert_eq!(told(&first, 0), (json!("www.example.com"), json!(["example.com"]), json!(NOW)));
    // A second root that hands the path over through the same parent begins on its own.
    first["delegationStatuses"][0]["state"]["connected"]["connectedAt"] = json!(BEFORE);
    let second = vertex(vec![of("www.example.com"), of("b.example.com")]);
    let second = written(&first, &second).unwrap();
    assert_eq!(told(&second, 0).2, json!(BEFORE));
    assert_eq!(told(&second, 1), (json!("b.example.com"), json!(["example.com"]), json!(NOW)));
}

#[test]
fn who_never_had_a_parent_and_who_is_refused_are_told_so() {
    let never = vertex(vec![orphaned(None, OrphanReason::NeverDelegated)]);
    let first = written(&Value::Null, &never).unwrap();
    let expected = json!([{"state": {"orphaned": {"reason": "NeverDelegated", "since": NOW}}}]);
    assert_eq!(first["delegationStatuses"], expected);
    assert_eq!(written(&first, &never), None);
    let refused = vertex(vec![DelegationEntry::Rejected {
        parent: key(Kind::InboundRoute, "prod", "root"),
        prefix: PathPrefix::parse("/a").unwrap(),
        reason: Reason::NotPermitted,
        message: "no".into(),
    }]);
    let expected = json!([{"state": {"rejected": {
        "parent": {"namespace": "prod", "name": "root", "prefix": "/a"},
        "reason": "NotPermitted", "message": "no"}}}]);
    assert_eq!(written(&first, &refused).unwrap()["delegationStatuses"], expected);
}

/// The reading of a status that was written.
fn read(status: Value) -> Arc<policy_crds::resource::Recorded> {
    let object = json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
        "metadata": {"name": "o", "namespace": "ns", "creationTimestamp": CREATED},
        "spec": {}, "status": status});
    policy_crds::parse(&object).unwrap().meta.recorded.clone().unwrap()
}

#[test]
fn what_is_written_is_what_is_read() {
    let claims = vec![entry("/", true, Some(seconds(BEFORE))), entry("/a", false, None)];
    let status = written(&Value::Null, &root(claims)).unwrap();
    let recorded = read(status);
    let claimed = |path: &str| {
        let path = PathPrefix::parse(path).unwrap();
        recorded.claimed_at(&HostPattern::parse("www.example.com"), &path)
    };
    assert_eq!(claimed("/"), Some(seconds(BEFORE)));
    assert_eq!(claimed("/a"), Some(seconds(NOW)));

    let refused = DelegationEntry::Rejected {
        parent: key(Kind::InboundRoute, "prod", "third"),
        prefix: PathPrefix::parse("/b").unwrap(),
        reason: Reason::RefNotPermitted,
        message: "no".into(),
    };
    let former = orphaned(Some("second"), OrphanReason::GrantRevoked);
    let places = vertex(vec![connected("/a", Some(seconds(BEFORE))), refused, former]);
    let recorded = read(written(&Value::Null, &places).unwrap());
    let parent = |name: &str| key(Kind::InboundRoute, "prod", name);
    let prefix = PathPrefix::parse("/a").unwrap();
    assert_eq!(recorded.connected_at(&parent("root"), &prefix), Some(seconds(BEFORE)));
    let former = [(parent("second"), Some(seconds(NOW))), (parent("root"), None)];
    assert_eq!(recorded.former_parents().collect::<Vec<_>>(), former);
}

#[test]
fn rules_and_the_rules_in_effect_are_told() {
    let routes = vec![
        RouteEntry {
            path: PathPrefix::parse("/").unwrap(),
            state: RouteState::Programmed,
            reason: None,
        },
        RouteEntry {
            path: PathPrefix::parse("/a").unwrap(),
            state: RouteState::Blackholed,
            reason: Some(Reason::RefNotPermitted),
        },
    ];
    let state = delegation_of(DelegationState { routes, ..DelegationState::default() });
    let expected = json!({"conditions": [], "routes": [
        {"match": "/", "state": "Programmed"},
        {"match": "/a", "state": "Blackholed", "reason": "RefNotPermitted"},
    ]});
    assert_eq!(written(&Value::Null, &state), Some(expected.clone()));
    assert_eq!(written(&expected, &state), None);

    let strict = desired(StatusFields::admission(&Default::default()));
    let told = |current: Value| {
        let now = NOW.parse().unwrap();
        status(Kind::RouteAdmissionPolicy, &item(current), &strict, "us", now)
    };
    let expected = json!({"conditions": [], "routeAdmission": {
        "namespaceOwnership": "Strict", "wildcardPolicy": "WildcardsDisallowed"}});
    assert_eq!(told(Value::Null), Some(expected.clone()));
    assert_eq!(told(expected), None);
}

#[test]
fn a_list_of_another_client_is_emptied() {
    let current = json!({"claims": [{"host": "a.example", "path": "/", "state": "Active"}]});
    let desired = vertex(vec![]);
    let status = written(&current, &desired).unwrap();
    assert_eq!(status["claims"], json!([]));
    assert_eq!(written(&status, &desired), None);
}

/// The times of the last claims were not recorded: an edit of the object put them behind all others.
#[test]
fn a_root_with_every_host_and_path_that_it_may_have_keeps_the_time_of_each() {
    let claim = |host: usize, path: usize| ClaimEntry {
        host: HostPattern::parse(&format!("{}{host}.example", "h".repeat(40))),
        ..entry(&format!("/{}{path}", "p".repeat(80)), true, None)
    };
    let all = (0..17).flat_map(|host| (0..64).map(move |path| claim(host, path))).collect();
    let all = root(all);
    assert_eq!(omissions(all.fields.as_ref().unwrap()), None);
    let first = written(&Value::Null, &all).unwrap();
    let times = list(&first, "claims").iter().filter(|claim| claim["claimedAt"] == NOW);
    assert_eq!(times.count(), 17 * 64);
    assert_eq!(written(&first, &all), None);
}

#[test]
fn a_status_is_bounded_and_says_what_it_leaves_out() {
    let many = |number: usize, length: usize| {
        let path = |at: usize| format!("/{}{at}", "p".repeat(length));
        let claims = (0..number).map(|at| entry(&path(at), true, None)).collect();
        StatusFields::Delegation(Some(Arc::new(DelegationState {
            claims,
            ..DelegationState::default()
        })))
    };
    let words = "the status has only 1088 of 1089 claims and their times";
    assert_eq!(omissions(&many(1089, 10)).as_deref(), Some(words));
    let large = many(1024, 1000);
    assert!(omissions(&large).is_some());
    let status = written(&Value::Null, &desired(large)).unwrap();
    assert!(status.to_string().len() < 700 * 1024, "{}", status.to_string().len());
    assert!(list(&status, "claims").len() > 300);

    let delegations: Vec<_> = (0..70).map(|at| connected(&format!("/{at}"), None)).collect();
    let state = vertex(delegations);
    let words = "the status has only 64 of 70 delegations";
    assert_eq!(omissions(state.fields.as_ref().unwrap()).as_deref(), Some(words));
    let status = written(&Value::Null, &state).unwrap();
    assert_eq!(list(&status, "delegationStatuses").len(), 64);
}
