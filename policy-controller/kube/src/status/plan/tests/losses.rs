//! When a loss is told: a pod that is replaced is none.

use super::*;
use crate::status::quiet::LOSS;
use policy_engine::reach::Reach;

/// Tells that nothing has it in force, and why.
fn nowhere(plan: &mut Plan, reach: Reach, generation: i64, now: Instant) {
    let reach = Arc::new(reach);
    let programmed = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
    let (generation, unsent) = (Some(generation), Unsent::default());
    let at = ProgrammedAt { uid: None, generation, programmed, unsent };
    let counts = Arc::new(ProgrammedTable::from([(server("a"), at)]));
    plan.tell(table(&[("a", "", generation.unwrap())]), counts, now);
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
    assert_eq!(names(&mut plan, now + LOSS - second), NOTHING);
    of_two(&mut plan, Some(2), now + LOSS - second);
    assert_eq!(names(&mut plan, now + LOSS), NOTHING);
    // The next time counts from its own beginning.
    let again = now + LOSS + 5 * second;
    nowhere(&mut plan, no_target(), 1, again);
    assert_eq!(names(&mut plan, again + LOSS - second), NOTHING);
    assert_eq!(names(&mut plan, again + LOSS), ["a"], "it has lasted");
    // Why may change: that is told at once, as what is in force again is once it is quiet.
    nowhere(&mut plan, Reach { bare: 1, ..Reach::default() }, 1, again + LOSS);
    assert_eq!(names(&mut plan, again + LOSS), ["a"]);
    of_two(&mut plan, Some(2), again + LOSS);
    assert_eq!(names(&mut plan, again + LOSS), NOTHING);
    assert_eq!(names(&mut plan, again + LOSS + QUIET), ["a"]);
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
    let later = now + LOSS / 2;
    assert_eq!(names(&mut plan, later), NOTHING);
    of_two(&mut plan, Some(0), later);
    assert_eq!(names(&mut plan, later + PROGRESS), ["a"]);
    nowhere(&mut plan, no_target(), 1, later + PROGRESS);
    assert_eq!(names(&mut plan, now + LOSS), NOTHING);
    assert_eq!(names(&mut plan, later + PROGRESS + LOSS), ["a"]);
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
    plan.found(Kind::Server, Found::Status("v1beta3"), now);
    let condition = |kind: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2020-01-01T00:00:00Z"})
    };
    let conditions =
        [condition("Accepted", ""), condition("Programmed", "in force on 1 of 1 proxies")];
    let metadata = json!({"name": "a", "namespace": "ns", "generation": 1});
    let item = json!({"metadata": metadata, "status": {"conditions": conditions}});
    let item: Item = serde_json::from_value(item).unwrap();
    plan.page(Kind::Server, std::slice::from_ref(&item), now);
    plan.listed(Kind::Server, "v1beta3", now);
    assert_eq!(names(&mut plan, now), NOTHING);
    // Everything is listed again in between, too.
    plan.page(Kind::Server, &[item], now + LOSS / 2);
    plan.listed(Kind::Server, "v1beta3", now + LOSS / 2);
    assert_eq!(names(&mut plan, now + LOSS / 2), NOTHING);
    assert_eq!(names(&mut plan, now + LOSS), ["a"], "it has lasted");
}
