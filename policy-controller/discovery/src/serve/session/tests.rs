//! A session without its loop: what it sends when the workload changes at a moment of the test's choice.

use super::*;
use crate::serve::applied::AckRegistry;
use crate::serve::authz::{Authorizer, AuthzConfig};
use crate::serve::config::ServeConfig;
use crate::serve::denied::RefusalRegistry;
use crate::serve::metrics::ServeMetrics;
use crate::testing::client::hello;
use crate::testing::{Index, policy};
use policy_engine::handles::Policies;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::messages::{Subscribe, Unsubscribe, WatchResponse};
use policy_server::Allowance;
use policy_server::log::ClientLines;
use prost::Message;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;

fn core(policies: Policies) -> Arc<Core> {
    let (config, metrics) = (ServeConfig::default(), ServeMetrics::default());
    Arc::new(Core {
        policies,
        streams: Allowance::new(config.max_streams_per_peer),
        lookups: Allowance::new(config.max_lookups_per_peer),
        access: Authorizer::new(AuthzConfig::default(), metrics.access.clone(), None),
        reported: reported::room(),
        lines: ClientLines::default(),
        config,
        metrics,
        applied: AckRegistry::default(),
        denied: RefusalRegistry::default(),
        lists: Core::lists_per_peer(),
        sessions: AtomicU64::new(0),
    })
}

async fn session(policies: Policies) -> Session {
    let encodings = Encodings::new(core(policies));
    let peer = Peer::at(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let opened = Session::open(encodings, hello("ns:web-0"), (peer, &Caller::Loopback)).await;
    let mut session = opened.unwrap();
    session.sync_declared_ports().await.unwrap();
    session
}

/// The ports of the next message: those of the workload, or the port that is sent in full.
fn next(session: &mut Session) -> Option<(&'static str, Vec<u32>)> {
    assert!(session.is_due());
    let Payload { own, shared } = session.next_message()?;
    let message = WatchResponse::decode(&*[own, shared].concat()).unwrap();
    Some(match message.kind.unwrap() {
        Answer::Workload(workload) => ("workload", workload.declared_ports),
        Answer::Port(update) => {
            assert_eq!(update.base, None, "it is sent in full");
            ("port", vec![update.port])
        }
    })
}

/// The loop notices a change when it waits, so a workload may change after its ports were opened and
/// before it is sent.
#[tokio::test]
async fn a_client_is_told_of_the_workload_whose_ports_are_open() {
    let (index, policies) = Index::start();
    let pod = index.pod("web-0", &[80]);
    index.set(&pod, 80, &policy("web"), 1);
    let mut session = session(policies).await;
    index.declare(&pod, &[]);
    assert_eq!(next(&mut session), Some(("workload", vec![80])));
    assert_eq!(next(&mut session), Some(("port", vec![80])));
    // Nobody was told of the state in between, so nobody has dropped the port.
    index.declare(&pod, &[80]);
    session.workload_due = true;
    session.sync_declared_ports().await.unwrap();
    assert_eq!(next(&mut session), Some(("workload", vec![80])));
    assert!(!session.is_due());
    // What the client is told is what is done.
    index.declare(&pod, &[]);
    session.workload_due = true;
    session.sync_declared_ports().await.unwrap();
    index.declare(&pod, &[80]);
    assert_eq!(next(&mut session), Some(("workload", vec![])));
    session.workload_due = true;
    session.sync_declared_ports().await.unwrap();
    assert_eq!(next(&mut session), Some(("workload", vec![80])));
    assert_eq!(next(&mut session), Some(("port", vec![80])));
}

/// The client gave the port up before it was told.
#[tokio::test]
async fn an_unsubscription_that_crosses_a_workload_has_the_port_sent_again() {
    let (index, policies) = Index::start();
    let pod = index.pod("web-0", &[]);
    index.set(&pod, 80, &policy("web"), 1);
    let mut session = session(policies).await;
    let say = |kind| WatchRequest { kind: Some(kind) };
    let subscribe = Kind::Subscribe(Subscribe { ports: vec![80] });
    session.request(say(subscribe)).await.unwrap();
    assert_eq!(next(&mut session), Some(("workload", vec![])));
    assert_eq!(next(&mut session), Some(("port", vec![80])));
    index.declare(&pod, &[80]);
    session.workload_due = true;
    session.sync_declared_ports().await.unwrap();
    session.request(say(Kind::Unsubscribe(Unsubscribe { ports: vec![80] }))).await.unwrap();
    assert_eq!(next(&mut session), Some(("workload", vec![80])));
    assert_eq!(next(&mut session), Some(("port", vec![80])));
    assert!(!session.is_due());
}
