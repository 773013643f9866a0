//! One row of the tables: a controller, its watchers, a policy that comes and goes, and a replica
//! that starts again.

use crate::fixture::{self, PORT, Scale};
use crate::watchers::{Api, Applied, Update, Watchers};
use crate::world::{Origin, World};
use anyhow::{Context, ensure};
use policy_bench::process::{self, Memory};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Pause before and after an event, within which its cost counts.
const SETTLE: Duration = Duration::from_millis(500);

/// The same of events whose time counts, and not their cost.
const PAUSE: Duration = Duration::from_millis(20);

/// Most that anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pods whose labels are changed to see what that costs.
const RELABELLED: usize = 20;

/// Measured case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) origin: Origin,
    pub(crate) api: Api,
    pub(crate) scale: Scale,
    pub(crate) rounds: Rounds,
}

/// Numbers of times that a policy is applied and deleted again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// For its cost.
    pub(crate) cost: usize,
    /// For its time.
    pub(crate) time: usize,
    /// Of the policy that touches every pod.
    pub(crate) wide: usize,
}

/// Results of one case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: Case,
    /// From the start of the process until it answered, with every object there.
    pub(crate) ready: Duration,
    pub(crate) listed: Memory,
    pub(crate) followed: Option<Followed>,
    pub(crate) open: Opened,
    /// Left alone before and after, for their cost.
    pub(crate) events: Vec<Event>,
    /// One soon after the other, for their time.
    pub(crate) quick: Vec<Event>,
    /// That touched every pod.
    pub(crate) wide: Vec<Event>,
    /// Of one change of a pod's label that no Server asks about.
    pub(crate) relabel: Duration,
    pub(crate) end: Memory,
    pub(crate) restart: Restart,
}

/// Policies followed without a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// Of every pod.
    pub(crate) all: Memory,
    /// Of one pod of each app, and how many these are.
    pub(crate) few: (Memory, usize),
}

/// Opening every watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    /// Until the last had the policies of all its ports.
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    pub(crate) memory: Memory,
}

/// The controller starts again, and every watch is opened again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub(crate) ready: Duration,
    pub(crate) open: Opened,
}

/// One policy applied or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) cpu: Duration,
    /// Until the last concerned watcher had it and had acknowledged it, where that can be; where the
    /// controller tells, until it had read the acknowledgement.
    pub(crate) latency: Duration,
    /// Updates that were sent for it.
    pub(crate) updates: usize,
}

/// Change of the policy in one round.
#[derive(Clone, Copy, Debug)]
struct Deed {
    round: usize,
    /// The app it concerns; none: all.
    app: Option<usize>,
    applied: bool,
    /// Quiet before and after.
    pause: Duration,
}

/// A controller with every watch open.
struct Run<'a> {
    case: Case,
    world: World<'a>,
    watchers: Watchers,
    rounds: usize,
}

/// Measures one case.
pub(crate) async fn measure(
    case: Case,
    world: World<'_>,
    followed: Option<Followed>,
) -> anyhow::Result<Row> {
    sleep(SETTLE).await;
    let (ready, listed) = (world.ready, process::memory(world.pid)?);
    let (watchers, open) = open(&world, case, None).await?;
    let mut run = Run { case, world, watchers, rounds: 0 };
    let Rounds { cost, time, wide } = case.rounds;
    let events = run.events(cost, SETTLE, false).await?;
    let quick = run.events(time, PAUSE, false).await?;
    let wide = run.events(wide, SETTLE, true).await?;
    let relabel = run.relabel().await?;
    let end = process::memory(run.world.pid)?;
    let restart = run.restart().await?;
    Ok(Row { case, ready, listed, followed, open, events, quick, wide, relabel, end, restart })
}

/// Memory of following every pod's policies without a connection. In processes of their own, so that
/// the others begin as they do in a cluster.
pub(crate) async fn followed(api: Api, scale: Scale) -> anyhow::Result<Followed> {
    let memory = async |scale| {
        let mut world = World::script(scale, "")?;
        world.follow(api.ports()).await?;
        sleep(SETTLE).await;
        process::memory(world.pid)
    };
    let few = scale.one_of_each();
    Ok(Followed { few: (memory(few).await?, few.pods), all: memory(scale).await? })
}

async fn open(
    world: &World<'_>,
    case: Case,
    applied: Option<Applied>,
) -> anyhow::Result<(Watchers, Opened)> {
    let pods = case.scale.pods;
    let (before, began) = (process::cpu(world.pid)?, Instant::now());
    let mut watchers = Watchers::open(case.api, world.grpc, pods, applied).await?;
    let ports = case.api.ports();
    let every = (0..pods).flat_map(|pod| ports.iter().map(move |port| (pod, *port)));
    let mut waiting: BTreeSet<(usize, u16)> = every.collect();
    let mut last = began;
    while !waiting.is_empty() {
        let update = next(&mut watchers).await?;
        waiting.remove(&(update.pod, update.port));
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

impl Run<'_> {
    /// Applies and deletes as many policies, one app after the other or all at once.
    async fn events(
        &mut self,
        rounds: usize,
        pause: Duration,
        wide: bool,
    ) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        for _ in 0..rounds {
            let round = self.rounds;
            self.rounds += 1;
            let app = (!wide).then_some(round % self.case.scale.apps);
            for applied in [true, false] {
                events.push(self.event(Deed { round, app, applied, pause }).await?);
            }
        }
        Ok(events)
    }

    async fn event(&mut self, deed: Deed) -> anyhow::Result<Event> {
        let Deed { round, app, applied, pause } = deed;
        sleep(pause).await;
        let scale = self.case.scale;
        let mut waiting: BTreeSet<usize> = match app {
            Some(app) => scale.concerned(app).collect(),
            None => (0..scale.pods).collect(),
        };
        let concerned = waiting.len();
        let policy = fixture::policy(round, app);
        let acknowledged = match self.case.api {
            Api::Native => self.world.acknowledged(0).await?.map(|(count, _)| count),
            Api::Compatible => None,
        };
        let (before, began) = (process::cpu(self.world.pid)?, Instant::now());
        match applied {
            true => self.world.create(&policy).await?,
            false => self.world.delete(&policy).await?,
        }
        let (mut last, mut updates) = (began, 0);
        while !waiting.is_empty() {
            let update = next(&mut self.watchers).await?;
            updates += 1;
            if shows(self.case.api, &update, &fixture::policy_name(round), applied) {
                waiting.remove(&update.pod);
                last = update.at;
            }
        }
        if let Some(count) = acknowledged
            && let Some((_, read)) = self.world.acknowledged(count + concerned).await?
        {
            last = read;
        }
        sleep(pause).await;
        while let Ok(update) = self.watchers.updates.try_recv() {
            _ = update?;
            updates += 1;
        }
        ensure!(updates == concerned, "{updates} updates were sent to {concerned} watchers");
        let cpu = process::cpu(self.world.pid)?.saturating_sub(before);
        Ok(Event { cpu, latency: last.duration_since(began), updates })
    }

    async fn relabel(&mut self) -> anyhow::Result<Duration> {
        let (scale, pid) = (self.case.scale, self.world.pid);
        // Of an earlier row the label may be there already.
        let value = format!("{pid}-{}", scale.pods);
        let before = process::cpu(pid)?;
        for pod in 0..RELABELLED.min(scale.pods) {
            self.world.touch(scale, pod, &value).await?;
            sleep(SETTLE / 10).await;
        }
        sleep(SETTLE).await;
        let spent = process::cpu(pid)?.saturating_sub(before);
        Ok(spent / u32::try_from(RELABELLED)?)
    }

    /// The controller ends, another starts, and every proxy opens its watch again and says what it
    /// has in force.
    async fn restart(self) -> anyhow::Result<Restart> {
        let Self { case, world, watchers, rounds: _ } = self;
        let applied = watchers.close();
        let world = world.restart(case.scale).await?;
        let (_watchers, open) = open(&world, case, Some(applied)).await?;
        Ok(Restart { ready: world.ready, open })
    }
}

/// True if an update shows the change. A whole message has the policy's name or not; a change
/// has it where it adds, and where it takes away it is the only one there is.
fn shows(api: Api, update: &Update, name: &str, applied: bool) -> bool {
    let names = update.message.windows(name.len()).any(|window| window == name.as_bytes());
    match api {
        Api::Compatible => names == applied,
        Api::Native => update.port == PORT && (names || !applied),
    }
}
