//! How proxies that apply a policy, and replicas that are lost, reach the status.

use super::*;

#[test]
fn progress_is_told_every_few_seconds_and_the_end_of_it_at_once() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    let count = |plan: &mut Plan, in_force, now| {
        let programmed = Programmed::counted(in_force, 9, 0);
        let at =
            ProgrammedAt { uid: None, generation: Some(1), programmed, unsent: Unsent::default() };
        let counts = Arc::new(ProgrammedTable::from([(server("a"), at)]));
        plan.update(table(&[("a", "", 1)]), counts, now);
    };
    count(&mut plan, 1, now);
    assert_eq!(names(&mut plan, now), ["a"]);
    for in_force in 2..8 {
        count(&mut plan, in_force, now);
    }
    assert_eq!(names(&mut plan, now), Vec::<String>::new());
    let later = now + PROGRESS_INTERVAL;
    let written = job(&mut plan, later).unwrap();
    assert_eq!(&*written.desired.conditions[1].message, "in force on 7 of 9 proxies");
    plan.done(&written, &Outcome::Written, later);
    count(&mut plan, 8, later);
    assert!(job(&mut plan, later).is_none());
    count(&mut plan, 9, later);
    assert_eq!(names(&mut plan, later), ["a"]);
}

#[test]
fn what_a_new_leader_counts_is_provisional_until_its_clients_had_time_to_connect() {
    let now = Instant::now();
    let mut plan = plan_of_one(now);
    of_two(&mut plan, Some(1), now);
    let first = job(&mut plan, now).unwrap();
    plan.done(&first, &Outcome::Unchanged, now);
    // All of them are there: nothing to write but what the status has.
    let mut connected = plan_of_one(now);
    of_two(&mut connected, Some(2), now);
    assert!(!job(&mut connected, now).unwrap().desired.provisional);
    // One is not there in the end: the same count is news now.
    let later = now + COUNTS_INCOMPLETE;
    assert!(job(&mut plan, later).is_none());
    plan.complete_counts(later);
    let last = job(&mut plan, later).unwrap();
    assert_eq!((first.desired.provisional, last.desired.provisional), (true, false));
}

fn plan_of_one(now: Instant) -> Plan {
    let mut plan = Plan::new(Arc::new(StatusSettings::default()));
    plan.update(table(&[("a", "", 1)]), Arc::default(), now);
    plan.set_support(Kind::Server, StatusSupport::Status("v1beta3"), now);
    plan.finish_list(Kind::Server, "v1beta3", now);
    plan
}

#[test]
fn what_gets_worse_is_told_at_once_and_what_gets_better_once_it_is_quiet() {
    let mut now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    of_two(&mut plan, Some(1), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    of_two(&mut plan, Some(2), now);
    assert_eq!(names(&mut plan, now), ["a"], "in force for the first time");
    // A pod starts every two seconds, and has acknowledged a second later.
    let mut written = 0;
    for _ in 0..30 {
        of_two(&mut plan, Some(1), now);
        written += names(&mut plan, now).len();
        now += Duration::from_secs(1);
        of_two(&mut plan, Some(2), now);
        written += names(&mut plan, now).len();
        now += Duration::from_secs(1);
        written += names(&mut plan, now).len();
    }
    assert_eq!(written, 1, "that it fell");
    now += RECOVERY_DELAY;
    assert_eq!(names(&mut plan, now), ["a"], "it is quiet");
    of_two(&mut plan, Some(1), now);
    assert_eq!(names(&mut plan, now), ["a"], "a degradation is written at once again");
}

#[test]
fn a_replica_that_is_lost_for_a_moment_makes_no_object_unknown() {
    let now = Instant::now();
    let mut plan = listed(&[("a", "", 1)], now);
    of_two(&mut plan, Some(2), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    of_two(&mut plan, None, now);
    let soon = now + UNKNOWN_DELAY / 2;
    assert_eq!(names(&mut plan, soon), Vec::<String>::new());
    of_two(&mut plan, Some(2), soon);
    assert_eq!(names(&mut plan, now + UNKNOWN_DELAY), Vec::<String>::new(), "it was a moment");
    of_two(&mut plan, None, now + UNKNOWN_DELAY);
    of_two(&mut plan, Some(1), now + UNKNOWN_DELAY + UNKNOWN_DELAY / 2);
    assert_eq!(
        names(&mut plan, now + UNKNOWN_DELAY + UNKNOWN_DELAY / 2),
        ["a"],
        "what is worse is known"
    );
    of_two(&mut plan, None, now + 2 * UNKNOWN_DELAY);
    assert_eq!(names(&mut plan, now + 3 * UNKNOWN_DELAY), ["a"], "it has lasted");
}

#[test]
fn a_replica_that_answers_now_and_then_does_not_keep_an_object_from_being_unknown() {
    let second = Duration::from_secs(1);
    let (began, mut now) = (Instant::now(), Instant::now());
    let mut plan = listed(&[("a", "", 1)], now);
    of_two(&mut plan, Some(2), now);
    assert_eq!(names(&mut plan, now), ["a"]);
    let written_at = loop {
        of_two(&mut plan, None, now);
        if !names(&mut plan, now).is_empty() {
            break now;
        }
        // It degraded in between, too, and stays that way: that is written without restarting the
        // delay.
        let in_force = if now < began + UNKNOWN_DELAY / 2 { 2 } else { 1 };
        of_two(&mut plan, Some(in_force), now + second);
        names(&mut plan, now + second);
        now += 2 * second;
        assert!(now < began + 9 * UNKNOWN_DELAY, "it is never written");
    };
    assert!(
        written_at >= began + UNKNOWN_DELAY && written_at <= began + UNKNOWN_DELAY + 2 * second,
        "{:?}",
        written_at - began
    );
    // Known for long: the next time counts from its own beginning.
    of_two(&mut plan, Some(2), written_at);
    assert_eq!(names(&mut plan, written_at), ["a"]);
    of_two(&mut plan, None, written_at + second);
    of_two(&mut plan, Some(2), written_at + 2 * second);
    let later = written_at + 3 * second + UNKNOWN_DELAY;
    of_two(&mut plan, None, later);
    assert_eq!(names(&mut plan, later + UNKNOWN_DELAY / 2), Vec::<String>::new());
    assert_eq!(names(&mut plan, later + UNKNOWN_DELAY), ["a"]);
}
