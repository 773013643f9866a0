//! Tests of the store as control thread and workers use it.

use super::*;
use policy_core::{
    DefaultPolicy, InformationalHeaders, Owner, PathHandling, Protocol, RateLimit, RouteTable,
    Source, Unmatched,
};
use std::num::NonZeroU32;

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn policy(default: DefaultPolicy) -> Arc<ServerPolicy> {
    limited(default, None)
}

fn limited(default: DefaultPolicy, rate: Option<u32>) -> Arc<ServerPolicy> {
    let limit = |rate| RateLimit {
        source: Source::Default("test".into()),
        total: NonZeroU32::new(rate),
        identity: None,
        overrides: Vec::new(),
        refuses: false,
    };
    Arc::new(ServerPolicy {
        owner: Owner::Default(default),
        protocol: Protocol::Http1,
        deny: None,
        paths: PathHandling::Canonical,
        informational_headers: InformationalHeaders::Enabled,
        upstream_reuse: policy_core::UpstreamReuse::Usual,
        authorizations: default.authorizations(),
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: Vec::new(),
            hosts: BTreeMap::new(),
            otherwise: Unmatched::DefaultRoute,
        },
        rate_limit: rate.map(limit),
        effects: Vec::new(),
        withheld: Vec::new(),
    })
}

fn store(config: StoreConfig) -> PolicyStore {
    PolicyStore::new(config, Arc::new(Telemetry::new(1))).unwrap()
}

fn revision(content: u64) -> Revision {
    Revision { content, ..Revision::default() }
}

fn declared(store: &PolicyStore, ports: &[u16]) {
    let ports = ports.iter().copied().map(port).collect();
    store.declare(&ports, UndeclaredPorts::Default);
}

fn refusal(handle: &PortHandle) -> Option<Denied> {
    handle.live().in_force().err()
}

#[tokio::test(start_paused = true)]
async fn a_port_waits_until_its_policy_arrives() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    let handle = store.port(port(80));
    assert_eq!(handle.ready(Duration::from_secs(1)).await, Err(Denied::PolicyPending));
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.ready(Duration::from_secs(60)).await }
    });
    tokio::task::yield_now().await;
    store.apply(port(80), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(refusal(&handle), None);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_update_keeps_the_last_good_policy() {
    let store = store(StoreConfig::default());
    declared(&store, &[80, 81]);
    store.apply(port(80), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    store.reject(port(80));
    let handle = store.port(port(80));
    assert!(matches!(**handle.live(), Live::Stale { .. }));
    assert_eq!(handle.live().in_force().unwrap().revision, revision(1));
    store.reject(port(81));
    let rejected = store.port(port(81));
    assert_eq!(refusal(&rejected), Some(Denied::PolicyPending));
    assert_eq!(rejected.ready(Duration::from_secs(60)).await, Ok(()), "no use in waiting");
}

#[tokio::test(start_paused = true)]
async fn a_stale_policy_expires_and_comes_back_when_it_is_sent_again() {
    let maximum_age = Some(Duration::from_secs(60));
    let store = store(StoreConfig { maximum_age, ..StoreConfig::default() });
    declared(&store, &[80]);
    store.apply(port(80), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    let handle = store.port(port(80));
    store.lose_all();
    tokio::time::advance(Duration::from_secs(59)).await;
    store.sweep();
    assert_eq!(refusal(&handle), None);
    assert_eq!(store.status()[0].age, Duration::from_secs(59));
    let mut changed = handle.changed();
    changed.mark_unchanged();
    tokio::time::advance(Duration::from_secs(1)).await;
    store.sweep();
    assert_eq!(refusal(&handle), Some(Denied::PolicyExpired));
    assert!(changed.has_changed().unwrap(), "open connections are decided again");
    assert!(store.unready().is_some());
    store.apply(port(80), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    assert_eq!(refusal(&handle), None);
    assert_eq!(store.status()[0].age, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn for_hours_without_the_controller_the_last_policy_decides_and_nothing_new_opens() {
    let store = store(StoreConfig::default());
    declared(&store, &[80, 81]);
    store.apply(port(80), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    let (kept, never) = (store.port(port(80)), store.port(port(81)));
    store.lose_all();
    for hour in 1..=12_u64 {
        tokio::time::advance(Duration::from_secs(3600)).await;
        store.sweep();
        assert_eq!(refusal(&kept), None, "after {hour} hours");
        assert_eq!(refusal(&never), Some(Denied::PolicyPending), "after {hour} hours");
        let text = store.telemetry().encode(&store.status()).unwrap();
        let age = format!("policy_age_seconds{{port=\"80\"}} {}", hour.saturating_mul(3600));
        let line = text.lines().find(|line| line.starts_with(&age));
        assert!(line.is_some(), "{age}");
    }
    let missing = Unready { workload: false, ports: vec![port(81)] };
    assert_eq!(store.unready(), Some(missing), "what never had a policy keeps it unready");
    assert_eq!(kept.live().in_force().unwrap().revision, revision(1));
    store.apply(port(80), policy(DefaultPolicy::Deny), revision(2)).unwrap();
    assert_eq!(kept.live().in_force().unwrap().revision, revision(2), "the first answer counts");
    let of_80 = store.status().into_iter().find(|status| status.port == port(80)).unwrap();
    assert_eq!((of_80.state, of_80.age), ("current", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_equal_policy_wakes_nobody_and_keeps_its_generation() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    let handle = store.port(port(80));
    let first = store.apply(port(80), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    let mut changed = handle.changed();
    changed.mark_unchanged();
    let second = store.apply(port(80), policy(DefaultPolicy::Deny), revision(2)).unwrap();
    assert_eq!(first, second);
    assert!(!changed.has_changed().unwrap());
    assert_eq!(handle.live().in_force().unwrap().revision, revision(2));
    store.lose_all();
    assert!(!changed.has_changed().unwrap(), "a lost stream alone changes no decision");
}

#[tokio::test(start_paused = true)]
async fn the_limiter_is_kept_while_the_limit_is_equal() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    let handle = store.port(port(80));
    let limiter = |default, rate| {
        store.apply(port(80), limited(default, rate), revision(1)).unwrap();
        Arc::clone(&handle.live().in_force().unwrap().limiter)
    };
    let first = limiter(DefaultPolicy::Deny, Some(5));
    let other_policy = limiter(DefaultPolicy::AllUnauthenticated, Some(5));
    assert!(Arc::ptr_eq(&first, &other_policy));
    let other_limit = limiter(DefaultPolicy::AllUnauthenticated, Some(6));
    assert!(!Arc::ptr_eq(&first, &other_limit));
}

#[tokio::test(start_paused = true)]
async fn changed_facts_reach_every_policy_under_a_new_generation() {
    let pending = Some(policy(DefaultPolicy::ClusterUnauthenticated));
    let store = store(StoreConfig { pending, ..StoreConfig::default() });
    declared(&store, &[80, 81]);
    let before = store.apply(port(80), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    let facts =
        Arc::new(Facts { cluster: vec!["10.0.0.0/8".parse().unwrap()], ..Facts::default() });
    let after = store.set_facts(Arc::clone(&facts));
    assert!(after > before);
    for number in [80, 81, 82] {
        let handle = store.port(port(number));
        assert_eq!(handle.live().in_force().unwrap().facts, facts, "port {number}");
    }
    assert_eq!(store.workers().published(), after);
    assert_eq!(store.set_facts(facts), after, "equal facts change nothing");
}

#[tokio::test(start_paused = true)]
async fn undeclared_ports_are_refused_when_the_workload_says_so() {
    let store = store(StoreConfig::default());
    let early = store.port(port(9000));
    let ports = BTreeSet::from([port(80)]);
    store.declare(&ports, UndeclaredPorts::Deny);
    assert_eq!(refusal(&early), Some(Denied::PortUndeclared));
    assert_eq!(refusal(&store.port(port(9001))), Some(Denied::PortUndeclared));
    assert_eq!(
        store.ports().keys().copied().collect::<BTreeSet<_>>(),
        ports,
        "nothing is asked for"
    );
    store.declare(&BTreeSet::from([port(80), port(9000)]), UndeclaredPorts::Deny);
    assert_eq!(refusal(&early), Some(Denied::PolicyPending));
    store.declare(&ports, UndeclaredPorts::Default);
    assert!(matches!(**store.port(port(9001)).live(), Live::Waiting));
}

/// Workers use the last port from the moment at which the workload is known.
#[test]
fn a_declared_port_is_never_undeclared_while_its_workload_is_being_applied() {
    let ports: BTreeSet<_> = (1..=1024).map(port).collect();
    for _ in 0..10 {
        let store = store(StoreConfig::default());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let missing = loop {
                        let unready = store.unready().expect("no port has a policy");
                        if !unready.workload {
                            break unready.ports;
                        }
                        std::thread::yield_now();
                    };
                    assert_eq!(missing.len(), 1024, "all are waited for");
                    assert_eq!(refusal(&store.port(port(1024))), Some(Denied::PolicyPending));
                });
            }
            store.declare(&ports, UndeclaredPorts::Deny);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_declaration_holds_for_ports_that_have_no_cell_yet() {
    let store = store(StoreConfig::default());
    store.inner.set_declared(&BTreeSet::from([port(80)]), UndeclaredPorts::Deny);
    let missing = Unready { workload: false, ports: vec![port(80)] };
    assert_eq!(store.unready(), Some(missing.clone()));
    let early = store.port(port(80));
    assert!(matches!(**early.live(), Live::Waiting));
    assert_eq!(refusal(&store.port(port(81))), Some(Denied::PortUndeclared));
    store.declare(&BTreeSet::from([port(80)]), UndeclaredPorts::Deny);
    assert_eq!(store.unready(), Some(missing));
    assert!(matches!(**early.live(), Live::Waiting) && early.cell.is_declared());
}

#[tokio::test(start_paused = true)]
async fn a_port_that_is_declared_as_it_is_given_up_stays() {
    let store = store(StoreConfig { on_demand_ports: 1, ..StoreConfig::default() });
    declared(&store, &[]);
    drop(store.port(port(9000)));
    store.sweep();
    tokio::time::advance(Duration::from_secs(91)).await;
    store.inner.set_declared(&BTreeSet::from([port(9000)]), UndeclaredPorts::Default);
    store.sweep();
    let _other = store.port(port(9001));
    assert_eq!(store.ports(), BTreeMap::from([(port(9000), true), (port(9001), false)]));
}

#[tokio::test(start_paused = true)]
async fn a_port_that_was_denied_in_between_is_asked_for_anew() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    let _used = store.port(port(9000));
    let before = store.wanted();
    declared(&store, &[80, 9000]);
    declared(&store, &[80]);
    assert_eq!(store.wanted(), before, "its policy was kept all the time");
    store.declare(&BTreeSet::new(), UndeclaredPorts::Deny);
    assert_eq!(store.wanted(), BTreeMap::new());
    declared(&store, &[80]);
    let after = store.wanted();
    assert!(after.keys().eq(before.keys()));
    assert!(after.iter().all(|(port, number)| before[port] != *number), "{after:?}, {before:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pending_policy_is_opaque_on_the_ports_that_say_so() {
    let pending = Some(policy(DefaultPolicy::AllAuthenticated));
    let pending_opaque = BTreeSet::from([port(25)]);
    let store = store(StoreConfig { pending, pending_opaque, ..StoreConfig::default() });
    let pending = |number| {
        let handle = store.port(port(number));
        let live = handle.live();
        ServerPolicy::clone(live.in_force().unwrap().evaluator.policy())
    };
    let usual = policy(DefaultPolicy::AllAuthenticated);
    assert_eq!(pending(80), *usual);
    let opaque = ServerPolicy { protocol: Protocol::Opaque, ..ServerPolicy::clone(&usual) };
    assert_eq!(pending(25), opaque, "nothing else differs");
}

#[tokio::test(start_paused = true)]
async fn ports_on_demand_are_bounded_and_evicted_when_idle() {
    let store = store(StoreConfig { on_demand_ports: 2, ..StoreConfig::default() });
    declared(&store, &[80]);
    let held = store.port(port(1000));
    drop(store.port(port(1001)));
    store.sweep();
    assert_eq!(refusal(&store.port(port(1002))), Some(Denied::PolicyPending));
    assert_eq!(store.ports().len(), 3, "the third port got no cell");
    tokio::time::advance(Duration::from_secs(6)).await;
    let third = store.port(port(1002));
    assert!(store.ports().contains_key(&port(1002)), "an idle port made room");
    assert!(store.ports().contains_key(&port(1000)), "a port in use did not");
    drop(third);
    drop(held);
    store.sweep();
    tokio::time::advance(Duration::from_secs(91)).await;
    store.sweep();
    assert_eq!(store.ports().keys().copied().collect::<Vec<_>>(), vec![port(80)]);
}

#[tokio::test(start_paused = true)]
async fn a_network_with_every_port_on_demand_gives_one_to_another_at_once() {
    let store = store(StoreConfig { on_demand_ports: 4, ..StoreConfig::default() });
    declared(&store, &[80]);
    let greedy = "10.0.0.1".parse().unwrap();
    let held: Vec<_> = (1000..1100).map(|number| store.port_for(port(number), greedy)).collect();
    assert_eq!(store.ports().len(), 5);
    let other = store.port_for(port(2000), "10.0.0.2".parse().unwrap());
    assert!(store.ports().contains_key(&port(2000)));
    assert_eq!(store.ports().len(), 5);
    drop((held, other));
}

#[tokio::test(start_paused = true)]
async fn a_pending_policy_decides_until_the_first_answer_and_never_after_it() {
    let pending = Some(policy(DefaultPolicy::AllUnauthenticated));
    let store = store(StoreConfig { pending, ..StoreConfig::default() });
    declared(&store, &[80]);
    let handle = store.port(port(80));
    assert_eq!(handle.ready(Duration::ZERO).await, Ok(()));
    let ports = vec![port(80)];
    assert_eq!(store.unready(), Some(Unready { workload: false, ports }), "nothing was received");
    store.apply(port(80), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    assert_eq!(store.unready(), None);
    let live = handle.live();
    assert_eq!(live.in_force().unwrap().evaluator.policy(), &policy(DefaultPolicy::Deny));
    drop(live);
    let rejected = store.port(port(81));
    store.reject(port(81));
    assert_eq!(
        refusal(&rejected),
        Some(Denied::PolicyPending),
        "an unusable answer grants nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_names_what_is_missing() {
    let store = store(StoreConfig::default());
    assert_eq!(store.unready(), Some(Unready { workload: true, ports: Vec::new() }));
    declared(&store, &[80, 81]);
    store.port(port(9000));
    let missing = Unready { workload: false, ports: vec![port(80), port(81)] };
    assert_eq!(store.unready(), Some(missing));
    store.apply(port(80), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    store.apply(port(81), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    assert_eq!(store.unready(), None);
    store.lose_all();
    assert_eq!(store.unready(), None, "the last good policy counts");
}

#[tokio::test(start_paused = true)]
async fn a_generation_is_acknowledged_only_after_the_workers_passed_it() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    let worker = store.workers().register();
    let handle = store.port(port(80));
    let generation = store.apply(port(80), policy(DefaultPolicy::Deny), revision(1)).unwrap();
    assert_eq!(handle.live().in_force().unwrap().generation, generation, "readable once published");
    let bound = Duration::from_secs(60);
    assert!(tokio::time::timeout(bound, store.workers().wait_reached(generation)).await.is_err());
    worker.reach(generation);
    store.workers().wait_reached(generation).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_an_evicted_port_changes_nothing() {
    let store = store(StoreConfig::default());
    declared(&store, &[80]);
    store.apply(port(9000), policy(DefaultPolicy::AllUnauthenticated), revision(1)).unwrap();
    assert!(!store.ports().contains_key(&port(9000)));
}
