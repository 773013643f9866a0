//! The task that writes status: follows conditions and counts, and works off the plan while this
//! replica leads.

use super::api::{Failure, Outcome, StatusApi, update};
use super::desired::Told;
use super::events::{self, Note, Reporter};
use super::metrics::{EventMetrics, StatusMetrics};
use super::plan::{Job, Means, Next, Plan};
use super::settings::StatusSettings;
use super::survey::{Report, Survey};
use super::worse::Worse;
use crate::lease::Leadership;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_crds::Kind;
use policy_engine::conditions::PROXY_UNSUPPORTED;
use policy_engine::handles::ConditionsHandle;
use policy_engine::programmed::ProgrammedTable;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long changes are gathered before they are looked at.
const GATHER: Duration = Duration::from_millis(200);
/// How often it is asked whether kinds without a status have got one.
const REDISCOVER: Duration = Duration::from_secs(60);

/// What a status writer reads.
#[derive(Clone, Debug)]
pub struct StatusInputs {
    /// What objects are told.
    pub conditions: ConditionsHandle,
    /// How far they are in force.
    pub programmed: watch::Receiver<Arc<ProgrammedTable>>,
    /// Whether every kind has been listed. Nothing is written before: what is not known yet would be
    /// told to be missing.
    pub synced: watch::Receiver<bool>,
    /// Whether this replica leads.
    pub leadership: Leadership,
}

/// Writes what every object is told, while this replica leads.
pub struct StatusWriter {
    inputs: StatusInputs,
    settings: Arc<StatusSettings>,
    api: Arc<StatusApi>,
    reporter: Arc<Reporter>,
    metrics: StatusMetrics,
    events: EventMetrics,
}

/// A job that has ended.
struct Ended {
    job: Job,
    outcome: Outcome,
}

/// Ends its task when it is dropped.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StatusWriter {
    /// Nothing is asked before [`StatusWriter::run`]. `instance` names this replica in events.
    pub fn new(
        client: Client,
        settings: StatusSettings,
        inputs: StatusInputs,
        instance: Arc<str>,
    ) -> Self {
        let api = Arc::new(StatusApi::new(client, settings.timeout));
        let reporter =
            Arc::new(Reporter { controller: settings.controller_name.clone(), instance });
        let (metrics, events) = (StatusMetrics::default(), EventMetrics::default());
        Self { inputs, settings: Arc::new(settings), api, reporter, metrics, events }
    }

    /// The same counters for the events that it creates as for those of an
    /// [`Events`](super::Events).
    #[must_use]
    pub fn with_event_metrics(mut self, metrics: EventMetrics) -> Self {
        self.events = metrics;
        self
    }

    /// Handles on its metrics.
    pub fn metrics(&self) -> StatusMetrics {
        self.metrics.clone()
    }

    /// Writes until `shutdown`, or until the index has ended.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // Ends by being dropped: what is under way is abandoned, and is guarded by versions.
        shutdown.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) {
        if self.inputs.synced.wait_for(|synced| *synced).await.is_err() {
            return;
        }
        let mut leading = self.inputs.leadership.changes();
        loop {
            if until(&mut leading, true).await.is_none() {
                return;
            }
            let led = self.lead(&mut leading).await;
            self.metrics.queue.set(0);
            if led.is_none() {
                return;
            }
        }
    }

    /// Writes until this replica does not lead any more. None: the index or the election has ended.
    async fn lead(&mut self, leading: &mut watch::Receiver<bool>) -> Option<()> {
        let mut plan = Plan::new(self.settings.clone());
        let mut jobs: JoinSet<Ended> = JoinSet::new();
        let (report, mut reports) = mpsc::channel(1);
        let mut survey = None;
        let mut changed = self.inputs.conditions.changed();
        let mut programmed = self.inputs.programmed.clone();
        let mut counted = true;
        let mut gathered = Some(Instant::now());
        let mut resync = interval(self.settings.resync);
        let mut rediscover = interval(REDISCOVER.min(self.settings.resync));
        loop {
            let wake = self.dispatch(&mut plan, &mut jobs);
            tokio::select! {
                ended = until(leading, false) => return ended,
                moved = changed.changed() => {
                    moved.ok()?;
                    gathered = gathered.or_else(|| Instant::now().checked_add(GATHER));
                }
                moved = programmed.changed(), if counted => {
                    // Without a counter the last counts stay.
                    counted = moved.is_ok();
                    gathered = gathered.or_else(|| Instant::now().checked_add(GATHER));
                }
                () = sleep_until(gathered) => {
                    gathered = None;
                    let stated = self.inputs.conditions.desired().await?;
                    let counts = programmed.borrow_and_update().clone();
                    plan.tell(stated, counts, Instant::now());
                }
                Some(report) = reports.recv() => take(&mut plan, report),
                Some(ended) = jobs.join_next() => self.ended(&mut plan, ended),
                () = sleep_until(wake) => {}
                _ = resync.tick() => {
                    plan.repeat(Instant::now());
                    survey = Some(self.survey(StatusSettings::kinds().collect(), &report));
                }
                _ = rediscover.tick() => {
                    let idle = survey.as_ref().is_none_or(|task: &Task| task.0.is_finished());
                    let kinds = StatusSettings::kinds().filter(|kind| !plan.is_by_status(*kind));
                    let kinds: Vec<Kind> = kinds.filter(|kind| !kind.group().is_empty()).collect();
                    if idle && !kinds.is_empty() {
                        survey = Some(self.survey(kinds, &report));
                    }
                }
            }
        }
    }

    fn survey(&self, kinds: Vec<Kind>, report: &mpsc::Sender<Report>) -> Task {
        let (api, settings) = (self.api.clone(), self.settings.clone());
        Task(tokio::spawn(Survey { api, settings, report: report.clone() }.run(kinds)))
    }

    /// Begins what may begin, and says when to look again.
    fn dispatch(&self, plan: &mut Plan, jobs: &mut JoinSet<Ended>) -> Option<Instant> {
        let wake = loop {
            match plan.next(Instant::now()) {
                Next::Job(job) => {
                    self.metrics.dequeues.inc();
                    jobs.spawn(self.work(*job));
                }
                Next::Wait(until) => break until,
            }
        };
        let (enqueued, dropped) = plan.counted();
        self.metrics.enqueues.inc_by(enqueued);
        self.metrics.dequeues.inc_by(dropped);
        self.metrics.drops.inc_by(dropped);
        self.metrics.overwritten.inc_by(plan.overwritten());
        self.metrics.queue.set(i64::try_from(plan.waiting()).unwrap_or(i64::MAX));
        wake
    }

    fn work(&self, job: Job) -> impl Future<Output = Ended> + Send + 'static {
        let (api, reporter) = (self.api.clone(), self.reporter.clone());
        let controller = self.settings.controller_name.clone();
        let leadership = self.inputs.leadership.clone();
        let (metrics, counters) = (self.metrics.clone(), self.events.clone());
        async move {
            let began = Instant::now();
            let outcome = match job.means {
                Means::Status(version) => {
                    let may_write = || leadership.is_leader();
                    let place = (&job.key, version);
                    let (outcome, worse) =
                        update(&api, place, &job.desired, &controller, may_write).await;
                    metrics.seconds.observe(began.elapsed().as_secs_f64());
                    let notes = (outcome == Outcome::Written).then(|| news(&job, version, worse));
                    for note in notes.into_iter().flatten() {
                        // The status says it, too: an event that cannot be created is only counted.
                        if let Err(failure) = announce(&api, &reporter, &counters, &note).await {
                            tracing::debug!(%failure, note = %note.note, "an event was not created");
                        }
                    }
                    outcome
                }
                Means::Events(version) => {
                    let mut outcome = Outcome::Unchanged;
                    for note in notes(&job, version) {
                        if let Err(failure) = announce(&api, &reporter, &counters, &note).await {
                            outcome = Outcome::Failed(failure);
                            break;
                        }
                    }
                    outcome
                }
                Means::Nothing => Outcome::Superseded,
            };
            Ended { job, outcome }
        }
    }

    fn ended(&self, plan: &mut Plan, ended: Result<Ended, tokio::task::JoinError>) {
        let Ok(Ended { job, outcome }) = ended else {
            plan.lost();
            return;
        };
        match &outcome {
            Outcome::Written => {
                self.metrics.patches.inc();
            }
            Outcome::Unchanged | Outcome::Superseded => {
                self.metrics.drops.inc();
            }
            Outcome::NoStatus | Outcome::NotLeading => {}
            Outcome::Failed(Failure::Timeout(_)) => {
                self.metrics.timeouts.inc();
            }
            Outcome::Failed(failure) => self.metrics.refused(failure.code()),
        }
        plan.done(&job, &outcome, Instant::now());
    }
}

fn take(plan: &mut Plan, report: Report) {
    let now = Instant::now();
    match report {
        Report::Found { kind, found } => {
            plan.found(kind, found, now);
        }
        Report::Page { kind, items } => plan.page(kind, &items, now),
        Report::End { kind, version } => plan.listed(kind, version, now),
    }
}

/// Creates an event, and counts it.
async fn announce(
    api: &StatusApi,
    reporter: &Reporter,
    counters: &EventMetrics,
    note: &Note,
) -> Result<(), Failure> {
    let created = events::create(api, reporter, note).await;
    match &created {
        Ok(true) => _ = counters.created.inc(),
        Ok(false) => {}
        Err(_) => _ = counters.dropped.inc(),
    }
    created.map(drop)
}

/// The events beside the conditions: what got worse, and what clients are not sent. A condition that
/// changes while nobody edits the object is looked for by nobody.
fn news(job: &Job, version: &str, worse: Vec<Worse>) -> Vec<Note> {
    let regarding = || regarding(job, version);
    let note = |Worse { reason, note }| Note {
        regarding: regarding(),
        warning: true,
        reason: reason.into(),
        note: super::desired::bounded(&note),
    };
    let mut notes: Vec<Note> = worse.into_iter().map(note).collect();
    match job.desired.unsent() {
        _ if !job.unsent_changed || job.desired.keeps() => {}
        Some(told) => notes.push(warning(regarding(), told)),
        None => {
            let note = "every client that watches now is sent all of it".into();
            let reason = "ProxySupported".into();
            notes.push(Note { regarding: regarding(), warning: false, reason, note });
        }
    }
    notes
}

fn warning(regarding: ObjectReference, told: &Told) -> Note {
    let reason = match told.kind {
        PROXY_UNSUPPORTED => PROXY_UNSUPPORTED.into(),
        _ => told.reason.clone(),
    };
    let note = format!("{}={}: {}", told.kind, told.status, told.message);
    Note { regarding, warning: true, reason, note: super::desired::bounded(&note) }
}

fn regarding(job: &Job, version: &str) -> ObjectReference {
    let kind = job.key.kind;
    let dot = if kind.group().is_empty() { "" } else { "/" };
    ObjectReference {
        api_version: Some(format!("{}{dot}{version}", kind.group())),
        kind: Some(kind.as_str().to_owned()),
        namespace: (!job.key.namespace.is_empty()).then(|| job.key.namespace.to_string()),
        name: Some(job.key.name.to_string()),
        uid: job.desired.uid.as_ref().map(ToString::to_string),
        ..ObjectReference::default()
    }
}

/// The events that tell what a status would.
fn notes(job: &Job, version: &str) -> Vec<Note> {
    let regarding = regarding(job, version);
    if job.recovered {
        let note = "what was wrong is not wrong any more".into();
        return vec![Note { regarding, warning: false, reason: "Accepted".into(), note }];
    }
    let note = |told: &Told| warning(regarding.clone(), told);
    job.desired.all().filter(|told| told.is_warning()).map(note).collect()
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period.max(Duration::from_secs(1)));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until leadership is as wanted. None: nobody says any more.
async fn until(leading: &mut watch::Receiver<bool>, wanted: bool) -> Option<()> {
    // What it gives back locks the channel, and must not live on in a task that waits.
    leading.wait_for(|leads| *leads == wanted).await.ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::refusing_client;
    use policy_engine::config::ControllerConfig;
    use policy_engine::controller::start;
    use policy_engine::source::{Batch, Change};
    use policy_engine::testing::ChannelSource;

    /// A writer that leads, and what it depends on.
    async fn writer() -> (JoinHandle<()>, policy_engine::controller::Controller, watch::Sender<bool>)
    {
        let (batches, queue) = tokio::sync::mpsc::channel(1);
        let controller = start(ControllerConfig::default(), ChannelSource(queue));
        batches.send(Batch { changes: vec![Change::Synced], ..Batch::default() }).await.unwrap();
        let mut synced = controller.policies.synced();
        synced.wait_for(|synced| *synced).await.unwrap();
        let (leading, leadership) = Leadership::for_test();
        let inputs = StatusInputs {
            conditions: controller.conditions.clone(),
            programmed: watch::channel(Arc::default()).1,
            synced: controller.policies.synced(),
            leadership,
        };
        let writer =
            StatusWriter::new(refusing_client(), StatusSettings::default(), inputs, "i".into());
        (tokio::spawn(writer.run(CancellationToken::new())), controller, leading)
    }

    #[tokio::test]
    async fn the_writer_ends_with_the_index_and_with_the_election() {
        let ends = |writer| tokio::time::timeout(Duration::from_secs(20), writer);
        let (writing, controller, _leading) = writer().await;
        controller.shutdown();
        ends(writing).await.unwrap().unwrap();
        let (writing, _controller, leading) = writer().await;
        drop(leading);
        ends(writing).await.unwrap().unwrap();
    }
}
