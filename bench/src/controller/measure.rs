//! One row of the table: a controller, its watchers, and a policy that comes and goes.

use crate::fixture::{self, Scale};
use crate::watchers::{Api, Update, Watchers};
use crate::world::{Origin, World};
use anyhow::{Context, ensure};
use policy_bench::process::{self, Memory};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long everything is left alone before and after an event, within which its cost counts.
const SETTLE: Duration = Duration::from_millis(500);

/// Most that anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pods whose labels are changed to see what that costs.
const RELABELLED: usize = 20;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) origin: Origin,
    pub(crate) api: Api,
    pub(crate) scale: Scale,
    pub(crate) rounds: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: Case,
    /// From the start of the process until it answered, with every object there.
    pub(crate) ready: Duration,
    pub(crate) listed: Memory,
    pub(crate) open: Opened,
    pub(crate) events: Vec<Event>,
    /// Of one change of a pod's label that no Server asks about.
    pub(crate) relabel: Duration,
    pub(crate) end: Memory,
}

/// Opening every watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    pub(crate) memory: Memory,
}

/// One policy applied or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) cpu: Duration,
    /// Until the last concerned watcher had it.
    pub(crate) latency: Duration,
    /// Updates that were sent for it.
    pub(crate) updates: usize,
}

/// Measures one case.
pub(crate) async fn measure(case: Case, mut world: World<'_>) -> anyhow::Result<Row> {
    let Case { origin: _, api, scale, rounds } = case;
    sleep(SETTLE).await;
    let listed = process::memory(world.pid)?;
    let (mut watchers, open) = open(&world, api, scale).await?;
    let mut events = Vec::new();
    for round in 0..rounds {
        for applied in [true, false] {
            events.push(event(&mut world, &mut watchers, case, round, applied).await?);
        }
    }
    let relabel = relabel(&mut world, scale).await?;
    let end = process::memory(world.pid)?;
    Ok(Row { case, ready: world.ready, listed, open, events, relabel, end })
}

async fn open(world: &World<'_>, api: Api, scale: Scale) -> anyhow::Result<(Watchers, Opened)> {
    let (before, began) = (process::cpu(world.pid)?, Instant::now());
    let mut watchers = Watchers::open(api, world.grpc, scale.pods).await?;
    let mut waiting: BTreeSet<usize> = (0..scale.pods).collect();
    let mut last = began;
    while !waiting.is_empty() {
        let update = next(&mut watchers).await?;
        waiting.remove(&update.pod);
        last = update.at;
    }
    let time = last.duration_since(began);
    sleep(SETTLE * 4).await;
    let cpu = process::cpu(world.pid)?.saturating_sub(before);
    Ok((watchers, Opened { time, cpu, memory: process::memory(world.pid)? }))
}

async fn next(watchers: &mut Watchers) -> anyhow::Result<Update> {
    let update = timeout(PATIENCE, watchers.updates.recv()).await;
    update.context("watchers were not told in time")?.context("every watcher has ended")?
}

async fn event(
    world: &mut World<'_>,
    watchers: &mut Watchers,
    case: Case,
    round: usize,
    applied: bool,
) -> anyhow::Result<Event> {
    sleep(SETTLE).await;
    let app = round % case.scale.apps;
    let policy = fixture::policy(round, app);
    let (before, began) = (process::cpu(world.pid)?, Instant::now());
    match applied {
        true => world.create(&policy).await?,
        false => world.delete(&policy).await?,
    }
    let mut waiting: BTreeSet<usize> = case.scale.concerned(app).collect();
    let concerned = waiting.len();
    let (mut last, mut updates) = (began, 0);
    while !waiting.is_empty() {
        let update = next(watchers).await?;
        updates += 1;
        if shows(case.api, &update, &fixture::policy_name(round), applied) {
            waiting.remove(&update.pod);
            last = update.at;
        }
    }
    sleep(SETTLE).await;
    while let Ok(update) = watchers.updates.try_recv() {
        _ = update?;
        updates += 1;
    }
    ensure!(updates == concerned, "{updates} updates were sent to {concerned} concerned watchers");
    let cpu = process::cpu(world.pid)?.saturating_sub(before);
    Ok(Event { cpu, latency: last.duration_since(began), updates })
}

/// Whether an update shows what was done. A whole message has the policy's name or not; a change
/// has it where it adds, and where it takes away it is the only one there is.
fn shows(api: Api, update: &Update, name: &str, applied: bool) -> bool {
    let names = update.message.windows(name.len()).any(|window| window == name.as_bytes());
    match api {
        Api::Compatible => names == applied,
        Api::Native => names || !applied,
    }
}

async fn relabel(world: &mut World<'_>, scale: Scale) -> anyhow::Result<Duration> {
    // Of an earlier row the label may be there already.
    let value = format!("{}-{}", world.pid, scale.pods);
    let before = process::cpu(world.pid)?;
    for pod in 0..RELABELLED {
        world.touch(scale, pod, &value).await?;
        sleep(SETTLE / 10).await;
    }
    sleep(SETTLE).await;
    let spent = process::cpu(world.pid)?.saturating_sub(before);
    Ok(spent / u32::try_from(RELABELLED)?)
}
