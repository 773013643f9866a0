//! What connections lead to: asked for on the connection of the policies, and kept while the
//! controller is away.

use crate::support::*;
use policy_core::destination::{
    Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason,
};
use policy_enforce::store::StoreConfig;
use policy_proto::messages as m;
use policy_proto::messages::destination_discovery_server::{
    DestinationDiscovery, DestinationDiscoveryServer,
};
use policy_proto::messages::destination_request::Kind as Ask;
use policy_proto::messages::destination_response::Kind as Answer;
use policy_proto::messages::policy_discovery_server::PolicyDiscoveryServer;
use policy_proto::native::destination::{decode_lookup, encode_destination};
use policy_proxy::discover::DiscoverConfig;
use policy_proxy::outbound::table::{DestinationTable, EntryRef, Knowledge, TableSettings};
use policy_tls::identity::IdentityHandle;
use prost::Message;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Age at which "not meshed" is no knowledge any more, here.
const STALE: Duration = Duration::from_millis(300);

type Table = DestinationTable<()>;

/// A server that hands every stream of destinations to the test.
struct Fake(mpsc::UnboundedSender<Asking>);

/// A stream of destinations, as its server sees it.
struct Asking {
    asked: Streaming<m::DestinationRequest>,
    say: mpsc::Sender<Result<m::DestinationResponse, Status>>,
}

#[tonic::async_trait]
impl DestinationDiscovery for Fake {
    type WatchStream = ReceiverStream<Result<m::DestinationResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<m::DestinationRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (say, stream) = mpsc::channel(64);
        let _ = self.0.send(Asking { asked: request.into_inner(), say });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl Asking {
    async fn next(&mut self) -> Ask {
        soon(self.asked.message()).await.unwrap().unwrap().kind.unwrap()
    }

    async fn begin(&mut self) -> m::Begin {
        let asked = self.next().await;
        let Ask::Begin(begin) = asked else { panic!("not Begin: {asked:?}") };
        begin
    }

    /// The next message, which is a lookup of this address; returns its number.
    async fn lookup(&mut self, address: &str) -> u32 {
        let asked = self.next().await;
        let Ask::Lookup(lookup) = asked else { panic!("not Lookup: {asked:?}") };
        assert_eq!(decode_lookup(&lookup), Ok(at(address)));
        lookup.id
    }

    async fn send(&self, id: u32, kind: Option<Answer>) {
        self.say.send(Ok(m::DestinationResponse { id, kind })).await.unwrap();
    }

    async fn answer(&self, id: u32, destination: &Destination) {
        for kind in encode_destination(destination) {
            self.send(id, Some(kind)).await;
        }
    }
}

/// A server of both services.
struct Server {
    opened: mpsc::UnboundedReceiver<Stream>,
    asking: mpsc::UnboundedReceiver<Asking>,
    address: SocketAddr,
}

impl Server {
    async fn start() -> Self {
        let (opened, streams) = mpsc::unbounded_channel();
        let (sender, asking) = mpsc::unbounded_channel();
        let router = tonic::transport::Server::builder()
            .add_service(PolicyDiscoveryServer::new(crate::support::Fake::new(opened)))
            .add_service(DestinationDiscoveryServer::new(Fake(sender)));
        Self { opened: streams, asking, address: serve(router).await }
    }

    /// The next stream of destinations, after its Begin.
    async fn stream(&mut self) -> Asking {
        let mut stream = soon(self.asking.recv()).await.unwrap();
        assert_eq!(stream.begin().await.workload, "ns:web-0");
        stream
    }
}

fn table(max_entries: usize) -> Table {
    let settings = TableSettings { max_entries, stale_unmeshed: STALE, ..TableSettings::default() };
    Table::new(settings)
}

fn client(address: SocketAddr, table: &Table) -> Client {
    let destinations = Some(Arc::new(table.clone()) as Arc<_>);
    let config = DiscoverConfig { destinations, ..config(address) };
    Client::start(config, StoreConfig::default(), IdentityHandle::empty())
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn workload(mesh: EndpointMesh) -> Destination {
    let address = at("10.1.0.1:8080");
    let (owner, namespace) = ("deployment/web".into(), "shop".into());
    Destination::Workload(Endpoint { address, owner, namespace, mesh })
}

fn unmeshed() -> Destination {
    workload(EndpointMesh::Plaintext(PlaintextReason::Unmeshed))
}

fn meshed() -> Destination {
    workload(EndpointMesh::Meshed(MeshEndpoint {
        identity: "web.shop.serviceaccount.identity.linkerd.cluster.local".into(),
        server_name: "web.shop.serviceaccount.identity.linkerd.cluster.local".into(),
        inbound_port: NonZeroU16::new(4143),
        opaque: false,
    }))
}

fn known(destination: Destination, is_fresh: bool) -> Knowledge {
    Knowledge::Known { destination: Arc::new(destination), is_fresh }
}

/// Waits until this is what is known of the entry.
async fn becomes(entry: &EntryRef<()>, wanted: Knowledge) {
    wait_until(&format!("{entry:?} is {wanted:?}"), async || entry.state() == wanted).await;
}

#[tokio::test]
async fn what_is_dialled_is_asked_for_and_released_when_it_goes() {
    let mut server = Server::start().await;
    let table = table(1);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let first = stream.lookup("10.0.0.1:80").await;
    stream.answer(first, &unmeshed()).await;
    assert_eq!(soon(entry.answered()).await, known(unmeshed(), true));
    stream.answer(first, &meshed()).await;
    becomes(&entry, known(meshed(), true)).await;
    // A wrong identity: asked again at once, under another number.
    entry.renew();
    assert_eq!(stream.next().await, Ask::Release(m::Release { id: first }));
    let second = stream.lookup("10.0.0.1:80").await;
    assert_ne!(first, second);
    stream.answer(first, &unmeshed()).await;
    stream.answer(second, &Destination::Node).await;
    becomes(&entry, known(Destination::Node, true)).await;
    drop(entry);
    let other = table.entry(at("10.0.0.2:80")).unwrap();
    assert_eq!(stream.next().await, Ask::Release(m::Release { id: second }));
    let third = stream.lookup("10.0.0.2:80").await;
    stream.send(second, Some(Answer::Released(m::Released {}))).await;
    stream.answer(third, &meshed()).await;
    assert_eq!(soon(other.answered()).await, known(meshed(), true));
    assert!(server.opened.try_recv().is_ok() && server.opened.try_recv().is_err());
}

#[tokio::test]
async fn answers_outlive_the_stream_but_not_meshed_is_not_known_for_long() {
    let mut server = Server::start().await;
    let table = table(8);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let [one, two] = ["10.0.0.1:80", "10.0.0.2:80"].map(|text| table.entry(at(text)).unwrap());
    for _ in 0..2 {
        let asked = stream.next().await;
        let Ask::Lookup(lookup) = asked else { panic!("not Lookup: {asked:?}") };
        let is_one = decode_lookup(&lookup) == Ok(one.address());
        stream.answer(lookup.id, &if is_one { meshed() } else { unmeshed() }).await;
    }
    becomes(&one, known(meshed(), true)).await;
    becomes(&two, known(unmeshed(), true)).await;
    // The server goes away, and is back without an answer.
    stream.say.send(Err(Status::unavailable("restart"))).await.unwrap();
    drop(stream);
    let mut stream = server.stream().await;
    assert_eq!((one.state(), two.state()), (known(meshed(), true), known(unmeshed(), true)));
    becomes(&two, known(unmeshed(), false)).await;
    becomes(&one, known(meshed(), false)).await;
    for _ in 0..2 {
        let asked = stream.next().await;
        let Ask::Lookup(lookup) = asked else { panic!("not Lookup: {asked:?}") };
        if decode_lookup(&lookup) == Ok(two.address()) {
            stream.answer(lookup.id, &unmeshed()).await;
        }
    }
    becomes(&two, known(unmeshed(), true)).await;
    assert_eq!(one.state(), known(meshed(), false), "nobody confirmed it");
}

#[tokio::test]
async fn a_server_that_does_not_answer_leaves_nothing_known() {
    let mut server = Server::start().await;
    let table = table(8);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    stream.lookup("10.0.0.1:80").await;
    let waited = tokio::time::timeout(Duration::from_millis(200), entry.answered()).await;
    assert!(waited.is_err(), "{waited:?}");
    assert_eq!(entry.state(), Knowledge::Unanswered);
}

#[tokio::test]
async fn a_server_without_the_service_serves_policies_all_the_same() {
    let mut controller = Controller::start().await;
    let table = table(8);
    let client = client(controller.address, &table);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let mut stream = controller.stream().await;
    stream.hello().await;
    let policy = policy(policy_core::DefaultPolicy::AllUnauthenticated);
    stream.begin(&policy).await;
    assert_eq!(*client.policy(80).unwrap(), policy);
    assert_eq!(entry.state(), Knowledge::Unanswered);
    assert!(stream.is_silent().await, "the stream of policies goes on");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_counts_for_nothing_and_the_others_go_on() {
    let mut server = Server::start().await;
    let table = table(8);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let one = table.entry(at("10.0.0.1:80")).unwrap();
    let first = stream.lookup("10.0.0.1:80").await;
    stream.answer(first, &unmeshed()).await;
    becomes(&one, known(unmeshed(), true)).await;
    let two = table.entry(at("10.0.0.2:80")).unwrap();
    let second = stream.lookup("10.0.0.2:80").await;
    let lie = m::Endpoints { endpoints: vec![m::Endpoint::default()], more: false };
    stream.send(first, Some(Answer::More(lie))).await;
    stream.send(second, None).await;
    stream.answer(first, &meshed()).await;
    becomes(&one, known(unmeshed(), false)).await;
    assert_eq!(two.state(), Knowledge::Unanswered);
    let three = table.entry(at("10.0.0.3:80")).unwrap();
    let third = stream.lookup("10.0.0.3:80").await;
    stream.answer(third, &meshed()).await;
    becomes(&three, known(meshed(), true)).await;
    stream.send(third, Some(Answer::Refused(m::Refused { reason: "too many".into() }))).await;
    becomes(&three, known(meshed(), false)).await;
    // They are asked for again, a while later.
    let mut again: Vec<SocketAddr> = Vec::new();
    while again.len() < 3 {
        match stream.next().await {
            Ask::Release(m::Release { id }) => assert!([first, second, third].contains(&id)),
            Ask::Lookup(lookup) => again.push(decode_lookup(&lookup).unwrap()),
            Ask::Begin(begin) => panic!("{begin:?}"),
        }
    }
    again.sort_unstable();
    assert_eq!(again, [one.address(), two.address(), three.address()]);
}

#[tokio::test]
async fn a_release_that_nobody_asked_for_ends_the_stream_and_what_was_known_stays() {
    let mut server = Server::start().await;
    let table = table(8);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let id = stream.lookup("10.0.0.1:80").await;
    stream.answer(id, &meshed()).await;
    becomes(&entry, known(meshed(), true)).await;
    stream.send(id, Some(Answer::Released(m::Released {}))).await;
    let mut again = server.stream().await;
    assert_eq!(again.lookup("10.0.0.1:80").await, 1);
    becomes(&entry, known(meshed(), false)).await;
}

/// A server whose every stream is one answer to the first lookup, and then no message at all.
#[derive(Clone)]
struct Garbage(Arc<AtomicUsize>);

impl tonic::server::NamedService for Garbage {
    const NAME: &'static str = "portcullis.policy.v1.DestinationDiscovery";
}

impl tower::Service<http::Request<tonic::body::Body>> for Garbage {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<tonic::body::Body>) -> Self::Future {
        self.0.fetch_add(1, Ordering::Relaxed);
        let kind = encode_destination(&meshed()).pop();
        let good = m::DestinationResponse { id: 1, kind }.encode_to_vec();
        let mut bytes = Vec::new();
        for message in [&*good, &[0xff; 40]] {
            bytes.push(0);
            bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(message);
        }
        let body = tonic::body::Body::new(http_body_util::Full::new(bytes::Bytes::from(bytes)));
        let response = http::Response::builder().header("content-type", "application/grpc");
        ready(Ok(response.body(body).unwrap()))
    }
}

#[tokio::test]
async fn bytes_that_are_no_message_end_the_stream_and_what_was_known_stays() {
    let streams = Arc::new(AtomicUsize::new(0));
    let (opened, mut policies) = mpsc::unbounded_channel();
    let router = tonic::transport::Server::builder()
        .add_service(PolicyDiscoveryServer::new(crate::support::Fake::new(opened)))
        .add_service(Garbage(Arc::clone(&streams)));
    let table = table(8);
    let entry = table.entry(at("10.0.0.1:80")).unwrap();
    let _client = client(serve(router).await, &table);
    assert!(matches!(soon(entry.answered()).await, Knowledge::Known { .. }));
    wait_until("three streams", async || streams.load(Ordering::Relaxed) >= 3).await;
    let Knowledge::Known { destination, .. } = entry.state() else { panic!("it was known") };
    assert_eq!(*destination, meshed());
    assert!(policies.try_recv().is_ok() && policies.try_recv().is_err(), "policies go on");
}

#[tokio::test]
async fn a_flood_of_destinations_is_bounded_by_the_table() {
    const BOUND: usize = 64;
    let mut server = Server::start().await;
    let table = table(BOUND);
    let _client = client(server.address, &table);
    let mut stream = server.stream().await;
    let mut open = BTreeMap::new();
    let mut most = 0;
    for round in 0..200_u16 {
        for host in 0..50_u8 {
            let [high, low] = round.to_be_bytes();
            let address = SocketAddr::from(([10, high, low, host], 80));
            drop(table.entry(address).unwrap());
        }
        // The server reads now and then.
        while let Ok(asked) =
            tokio::time::timeout(Duration::from_millis(1), stream.asked.message()).await
        {
            match asked.unwrap().unwrap().kind.unwrap() {
                Ask::Lookup(lookup) => _ = open.insert(lookup.id, decode_lookup(&lookup).unwrap()),
                Ask::Release(release) => assert!(open.remove(&release.id).is_some()),
                Ask::Begin(begin) => panic!("{begin:?}"),
            }
            most = most.max(open.len());
        }
    }
    assert_eq!(table.len(), BOUND);
    assert!((1..=BOUND).contains(&most), "{most} lookups at once");
    let last = table.entry(at("10.255.0.1:80")).unwrap();
    let id = loop {
        if let Ask::Lookup(lookup) = stream.next().await
            && decode_lookup(&lookup) == Ok(last.address())
        {
            break lookup.id;
        }
    };
    stream.answer(id, &meshed()).await;
    assert_eq!(soon(last.answered()).await, known(meshed(), true));
}
