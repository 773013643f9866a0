//! Makes load and says what came of it, as a line of JSON. `bench/README.md` says what it can do.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod connect;
mod hold;
mod http1;
mod http2;
mod job;
mod raw;
mod timer;

use anyhow::Context;
use clap::Parser;
use job::Job;
use policy_bench::load::{Load, Outcome, Protocol};
use policy_bench::process;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// Longest that the first answer may take, and that what was begun may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes load and says what came of it, as a line of JSON.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    load: Load,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    policy_bench::limits::many_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    if cli.load.hold {
        return local.block_on(&runtime, hold::run(cli.load));
    }
    let outcome = local.block_on(&runtime, run(cli.load))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

async fn run(load: Load) -> anyhow::Result<Outcome> {
    let pids = load.pid.clone();
    let job = Rc::new(Job::new(load)?);
    let mut lanes = JoinSet::new();
    match job.load.protocol {
        Protocol::Http1 => http1::start(&job, &mut lanes),
        Protocol::Http2 | Protocol::Grpc | Protocol::GrpcStream => http2::start(&job, &mut lanes),
        Protocol::Echo | Protocol::Download | Protocol::Upload => raw::start(&job, &mut lanes),
    }
    let driver = Rc::clone(&job);
    let timer = tokio::task::spawn_local(async move { driver.timer.drive().await });
    let own = std::process::id();
    let measured = async {
        sleep(job.warm_up()).await;
        // Not before there is an answer, and not without one: a busy machine may take its time.
        answered(&job, 0).await;
        let before = (job.counted(), spent(&pids)?, process::cpu(own)?);
        job.begin();
        sleep(job.measured()).await;
        answered(&job, before.0.0).await;
        let seconds = job.end();
        let after = (job.counted(), spent(&pids)?, process::cpu(own)?);
        anyhow::Ok(Outcome {
            operations: after.0.0 - before.0.0,
            bytes: after.0.1 - before.0.1,
            seconds: seconds.as_secs_f64(),
            cpu_seconds: after.1.saturating_sub(before.1).as_secs_f64(),
            own_cpu_seconds: after.2.saturating_sub(before.2).as_secs_f64(),
            ..Outcome::default()
        })
    };
    tokio::pin!(measured);
    let mut outcome = loop {
        tokio::select! {
            outcome = &mut measured => break outcome?,
            Some(ended) = lanes.join_next() => ended.context("a lane")??,
        }
    };
    let rest = async {
        while let Some(ended) = lanes.join_next().await {
            ended.context("a lane")??;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, rest).await.context("answers are missing long after the end")??;
    timer.abort();
    job.finish(&mut outcome)?;
    Ok(outcome)
}

/// Waits until there are more answers than so many, within bounds.
async fn answered(job: &Job, before: u64) {
    let more = async {
        while job.counted().0 <= before {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // Whoever asked for the load will see that there is none.
    _ = timeout(PATIENCE, more).await;
}

fn spent(pids: &[u32]) -> anyhow::Result<Duration> {
    let mut sum = Duration::ZERO;
    for pid in pids {
        sum += process::cpu(*pid)?;
    }
    Ok(sum)
}
