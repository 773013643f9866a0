//! The report service: who may ask, and what is answered.

use crate::peers::{Connector, PeerEvent, Replica, watch_peer};
use crate::serve::applied::AckRegistry;
use crate::serve::{
    AppliedPort, AuthzConfig, BoundListener, ReportConfig, ServeConfig, Server, Transport,
};
use crate::testing::client::{Client, hello};
use crate::testing::mesh::{CONTROLLER, Mesh, OWN, connect};
use crate::testing::{Harness, policy, port, soon, with_host_table};
use futures_util::future::BoxFuture;
use policy_core::{ObjectRef, WorkloadKey};
use policy_engine::report::{
    ConditionReport, Count, ObjectReport, Overview, Overviews, ProgrammedReport,
};
use policy_proto::compat::EncodeOptions;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{
    Hello, InForceRequest, InForceUpdate, ObjectCondition, ObjectStatus, ObjectUnsent,
    ObjectsRequest, ObjectsResponse, PortInForce, PortKey, Programmed,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

async fn listen(channel: Channel) -> Result<Streaming<InForceUpdate>, Status> {
    let request = InForceRequest { replica: "test".into() };
    Ok(PolicyReportClient::new(channel).in_force(request).await?.into_inner())
}

/// The next message that says anything, without how old it is.
async fn told(stream: &mut Streaming<InForceUpdate>) -> InForceUpdate {
    loop {
        let mut update = soon(stream.message()).await.unwrap().expect("the stream goes on");
        for port in &mut update.set {
            port.age_ms = 0;
        }
        if update.set.len() + update.gone.len() > 0 {
            return update;
        }
    }
}

fn key(workload: &str) -> PortKey {
    PortKey { namespace: "ns".into(), workload: workload.into(), external: false, port: 80 }
}

fn set(workload: &str, content: u64) -> InForceUpdate {
    let port = PortInForce { key: Some(key(workload)), content, ..PortInForce::default() };
    InForceUpdate { set: vec![port], ..InForceUpdate::default() }
}

fn record(applied: &AckRegistry, workload: &str, content: u64) {
    let record = AppliedPort { current: policy("web"), in_force: None, content, refused: None };
    applied.record(&WorkloadKey::pod("ns", workload), port(80), 1, record);
}

#[tokio::test]
async fn what_clients_acknowledge_is_told_as_published_and_taken_back_when_they_go() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set_content(&pod, 80, &policy("web"), 77);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let update = client.port().await;
    let mut stream = listen(harness.channel().await).await.unwrap();
    let first = soon(stream.message()).await.unwrap().unwrap();
    assert_eq!(first, InForceUpdate::default(), "nobody has answered yet");
    client.ack(&update).await;
    assert_eq!(told(&mut stream).await, set("web-0", 77));
    drop(client);
    let gone = InForceUpdate { gone: vec![key("web-0")], ..InForceUpdate::default() };
    assert_eq!(told(&mut stream).await, gone);
}

#[tokio::test]
async fn a_client_that_could_not_be_sent_all_of_a_policy_does_not_have_it() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set_content(&pod, 80, &with_host_table("web"), 77);
    let mut client =
        Client::open(&harness, Hello { features: Vec::new(), ..hello("ns:web-0") }).await;
    client.workload().await;
    let update = client.port().await;
    client.ack(&update).await;
    let mut stream = listen(harness.channel().await).await.unwrap();
    let mut update = told(&mut stream).await;
    let unsent = std::mem::take(&mut update.unsent);
    assert_eq!(update, set("web-0", 0));
    let lines = |unsent: Vec<ObjectUnsent>| {
        let line = |of: ObjectUnsent| format!("{} {:?} {:?}", of.name, of.denied, of.left_out);
        unsent.into_iter().map(line).collect::<Vec<_>>()
    };
    let words = "proxies of another version: port: needs `host-tables`, which the client lacks; \
                 the port is denied";
    let denied = |name: &str| format!("{name} {:?} []", [words]);
    assert_eq!(lines(unsent), [denied("a"), denied("web")], "the route and the Server");
    // It goes, and with it what it was not sent.
    drop(client);
    let mut gone = Vec::new();
    while gone.is_empty() {
        gone = soon(stream.message()).await.unwrap().unwrap().unsent;
    }
    assert_eq!(lines(gone), ["a [] []", "web [] []"]);
}

#[tokio::test]
async fn everything_comes_first_in_messages_of_bounded_size() {
    let harness = Harness::start().await;
    for n in 0..2500 {
        record(&harness.applied, &format!("web-{n:04}"), 7);
    }
    let mut stream = listen(harness.channel().await).await.unwrap();
    let mut sizes = Vec::new();
    loop {
        let update = soon(stream.message()).await.unwrap().unwrap();
        sizes.push(update.set.len());
        if !update.more {
            break;
        }
    }
    assert_eq!(sizes, [1000, 1000, 500]);
}

#[tokio::test]
async fn a_burst_is_gathered_and_silence_is_broken() {
    let harness = Harness::start().await;
    let mut stream = listen(harness.channel().await).await.unwrap();
    soon(stream.message()).await.unwrap().unwrap();
    let (mut messages, began) = (0_u128, Instant::now());
    for n in 0..500_u64 {
        record(&harness.applied, "web-0", n + 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    loop {
        messages += 1;
        if told(&mut stream).await == set("web-0", 500) {
            break;
        }
    }
    // At most ten a second, however long the burst took: five hundred things were said in it.
    let most = began.elapsed().as_millis() / 100 + 2;
    assert!(messages <= most.min(250), "{messages} messages for one burst, not {most}");
    // Nothing happens any more, and yet it speaks.
    for _ in 0..2 {
        let update = soon(stream.message()).await.unwrap().unwrap();
        assert_eq!(update, InForceUpdate::default());
    }
}

#[tokio::test]
async fn the_stream_ends_with_ok_when_the_server_shuts_down() {
    let harness = Harness::start().await;
    let mut stream = listen(harness.channel().await).await.unwrap();
    soon(stream.message()).await.unwrap().unwrap();
    harness.shutdown.cancel();
    assert!(soon(stream.message()).await.unwrap().is_none());
    soon(harness.served).await.unwrap();
}

#[tokio::test]
async fn replicas_are_the_controller_itself_and_nobody_else() {
    let viewers = [Arc::from("viewer.example")].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    record(&mesh.applied, "web-0", 7);
    let mut stream = listen(mesh.channel(CONTROLLER).await).await.unwrap();
    assert_eq!(told(&mut stream).await, set("web-0", 7));
    for (name, seen) in [(OWN, "identity `default.ns."), ("viewer.example", "viewer `viewer.")] {
        let refused = listen(mesh.channel(name).await).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(refused.message().starts_with(seen), "{refused}");
    }
    let stranger = connect(mesh.address, mesh.authority.stranger()).await.unwrap();
    assert_eq!(listen(stranger).await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn another_replica_is_asked_with_the_certificate_of_the_controller() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    record(&mesh.applied, "web-0", 7);
    let said = |tls| {
        let replica = Replica { address: mesh.address, name: None };
        let (sender, mut events) = mpsc::channel(4);
        tokio::spawn(watch_peer(
            replica,
            "me".into(),
            Connector::new(tls),
            Duration::from_secs(5),
            sender,
        ));
        async move { soon(events.recv()).await.unwrap() }
    };
    match said(Some(mesh.tls.clone())).await {
        PeerEvent::Report(said) => {
            let (at, in_force) = &said.set[0];
            let expected = (WorkloadKey::pod("ns", "web-0"), port(80));
            assert_eq!((at, in_force.content), (&expected, 7));
        }
        PeerEvent::Disconnected => panic!("refused"),
    }
    // Plaintext into a port that speaks TLS.
    assert!(matches!(said(None).await, PeerEvent::Disconnected));
    // A peer with the right address and another identity is rejected.
    let impostor = tempfile::tempdir().unwrap();
    let files = mesh.authority.write(impostor.path(), OWN);
    let handle = plain_server().load_tls(files).await.unwrap();
    assert!(matches!(said(Some(handle)).await, PeerEvent::Disconnected));
}

fn plain_server() -> Server {
    let (_index, policies) = crate::testing::Index::start();
    let options = EncodeOptions::default();
    Server::new(policies, ServeConfig::default(), options)
}

/// Tells of one object of namespace `ns`.
#[derive(Debug)]
struct One;

impl Overviews for One {
    fn overview<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Option<Overview>> {
        let condition = ConditionReport {
            kind: "Accepted",
            status: true,
            reason: "Accepted",
            message: "fine".into(),
            parent: Some(ObjectRef::new("", "Namespace", "", "ns")),
            section: Some("80".into()),
        };
        let object = ObjectReport {
            object: ObjectRef::new("policy.linkerd.io", "Server", "ns", "web"),
            generation: Some(4),
            conditions: vec![condition],
            programmed: Some(ProgrammedReport {
                count: Count { in_force: 1, concerned: 3, refused: 2 },
                status: "False",
                reason: "Refused".into(),
                message: "in force on 1 of 3 proxies, refused by 2".into(),
            }),
        };
        let objects = if ["", "ns"].contains(&namespace) { vec![object] } else { Vec::new() };
        Box::pin(async { Some(Overview { objects, missing: vec!["pods".into()] }) })
    }
}

async fn objects(channel: Channel, namespace: &str) -> Result<ObjectsResponse, Status> {
    let request = ObjectsRequest { namespace: namespace.into() };
    Ok(PolicyReportClient::new(channel).objects(request).await?.into_inner())
}

#[tokio::test]
async fn viewers_see_every_object_with_its_conditions_and_counts() {
    let (_index, policies) = crate::testing::Index::start();
    let options = EncodeOptions::default();
    let report = ReportConfig { replica: "me".into(), overviews: Some(Arc::new(One)) };
    let server = Server::new(policies, ServeConfig::default(), options).with_report(report);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let listening = vec![BoundListener { listener, transport: Transport::Plaintext }];
    tokio::spawn(server.serve_on(listening, stop.clone()));
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let expected = ObjectStatus {
        group: "policy.linkerd.io".into(),
        kind: "Server".into(),
        namespace: "ns".into(),
        name: "web".into(),
        generation: 4,
        conditions: vec![ObjectCondition {
            r#type: "Accepted".into(),
            status: true,
            reason: "Accepted".into(),
            message: "fine".into(),
            parent: "Namespace ns".into(),
            section: "80".into(),
        }],
        programmed: Some(Programmed {
            in_force: 1,
            concerned: 3,
            refused: 2,
            status: "False".into(),
            reason: "Refused".into(),
            message: "in force on 1 of 3 proxies, refused by 2".into(),
        }),
    };
    for namespace in ["", "ns"] {
        let response = objects(channel.clone(), namespace).await.unwrap();
        let missing = vec!["pods".to_owned()];
        assert_eq!(response, ObjectsResponse { objects: vec![expected.clone()], missing });
    }
    assert!(objects(channel, "other").await.unwrap().objects.is_empty());
    stop.cancel();
}

#[tokio::test]
async fn workloads_may_not_see_objects() {
    let viewers = [Arc::from("viewer.example")].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    let refused = objects(mesh.channel(OWN).await, "ns").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    // This server has no overview of objects: permitted callers get UNIMPLEMENTED.
    for name in ["viewer.example", CONTROLLER] {
        let answer = objects(mesh.channel(name).await, "ns").await.unwrap_err();
        assert_eq!(answer.code(), Code::Unimplemented, "{answer}");
    }
}
