//! Connections that stay open after one request each.

use crate::connect::Connection;
use crate::http1;
use crate::job::Job;
use anyhow::{Context, ensure};
use policy_bench::load::Load;
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// Connections that are opened at a time.
const AT_ONCE: usize = 32;

/// Opens them, says `held`, and keeps them until standard input ends.
pub(crate) async fn run(load: Load) -> anyhow::Result<()> {
    let expected = load.expect;
    let job = Rc::new(Job::new(load)?);
    let request: Rc<[u8]> = http1::request(&job).into();
    let left = Rc::new(Cell::new(job.load.connections));
    let mut lanes = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (job, request, left) = (Rc::clone(&job), Rc::clone(&request), Rc::clone(&left));
        lanes.spawn_local(async move {
            let mut open: Vec<Connection> = Vec::new();
            let mut buffer = vec![0; 64 * 1024];
            while let Some(rest) = left.get().checked_sub(1) {
                left.set(rest);
                let (connection, head, _) = http1::one(&job, &request, &mut buffer).await?;
                ensure!(head.status == expected, "expected {expected}, was {}", head.status);
                open.push(connection);
            }
            anyhow::Ok(open)
        });
    }
    let mut open = Vec::new();
    while let Some(ended) = lanes.join_next().await {
        let part = ended.context("a lane")?;
        open.extend(part.with_context(|| format!("with {} still to open", left.get()))?);
    }
    println!("held");
    let input = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
    tokio::select! {
        _ = input => {}
        // Nobody is to send anything, or to close.
        () = first_that_ends(&mut open) => eprintln!("a connection was closed meanwhile"),
    }
    Ok(())
}

async fn first_that_ends(open: &mut [Connection]) {
    let reads = open.iter_mut().map(|connection| {
        Box::pin(async move {
            let mut byte = [0; 1];
            match connection {
                Connection::Plain(stream) => stream.read(&mut byte).await,
                Connection::Tls(stream) => stream.read(&mut byte).await,
            }
        })
    });
    _ = futures_util::future::select_all(reads).await;
}
