//! What an event of one endpoint costs, as a rolling restart makes thousands of: a Service of 1,000, of
//! 10,000 pods, that 100 sidecars watch, each over a connection of its own.

use crate::fixture::{self, NAMESPACE, Scale};
use crate::measure::Event;
use crate::world::World;
use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use policy_bench::grpc::{framed, next};
use policy_bench::process;
use policy_proto::messages::destination_request::Kind as Ask;
use policy_proto::messages::destination_response::Kind as Answer;
use policy_proto::messages::{Begin, DestinationRequest, DestinationResponse};
use policy_proto::native::destination::{DestinationState, encode_lookup};
use prost::Message as _;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Pods, each of one Service.
const SCALE: Scale = Scale { pods: 10_000, apps: 1_000, policies: 0 };

/// Sidecars that watch a Service: those of the first pods.
pub(crate) const WATCHERS: usize = 100;

/// The Service that they watch. Being the last, it tells that the others are there.
const WATCHED: usize = SCALE.apps - 1;

/// Pause before and after an event, within which its cost counts.
const SETTLE: Duration = Duration::from_millis(500);

/// Most that anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of endpoints that a sidecar has been told, and when.
type Told = (usize, usize, Instant);

/// Measures so many events.
pub(crate) async fn measure(events: usize) -> anyhow::Result<Vec<Event>> {
    let mut world = World::script(SCALE, "")?;
    for pod in 0..SCALE.pods {
        world.create(&meshed(pod)).await?;
    }
    for number in 0..SCALE.apps {
        world.create(&slice(number, 0)).await?;
        world.create(&service(number)).await?;
    }
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let (reports, mut told) = mpsc::unbounded_channel();
    for pod in 0..WATCHERS {
        let (reports, grpc) = (reports.clone(), world.grpc);
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let Err(error) = follow(grpc, pod, &reports).await;
            _ = reports.send(Err(error.context(format!("lookups of pod {pod}"))));
        }));
    }
    let all = SCALE.concerned(WATCHED).count();
    arrived(&mut told, all).await?;
    let mut measured = Vec::new();
    for number in 0..events {
        let ended = (number + 1) % 2;
        sleep(SETTLE).await;
        let (before, began) = (process::cpu(world.pid)?, Instant::now());
        world.create(&slice(WATCHED, ended)).await?;
        let last = arrived(&mut told, all - ended).await?;
        sleep(SETTLE).await;
        let cpu = process::cpu(world.pid)?.saturating_sub(before);
        ensure!(told.is_empty(), "an event was told twice");
        measured.push(Event { cpu, latency: last.duration_since(began), updates: WATCHERS });
    }
    Ok(measured)
}

/// Waits until each watcher has so many endpoints; returns when the last had them.
async fn arrived(
    told: &mut mpsc::UnboundedReceiver<anyhow::Result<Told>>,
    wanted: usize,
) -> anyhow::Result<Instant> {
    let (mut waiting, mut last) = (vec![true; WATCHERS], Instant::now());
    while waiting.contains(&true) {
        let told =
            timeout(PATIENCE, told.recv()).await.context("watchers were not told in time")?;
        let (pod, endpoints, at) = told.context("every watcher has ended")??;
        *waiting.get_mut(pod).context("the pod")? = endpoints != wanted;
        last = at;
    }
    Ok(last)
}

/// Looks the Service up for a pod and follows the answer until something goes wrong.
async fn follow(
    grpc: SocketAddr,
    pod: usize,
    reports: &mpsc::UnboundedSender<anyhow::Result<Told>>,
) -> anyhow::Result<Infallible> {
    let stream = TcpStream::connect(grpc).await?;
    stream.set_nodelay(true)?;
    let (requests, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(async move {
        // What ends the connection ends its stream, which tells.
        _ = connection.await;
    });
    let path = "http://controller/portcullis.policy.v1.DestinationDiscovery/Watch";
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let mut requests = requests.ready().await?;
    let (response, mut sending) = requests.send_request(request, false)?;
    let begin = Begin { workload: fixture::token(pod), client: "bench".to_owned() };
    let lookup = encode_lookup(1, SocketAddr::new(address(WATCHED).parse()?, 80));
    for kind in [Ask::Begin(begin), Ask::Lookup(lookup)] {
        sending.send_data(framed(&DestinationRequest { kind: Some(kind) }), false)?;
    }
    let mut body = response.await?.into_body();
    let (mut buffer, mut state) = (BytesMut::new(), DestinationState::new());
    loop {
        let Some(message) = next(&mut body, &mut buffer).await? else {
            bail!("ended with trailers {:?}", body.trailers().await?);
        };
        if let Some(endpoints) = endpoints(&mut state, message)? {
            _ = reports.send(Ok((pod, endpoints, Instant::now())));
        }
    }
}

/// The number of endpoints that a message completes an answer with.
fn endpoints(state: &mut DestinationState, message: Bytes) -> anyhow::Result<Option<usize>> {
    let answer = match DestinationResponse::decode(message)?.kind.context("no kind")? {
        Answer::Found(found) => state.found(&found)?,
        Answer::More(more) => state.more(&more)?,
        Answer::Changed(changed) => state.changed(&changed)?,
        Answer::Refused(refused) => bail!("refused: {}", refused.reason),
        Answer::Released(_) => bail!("released without a request"),
    };
    Ok(answer.map(|answer| answer.endpoints().len()))
}

/// The pod with a sidecar of ours.
fn meshed(pod: usize) -> Value {
    let mut object = fixture::pod(SCALE, pod);
    let app = format!("app{}", SCALE.app(pod));
    if let Some(labels) = object.pointer_mut("/metadata/labels") {
        *labels = json!({"app": app, "portcullis.dev/proxy": "injected"});
    }
    object
}

fn address(service: usize) -> String {
    format!("10.96.{}.{}", service / 250, service % 250 + 1)
}

fn service(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{number}"), "namespace": NAMESPACE},
        "spec": {"clusterIPs": [address(number)], "ports": [{"name": "http", "port": 80}]},
    })
}

/// The slice of a Service, without the first endpoints, which have ended.
fn slice(number: usize, ended: usize) -> Value {
    let endpoint = |pod: usize| {
        let address = fixture::pod_status(pod).get("podIP").cloned();
        json!({
            "addresses": [address], "conditions": {"ready": true, "serving": true},
            "nodeName": "node",
            "targetRef": {"kind": "Pod", "name": fixture::name(pod), "namespace": NAMESPACE},
        })
    };
    let endpoints: Vec<Value> = SCALE.concerned(number).skip(ended).map(endpoint).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("s{number}"), "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4", "ports": [{"name": "http", "port": fixture::PORT}],
        "endpoints": endpoints,
    })
}
