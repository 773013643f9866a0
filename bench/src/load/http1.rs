//! HTTP/1.1, a request at a time on each connection.

use crate::connect::{Connection, Stream, connect};
use crate::job::{Job, Lane};
use anyhow::{Context, bail, ensure};
use policy_bench::wire::{self, Head};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Starts a lane per connection.
pub(crate) fn start(job: &Rc<Job>, lanes: &mut JoinSet<anyhow::Result<()>>) {
    let request: Rc<[u8]> = request(job).into();
    for number in 0..job.load.connections {
        let (job, request) = (Rc::clone(job), Rc::clone(&request));
        lanes.spawn_local(async move { run(&job, number, &request).await });
    }
}

/// The request that is made again and again.
pub(crate) fn request(job: &Job) -> Vec<u8> {
    let load = &job.load;
    let method = if load.body > 0 { "POST" } else { "GET" };
    let mut text = format!("{method} {} HTTP/1.1\r\nhost: {}\r\n", load.path, load.target);
    if load.body > 0 {
        text += &format!("content-length: {}\r\n", load.body);
    }
    if load.new_connection {
        text += "connection: close\r\n";
    }
    let mut bytes = (text + "\r\n").into_bytes();
    bytes.resize(bytes.len() + load.body, b'x');
    bytes
}

async fn run(job: &Job, number: usize, request: &[u8]) -> anyhow::Result<()> {
    let mut lane = job.lane(number);
    // Of one lane there is one buffer, whatever becomes of its connections.
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let again = match connect_first(job).await? {
            Some(Connection::Plain(stream)) => {
                serve(job, &mut lane, stream, request, &mut buffer).await?
            }
            Some(Connection::Tls(stream)) => {
                serve(job, &mut lane, stream, request, &mut buffer).await?
            }
            None => one_each(job, &mut lane, request, &mut buffer).await?,
        };
        if !again {
            return Ok(());
        }
    }
}

async fn connect_first(job: &Job) -> anyhow::Result<Option<Connection>> {
    if job.load.new_connection { Ok(None) } else { connect(job).await.map(Some) }
}

/// A connection per request, opened when the request is due.
async fn one_each(
    job: &Job,
    lane: &mut Lane,
    request: &[u8],
    buffer: &mut [u8],
) -> anyhow::Result<bool> {
    while let Some(turn) = job.turn(lane).await {
        match one(job, request, buffer).await {
            Ok((_, head, bytes)) => job.done(turn, head.status, bytes + job.load.body),
            Err(error) => job.failed(error)?,
        }
    }
    Ok(false)
}

/// Opens a connection and makes one request.
pub(crate) async fn one(
    job: &Job,
    request: &[u8],
    buffer: &mut [u8],
) -> anyhow::Result<(Connection, Head, usize)> {
    let mut connection = connect(job).await?;
    let (head, bytes) = match &mut connection {
        Connection::Plain(stream) => exchange(stream, request, buffer).await?,
        Connection::Tls(stream) => exchange(stream, request, buffer).await?,
    };
    Ok((connection, head, bytes))
}

/// Serves requests on one connection; returns true if another one is to be opened, because the peer
/// closes this one.
async fn serve(
    job: &Job,
    lane: &mut Lane,
    mut stream: impl Stream,
    request: &[u8],
    buffer: &mut [u8],
) -> anyhow::Result<bool> {
    while let Some(turn) = job.turn(lane).await {
        let (head, bytes) = exchange(&mut stream, request, buffer).await?;
        job.done(turn, head.status, bytes + job.load.body);
        if head.close {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The head of the answer, and the bytes of its body.
async fn exchange(
    stream: &mut impl Stream,
    request: &[u8],
    buffer: &mut [u8],
) -> anyhow::Result<(Head, usize)> {
    stream.write_all(request).await.context("write")?;
    stream.flush().await.context("write")?;
    let mut filled = 0;
    let head = loop {
        let free = buffer.get_mut(filled..).filter(|free| !free.is_empty());
        let read = stream.read(free.context("a head without end")?).await.context("read")?;
        ensure!(read > 0, "the connection ended in a head");
        filled += read;
        let seen = buffer.get(..filled).unwrap_or_default();
        if let Some(head) = wire::head(seen) {
            break head;
        }
    };
    let mut have = filled - head.length;
    if head.chunked {
        let tail = buffer.get(head.length..filled).unwrap_or_default();
        let mut tail = tail.to_vec();
        while !tail.ends_with(b"0\r\n\r\n") {
            let read = stream.read(buffer).await.context("read")?;
            ensure!(read > 0, "the connection ended in a chunk");
            have += read;
            tail.extend_from_slice(buffer.get(..read).unwrap_or_default());
            let old = tail.len().saturating_sub(5);
            tail.drain(..old);
        }
        return Ok((head, have));
    }
    let Some(body) = head.body else { bail!("an answer without a length") };
    while have < body {
        let read = stream.read(buffer).await.context("read")?;
        ensure!(read > 0, "the connection ended in a body");
        have += read;
    }
    ensure!(have == body, "more than one answer to one request");
    Ok((head, body))
}
