//! Raw TCP. The first byte tells the application what to do.

use crate::connect::{Connection, Stream, connect};
use crate::job::{Job, Lane};
use anyhow::{Context, ensure};
use policy_bench::load::Protocol;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Bytes of a round trip.
const SMALL: usize = 64;

/// Bytes that are read or written at once.
const LARGE: usize = 256 * 1024;

/// Starts a lane per connection.
pub(crate) fn start(job: &Rc<Job>, lanes: &mut JoinSet<anyhow::Result<()>>) {
    for number in 0..job.load.connections {
        let job = Rc::clone(job);
        lanes.spawn_local(async move {
            let lane = job.lane(number);
            match connect(&job).await? {
                Connection::Plain(stream) => run(&job, lane, stream).await,
                Connection::Tls(stream) => run(&job, lane, stream).await,
            }
        });
    }
}

async fn run(job: &Job, lane: Lane, stream: impl Stream) -> anyhow::Result<()> {
    match job.load.protocol {
        Protocol::Download => download(job, stream).await,
        Protocol::Upload => upload(job, stream).await,
        Protocol::Echo
        | Protocol::Http1
        | Protocol::Http2
        | Protocol::Grpc
        | Protocol::GrpcStream => echo(job, lane, stream).await,
    }
}

async fn echo(job: &Job, mut lane: Lane, mut stream: impl Stream) -> anyhow::Result<()> {
    let sent = [b'E'; SMALL];
    let mut got = [0; SMALL];
    while let Some(turn) = job.turn(&mut lane).await {
        stream.write_all(&sent).await.context("write")?;
        stream.flush().await.context("write")?;
        stream.read_exact(&mut got).await.context("read")?;
        ensure!(got == sent, "another echo than what was sent");
        job.done(turn, job.load.expect, SMALL * 2);
    }
    Ok(())
}

async fn download(job: &Job, mut stream: impl Stream) -> anyhow::Result<()> {
    stream.write_all(b"D").await.context("write")?;
    stream.flush().await.context("write")?;
    let mut buffer = vec![0; LARGE];
    let mut lane = job.lane(0);
    while let Some(turn) = job.turn(&mut lane).await {
        let read = stream.read(&mut buffer).await.context("read")?;
        ensure!(read > 0, "the application stopped sending");
        job.done(turn, job.load.expect, read);
    }
    Ok(())
}

async fn upload(job: &Job, mut stream: impl Stream) -> anyhow::Result<()> {
    let buffer = vec![b'U'; LARGE];
    let mut lane = job.lane(0);
    while let Some(turn) = job.turn(&mut lane).await {
        let written = stream.write(&buffer).await.context("write")?;
        job.done(turn, job.load.expect, written);
    }
    Ok(())
}
