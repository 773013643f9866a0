//! Tests of the table, as the data path and the client of discovery use it.

use super::entry::RENEWAL_INTERVAL;
use super::*;
use policy_core::destination::{
    Endpoint, EndpointMesh, PlaintextReason, ServiceDestination, ServiceName,
};
use std::num::NonZeroU16;
use std::time::Duration;
use tokio::time::advance;

type Table = DestinationTable<Vec<u32>>;

fn table(max_entries: usize) -> Table {
    Table::new(TableSettings { max_entries, ..TableSettings::default() })
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn service() -> Arc<Destination> {
    Arc::new(Destination::Service(ServiceDestination {
        service: ServiceName { namespace: "shop".into(), name: "web".into() },
        port: NonZeroU16::new(80).unwrap(),
        affinity: None,
        endpoints: [].into(),
    }))
}

fn workload() -> Arc<Destination> {
    Arc::new(Destination::Workload(Endpoint {
        address: at("10.1.0.1:80"),
        owner: "deployment/web".into(),
        namespace: "shop".into(),
        mesh: EndpointMesh::Plaintext(PlaintextReason::Unmeshed),
    }))
}

fn known(destination: &Arc<Destination>, is_fresh: bool) -> Knowledge {
    Knowledge::Known { destination: Arc::clone(destination), is_fresh }
}

fn wanted(table: &Table) -> Vec<SocketAddr> {
    let mut wanted: Vec<_> = table.wanted().into_iter().map(|(address, _)| address).collect();
    wanted.sort_unstable();
    wanted
}

#[tokio::test(start_paused = true)]
async fn a_new_address_is_asked_for_and_its_waiters_get_the_answer() {
    let table = table(8);
    let mut demand = table.demand();
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    assert!(demand.has_changed().unwrap());
    demand.mark_unchanged();
    assert_eq!(wanted(&table), [at("10.0.0.1:80")]);
    assert_eq!(entry.state(), Knowledge::Unanswered);
    let other = table.entry(at("[::ffff:10.0.0.1]:80")).unwrap();
    assert_eq!(other.address(), at("10.0.0.1:80"), "the same address in another form");
    assert!(!demand.has_changed().unwrap(), "it is asked for already");
    let waiter = tokio::spawn(async move { other.answered().await });
    tokio::task::yield_now().await;
    table.answer(at("10.0.0.1:80"), service());
    assert_eq!(waiter.await.unwrap(), known(&service(), true));
    assert_eq!(entry.answered().await, known(&service(), true), "answered once is answered");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_each_answer() {
    let table = table(8);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let unknown = Arc::new(Destination::Unknown);
    table.answer(entry.address(), Arc::clone(&unknown));
    let waiting = entry.wait_for(|now| *now != known(&unknown, true));
    let answering = async {
        tokio::task::yield_now().await;
        table.answer(entry.address(), workload());
    };
    assert_eq!(tokio::join!(waiting, answering).0, known(&workload(), true));
    let other = table.entry(at("10.0.0.2:80")).unwrap();
    table.refuse(other.address(), "too many");
    assert_eq!(other.answered().await, Knowledge::Refused { reason: "too many".into() });
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_lost_and_not_unknown() {
    let table = table(8);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    table.answer(entry.address(), workload());
    table.refuse(entry.address(), "too many");
    assert_eq!(entry.state(), known(&workload(), true));
    advance(Duration::from_secs(9)).await;
    // The age counts from the first refusal.
    table.refuse(entry.address(), "too many");
    advance(Duration::from_secs(1)).await;
    assert_eq!(entry.state(), known(&workload(), false));
    table.answer(entry.address(), workload());
    assert_eq!(entry.state(), known(&workload(), true));
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_fresh_for_a_while_and_again_with_the_next_answer() {
    let table = table(8);
    let (entry, new) = (table.entry(at("10.0.0.1:80")).unwrap(), table.entry(at("10.0.0.2:80")));
    table.answer(entry.address(), workload());
    table.lose_all();
    advance(Duration::from_secs(6)).await;
    // Each further attempt that fails loses everything again; the age counts from the first.
    table.lose_all();
    advance(Duration::from_millis(3_999)).await;
    assert_eq!(entry.state(), known(&workload(), true));
    advance(Duration::from_millis(1)).await;
    assert_eq!(entry.state(), known(&workload(), false));
    assert_eq!(new.unwrap().state(), Knowledge::Unanswered);
    table.answer(entry.address(), workload());
    assert_eq!(entry.state(), known(&workload(), true));
}

#[tokio::test(start_paused = true)]
async fn an_equal_answer_is_the_same_value() {
    let table = table(8);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let first = service();
    table.answer(entry.address(), Arc::clone(&first));
    table.answer(entry.address(), service());
    let Knowledge::Known { destination, .. } = entry.state() else { panic!("not known") };
    assert!(Arc::ptr_eq(&first, &destination));
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_entry_without_connections_goes() {
    let table = table(3);
    let one = table.entry(at("10.0.0.1:80")).unwrap();
    for address in ["10.0.0.2:80", "10.0.0.3:80", "10.0.0.2:80"] {
        drop(table.entry(at(address)).unwrap());
    }
    let mut demand = table.demand();
    let four = table.entry(at("10.0.0.4:80")).unwrap();
    assert!(demand.has_changed().unwrap());
    demand.mark_unchanged();
    assert_eq!(wanted(&table), [at("10.0.0.1:80"), at("10.0.0.2:80"), at("10.0.0.4:80")]);
    let two = table.entry(at("10.0.0.2:80")).unwrap();
    assert_eq!(table.entry(at("10.0.0.5:80")).unwrap_err(), TooManyDestinations(3));
    assert!(!demand.has_changed().unwrap(), "what is not there is not asked for");
    let again = table.entry(at("10.0.0.4:80")).unwrap();
    drop(four);
    assert_eq!(table.entry(at("10.0.0.5:80")).unwrap_err(), TooManyDestinations(3));
    drop(again);
    let five = table.entry(at("10.0.0.5:80")).unwrap();
    assert_eq!(wanted(&table), [at("10.0.0.1:80"), at("10.0.0.2:80"), at("10.0.0.5:80")]);
    drop((one, two, five));
    assert_eq!(table.len(), 3, "what was used stays for its time");
}

#[tokio::test(start_paused = true)]
async fn entries_without_connections_go_after_their_time() {
    let table = table(8);
    let used = table.entry(at("10.0.0.1:80")).unwrap();
    for (address, answer) in
        [("10.0.0.2:80", Some(service())), ("10.0.0.3:80", Some(workload())), ("10.0.0.4:80", None)]
    {
        let entry = table.entry(at(address)).unwrap();
        if let Some(answer) = answer {
            table.answer(entry.address(), answer);
        }
    }
    let mut demand = table.demand();
    advance(Duration::from_millis(59_999)).await;
    table.sweep();
    assert_eq!(table.len(), 4);
    assert!(!demand.has_changed().unwrap());
    advance(Duration::from_millis(1)).await;
    table.sweep();
    assert_eq!(wanted(&table), [used.address(), at("10.0.0.2:80")]);
    assert!(demand.has_changed().unwrap());
    demand.mark_unchanged();
    advance(Duration::from_secs(540)).await;
    table.sweep();
    assert_eq!(wanted(&table), [used.address()]);
    assert!(demand.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn while_the_controller_is_lost_what_is_known_stays() {
    let table = table(8);
    for (address, answer) in [("10.0.0.1:80", Some(service())), ("10.0.0.2:80", None)] {
        let entry = table.entry(at(address)).unwrap();
        if let Some(answer) = answer {
            table.answer(entry.address(), answer);
        }
    }
    table.lose_all();
    advance(Duration::from_secs(3600)).await;
    table.sweep();
    assert_eq!(wanted(&table), [at("10.0.0.1:80")], "without what was never answered");
    table.answer(at("10.0.0.1:80"), service());
    table.sweep();
    assert_eq!(wanted(&table), Vec::new(), "confirmed, and not used for its time");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_another_demand_and_the_answer_stays_meanwhile() {
    let table = table(8);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    table.answer(entry.address(), workload());
    let serial = |table: &Table| table.wanted().first().unwrap().1;
    let first = serial(&table);
    let mut demand = table.demand();
    entry.renew();
    let second = serial(&table);
    assert_ne!(first, second);
    assert!(demand.has_changed().unwrap());
    demand.mark_unchanged();
    assert_eq!(entry.state(), known(&workload(), true));
    advance(RENEWAL_INTERVAL).await;
    entry.renew();
    assert_eq!(serial(&table), second, "the first renewal is not answered yet");
    assert!(!demand.has_changed().unwrap());
    table.answer(entry.address(), service());
    entry.renew();
    let third = serial(&table);
    assert_ne!(third, second);
    table.answer(entry.address(), service());
    entry.renew();
    assert_eq!(serial(&table), third, "too soon after the last");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_wants_is_dropped() {
    let table = table(8);
    table.answer(at("10.0.0.1:80"), service());
    table.refuse(at("10.0.0.1:80"), "no");
    assert!(table.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_data_path_keeps_lives_as_long_as_its_entry() {
    let table = table(1);
    table.entry(at("10.0.0.1:80")).unwrap().balancer().lock().push(7);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    assert_eq!(*entry.balancer().lock(), [7]);
    drop(entry);
    drop(table.entry(at("10.0.0.2:80")).unwrap());
    assert!(table.entry(at("10.0.0.1:80")).unwrap().balancer().lock().is_empty());
}

#[test]
fn many_threads_share_the_table() {
    let table = table(64);
    std::thread::scope(|scope| {
        for thread in 0..4_u16 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..2_000_u16 {
                    let port = round.wrapping_mul(7).wrapping_add(thread) % 200;
                    let address = SocketAddr::new([10, 0, 0, 1].into(), port);
                    drop(table.entry(address).unwrap());
                }
            });
        }
    });
    assert_eq!(table.len(), 64);
}
