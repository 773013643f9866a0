//! The documented API from another language: docs/examples/python/watch.py against the binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what it expects by failing"
)]

mod process;

use policy_core::{Denied, Facts, Revision};
use policy_proto::messages::policy_discovery_server::{PolicyDiscovery, PolicyDiscoveryServer};
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::messages::watch_response::Kind as Hear;
use policy_proto::messages::{self as m, WatchRequest, WatchResponse};
use policy_proto::native::{encode_facts, encode_port, encode_revision};
use policy_testkit::{Authority, soon, wait_until_blocking};
use process::{Controller, MANIFESTS, Program, route};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A Python that can import grpcio and its tools, as `make python` installs it.
fn python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let candidates = [
        std::env::var_os("PORTCULLIS_PYTHON").map(PathBuf::from),
        cache.map(|cache| cache.join("portcullis/python/bin/python")),
        Some(PathBuf::from("python3")),
    ];
    let able = |python: &PathBuf| {
        let mut import = Command::new(python);
        import.args(["-c", "import grpc, grpc_tools"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    candidates.into_iter().flatten().find(able).expect(
        "no Python with grpcio and grpcio-tools was found: run `make python` (or `make test`), \
         or set PORTCULLIS_PYTHON",
    )
}

fn watch(controller: SocketAddr, arguments: &[&str]) -> Program {
    Program::start(client(&controller.to_string(), arguments).stderr(Stdio::inherit()))
}

fn client(controller: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(python());
    command.arg(root().join("docs/examples/python/watch.py"));
    command.args(["--controller", controller]).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// The next event of this name.
fn event(watch: &Program, name: &str) -> Value {
    watch.find(name, |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["event"] == name).then_some(event)
    })
}

#[test]
fn the_example_client_follows_acknowledges_and_comes_back() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.path().join("a.yaml"), route("a")).unwrap();
    let alone = ["--proxy-ports="];
    let mut controller = Controller::start(manifests.path(), "127.0.0.1:0", &alone);
    controller.ready();
    let watch = watch(controller.grpc, &["shop:web", "--ack"]);
    let workload = event(&watch, "workload");
    assert_eq!(workload["name"], "shop/web");
    assert_eq!(workload["declared_ports"], serde_json::json!([8080]));
    let port = event(&watch, "port");
    assert_eq!((&port["owner"], &port["full"]), (&"web".into(), &true.into()));
    assert_eq!(port["routes"], serde_json::json!(["a"]));

    // One more route: a change that carries that route alone.
    std::fs::write(manifests.path().join("b.yaml"), route("b")).unwrap();
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["a", "b"]));
    assert_eq!((&port["full"], &port["routes_changed"]), (&false.into(), &1.into()));
    wait_until_blocking("acknowledged", || {
        controller.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 2\n")
    });

    // A restart: the stream ends with OK, and the client comes back with what it has.
    controller.program.signal("TERM");
    assert_eq!(event(&watch, "ended")["code"], "OK");
    assert!(controller.program.wait().success());
    std::fs::remove_file(manifests.path().join("a.yaml")).unwrap();
    let again = Controller::start(manifests.path(), &controller.grpc.to_string(), &alone);
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["b"]));
    wait_until_blocking("acknowledged", || {
        again.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 1\n")
    });
}

#[test]
fn the_example_client_gives_up_on_a_token_that_is_none() {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &[]);
    controller.ready();
    let mut watch = watch(controller.grpc, &["web"]);
    let ended = event(&watch, "ended");
    assert_eq!(ended["code"], "INVALID_ARGUMENT");
    let details = ended["details"].as_str().unwrap();
    assert!(details.starts_with("hello.workload: expected `namespace:pod`"), "{details}");
    assert_eq!(watch.wait().code(), Some(1));
}

/// The controller's identity, and that of the pod of [`MANIFESTS`] with a service account.
const CONTROLLER: &str = "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";
const WEB: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

#[test]
fn the_example_client_proves_an_identity_and_asks_again_until_it_is_permitted() {
    let manifests = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let write = |account: &str| {
        let spec = format!("spec:\n  serviceAccountName: {account}\n  containers:");
        let text = MANIFESTS.replace("spec:\n  containers:", &spec);
        std::fs::write(manifests.path().join("base.yaml"), text).unwrap();
    };
    write("somebody-else");
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let mesh = Authority::new();
    std::fs::write(path("roots.pem"), mesh.pem()).unwrap();
    mesh.certify(CONTROLLER).write(files.path(), "controller.pem", "controller.key");
    mesh.certify(WEB).write(files.path(), "web.pem", "web.key");
    let flags = [
        "--proxy-ports=",
        "--grpc-tls-key",
        &path("controller.key"),
        "--grpc-tls-certs",
        &path("controller.pem"),
        "--grpc-tls-roots",
        &path("roots.pem"),
    ];
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &flags);
    controller.ready();
    let (roots, chain, key) = (path("roots.pem"), path("web.pem"), path("web.key"));
    let proof = ["--tls-cert", &chain, "--tls-key", &key];
    let with = |name: &str, proof: &[&str]| {
        let server = ["shop:web", "--tls-roots", &roots, "--tls-name", name];
        watch(controller.grpc, &[&server, proof].concat())
    };

    // A certificate of the mesh, for another workload as yet.
    let web = with(CONTROLLER, &proof);
    for _ in 0..2 {
        let ended = event(&web, "ended");
        assert_eq!(ended["code"], "PERMISSION_DENIED", "{ended}");
    }
    write("web");
    assert_eq!(event(&web, "workload")["name"], "shop/web");
    assert_eq!(event(&web, "port")["owner"], "web");

    // Nothing that proves who asks: asking again would not help.
    let mut nobody = with(CONTROLLER, &[]);
    let ended = event(&nobody, "ended");
    assert_eq!(ended["code"], "UNAUTHENTICATED", "{ended}");
    assert_eq!(nobody.wait().code(), Some(1));

    // A server that does not prove the identity is told nothing.
    let other = with(WEB, &proof);
    let ended = event(&other, "ended");
    assert_eq!(ended["code"], "UNAVAILABLE", "{ended}");
    assert!(ended["details"].as_str().unwrap().contains("Hostname Verification"), "{ended}");
}

#[test]
fn the_example_client_speaks_plaintext_to_loopback_alone() {
    let mut command = client("portcullis-policy.portcullis.svc:8090", &["shop:web"]);
    let mut client = Program::start_reading_errors(&mut command);
    let refusal = "is not loopback: give --tls-roots and --tls-name";
    client.find("refusal", |line| line.contains(refusal).then_some(()));
    assert_eq!(client.wait().code(), Some(2));
}

/// A server that hands each stream to the test.
struct Fake(mpsc::UnboundedSender<Stream>);

struct Stream {
    said: Streaming<WatchRequest>,
    say: mpsc::Sender<Result<WatchResponse, Status>>,
}

#[tonic::async_trait]
impl PolicyDiscovery for Fake {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (say, stream) = mpsc::channel(8);
        self.0.send(Stream { said: request.into_inner(), say }).unwrap();
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl Stream {
    async fn next(&mut self) -> Say {
        soon(self.said.message()).await.unwrap().unwrap().kind.unwrap()
    }

    async fn hello(&mut self) -> m::Hello {
        let said = self.next().await;
        let Say::Hello(hello) = said else { panic!("not Hello: {said:?}") };
        hello
    }

    /// Sends a message, and returns the path of the field that the client refuses in it.
    async fn refused(&mut self, kind: Hear) -> (u32, String) {
        self.send(kind).await;
        match self.next().await {
            Say::Nack(nack) => (nack.port, nack.field_path),
            other => panic!("not refused: {other:?}"),
        }
    }

    async fn send(&self, kind: Hear) {
        self.say.send(Ok(WatchResponse { kind: Some(kind) })).await.unwrap();
    }
}

/// A port with one route, in full.
fn update() -> m::PortUpdate {
    let mut policy = policy_core::testing::policy();
    policy.routes.routes = vec![policy_core::testing::route("a", vec![]).into()];
    let revision = Revision::default();
    encode_port(&policy, &BTreeSet::new()).full(NonZeroU16::new(8080).unwrap(), &revision)
}

/// The same with one change, anywhere, of the route or of the header.
fn changed(change: fn(&mut m::PortUpdate)) -> m::PortUpdate {
    let mut update = update();
    change(&mut update);
    update
}

fn changed_route(change: fn(&mut m::Route)) -> m::PortUpdate {
    let mut update = update();
    change(&mut update.routes[0]);
    update
}

fn changed_header(change: fn(&mut m::PortHeader)) -> m::PortUpdate {
    let mut update = update();
    change(update.header.as_mut().unwrap());
    update
}

/// Updates in which one field cannot be read, and everything else is as it should be.
fn unreadable() -> [(&'static str, m::PortUpdate); 11] {
    [
        ("routes[0].kind", changed_route(|route| route.kind = 0)),
        ("routes[0].kind", changed_route(|route| route.kind = 99)),
        ("routes[0].origin", changed_route(|route| route.origin = Some(m::Origin::default()))),
        ("routes[0].key", changed_route(|route| route.key = 0)),
        ("header.paths", changed_header(|header| header.paths = 0)),
        ("header.protocol", changed_header(|it| it.protocol = Some(m::Protocol::default()))),
        ("header.otherwise", changed_header(|header| header.otherwise = None)),
        ("header.deny", changed_header(|header| header.deny = Some("because".to_owned()))),
        ("required_features[0]", changed(|it| it.required_features = vec!["new".to_owned()])),
        ("header", changed(|update| update.header = None)),
        ("route_order", changed(|update| update.routes.clear())),
    ]
}

fn workload() -> m::Workload {
    m::Workload {
        name: "shop/web".to_owned(),
        facts: Some(encode_facts(&Facts::default())),
        declared_ports: vec![8080],
        undeclared: m::Undeclared::Default.into(),
        revision: Some(encode_revision(&Revision::default())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_client_refuses_what_it_cannot_read() {
    let (opened, mut streams) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder();
    let router = { server }.add_service(PolicyDiscoveryServer::new(Fake(opened)));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    let _client = watch(address, &["shop:web", "--ack"]);
    let mut stream = streams.recv().await.unwrap();
    assert_eq!(stream.hello().await.workload, "shop:web");

    // The Workload: an enum at 0, and facts that are not there.
    let unspecified = m::Workload { undeclared: 0, ..workload() };
    let refused = stream.refused(Hear::Workload(unspecified)).await;
    assert_eq!(refused, (0, "undeclared".to_owned()));
    let without = m::Workload { facts: None, ..workload() };
    assert_eq!(stream.refused(Hear::Workload(without)).await, (0, "facts".to_owned()));
    stream.send(Hear::Workload(workload())).await;

    for (path, update) in unreadable() {
        assert_eq!(stream.refused(Hear::Port(update)).await, (8080, path.to_owned()));
    }
    // Every reason to deny is known.
    for reason in Denied::all() {
        let mut denied = update();
        denied.header.as_mut().unwrap().deny = Some(reason.as_str().to_owned());
        stream.send(Hear::Port(denied)).await;
        let said = stream.next().await;
        assert!(matches!(said, Say::Ack(_)), "{reason:?}: {said:?}");
    }

    // It comes back with both revisions of what it has.
    stream.say.send(Err(Status::aborted("again"))).await.unwrap();
    let hello = streams.recv().await.unwrap().hello().await;
    assert_eq!((hello.applied.len(), hello.workload_revision.is_some()), (1, true));
}
