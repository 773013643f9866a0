//! Tests of the order of permits, by example and by property.
#![allow(clippy::arithmetic_side_effects, reason = "test amounts are small")]

use super::*;
use proptest::prelude::*;
use std::net::IpAddr;
use std::time::Duration;

fn network(n: u8) -> ClientNetwork {
    ClientNetwork::of(IpAddr::from([10, 0, 0, n]))
}

/// Returns all waiters in the order of their permits.
fn drained(mut queue: Queue<(u8, u64)>) -> Vec<(u8, u64)> {
    std::iter::from_fn(|| queue.next_waiter()).collect()
}

#[test]
fn a_small_piece_of_work_comes_before_the_backlog_of_others() {
    let mut queue = Queue::new(1);
    assert!(queue.try_start() && !queue.try_start());
    for from in 1..4 {
        for _ in 0..100 {
            queue.push(network(from), 1000, (from, 1000));
        }
    }
    assert_eq!(queue.next_waiter(), Some((1, 1000)));
    queue.push(network(9), 10, (9, 10));
    let order = drained(queue);
    let place = order.iter().position(|(from, _)| *from == 9).unwrap();
    assert!(place <= 2, "{place}");
    assert_eq!(order.len(), 300);
}

#[test]
fn who_stops_waiting_is_passed_over_and_nothing_is_kept_of_who_left() {
    let mut queue = Queue::new(1);
    assert!(queue.try_start());
    let first = queue.push(network(1), 1, 1);
    queue.push(network(2), 1, 2);
    queue.cancel(first);
    queue.cancel(first);
    assert_eq!(queue.next_waiter(), Some(2));
    assert_eq!(queue.next_waiter(), None);
    assert!(queue.backlogs.is_empty() && queue.waiting.is_empty());
    assert!(queue.try_start() && !queue.try_start(), "one turn is free again, and one only");
}

#[tokio::test]
async fn a_turn_that_nobody_waits_for_any_more_is_the_next_one_s() {
    let turns = FairScheduler::new(1);
    let held = turns.acquire(network(1), 1).await.unwrap();
    let mut impatient = Box::pin(turns.acquire(network(2), 1));
    assert!(futures_util::poll!(impatient.as_mut()).is_pending());
    let patient = tokio::spawn({
        let turns = turns.clone();
        async move { turns.acquire(network(3), 1).await.is_some() }
    });
    tokio::task::yield_now().await;
    // Granted, but cancelled before it noticed.
    drop(held);
    drop(impatient);
    assert!(tokio::time::timeout(Duration::from_secs(5), patient).await.unwrap().unwrap());
    let again = tokio::time::timeout(Duration::from_secs(5), turns.acquire(network(1), 1)).await;
    assert!(again.unwrap().is_some());
    assert!(turns.queue.lock().try_start(), "the turn is free again");
}

proptest! {
    #[test]
    fn a_client_with_one_piece_of_work_waits_for_little_of_any_other(
        backlog in prop::collection::vec((1u8..6, 1u64..1000), 0..60),
        served in 0usize..60,
        own in 1u64..1000,
    ) {
        let mut queue = Queue::new(1);
        prop_assert!(queue.try_start());
        for (from, cost) in &backlog {
            queue.push(network(*from), *cost, (*from, *cost));
        }
        let done = (0..served.min(backlog.len().saturating_sub(1))).map(|_| queue.next_waiter()).count();
        queue.push(network(9), own, (9, own));
        let order = drained(queue);
        prop_assert_eq!(order.len(), backlog.len() - done + 1, "everyone has a turn");
        let place = order.iter().position(|(from, _)| *from == 9).unwrap();
        for other in 1..6 {
            let before: Vec<u64> =
                order[..place].iter().filter(|(from, _)| *from == other).map(|(_, c)| *c).collect();
            // Its first may have been begun long ago in virtual time; the rest fits beside ours.
            let rest: u64 = before.iter().skip(1).sum();
            prop_assert!(rest <= own, "{other}: {before:?}, own {own}");
        }
    }
}
