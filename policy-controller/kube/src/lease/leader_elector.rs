//! Runs leader election for one replica.

use super::decision::{Action, ElectionState, LeaderElectionRecord, MonotonicTime, Timing};
use super::metrics::LeaseMetrics;
use super::record;
use super::settings::LeaseSettings;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::api::PostParams;
use kube::{Api, Client};
use policy_engine::Inventory;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time limit of releasing the Lease.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Leadership of this replica. Clones share it.
#[derive(Clone, Debug)]
pub struct Leadership {
    leading: watch::Receiver<bool>,
    until: Arc<AtomicU64>,
    origin: Instant,
}

impl Leadership {
    /// Leads until the sender sends false.
    #[cfg(test)]
    pub(crate) fn for_test() -> (watch::Sender<bool>, Self) {
        let (leads, leading) = watch::channel(true);
        let until = Arc::new(AtomicU64::new(u64::MAX));
        (leads, Self { leading, until, origin: Instant::now() })
    }

    /// True while this replica leads. Compares with the clock, so that a process that was suspended
    /// for a while does not take itself for the leader.
    pub fn is_leader(&self) -> bool {
        *self.leading.borrow() && milliseconds(self.origin.elapsed()) < self.until()
    }

    /// Notifies of every change of leadership.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.leading.clone()
    }

    fn until(&self) -> u64 {
        self.until.load(Ordering::Acquire)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An identity for this run of this replica: two runs never share one.
pub fn identity() -> Arc<str> {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.unwrap_or_else(|| "policy-controller".to_owned());
    // A RandomState is seeded by the operating system.
    let run = RandomState::new().hash_one(std::process::id());
    format!("{host}_{run:016x}").into()
}

/// The leader elector of this replica.
#[derive(Debug)]
pub struct LeaderElector {
    api: Api<LeaseObject>,
    settings: LeaseSettings,
    timing: Timing,
    state: ElectionState,
    /// The Lease as last read or written.
    observed: Option<LeaseObject>,
    leading: watch::Sender<bool>,
    until: Arc<AtomicU64>,
    origin: Instant,
    metrics: LeaseMetrics,
    inventory: Option<watch::Receiver<Option<Arc<Inventory>>>>,
    failing: bool,
}

impl LeaderElector {
    /// Creates a replica that does not lead yet. Sends nothing before [`LeaderElector::run`].
    pub fn new(client: Client, settings: LeaseSettings, identity: Arc<str>) -> (Self, Leadership) {
        let timing = Timing::of(settings.duration);
        let (leading, receiver) = watch::channel(false);
        let until = Arc::new(AtomicU64::new(0));
        let origin = Instant::now();
        let lease = Self {
            api: Api::namespaced(client, &settings.namespace),
            settings,
            timing,
            state: ElectionState::new(identity, timing),
            observed: None,
            leading,
            until: until.clone(),
            origin,
            metrics: LeaseMetrics::default(),
            inventory: None,
            failing: false,
        };
        (lease, Leadership { leading: receiver, until, origin })
    }

    /// Records the kinds in use in the Lease, with each renewal. Before they are known, the record
    /// stays as it is.
    #[must_use]
    pub fn with_inventory(self, inventory: watch::Receiver<Option<Arc<Inventory>>>) -> Self {
        Self { inventory: Some(inventory), ..self }
    }

    /// Handles on its metrics.
    pub fn metrics(&self) -> LeaseMetrics {
        self.metrics.clone()
    }

    /// Runs until `shutdown`, then releases the Lease. End whatever only the leader may do before
    /// that.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let lapse = self.state.leads_until().map(|until| self.origin.checked_add(until));
            let lapse = lapse.flatten().filter(|_| *self.leading.borrow());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = sleep_until(lapse) => self.publish(),
                () = self.acquire_or_renew() => {}
            }
        }
        self.release().await;
    }

    /// Reads the Lease, acts on it, and sleeps for the retry period.
    async fn acquire_or_renew(&mut self) {
        let timeout =
            self.timing.renew_deadline.checked_div(2).unwrap_or(self.timing.renew_deadline);
        let attempt = tokio::time::timeout(timeout, self.attempt()).await;
        let failure = match attempt {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no response within {} ms", timeout.as_millis())),
        };
        if let Some(error) = &failure {
            self.metrics.failed();
            if !self.failing {
                let (namespace, name) = (&self.settings.namespace, &self.settings.name);
                tracing::warn!(%error, "cannot read or write Lease {namespace}/{name}");
            }
        }
        self.failing = failure.is_some();
        self.publish();
        tokio::time::sleep(self.timing.retry_period).await;
    }

    async fn attempt(&mut self) -> Result<(), kube::Error> {
        let object = match self.api.get_opt(&self.settings.name).await? {
            Some(object) => object,
            None => {
                let new = record::object(&self.settings);
                match self.api.create(&PostParams::default(), &new).await {
                    Ok(created) => created,
                    // Another replica created it first: read in the next round.
                    Err(error) if is_conflict(&error) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        };
        let read = record::read(&object);
        self.observed = Some(object.clone());
        match self.state.decide(&read, self.now(), Timestamp::now()) {
            Action::Acquire(record) | Action::Renew(record) => self.write(object, record).await,
            Action::Wait(_) => Ok(()),
            Action::Lost => {
                tracing::warn!(holder = %read.holder, "lost the Lease: another replica holds it");
                Ok(())
            }
        }
    }

    async fn write(
        &mut self,
        mut object: LeaseObject,
        record: LeaderElectionRecord,
    ) -> Result<(), kube::Error> {
        record::write(&mut object, &record);
        if let Some(inventory) = self.inventory.as_ref().and_then(|known| known.borrow().clone()) {
            record::write_kinds(&mut object, &inventory.kinds);
        }
        let requested_at = self.now();
        match self.api.replace(&self.settings.name, &PostParams::default(), &object).await {
            Ok(written) => {
                self.state.note_written(record::read(&written), requested_at);
                self.observed = Some(written);
                Ok(())
            }
            // Another replica wrote first: read in the next round.
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn now(&self) -> MonotonicTime {
        self.origin.elapsed()
    }

    /// Publishes leadership to the receivers.
    fn publish(&self) {
        let until = self.state.leads_until().unwrap_or_default();
        self.until.store(milliseconds(until), Ordering::Release);
        let leads = self.state.leads(self.now());
        self.metrics.leads(leads);
        self.leading.send_if_modified(|leading| {
            let changed = *leading != leads;
            *leading = leads;
            if changed {
                let (namespace, name) = (&self.settings.namespace, &self.settings.name);
                let event = if leads { "became leader" } else { "stopped leading" };
                tracing::info!("{event} (Lease {namespace}/{name})");
            }
            changed
        });
    }

    async fn release(mut self) {
        let Some(mut object) = self.observed.take() else { return };
        let record = self.state.release(&record::read(&object), Timestamp::now());
        self.publish();
        let Some(record) = record else { return };
        record::write(&mut object, &record);
        let params = PostParams::default();
        let replace = self.api.replace(&self.settings.name, &params, &object);
        match tokio::time::timeout(RELEASE_TIMEOUT, replace).await {
            Ok(Ok(_)) => tracing::info!("released the Lease"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the Lease"),
            Err(_) => tracing::warn!("cannot release the Lease: no response"),
        }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Sleeps until a moment; for ever where there is none.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
