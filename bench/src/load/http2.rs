//! HTTP/2: requests, unary calls, and calls that stay open.

use crate::connect::{Connection, Stream, connect};
use crate::job::{Job, Lane};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request};
use policy_bench::load::Protocol;
use std::rc::Rc;
use tokio::task::JoinSet;

/// A message of gRPC: not compressed, 16 bytes.
const MESSAGE: &[u8] = b"\0\0\0\0\x10sixteen bytes ok";

/// Messages of one call that stays open; then it ends, with trailers, and another one begins.
const MESSAGES: usize = 1000;

/// Starts a lane per stream.
pub(crate) fn start(job: &Rc<Job>, lanes: &mut JoinSet<anyhow::Result<()>>) {
    for connection in 0..job.load.connections {
        let job = Rc::clone(job);
        lanes.spawn_local(async move {
            match connect(&job).await? {
                Connection::Plain(stream) => run(&job, connection, stream).await,
                Connection::Tls(stream) => run(&job, connection, *stream).await,
            }
        });
    }
}

async fn run(job: &Rc<Job>, connection: usize, stream: impl Stream) -> anyhow::Result<()> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
    builder.enable_push(false);
    let (client, driver) = builder.handshake(stream).await.context("HTTP/2")?;
    let driver = tokio::task::spawn_local(driver);
    let mut lanes = JoinSet::new();
    for stream in 0..job.load.streams {
        let (job, client) = (Rc::clone(job), client.clone());
        // Neighbours in time are on different connections.
        let lane = job.lane(stream * job.load.connections + connection);
        lanes.spawn_local(async move { each(&job, lane, client).await });
    }
    drop(client);
    while let Some(ended) = lanes.join_next().await {
        ended.context("a stream")??;
    }
    driver.abort();
    Ok(())
}

async fn each(job: &Job, lane: Lane, client: SendRequest<Bytes>) -> anyhow::Result<()> {
    match job.load.protocol {
        Protocol::GrpcStream => stream(job, lane, client).await,
        Protocol::Grpc
        | Protocol::Http1
        | Protocol::Http2
        | Protocol::Echo
        | Protocol::Download
        | Protocol::Upload => unary(job, lane, client).await,
    }
}

fn request(job: &Job) -> anyhow::Result<Request<()>> {
    let load = &job.load;
    let scheme = if load.tls.is_some() { "https" } else { "http" };
    let uri = format!("{scheme}://{}{}", load.target, load.path);
    let is_call = load.protocol != Protocol::Http2;
    let method = if is_call || load.body > 0 { Method::POST } else { Method::GET };
    let mut request = Request::builder().method(method).uri(uri);
    if is_call {
        request = request.header("content-type", "application/grpc").header("te", "trailers");
    }
    Ok(request.body(())?)
}

async fn unary(job: &Job, mut lane: Lane, client: SendRequest<Bytes>) -> anyhow::Result<()> {
    let template = request(job)?;
    let is_call = job.load.protocol == Protocol::Grpc;
    let body = if is_call { Bytes::from_static(MESSAGE) } else { vec![b'x'; job.load.body].into() };
    let mut client = client.ready().await?;
    while let Some(turn) = job.turn(&mut lane).await {
        let (answer, mut send) = client.send_request(template.clone(), body.is_empty())?;
        if !body.is_empty() {
            whole(&mut send, body.clone()).await?;
        }
        let (status, received) = answered(answer, is_call).await?;
        job.done(turn, status, received + body.len());
        client = client.ready().await?;
    }
    Ok(())
}

/// Sends a body to its end, as the window allows.
async fn whole(send: &mut SendStream<Bytes>, mut body: Bytes) -> anyhow::Result<()> {
    while !body.is_empty() {
        send.reserve_capacity(body.len());
        let free = match send.capacity() {
            0 => std::future::poll_fn(|context| send.poll_capacity(context)).await,
            free => Some(Ok(free)),
        };
        let Some(free) = free else { bail!("the stream ended in a body") };
        let part = body.split_to(free?.min(body.len()));
        send.send_data(part, body.is_empty())?;
    }
    Ok(())
}

/// The status and the bytes of the body. A call's status is 200 only if its trailers are good.
async fn answered(answer: ResponseFuture, is_call: bool) -> anyhow::Result<(u16, usize)> {
    let (head, mut body) = answer.await?.into_parts();
    let mut bytes = 0;
    while let Some(part) = body.data().await {
        bytes += take(&mut body, &part?)?;
    }
    let status = head.status.as_u16();
    if is_call && status == 200 {
        let trailers = body.trailers().await?;
        succeeded(trailers.as_ref().unwrap_or(&head.headers))?;
        ensure!(bytes == MESSAGE.len(), "another message than the echo: {bytes} bytes");
    }
    Ok((status, bytes))
}

fn take(body: &mut RecvStream, part: &Bytes) -> anyhow::Result<usize> {
    body.flow_control().release_capacity(part.len())?;
    Ok(part.len())
}

fn succeeded(headers: &HeaderMap) -> anyhow::Result<()> {
    let status = headers.get("grpc-status");
    ensure!(status.is_some_and(|status| status == "0"), "grpc-status is {status:?}");
    Ok(())
}

async fn stream(job: &Job, mut lane: Lane, client: SendRequest<Bytes>) -> anyhow::Result<()> {
    let template = request(job)?;
    let mut client = client.ready().await?;
    while !job.is_over() {
        let (answer, mut send) = client.send_request(template.clone(), false)?;
        // Some proxies send the head of an answer with its first message alone.
        let first = job.turn(&mut lane).await;
        send.send_data(Bytes::from_static(MESSAGE), false)?;
        let (head, mut body) = answer.await?.into_parts();
        let status = head.status.as_u16();
        ensure!(status == job.load.expect, "expected {}, was {status}", job.load.expect);
        echoed(&mut body).await?;
        if let Some(turn) = first {
            job.done(turn, status, MESSAGE.len() * 2);
        }
        for _ in 1..MESSAGES {
            let Some(turn) = job.turn(&mut lane).await else { break };
            send.send_data(Bytes::from_static(MESSAGE), false)?;
            echoed(&mut body).await?;
            job.done(turn, status, MESSAGE.len() * 2);
        }
        send.send_data(Bytes::new(), true)?;
        while let Some(part) = body.data().await {
            take(&mut body, &part?)?;
        }
        let trailers = body.trailers().await?.context("a call without trailers")?;
        succeeded(&trailers)?;
        client = client.ready().await?;
    }
    Ok(())
}

async fn echoed(body: &mut RecvStream) -> anyhow::Result<()> {
    let mut bytes = 0;
    while bytes < MESSAGE.len() {
        let part = body.data().await.context("the call ended")??;
        bytes += take(body, &part)?;
    }
    ensure!(bytes == MESSAGE.len(), "more than one echo of one message");
    Ok(())
}
