//! Delays of losses: a pod that is replaced is none.

use super::*;
use crate::status::debounce::LOSS_DELAY;
use policy_engine::reach::Reach;

/// Reports that it is in force nowhere, and why.
fn nowhere(plan: &mut Plan, reach: Reach, generation: i64, now: Instant) {
    let reach = Arc::new(reach);
    let programmed = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
    let (generation, unsent) = (Some(generation), Unsent::default());
    let at = ProgrammedAt { uid: None, generation, programmed, unsent };
    let counts = Arc::new(ProgrammedTable::from([(server("a"), at)]));
    plan.update(table(&[("a", "", generation.unwrap())]), counts, now);
}

fn no_target() -> Reach {
    Reach::nowhere("NoTarget", "selects no pod")
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_pod_that_is_replaced_is_no_loss_of_what_holds_on_it_alone() {
    let second = Duration::from_secs(1);
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    of_two(&mut plan, Some(2), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    // It goes, another is scheduled and starts, and has acknowledged a moment later.
    nowhere(&mut plan, no_target(), 1, now);
    assert_eq!(names(&mut plan, now), NOTHING);
    nowhere(&mut plan, Reach { idle: 1, ..Reach::default() }, 1, now + 10 * second);
    assert_eq!(names(&mut plan, now + LOSS_DELAY - second), NOTHING);
    of_two(&mut plan, Some(2), now + LOSS_DELAY - second);
    assert_eq!(names(&mut plan, now + LOSS_DELAY), NOTHING);
    // The next time counts from its own beginning.
    let again = now + LOSS_DELAY + 5 * second;
    nowhere(&mut plan, no_target(), 1, again);
    assert_eq!(names(&mut plan, again + LOSS_DELAY - second), NOTHING);
    assert_eq!(names(&mut plan, again + LOSS_DELAY), ["a"], "it has lasted");
    // The reason may change: that is written at once, and recovery after its delay.
    nowhere(&mut plan, Reach { bare: 1, ..Reach::default() }, 1, again + LOSS_DELAY);
    assert_eq!(names(&mut plan, again + LOSS_DELAY), ["a"]);
    of_two(&mut plan, Some(2), again + LOSS_DELAY);
    assert_eq!(names(&mut plan, again + LOSS_DELAY), NOTHING);
    assert_eq!(names(&mut plan, again + LOSS_DELAY + RECOVERY_DELAY), ["a"]);
}

#[test]
fn a_pod_that_is_replaced_before_it_acknowledged_is_no_loss_either() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    of_two(&mut plan, Some(1), now);
    let written = job(&mut plan, now).unwrap();
    // It goes while that is written.
    nowhere(&mut plan, no_target(), 1, now);
    plan.done(&written, &Outcome::Written, now);
    let later = now + LOSS_DELAY / 2;
    assert_eq!(names(&mut plan, later), NOTHING);
    of_two(&mut plan, Some(0), later);
    assert_eq!(names(&mut plan, later + PROGRESS_INTERVAL), ["a"]);
    nowhere(&mut plan, no_target(), 1, later + PROGRESS_INTERVAL);
    assert_eq!(names(&mut plan, now + LOSS_DELAY), NOTHING);
    assert_eq!(names(&mut plan, later + PROGRESS_INTERVAL + LOSS_DELAY), ["a"]);
}

#[test]
fn what_is_edited_or_new_is_told_at_once_that_it_is_in_force_nowhere() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    nowhere(&mut plan, no_target(), 1, now);
    assert_eq!(names(&mut plan, now), ["a"], "it is new");
    of_two(&mut plan, Some(2), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    nowhere(&mut plan, no_target(), 1, now);
    assert_eq!(names(&mut plan, now), NOTHING);
    nowhere(&mut plan, no_target(), 2, now);
    assert_eq!(names(&mut plan, now), ["a"], "it was edited");
}

#[test]
fn who_begins_to_lead_while_a_pod_is_replaced_tells_of_no_loss() {
    let now = Instant::now();
    let mut plan = plan(StatusSettings::default());
    nowhere(&mut plan, no_target(), 1, now);
    plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), now);
    let condition = |kind: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"})
    };
    let conditions =
        [condition("Accepted", ""), condition("Programmed", "in force on 1 of 1 proxies")];
    let metadata = json!({"name": "a", "namespace": "ns", "generation": 1});
    let item = json!({"metadata": metadata, "status": {"conditions": conditions}});
    let item: Item = serde_json::from_value(item).unwrap();
    plan.observe_page(Kind::Server, std::slice::from_ref(&item), now);
    plan.finish_list(Kind::Server, "v1beta3", now);
    assert_eq!(names(&mut plan, now), NOTHING);
    // A resync in between does not restart the delay.
    plan.observe_page(Kind::Server, &[item], now + LOSS_DELAY / 2);
    plan.finish_list(Kind::Server, "v1beta3", now + LOSS_DELAY / 2);
    assert_eq!(names(&mut plan, now + LOSS_DELAY / 2), NOTHING);
    assert_eq!(names(&mut plan, now + LOSS_DELAY), ["a"], "it has lasted");
}
