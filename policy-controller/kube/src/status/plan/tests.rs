//! The plan over time.

use super::*;
use crate::status::debounce::{RECOVERY_DELAY, UNKNOWN_DELAY};
use policy_engine::conditions::{ConditionKind, ObjectCondition, Reason};
use policy_engine::desired_conditions::DesiredConditions;
use policy_engine::programmed::{Programmed, ProgrammedAt};
use policy_engine::testing::key;
use policy_engine::unsent::Unsent;
use serde_json::json;

mod losses;
mod progress;

fn server(name: &str) -> ObjectKey {
    key(Kind::Server, "ns", name)
}

/// The conditions of a Server: accepted, or not because of `message`.
fn accepted(object: &ObjectKey, message: &str, generation: i64) -> DesiredConditions {
    let condition = ObjectCondition {
        object: object.clone(),
        parent: None,
        section: None,
        port: None,
        kind: ConditionKind::Accepted,
        status: message.is_empty(),
        reason: if message.is_empty() { Reason::Accepted } else { Reason::Invalid },
        message: message.into(),
        hostnames: Vec::new(),
    };
    DesiredConditions {
        conditions: Arc::from([condition]),
        generation: Some(generation),
        uid: None,
        fields: None,
    }
}

fn table(entries: &[(&str, &str, i64)]) -> DesiredConditionTable {
    let entry = |(name, message, generation): &(&str, &str, i64)| {
        (server(name), accepted(&server(name), message, *generation))
    };
    entries.iter().map(entry).collect()
}

fn plan(settings: StatusSettings) -> Plan {
    let mut plan = Plan::new(Arc::new(settings));
    plan.complete_counts(Instant::now());
    plan
}

/// A plan for Servers that have a status; their current status is not known.
fn listed(entries: &[(&str, &str, i64)], now: Instant) -> Plan {
    let mut plan = plan(StatusSettings::default());
    plan.update(table(entries), Arc::default(), now);
    assert!(matches!(plan.next(now), NextAction::Wait(None)), "it is not known what they have");
    assert_eq!(
        plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), now),
        Some("v1beta3")
    );
    plan.finish_list(Kind::Server, "v1beta3", now);
    plan
}

fn job(plan: &mut Plan, now: Instant) -> Option<Job> {
    match plan.next(now) {
        NextAction::Job(job) => Some(*job),
        NextAction::Wait(_) => None,
    }
}

fn names(plan: &mut Plan, now: Instant) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(job) = job(plan, now) {
        names.push(job.key.name.to_string());
        plan.done(&job, &Outcome::Written, now);
    }
    names
}

fn refused(code: u16) -> Outcome {
    let message = "no".to_owned();
    Outcome::Failed(StatusApiError::Refused { code, message, retry_after: None })
}

/// Reports how many of two proxies have it in force; `None`: the count is unknown.
fn of_two(plan: &mut Plan, in_force: Option<u64>, now: Instant) {
    let programmed = match in_force {
        Some(in_force) => Programmed::counted(in_force, 2, 0),
        None => {
            let message = "a replica is lost".into();
            Programmed::Unknown { reason: "ReplicaUnreachable".into(), message }
        }
    };
    let at = ProgrammedAt { uid: None, generation: Some(1), programmed, unsent: Unsent::default() };
    let counts = Arc::new(ProgrammedTable::from([(server("a"), at)]));
    plan.update(table(&[("a", "", 1)]), counts, now);
}

#[test]
fn only_what_differs_is_written_after_a_restart() {
    let now = Instant::now();
    let mut plan = plan(StatusSettings::default());
    plan.update(table(&[("right", "", 1), ("wrong", "", 1), ("new", "", 1)]), Arc::default(), now);
    plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), now);
    let item = |name: &str, reason: &str| -> Item {
        let condition = json!({"type": "Accepted", "status": "True", "reason": reason,
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"});
        let metadata = json!({"name": name, "namespace": "ns", "generation": 1});
        let status = json!({"conditions": [condition]});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    };
    plan.observe_page(Kind::Server, &[item("right", "Accepted"), item("wrong", "Other")], now);
    plan.finish_list(Kind::Server, "v1beta3", now);
    assert_eq!(names(&mut plan, now), ["new", "wrong"]);
}

#[test]
fn another_controller_of_the_same_name_is_noticed() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    assert_eq!(names(&mut plan, now), ["a"]);
    let theirs = || -> Item {
        let condition = json!({"type": "Accepted", "status": "False", "reason": "Other",
            "message": "", "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"});
        let metadata = json!({"name": "a", "namespace": "ns", "generation": 1});
        serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": [condition]}}))
            .unwrap()
    };
    // A list may be older than the write.
    plan.observe_page(Kind::Server, &[theirs()], now + LIST_LAG);
    plan.finish_list(Kind::Server, "v1beta3", now + LIST_LAG);
    assert_eq!(
        (names(&mut plan, now + LIST_LAG), plan.overwritten.take()),
        (vec!["a".to_owned()], 0)
    );
    let later = now + 3 * LIST_LAG;
    plan.observe_page(Kind::Server, &[theirs()], later);
    plan.finish_list(Kind::Server, "v1beta3", later);
    assert_eq!((names(&mut plan, later), plan.overwritten.take()), (vec!["a".to_owned()], 1));
}

#[test]
fn a_list_that_is_older_than_the_last_write_hides_nothing() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "one", 1)], now);
    assert_eq!(names(&mut plan, now), ["a"]);
    plan.update(table(&[("a", "two", 1)]), Arc::default(), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    plan.update(table(&[("a", "one", 1)]), Arc::default(), now);
    // Its status before the second write.
    let condition = json!({"type": "Accepted", "status": "False", "reason": "Invalid",
        "message": "one", "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"});
    let metadata = json!({"name": "a", "namespace": "ns", "generation": 1});
    let item = json!({"metadata": metadata, "status": {"conditions": [condition]}});
    plan.observe_page(Kind::Server, &[serde_json::from_value(item).unwrap()], now);
    plan.finish_list(Kind::Server, "v1beta3", now);
    assert_eq!(names(&mut plan, now), ["a"]);
}

#[test]
fn what_was_not_written_because_leadership_was_in_doubt_is_written_once_it_is_not() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    let first = job(&mut plan, now).unwrap();
    plan.done(&first, &Outcome::NotLeading, now);
    assert!(job(&mut plan, now).is_none());
    assert_eq!(names(&mut plan, now + LEADERSHIP_RETRY), ["a"]);
}

#[test]
fn only_what_changed_is_written_and_a_new_generation_is_a_change() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1), ("b", "", 1), ("c", "", 1)], now);
    assert_eq!(names(&mut plan, now), ["a", "b", "c"]);
    let changed = table(&[("a", "", 1), ("b", "bad", 1), ("c", "", 2)]);
    plan.update(changed.clone(), Arc::default(), now);
    assert_eq!(names(&mut plan, now), ["b", "c"]);
    plan.update(changed, Arc::default(), now);
    assert_eq!(names(&mut plan, now), Vec::<String>::new());
}

#[test]
fn what_changes_while_it_is_written_is_written_again_once() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "one", 1)], now);
    let first = job(&mut plan, now).unwrap();
    plan.update(table(&[("a", "two", 1)]), Arc::default(), now);
    plan.update(table(&[("a", "three", 1)]), Arc::default(), now);
    assert!(job(&mut plan, now).is_none(), "it is being written");
    plan.done(&first, &Outcome::Written, now);
    let second = job(&mut plan, now).unwrap();
    assert_eq!(&*second.desired.conditions[0].message, "three");
    plan.done(&second, &Outcome::Written, now);
    assert!(job(&mut plan, now).is_none());
}

#[test]
fn a_deleted_object_is_not_written() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1), ("b", "", 1)], now);
    plan.update(table(&[("b", "", 1)]), Arc::default(), now);
    assert_eq!(names(&mut plan, now), ["b"]);
    assert_eq!(plan.take_counts().1, 1, "a was dropped");
}

#[test]
fn an_object_that_is_refused_waits_longer_each_time_and_holds_up_no_other() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    let first = job(&mut plan, now).unwrap();
    plan.done(&first, &refused(422), now);
    plan.update(table(&[("a", "", 1), ("b", "", 1)]), Arc::default(), now);
    assert_eq!(names(&mut plan, now), ["b"]);
    let mut now = now;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let NextAction::Wait(Some(until)) = plan.next(now) else { panic!("nothing waits") };
        waits.push(until.duration_since(now));
        now = until;
        let again = job(&mut plan, now).unwrap();
        plan.done(&again, &refused(403), now);
    }
    assert!(waits[0] <= Duration::from_secs(1) && waits[3] >= Duration::from_secs(6), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(300)), "{waits:?}");
}

#[test]
fn an_api_server_that_is_away_is_asked_ever_less_often_and_everything_is_written_when_it_is_back() {
    let mut now = Instant::now();
    let entries: Vec<(String, i64)> = (0..100).map(|n| (format!("s{n:03}"), 1)).collect();
    let entries: Vec<(&str, &str, i64)> = entries.iter().map(|(n, g)| (&**n, "", *g)).collect();
    let mut plan = listed(&entries, now);
    let away = Outcome::Failed(StatusApiError::Unreachable("refused".to_owned()));
    let mut attempts = 0;
    let end = now + Duration::from_secs(300);
    while now < end {
        let mut jobs = Vec::new();
        while let Some(job) = job(&mut plan, now) {
            jobs.push(job);
        }
        attempts += jobs.len();
        for job in &jobs {
            plan.done(job, &away, now);
        }
        let NextAction::Wait(Some(until)) = plan.next(now) else { panic!("nothing waits") };
        assert!(until > now);
        now = until;
    }
    assert!((8..250).contains(&attempts), "{attempts} requests in five minutes");
    let mut written = Vec::new();
    while written.len() < 100 {
        written.extend(names(&mut plan, now));
        if let NextAction::Wait(Some(until)) = plan.next(now) {
            now = until;
        }
    }
    assert!(now < end + Duration::from_secs(60), "it took too long");
}

#[test]
fn so_many_at_once_and_no_more() {
    let now = Instant::now();
    let entries: Vec<String> = (0..20).map(|n| format!("s{n:03}")).collect();
    let entries: Vec<(&str, &str, i64)> = entries.iter().map(|name| (&**name, "", 1)).collect();
    let mut plan = listed(&entries, now);
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut plan, now)).collect();
    assert_eq!(jobs.len(), StatusSettings::default().parallelism);
}

#[test]
fn kinds_without_a_status_are_told_by_events_of_what_is_wrong_and_that_it_is_right_again() {
    let now = Instant::now();
    let mut plan = listed(&[("bad", "no", 1), ("good", "", 1)], now);
    let first = job(&mut plan, now).unwrap();
    plan.done(&first, &Outcome::NoStatus, now);
    let event = job(&mut plan, now).unwrap();
    assert_eq!((&*event.key.name, event.channel), ("bad", ReportChannel::Events("v1beta3")));
    plan.done(&event, &Outcome::Unchanged, now);
    assert!(job(&mut plan, now).is_none(), "no event for good");
    plan.repeat_events(now + EVENT_TTL);
    assert!(job(&mut plan, now).is_none());
    let later = now + EVENT_TTL + Duration::from_secs(1);
    plan.repeat_events(later);
    assert_eq!(names(&mut plan, later), ["bad"]);
    plan.update(table(&[("bad", "", 2), ("good", "", 1)]), Arc::default(), later);
    let event = job(&mut plan, later).unwrap();
    assert!(event.recovered);
    plan.done(&event, &Outcome::Unchanged, later);
    assert!(job(&mut plan, later).is_none());
    // The schemas are replaced by ones that have a status.
    plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), later);
    plan.finish_list(Kind::Server, "v1beta3", later);
    assert_eq!(names(&mut plan, later), ["bad", "good"]);
}

#[test]
fn beside_linkerd_only_routes_are_written() {
    let now = Instant::now();
    let mut plan = plan(StatusSettings { beside_linkerd: true, ..StatusSettings::default() });
    plan.update(table(&[("bad", "no", 1)]), Arc::default(), now);
    assert_eq!(plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), now), None);
    assert_eq!(job(&mut plan, now).unwrap().channel, ReportChannel::Events("v1beta3"));
    assert_eq!(plan.set_support(Kind::GrpcRoute, StatusSupport::Status("v1"), now), Some("v1"));
}

#[test]
fn a_claim_without_a_time_is_written_once_and_once_more_where_its_time_is_lost() {
    use policy_engine::delegation::{ClaimEntry, DelegationState};
    use policy_engine::desired_conditions::StatusFields;
    let now = Instant::now();
    let route = key(Kind::InboundRoute, "ns", "root");
    let table = |claimed_at| {
        let claim = ClaimEntry {
            host: policy_core::HostPattern::parse("a.example"),
            path: policy_crds::resource::PathPrefix::parse("/").unwrap(),
            active: true,
            admitted: true,
            claimed_at,
            after: None,
            reason: None,
            message: "".into(),
        };
        let claims = [claim].into_iter().collect();
        let state = DelegationState { claims, ..DelegationState::default() };
        let mut stated = accepted(&route, "", 1);
        stated.fields = Some(StatusFields::Delegation(Some(Arc::new(state))));
        DesiredConditionTable::from([(route.clone(), stated)])
    };
    let mut plan = plan(StatusSettings::default());
    plan.update(table(None), Arc::default(), now);
    plan.set_support(Kind::InboundRoute, StatusSupport::Status("v1alpha1"), now);
    plan.finish_list(Kind::InboundRoute, "v1alpha1", now);
    assert_eq!(names(&mut plan, now), ["root"]);
    plan.update(table(None), Arc::default(), now);
    assert_eq!(names(&mut plan, now), NOBODY);
    // The watch shows the time: the status is read, and is as it should be.
    plan.update(table(Some(7)), Arc::default(), now);
    let read = job(&mut plan, now).unwrap();
    plan.done(&read, &Outcome::Unchanged, now);
    plan.update(table(Some(7)), Arc::default(), now);
    assert_eq!(names(&mut plan, now), NOBODY);
    plan.update(table(None), Arc::default(), now);
    assert_eq!(names(&mut plan, now), ["root"], "at once");
}

const NOBODY: [&str; 0] = [];
