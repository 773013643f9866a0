//! The duration of a change is observed once, at the last proxy concerned.

use super::*;

/// A acks with the pods `web-0` and `web-1` that declare port 80, and what both have.
fn two_pods() -> AckTable {
    let mut acks = AckTable::new(KEEP);
    let pods = [("web-0", Some(1)), ("web-1", Some(1))];
    acks.set_desired(&news(&[(1, ports(&[(80, wanted(7, &["a"]))]))], &pods));
    for name in ["web-0", "web-1"] {
        acks.record(0, &at(name, 80), has(7));
    }
    acks.recount();
    assert!(acks.take_durations().is_empty(), "what was there before took no time");
    acks
}

fn change(acks: &mut AckTable, since: Instant, content: u64) {
    let shapes = [(1, ports(&[(80, wanted(content, &["a"]))]))];
    acks.set_desired(&DesiredDelta { since, ..news(&shapes, &[]) });
    acks.recount();
}

fn acknowledge(acks: &mut AckTable, name: &str, content: u64, since: Instant) {
    acks.record(0, &at(name, 80), Some(InForce { content, refused: None, since }));
    acks.recount();
}

#[test]
fn the_time_is_from_publishing_to_the_last_acknowledgement() {
    let mut acks = two_pods();
    let start = Instant::now();
    let after = |ms| start + Duration::from_millis(ms);
    change(&mut acks, start, 8);
    acknowledge(&mut acks, "web-1", 8, after(40));
    assert!(acks.take_durations().is_empty());
    acknowledge(&mut acks, "web-0", 8, after(30));
    assert_eq!(acks.take_durations(), [Duration::from_millis(40)]);
    assert!(acks.take_durations().is_empty());
}

#[test]
fn a_change_that_was_overtaken_is_not_told_of() {
    let mut acks = two_pods();
    let start = Instant::now();
    change(&mut acks, start, 8);
    acknowledge(&mut acks, "web-1", 8, start);
    change(&mut acks, start, 9);
    for name in ["web-0", "web-1"] {
        acknowledge(&mut acks, name, 9, start + Duration::from_secs(1));
    }
    assert_eq!(acks.take_durations(), [Duration::from_secs(1)]);
}

#[test]
fn pods_that_go_are_not_waited_for() {
    let mut acks = two_pods();
    let start = Instant::now();
    change(&mut acks, start, 8);
    acknowledge(&mut acks, "web-1", 8, start + Duration::from_secs(1));
    acks.set_desired(&news(&[], &[("web-0", None)]));
    acks.recount();
    assert_eq!(acks.take_durations(), [Duration::from_secs(1)]);
    change(&mut acks, start, 9);
    acks.set_desired(&news(&[], &[("web-1", None)]));
    acks.recount();
    assert!(acks.take_durations().is_empty(), "there is nobody whom it came to");
}
