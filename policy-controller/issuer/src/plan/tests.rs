//! The schedule by which roots are published and retired.

use super::Change::{Rotate, Widen};
use super::*;
use crate::authority::Lifetime;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(after: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + seconds(1_800_000_000 + after)
}

fn rotation() -> Rotation {
    Rotation {
        lifetime: seconds(100 * DAY),
        after: 66,
        settle: seconds(HOUR),
        certificates: Lifetime { lifetime: seconds(DAY), skew: seconds(20) },
    }
}

fn held() -> Times {
    Times {
        begins: at(0),
        ends: at(100 * DAY),
        next: None,
        former_until: None,
        formers: 0,
        longest: rotation().longest(),
        requested: false,
    }
}

const LONG: Option<Duration> = Some(Duration::MAX);

fn plan(held: Times, published: Option<Duration>, now: u64) -> Change {
    rotation().plan(held, published, at(now))
}

#[test]
fn what_cannot_be_used_is_made_anew() {
    assert_eq!(plan(held(), LONG, 100 * DAY), Rotate(Step::Create));
    let next = Some(NextCertificate { ends: at(200 * DAY), since: at(100 * DAY - 1) });
    assert_eq!(plan(Times { next, ..held() }, None, 100 * DAY), Rotate(Step::Promote));
}

#[test]
fn the_next_one_is_made_by_time_or_when_asked_for() {
    assert_eq!(plan(held(), LONG, 66 * DAY - 1), Rotate(Step::Keep));
    assert_eq!(plan(held(), LONG, 66 * DAY), Rotate(Step::Stage));
    assert_eq!(plan(Times { requested: true, ..held() }, LONG, 1), Rotate(Step::Stage));
    let many =
        Times { requested: true, formers: MAX_FORMER, former_until: Some(at(9 * DAY)), ..held() };
    assert_eq!(plan(many, LONG, DAY), Rotate(Step::Keep), "former ones are retired first");
    assert_eq!(plan(many, LONG, 9 * DAY), Rotate(Step::Retire));
}

#[test]
fn nothing_is_issued_from_a_root_that_has_not_been_everywhere_for_a_while() {
    let next = Some(NextCertificate { ends: at(166 * DAY), since: at(66 * DAY) });
    let staged = Times { next, ..held() };
    let (early, late) = (66 * DAY + HOUR - 1, 66 * DAY + HOUR);
    assert_eq!(plan(staged, LONG, early), Rotate(Step::Keep));
    assert_eq!(plan(staged, None, late), Rotate(Step::Keep));
    assert_eq!(plan(staged, Some(seconds(HOUR - 1)), late), Rotate(Step::Keep));
    assert_eq!(plan(staged, Some(seconds(HOUR)), late), Rotate(Step::Promote));
    // A namespace that rejects the root does not keep the mesh from having an authority.
    assert_eq!(plan(staged, None, 99 * DAY), Rotate(Step::Promote));
}

#[test]
fn a_former_root_stays_until_nothing_that_it_signed_is_valid() {
    let until = rotation().former_until(rotation().longest(), at(67 * DAY));
    assert!(until >= at(68 * DAY + 20 + 60));
    let overlap = Times {
        begins: at(66 * DAY),
        ends: at(166 * DAY),
        former_until: Some(until),
        formers: 1,
        ..held()
    };
    assert_eq!(plan(overlap, LONG, 68 * DAY), Rotate(Step::Keep));
    let after = until.duration_since(at(0)).unwrap().as_secs();
    assert_eq!(plan(overlap, LONG, after - 1), Rotate(Step::Keep));
    assert_eq!(plan(overlap, LONG, after), Rotate(Step::Retire));
}

#[test]
fn longer_lives_are_noted_before_anything_lives_longer() {
    let shorter = Times { longest: seconds(HOUR), ..held() };
    assert_eq!(plan(shorter, LONG, 70 * DAY), Widen);
    let longer = Times { longest: seconds(30 * DAY), ..held() };
    assert_eq!(plan(longer, LONG, 1), Rotate(Step::Keep), "what was issued before counts");
}

#[test]
fn a_wrong_clock_delays_but_does_not_stop_the_rotation() {
    let next = |since| Some(NextCertificate { ends: at(166 * DAY), since: at(since) });
    let soon = Times { next: next(66 * DAY + HOUR / 2), ..held() };
    assert_eq!(plan(soon, LONG, 66 * DAY), Rotate(Step::Keep));
    let far = Times { next: next(80 * DAY), ..held() };
    assert_eq!(plan(far, LONG, 66 * DAY), Rotate(Step::Stage));
}

/// Three years of hourly reconciliations by one replica while another issues from content an hour
/// old: every client trusts every valid certificate, and no certificate is issued from a root
/// published less than an hour before.
#[test]
fn three_years_of_looks_never_distrust_what_is_valid() {
    let rotation = rotation();
    let mut held = held();
    let mut root = 0_u32;
    let mut bundle = vec![(root, at(0))];
    let mut issued: Vec<(u32, SystemTime)> = Vec::new();
    let mut slow = root;
    let mut rotations = 0;
    for hour in 0..3 * 365 * 24 {
        let now = at(hour * HOUR);
        for by in [slow, root] {
            let published = bundle.iter().find(|(one, _)| *one == by).unwrap().1;
            assert!(by == 0 || now >= published + seconds(HOUR), "hour {hour}");
        }
        issued.retain(|(_, ends)| *ends > now);
        issued.extend([root, slow].map(|by| (by, now + rotation.longest())));
        issued.dedup();
        let trusted = |by: u32| bundle.iter().any(|(one, _)| *one == by);
        assert!(issued.iter().all(|(by, _)| trusted(*by)), "hour {hour}: {bundle:?}");
        slow = root;
        match rotation.plan(held, LONG, now) {
            Rotate(Step::Keep) => {}
            Rotate(Step::Create) | Widen => panic!("hour {hour}"),
            Rotate(Step::Stage) => {
                held.next = Some(NextCertificate { ends: now + rotation.lifetime, since: now });
                bundle.push((root + 1, now));
            }
            Rotate(Step::Promote) => {
                let next = held.next.take().unwrap();
                held.former_until = Some(rotation.former_until(held.longest, now));
                (held.begins, held.ends, held.formers) = (next.since, next.ends, 1);
                root += 1;
                rotations += 1;
                // Within a minute no replica issues from its previous read.
                slow = root;
            }
            Rotate(Step::Retire) => {
                bundle.retain(|(one, _)| *one >= root);
                (held.former_until, held.formers) = (None, 0);
            }
        }
    }
    assert_eq!(rotations, 16);
    assert!(bundle.len() <= 2, "{bundle:?}");
}
