//! Leader election: the decisions of one replica, and three replicas whose clocks are wrong.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::type_complexity,
    reason = "what overflows in a test is a failure of the test; proptest names no types"
)]

use super::decision::{Action, ElectionState, LeaderElectionRecord, MonotonicTime, Timing};
use jiff::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn timing() -> Timing {
    Timing::of(secs(15))
}

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn held(by: &str, renewed: i64) -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder: by.into(),
        lease_duration: Some(secs(15)),
        acquire_time: Some(wall(0)),
        renew_time: Some(wall(renewed)),
        transitions: 4,
    }
}

#[test]
fn the_proportions_leave_time_between_the_end_of_a_leader_and_its_successor() {
    let timing = timing();
    assert_eq!((timing.renew_deadline, timing.retry_period), (secs(10), secs(2)));
}

#[test]
fn a_free_lease_is_acquired_at_once() {
    let mut elector = ElectionState::new("a".into(), timing());
    let free = LeaderElectionRecord { transitions: 4, ..LeaderElectionRecord::default() };
    let expected = LeaderElectionRecord {
        holder: "a".into(),
        lease_duration: Some(secs(15)),
        acquire_time: Some(wall(9)),
        renew_time: Some(wall(9)),
        transitions: 5,
    };
    assert_eq!(elector.decide(&free, secs(1), wall(9)), Action::Acquire(expected.clone()));
    assert!(!elector.leads(secs(1)), "nothing has been written yet");
    elector.note_written(expected.clone(), secs(1));
    assert!(elector.leads(secs(10)) && !elector.leads(secs(11)));
    let renewed = LeaderElectionRecord { renew_time: Some(wall(12)), ..expected.clone() };
    assert_eq!(elector.decide(&expected, secs(4), wall(12)), Action::Renew(renewed));
}

#[test]
fn a_holder_is_judged_by_how_long_ago_its_record_changed_never_by_what_its_clock_says() {
    for renewed in [-1_000_000, 0, 1_000_000] {
        let mut elector = ElectionState::new("b".into(), timing());
        let mut decide = |renewed, now| elector.decide(&held("a", renewed), now, wall(0));
        assert_eq!(decide(renewed, secs(100)), Action::Wait(secs(15)));
        assert_eq!(decide(renewed, secs(114)), Action::Wait(secs(1)));
        assert_eq!(decide(renewed + 1, secs(114)), Action::Wait(secs(15)), "it was renewed");
        assert!(matches!(decide(renewed + 1, secs(129)), Action::Acquire(_)));
    }
}

#[test]
fn a_holder_that_promised_to_be_slower_is_waited_for_longer() {
    let mut elector = ElectionState::new("b".into(), timing());
    let slow = LeaderElectionRecord { lease_duration: Some(secs(30)), ..held("a", 0) };
    assert_eq!(elector.decide(&slow, secs(0), wall(0)), Action::Wait(secs(30)));
    let quick = LeaderElectionRecord { lease_duration: Some(secs(1)), ..held("a", 1) };
    assert_eq!(elector.decide(&quick, secs(1), wall(0)), Action::Wait(secs(15)));
}

#[test]
fn who_sees_another_in_its_place_stops() {
    let mut elector = ElectionState::new("a".into(), timing());
    elector.note_written(held("a", 0), secs(0));
    assert!(elector.leads(secs(1)));
    assert_eq!(elector.decide(&held("b", 1), secs(1), wall(1)), Action::Lost);
    assert!(!elector.leads(secs(1)));
    assert_eq!(elector.decide(&held("b", 1), secs(1), wall(1)), Action::Wait(secs(15)));
}

#[test]
fn a_write_that_was_never_answered_gives_no_leadership_until_it_is_written_again() {
    let mut elector = ElectionState::new("a".into(), timing());
    let record = held("a", 3);
    assert!(matches!(elector.decide(&record, secs(0), wall(0)), Action::Acquire(_)));
    assert!(!elector.leads(secs(0)));
}

#[test]
fn a_released_lease_is_free_and_releasing_what_another_holds_writes_nothing() {
    let mut elector = ElectionState::new("a".into(), timing());
    elector.note_written(held("a", 0), secs(0));
    let released = elector.release(&held("a", 0), wall(1)).unwrap();
    assert_eq!((&*released.holder, released.transitions), ("", 4));
    assert!(!elector.leads(secs(0)));
    let mut successor = ElectionState::new("b".into(), timing());
    assert!(matches!(successor.decide(&released, secs(0), wall(0)), Action::Acquire(_)));
    assert_eq!(elector.release(&held("b", 0), wall(1)), None);
}

/// A replica with its own clock, which is off by `offset` and runs at `speed` percent.
struct Replica {
    elector: ElectionState,
    number: usize,
    runs: usize,
    offset: Duration,
    speed: u32,
    /// The record that it read last and has not acted on, with the version.
    read: Option<(LeaderElectionRecord, u64)>,
    /// The write that it has requested and that was not answered.
    requested: Option<(LeaderElectionRecord, MonotonicTime)>,
}

impl Replica {
    fn new(number: usize, offset: u64, speed: u32) -> Self {
        let elector = ElectionState::new(format!("{number}-0").into(), timing());
        let offset = Duration::from_secs(offset);
        Self { elector, number, runs: 0, offset, speed, read: None, requested: None }
    }

    fn clock(&self, now: Duration) -> MonotonicTime {
        self.offset + now * self.speed / 100
    }

    fn leads(&self, now: Duration) -> bool {
        self.elector.leads(self.clock(now))
    }

    fn crash(&mut self) {
        self.runs += 1;
        let identity = format!("{}-{}", self.number, self.runs);
        self.elector = ElectionState::new(identity.into(), timing());
        (self.read, self.requested) = (None, None);
    }
}

/// The API server's copy.
#[derive(Default)]
struct Store {
    record: LeaderElectionRecord,
    version: u64,
}

/// The next event of a replica.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    Write,
    /// The write arrives, but its response is lost.
    WriteUnanswered,
    Release,
    Crash,
    /// Nothing for some milliseconds: the replica is paused, or the API server is away.
    Pause(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Read),
        12 => Just(Step::Write),
        2 => Just(Step::WriteUnanswered),
        1 => Just(Step::Release),
        1 => Just(Step::Crash),
        6 => (1_u64..6_000).prop_map(Step::Pause),
        1 => (6_000_u64..40_000).prop_map(Step::Pause),
    ]
}

fn take(replica: &mut Replica, store: &mut Store, step: Step, now: &mut Duration) {
    // The wall clock is as wrong as the replica's own.
    let local = replica.clock(*now);
    let wall = Timestamp::from_millisecond(i64::try_from(local.as_millis()).unwrap()).unwrap();
    match step {
        Step::Read => replica.read = Some((store.record.clone(), store.version)),
        Step::Write | Step::WriteUnanswered => {
            let Some((read, version)) = replica.read.take() else { return };
            let (Action::Acquire(record) | Action::Renew(record)) =
                replica.elector.decide(&read, local, wall)
            else {
                return;
            };
            // The request takes a while to arrive, and its answer to come back.
            *now += Duration::from_millis(40);
            if version == store.version {
                store.version += 1;
                store.record = record.clone();
                *now += Duration::from_millis(40);
                if matches!(step, Step::Write) {
                    replica.elector.note_written(record, local);
                }
            }
        }
        Step::Release => {
            let read = store.record.clone();
            if let Some(record) = replica.elector.release(&read, wall) {
                store.version += 1;
                store.record = record;
            }
        }
        Step::Crash => replica.crash(),
        Step::Pause(milliseconds) => *now += Duration::from_millis(milliseconds),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_leaders_and_always_one_in_the_end(
        clocks in prop::collection::vec((0_u64..10_000_000, 85_u32..115), 3),
        steps in prop::collection::vec((0_usize..3, step()), 0..300),
    ) {
        let mut replicas: Vec<Replica> = clocks
            .iter()
            .enumerate()
            .map(|(number, (offset, speed))| Replica::new(number, *offset, *speed))
            .collect();
        let mut store = Store::default();
        let mut now = secs(1);
        for (number, step) in steps {
            take(&mut replicas[number], &mut store, step, &mut now);
            let leaders = replicas.iter().filter(|r| r.leads(now)).count();
            prop_assert!(leaders <= 1, "{leaders} lead after {step:?} of {number} at {now:?}");
        }
        // From here on nothing goes wrong: one leads before long, and stays.
        for round in 0..30 {
            for replica in &mut replicas {
                take(replica, &mut store, Step::Read, &mut now);
                take(replica, &mut store, Step::Write, &mut now);
            }
            let leaders = replicas.iter().filter(|r| r.leads(now)).count();
            prop_assert!(leaders <= 1);
            prop_assert!(round < 12 || leaders == 1, "nobody leads in round {round}");
            now += secs(2);
        }
    }
}
