//! The record of refusals and audited permits, and the id by which callers, logs and tools name it.

use crate::grpc::call;
use crate::outbound::{Outbound, SERVICE};
use crate::support::*;
use crate::tls::{Mesh, connect};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use policy_core::{DefaultPolicy, Destination, Protocol, RequestMatch, ServiceName};
use policy_enforce::record::{
    ClientKey, DecisionGroup, DecisionMode, Decisions, GroupReason, GroupSubject, Notices,
};
use policy_proxy::SidecarConfig;
use policy_testkit::{Authority, dns as san};
use policy_tls::identity::IdentityHandle;
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) const UID: &str = "9f3c4b1e-0000-4000-8000-000000000000";

fn record() -> Arc<Decisions> {
    Arc::new(Decisions::new(DecisionMode::Full, UID, SystemTime::now()))
}

fn recording(decisions: &Arc<Decisions>) -> impl FnOnce(&mut SidecarConfig) {
    let decisions = Arc::clone(decisions);
    move |config| {
        let notices = Notices::new("ns/web-0", Notices::INTERVAL);
        config.notices = Arc::new(notices.with_decisions(decisions));
    }
}

/// A sidecar with this policy, its record, and a client of it with an identity.
async fn meshed(policy: policy_core::ServerPolicy) -> (App, Setup, Arc<Decisions>, Authority) {
    let (authority, app, decisions) = (Authority::new(), App::start().await, record());
    let identity = IdentityHandle::new(authority.workload());
    let change = recording(&decisions);
    let setup = Setup::with(Some(policy), app.address, identity, change).await;
    (app, setup, decisions, authority)
}

fn only(decisions: &Decisions) -> DecisionGroup {
    let groups = decisions.groups();
    assert_eq!(groups.len(), 1, "{groups:#?}");
    groups[0].clone()
}

pub(crate) fn id(headers: &HeaderMap) -> Option<String> {
    headers.get("portcullis-decision").map(|id| id.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_meshed_caller_gets_the_id_of_its_refusal_and_a_stranger_none() {
    let closed = route(prefix("/closed"), nobody());
    let open = route(prefix("/open"), everybody());
    let policy = with_routes(server(detect(), nobody()), vec![open, closed]);
    let (_app, setup, decisions, authority) = meshed(policy).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let mut client = Client::new(connect(&setup, &connector).await.unwrap()).await;
    let refused = client.get("/closed/a?token=secret").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let group = only(&decisions);
    assert_eq!(id(&refused.headers), Some(group.id.to_string()));
    assert!(group.id.to_string().starts_with("kwy4"), "{}", group.id);
    assert_eq!(group.subject, GroupSubject::Client(ClientKey::Identity(dns("bot"))));
    assert_eq!((group.key.reason.as_str(), group.key.port, group.count), ("unauthorized", 8080, 1));
    let [sample] = &group.samples[..] else { panic!("{group:?}") };
    let told = (sample.method.as_deref(), sample.host.as_deref(), sample.path.as_deref());
    assert_eq!(told, (Some("GET"), Some("web.example"), Some("/closed/a")));
    // The same cause is the same group.
    assert_eq!(id(&client.get("/closed/b").await.headers), Some(group.id.to_string()));
    assert_eq!(only(&decisions).count, 2);
    let permitted = client.ask("/open", &[("portcullis-decision", "spoofed")]).await;
    assert_eq!((permitted.status, id(&permitted.headers)), (StatusCode::OK, None));
    assert!(!permitted.body.contains("portcullis-decision"), "{}", permitted.body);
    let mut stranger = Client::new(setup.connect().await).await;
    let refused = stranger.get("/closed").await;
    assert_eq!((refused.status, id(&refused.headers)), (StatusCode::FORBIDDEN, None));
    assert_eq!(decisions.groups().len(), 2);
}

#[tokio::test]
async fn a_grpc_caller_gets_the_id_in_the_trailers_of_a_call_that_was_cut() {
    let policy = server(Protocol::Grpc, everybody());
    let (_app, setup, decisions, authority) = meshed(policy).await;
    let connector = authority.client(authority.leaf(&[san(&name("bot"))]));
    let stream = connect(&setup, &connector).await.unwrap();
    let mut sender = policy_testkit::http2_client(stream).await;
    let mut body = sender.send_request(call("/pkg.Stream/Tick")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    let secret = route(RequestMatch::grpc(Some("pkg.Stream"), None), nobody());
    setup.apply(with_routes(server(Protocol::Grpc, nobody()), vec![secret])).await;
    let trailers = loop {
        match body.frame().await.unwrap().unwrap().into_trailers() {
            Ok(trailers) => break trailers,
            Err(_) => continue,
        }
    };
    let group = only(&decisions);
    assert_eq!(group.key.reason.as_str(), "revoked");
    assert_eq!(id(&trailers), Some(group.id.to_string()));
    let refused = sender.send_request(call("/pkg.Stream/Tick")).await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], "7");
    let of = |reason: &str| {
        let groups = decisions.groups();
        groups.into_iter().find(|group| group.key.reason.as_str() == reason).unwrap()
    };
    assert_eq!(id(refused.headers()), Some(of("unauthorized").id.to_string()));
}

#[tokio::test]
async fn connections_and_audited_permits_are_recorded_too() {
    let (app, decisions) = (App::start().await, record());
    let change = recording(&decisions);
    let policy = Some(server(Protocol::Opaque, nobody()));
    let setup = Setup::with(policy, app.address, IdentityHandle::empty(), change).await;
    assert_eq!(raw(setup.address, b"hello", true).await, "");
    let group = only(&decisions);
    assert!(group.key.connection);
    assert_eq!(group.subject.to_string(), "127.0.0.0/24");
    assert_eq!(group.samples[0].method, None);
    setup.apply(server(detect(), DefaultPolicy::Audit.authorizations())).await;
    let mut client = Client::new(setup.connect().await).await;
    let got = client.get("/a").await;
    assert_eq!((got.status, id(&got.headers)), (StatusCode::OK, None));
    let audited: Vec<_> = decisions
        .groups()
        .into_iter()
        .filter(|group| group.key.reason == GroupReason::Audited)
        .collect();
    assert_eq!(audited.len(), 1);
    assert_eq!(audited[0].authorization.as_ref().unwrap().to_string(), "default audit");
}

#[tokio::test]
async fn the_workloads_own_connections_that_are_refused_are_recorded() {
    let decisions = record();
    let change = recording(&decisions);
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), change).await;
    let service = ServiceName { namespace: "shop".into(), name: "cart".into() };
    outbound.answer(Destination::UndeclaredPort(service));
    outbound.refuses("undeclared_port").await;
    let group = only(&decisions);
    assert_eq!(group.subject.to_string(), "cart.shop");
    assert_eq!((group.key.reason.as_str(), group.key.port), ("undeclared_port", 80));
    assert_eq!(group.samples[0].address, Some(SERVICE.parse().unwrap()));
}
