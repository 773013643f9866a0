//! How long a change took is told once, at the last proxy concerned.

use super::*;

/// A ledger with the pods `web-0` and `web-1` that declare port 80, and what both have.
fn two_pods() -> Ledger {
    let mut ledger = Ledger::new(KEEP);
    let pods = [("web-0", Some(1)), ("web-1", Some(1))];
    ledger.want(&news(&[(1, ports(&[(80, wanted(7, &["a"]))]))], &pods));
    for name in ["web-0", "web-1"] {
        ledger.tell(0, &at(name, 80), has(7));
    }
    ledger.settle();
    assert!(ledger.took().is_empty(), "what was there before took no time");
    ledger
}

fn change(ledger: &mut Ledger, since: Instant, content: u64) {
    let shapes = [(1, ports(&[(80, wanted(content, &["a"]))]))];
    ledger.want(&DesiredDelta { since, ..news(&shapes, &[]) });
    ledger.settle();
}

fn acknowledge(ledger: &mut Ledger, name: &str, content: u64, since: Instant) {
    ledger.tell(0, &at(name, 80), Some(InForce { content, refused: None, since }));
    ledger.settle();
}

#[test]
fn the_time_is_from_publishing_to_the_last_acknowledgement() {
    let mut ledger = two_pods();
    let start = Instant::now();
    let after = |ms| start + Duration::from_millis(ms);
    change(&mut ledger, start, 8);
    acknowledge(&mut ledger, "web-1", 8, after(40));
    assert!(ledger.took().is_empty());
    acknowledge(&mut ledger, "web-0", 8, after(30));
    assert_eq!(ledger.took(), [Duration::from_millis(40)]);
    assert!(ledger.took().is_empty());
}

#[test]
fn a_change_that_was_overtaken_is_not_told_of() {
    let mut ledger = two_pods();
    let start = Instant::now();
    change(&mut ledger, start, 8);
    acknowledge(&mut ledger, "web-1", 8, start);
    change(&mut ledger, start, 9);
    for name in ["web-0", "web-1"] {
        acknowledge(&mut ledger, name, 9, start + Duration::from_secs(1));
    }
    assert_eq!(ledger.took(), [Duration::from_secs(1)]);
}

#[test]
fn pods_that_go_are_not_waited_for() {
    let mut ledger = two_pods();
    let start = Instant::now();
    change(&mut ledger, start, 8);
    acknowledge(&mut ledger, "web-1", 8, start + Duration::from_secs(1));
    ledger.want(&news(&[], &[("web-0", None)]));
    ledger.settle();
    assert_eq!(ledger.took(), [Duration::from_secs(1)]);
    change(&mut ledger, start, 9);
    ledger.want(&news(&[], &[("web-1", None)]));
    ledger.settle();
    assert!(ledger.took().is_empty(), "there is nobody whom it came to");
}
