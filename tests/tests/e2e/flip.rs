//! A change of policy under load: from the moment that status says that it is in force, nobody gets in
//! who may not, and nobody is disturbed who may.

use super::away::controller_stays;
use super::clients::{come_from, start_server};
use super::world::{PATIENCE, eventually, meshed_namespace, node};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use policy_cli::request::connect;
use policy_testkit::{http1_client, http2_client};
use policy_tests::cluster::node::Node;
use serde_json::json;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// Address of the client that loses the grant.
const LEAVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 7, 1));

/// Address of the client that keeps it.
const BYSTANDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 7, 2));

/// Number of responses that a phase needs.
const ENOUGH: usize = 100;

/// A message of gRPC, not compressed, of three bytes.
const MESSAGE: &[u8] = &[0, 0, 0, 0, 3, b'a', b'b', b'c'];

/// A Server for [`start_server`]'s port and two networks that are admitted, by name.
pub(crate) fn grants(namespace: &str, one: (&str, IpAddr), two: (&str, IpAddr)) -> String {
    let mut objects = format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
"
    );
    for (name, address) in [one, two] {
        let network = format!(
            "---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{networks: [{{cidr: {address}/32}}]}}
---
"
        );
        objects.push_str(&network);
        objects.push_str(&grant(namespace, name, name));
    }
    objects
}

/// An AuthorizationPolicy that admits the network.
pub(crate) fn grant(namespace: &str, name: &str, network: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: {network}}}
"
    )
}

/// Waits until status says that the grant, as it was last written, is in force on the one sidecar.
pub(crate) async fn in_force(node: &Node, namespace: &str, name: &str) {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
        "metadata": {"name": name, "namespace": namespace},
    });
    let programmed = async || {
        let object = node.objects().get(&object).await.unwrap().unwrap();
        let conditions = object["status"]["conditions"].as_array()?;
        let condition = conditions.iter().find(|condition| condition["type"] == "Programmed")?;
        let current = condition["observedGeneration"] == object["metadata"]["generation"];
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        current.then(|| format!("{}: {}", text("status"), text("message")))
    };
    eventually(name, Some("True: in force on 1 of 1 proxies".to_owned()), programmed).await;
}

/// Start of a request, and its status; none without a complete response.
type Answered = (Instant, Option<u16>);

/// Requests one after the other on connections that are kept, until it is dropped.
pub(crate) struct Load {
    answers: Arc<Mutex<Vec<Answered>>>,
    _ends: DropGuard,
}

impl Load {
    pub(crate) fn start(from: IpAddr, to: SocketAddr) -> Self {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let ends = CancellationToken::new();
        for _ in 0..2 {
            let (answers, ends) = (Arc::clone(&answers), ends.clone());
            tokio::spawn(ends.run_until_cancelled_owned(async move {
                loop {
                    ask_until_closed(from, to, &answers).await;
                }
            }));
        }
        Self { answers, _ends: ends.drop_guard() }
    }

    /// The answers to requests that began after `since`, as soon as there are [`ENOUGH`].
    pub(crate) async fn since(&self, since: Instant) -> Vec<Option<u16>> {
        let found = || {
            let answers = self.answers.lock().unwrap();
            answers.iter().filter(|(begun, _)| *begun > since).map(|(_, status)| *status).collect()
        };
        let enough = async || {
            let found: Vec<Option<u16>> = found();
            found.len() >= ENOUGH
        };
        eventually("requests", true, enough).await;
        found()
    }
}

async fn ask_until_closed(from: IpAddr, to: SocketAddr, answers: &Mutex<Vec<Answered>>) {
    let answered = |begun, status| answers.lock().unwrap().push((begun, status));
    let begun = Instant::now();
    let Ok(stream) = connect(to, Some(from)).await else { return answered(begun, None) };
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
        return answered(begun, None);
    };
    tokio::spawn(connection);
    while sender.ready().await.is_ok() {
        let begun = Instant::now();
        let request = Request::get("/page").header("host", "server").body(Empty::<Bytes>::new());
        let status = async {
            let (head, body) = sender.send_request(request.unwrap()).await.ok()?.into_parts();
            body.collect().await.ok()?;
            Some(head.status.as_u16())
        };
        let status = status.await;
        answered(begun, status);
        // Probes are to come through on a machine with other things to do.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A gRPC call that stays open: each message comes back.
pub(crate) struct Call {
    messages: mpsc::UnboundedSender<Bytes>,
    answer: Incoming,
}

impl Call {
    pub(crate) async fn open(from: IpAddr, to: SocketAddr) -> Self {
        let stream = connect(to, Some(from)).await.unwrap();
        let mut sender = http2_client(stream).await;
        let (messages, outgoing) = mpsc::unbounded_channel();
        let frames = UnboundedReceiverStream::new(outgoing);
        let frames = frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        let request = Request::builder()
            .method(Method::POST)
            .uri("http://server/echo.Echo/Talk")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(StreamBody::new(frames))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{from}");
        Self { messages, answer: answer.into_body() }
    }

    /// Returns true if a message came back, false if the call has ended.
    pub(crate) async fn talks(&mut self) -> bool {
        if self.messages.send(Bytes::from_static(MESSAGE)).is_err() {
            return false;
        }
        let mut left = MESSAGE.len();
        while left > 0 {
            let frame =
                timeout(PATIENCE, self.answer.frame()).await.expect("neither answer nor end");
            let Some(Ok(frame)) = frame else { return false };
            let Ok(data) = frame.into_data() else { return false };
            left = left.checked_sub(data.len()).expect("only what was sent");
        }
        true
    }
}

/// The next line of a response that goes on for ever; false: it has ended.
pub(crate) async fn goes_on(answer: &mut Incoming) -> bool {
    let frame = timeout(PATIENCE, answer.frame()).await.expect("neither line nor end");
    matches!(frame, Some(Ok(_)))
}

/// A response over HTTP/1.1 that goes on for ever.
async fn stream(from: IpAddr, to: SocketAddr) -> Incoming {
    let connection = connect(to, Some(from)).await.unwrap();
    let mut sender = http1_client(connection).await;
    let request = Request::get("/lines")
        .header("host", "server")
        .header("echo-stream", "1000000")
        .header("echo-interval-ms", "20")
        .body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200, "{from}");
    answer.into_body()
}

#[tokio::test]
async fn a_grant_that_goes_under_load_is_gone_once_in_force_and_bystanders_are_not_disturbed() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "flip", DENY).await;
    for address in [LEAVER, BYSTANDER] {
        come_from(node, address).await;
    }
    let policy = grants(&namespace, ("leaver", LEAVER), ("bystander", BYSTANDER));
    node.apply(&policy).await.unwrap();
    let (_, address) = start_server(node, &namespace, "server").await;
    let to = SocketAddr::new(address.parse().unwrap(), 8080);
    in_force(node, &namespace, "leaver").await;
    in_force(node, &namespace, "bystander").await;

    let begun = Instant::now();
    let (leaver, bystander) = (Load::start(LEAVER, to), Load::start(BYSTANDER, to));
    let (mut leavers, mut bystanders) =
        (Call::open(LEAVER, to).await, Call::open(BYSTANDER, to).await);
    let (mut leaving, mut staying) = (stream(LEAVER, to).await, stream(BYSTANDER, to).await);
    assert!(leavers.talks().await && bystanders.talks().await, "calls before the change");
    assert!(
        goes_on(&mut leaving).await && goes_on(&mut staying).await,
        "streams before the change"
    );
    only(&leaver.since(begun).await, 200);

    // The leaver's grant is now the bystander's, too.
    node.apply(&grant(&namespace, "leaver", "bystander")).await.unwrap();
    in_force(node, &namespace, "leaver").await;
    let since = Instant::now();
    only(&leaver.since(since).await, 403);
    // What was open has ended, or does so before it gets anything that is sent from now on.
    let ends = async {
        while goes_on(&mut leaving).await {}
        while leavers.talks().await {}
    };
    timeout(PATIENCE, ends).await.expect("what the leaver had open ends");
    assert!(bystanders.talks().await, "the bystander's call goes on");
    assert!(goes_on(&mut staying).await, "the bystander's stream goes on");

    // And back.
    node.apply(&grant(&namespace, "leaver", "leaver")).await.unwrap();
    in_force(node, &namespace, "leaver").await;
    only(&leaver.since(Instant::now()).await, 200);
    only(&bystander.since(begun).await, 200);
    assert!(bystanders.talks().await, "the bystander's call goes on");
    assert!(goes_on(&mut staying).await, "the bystander's stream goes on");
    node.remove_namespace(&namespace).await.unwrap();
}

/// Every request was answered with this.
pub(crate) fn only(answers: &[Option<u16>], status: u16) {
    let others: Vec<_> = answers.iter().filter(|answer| **answer != Some(status)).collect();
    assert!(others.is_empty(), "of {} answers not {status}: {others:?}", answers.len());
}
