//! The task that writes status: receives conditions and counts, and executes the plan while this
//! replica leads.

use super::api::{Outcome, StatusApi, StatusApiError, update};
use super::api_discovery::{ApiDiscovery, DiscoveryReport};
use super::degradations::Degradation;
use super::desired::DesiredCondition;
use super::events::{self, Event, Reporter};
use super::metrics::{EventMetrics, StatusMetrics};
use super::plan::{COUNTS_INCOMPLETE, Job, NextAction, Plan};
use super::settings::{ReportChannel, StatusSettings};
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

/// Time for which changes are debounced.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// Interval of discovery for kinds without a status.
const REDISCOVER_INTERVAL: Duration = Duration::from_secs(60);

/// The inputs of a status writer.
#[derive(Clone, Debug)]
pub struct StatusInputs {
    /// The conditions of objects.
    pub conditions: ConditionsHandle,
    /// The counts of proxies that have them in force.
    pub programmed: watch::Receiver<Arc<ProgrammedTable>>,
    /// True once every kind has been listed. Nothing is written before, because objects that are not
    /// listed yet would be reported as missing.
    pub synced: watch::Receiver<bool>,
    /// The leadership of this replica.
    pub leadership: Leadership,
}

/// Writes the status of every object while this replica leads.
pub struct StatusWriter {
    inputs: StatusInputs,
    settings: Arc<StatusSettings>,
    api: Arc<StatusApi>,
    reporter: Arc<Reporter>,
    metrics: StatusMetrics,
    events: EventMetrics,
}

/// A job that has ended.
struct FinishedJob {
    job: Job,
    outcome: Outcome,
}

/// Aborts its task when dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StatusWriter {
    /// Creates a writer. Sends nothing before [`StatusWriter::run`]. `instance` names this replica in
    /// events.
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

    /// Counts its events in the metrics of an [`EventRecorder`](super::EventRecorder).
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
        // Dropping the future aborts writes in flight, which are guarded by versions.
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

    /// Writes until this replica stops leading. `None`: the index or the election has ended.
    async fn lead(&mut self, leading: &mut watch::Receiver<bool>) -> Option<()> {
        let mut plan = Plan::new(self.settings.clone());
        let mut jobs: JoinSet<FinishedJob> = JoinSet::new();
        let (report, mut reports) = mpsc::channel(1);
        let mut discovery = None;
        let mut changed = self.inputs.conditions.changed();
        let mut programmed = self.inputs.programmed.clone();
        let mut counted = true;
        let mut debounced = Some(Instant::now());
        let mut resync = Some(Instant::now());
        let mut complete = Instant::now().checked_add(COUNTS_INCOMPLETE);
        let mut rediscover = interval(REDISCOVER_INTERVAL.min(self.settings.resync));
        loop {
            let wake = self.dispatch(&mut plan, &mut jobs);
            tokio::select! {
                ended = until(leading, false) => return ended,
                moved = changed.changed() => {
                    moved.ok()?;
                    debounced = debounced.or_else(|| Instant::now().checked_add(DEBOUNCE));
                }
                moved = programmed.changed(), if counted => {
                    // Without a counter the last counts stay.
                    counted = moved.is_ok();
                    debounced = debounced.or_else(|| Instant::now().checked_add(DEBOUNCE));
                }
                () = sleep_until(debounced) => {
                    debounced = None;
                    let stated = self.inputs.conditions.desired().await?;
                    let counts = programmed.borrow_and_update().clone();
                    plan.update(stated, counts, Instant::now());
                }
                () = sleep_until(complete) => {
                    complete = None;
                    plan.complete_counts(Instant::now());
                }
                Some(report) = reports.recv() => take(&mut plan, report),
                Some(ended) = jobs.join_next() => self.finish(&mut plan, ended),
                () = sleep_until(wake) => {}
                () = sleep_until(resync) => {
                    resync = Instant::now().checked_add(self.settings.resync_interval(plan.len()));
                    plan.repeat_events(Instant::now());
                    discovery = Some(self.discover(StatusSettings::kinds().collect(), &report));
                }
                _ = rediscover.tick() => {
                    let idle = discovery.as_ref().is_none_or(|task: &AbortOnDrop| task.0.is_finished());
                    let kinds = StatusSettings::kinds().filter(|kind| !plan.has_status(*kind));
                    let kinds: Vec<Kind> = kinds.filter(|kind| !kind.group().is_empty()).collect();
                    if idle && !kinds.is_empty() {
                        discovery = Some(self.discover(kinds, &report));
                    }
                }
            }
        }
    }

    fn discover(&self, kinds: Vec<Kind>, report: &mpsc::Sender<DiscoveryReport>) -> AbortOnDrop {
        let (api, settings) = (self.api.clone(), self.settings.clone());
        AbortOnDrop(tokio::spawn(ApiDiscovery { api, settings, report: report.clone() }.run(kinds)))
    }

    /// Starts the jobs that are due, and returns the time of the next.
    fn dispatch(&self, plan: &mut Plan, jobs: &mut JoinSet<FinishedJob>) -> Option<Instant> {
        let wake = loop {
            match plan.next(Instant::now()) {
                NextAction::Job(job) => {
                    self.metrics.dequeues.inc();
                    jobs.spawn(self.work(*job));
                }
                NextAction::Wait(until) => break until,
            }
        };
        let (enqueued, dropped) = plan.take_counts();
        self.metrics.enqueues.inc_by(enqueued);
        self.metrics.dequeues.inc_by(dropped);
        self.metrics.drops.inc_by(dropped);
        self.metrics.overwritten.inc_by(plan.overwritten.take());
        self.metrics.queue.set(i64::try_from(plan.queue_len()).unwrap_or(i64::MAX));
        wake
    }

    fn work(&self, job: Job) -> impl Future<Output = FinishedJob> + Send + 'static {
        let (api, reporter) = (self.api.clone(), self.reporter.clone());
        let controller = self.settings.controller_name.clone();
        let leadership = self.inputs.leadership.clone();
        let (metrics, counters) = (self.metrics.clone(), self.events.clone());
        async move {
            let began = Instant::now();
            let outcome = match job.channel {
                ReportChannel::Status(version) => {
                    let may_write = || leadership.is_leader();
                    let target = (&job.key, version);
                    let (outcome, degraded) =
                        update(&api, target, &job.desired, &controller, may_write).await;
                    metrics.seconds.observe(began.elapsed().as_secs_f64());
                    let events = (outcome == Outcome::Written)
                        .then(|| transition_events(&job, version, degraded));
                    for event in events.into_iter().flatten() {
                        // The status has it too, so an event that cannot be created is only counted.
                        if let Err(failure) =
                            publish_event(&api, &reporter, &counters, &event).await
                        {
                            tracing::debug!(%failure, note = %event.note, "cannot create an Event");
                        }
                    }
                    outcome
                }
                ReportChannel::Events(version) => {
                    let mut outcome = Outcome::Unchanged;
                    for event in condition_events(&job, version) {
                        if let Err(failure) =
                            publish_event(&api, &reporter, &counters, &event).await
                        {
                            outcome = Outcome::Failed(failure);
                            break;
                        }
                    }
                    outcome
                }
                ReportChannel::Nothing => Outcome::Superseded,
            };
            FinishedJob { job, outcome }
        }
    }

    fn finish(&self, plan: &mut Plan, ended: Result<FinishedJob, tokio::task::JoinError>) {
        let Ok(FinishedJob { job, outcome }) = ended else {
            plan.abort();
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
            Outcome::Failed(StatusApiError::Timeout(_)) => {
                self.metrics.timeouts.inc();
            }
            Outcome::Failed(failure) => {
                self.metrics.too_large.inc_by(failure.is_too_large().into());
                self.metrics.refused(failure.code());
            }
        }
        plan.done(&job, &outcome, Instant::now());
    }
}

fn take(plan: &mut Plan, report: DiscoveryReport) {
    let now = Instant::now();
    match report {
        DiscoveryReport::Support { kind, support } => {
            plan.set_support(kind, support, now);
        }
        DiscoveryReport::Page { kind, items } => plan.observe_page(kind, &items, now),
        DiscoveryReport::End { kind, version } => plan.finish_list(kind, version, now),
    }
}

/// Creates an event, and counts it.
async fn publish_event(
    api: &StatusApi,
    reporter: &Reporter,
    counters: &EventMetrics,
    event: &Event,
) -> Result<(), StatusApiError> {
    let created = events::create(api, reporter, event).await;
    match &created {
        Ok(true) => _ = counters.created.inc(),
        Ok(false) => {}
        Err(_) => _ = counters.dropped.inc(),
    }
    created.map(drop)
}

/// The events of a status change: degradations, and what clients are not sent. They exist because no
/// operator watches a condition that changes while the object is not edited.
fn transition_events(job: &Job, version: &str, degraded: Vec<Degradation>) -> Vec<Event> {
    let regarding = || regarding(job, version);
    let event = |Degradation { reason, note }| Event {
        regarding: regarding(),
        warning: true,
        reason: reason.into(),
        note: super::message::bounded(&note),
    };
    let mut events: Vec<Event> = degraded.into_iter().map(event).collect();
    match job.desired.unsent() {
        _ if !job.unsent_changed || job.desired.keeps_proxy_conditions() => {}
        Some(condition) => events.push(warning(regarding(), condition)),
        None => {
            let note = "all watching clients receive it in full".into();
            let reason = "ProxySupported".into();
            events.push(Event { regarding: regarding(), warning: false, reason, note });
        }
    }
    events
}

fn warning(regarding: ObjectReference, condition: &DesiredCondition) -> Event {
    let reason = match condition.kind {
        PROXY_UNSUPPORTED => PROXY_UNSUPPORTED.into(),
        _ => condition.reason.clone(),
    };
    let note = format!("{}={}: {}", condition.kind, condition.status, condition.message);
    Event { regarding, warning: true, reason, note: super::message::bounded(&note) }
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

/// The events that replace a status.
fn condition_events(job: &Job, version: &str) -> Vec<Event> {
    let regarding = regarding(job, version);
    if job.recovered {
        let note = "all faults that were reported are resolved".into();
        return vec![Event { regarding, warning: false, reason: "Accepted".into(), note }];
    }
    let event = |condition: &DesiredCondition| warning(regarding.clone(), condition);
    job.desired.all().filter(|condition| condition.is_warning()).map(event).collect()
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

/// Waits until leadership is as wanted. `None`: the election has ended.
async fn until(leading: &mut watch::Receiver<bool>, wanted: bool) -> Option<()> {
    // The guard locks the channel, and must not be held by a task that waits.
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
