//! A replica of the controller in this process: source, index, Lease, status writer.

use policy_core::{ServerPolicy, WorkloadKey};
use policy_crds::ObjectKey;
use policy_engine::desired_conditions::StatusFields;
use policy_engine::programmed::ProgrammedTable;
use policy_engine::{Controller, ControllerConfig, start};
use policy_kube::lease::{LeaderElector, Leadership, LeaseSettings};
use policy_kube::source::{KubernetesConfig, KubernetesSource, Scope};
use policy_kube::status::{
    EventMetrics, StatusInputs, StatusMetrics, StatusSettings, StatusWriter,
};
use prometheus_client::registry::Registry;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Settings of a replica that is started.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Namespace of its Lease.
    pub(crate) namespace: String,
    /// Settings of its status writer, with the namespaces that it watches.
    pub(crate) settings: StatusSettings,
    /// For how long a silent leader is waited for.
    pub(crate) lease: Duration,
}

impl Setup {
    /// Watches and writes one namespace, with the usual settings.
    pub(crate) fn of(namespace: &str) -> Self {
        Self::within(namespace, &[namespace])
    }

    /// Watches and writes some namespaces, with the usual settings.
    pub(crate) fn within(lease: &str, namespaces: &[&str]) -> Self {
        let namespaces = namespaces.iter().map(|name| Arc::from(*name)).collect();
        let settings = StatusSettings { namespaces: Some(namespaces), ..StatusSettings::default() };
        Self { namespace: lease.to_owned(), settings, lease: Duration::from_secs(15) }
    }

    fn scope(&self) -> Scope {
        let some = self.settings.namespaces.as_ref();
        some.map_or(Scope::Cluster, |some| Scope::Namespaces(some.iter().cloned().collect()))
    }
}

/// A running replica. Dropped, it ends at once, as if it had been killed: the Lease is not given
/// back.
pub(crate) struct Replica {
    /// Leadership of this replica.
    pub(crate) leadership: Leadership,
    /// Metrics of its writes.
    pub(crate) metrics: StatusMetrics,
    /// Counts that it would learn of how far objects are in force.
    pub(crate) programmed: watch::Sender<Arc<ProgrammedTable>>,
    registry: Registry,
    stop: CancellationToken,
    stop_lease: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    controller: Controller,
}

impl Replica {
    /// Starts one. `client` is what status and Lease go through; objects are read through `reading`.
    pub(crate) async fn start(client: kube::Client, reading: kube::Client, setup: &Setup) -> Self {
        let namespace: Arc<str> = setup.namespace.as_str().into();
        let watches = KubernetesConfig {
            scope: setup.scope(),
            control_plane_namespace: namespace.clone(),
            ..KubernetesConfig::default()
        };
        let source = KubernetesSource::prepare(reading, watches).connected().await;
        let controller = start(ControllerConfig::default(), source);
        let identity = policy_kube::lease::identity();
        let lease = LeaseSettings { namespace, name: "the-leader".into(), duration: setup.lease };
        let (lease, leadership) = LeaderElector::new(client.clone(), lease, identity.clone());
        let (programmed, counts) = watch::channel(Arc::default());
        let inputs = StatusInputs {
            conditions: controller.conditions.clone(),
            programmed: counts,
            synced: controller.policies.synced(),
            leadership: leadership.clone(),
        };
        let events = EventMetrics::default();
        let writer = StatusWriter::new(client, setup.settings.clone(), inputs, identity)
            .with_event_metrics(events.clone());
        let metrics = writer.metrics();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        events.register(&mut registry);
        lease.metrics().register(&mut registry);
        let (stop, stop_lease) = (CancellationToken::new(), CancellationToken::new());
        let tasks = vec![
            tokio::spawn(writer.run(stop.clone())),
            tokio::spawn(lease.run(stop_lease.clone())),
        ];
        Self { leadership, metrics, programmed, registry, stop, stop_lease, tasks, controller }
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&self) {
        let mut changes = self.leadership.changes();
        let leads = changes.wait_for(|leads| *leads);
        tokio::time::timeout(Duration::from_secs(60), leads).await.unwrap().unwrap();
    }

    /// The policy that it answers for port 80 of a pod, once it knows the pod.
    pub(crate) async fn policy(&self, namespace: &str, pod: &str) -> Option<Arc<ServerPolicy>> {
        let port = NonZeroU16::new(80).unwrap();
        let key = WorkloadKey::pod(namespace, pod);
        let followed = self.controller.policies.port(&key, port).await.ok()?;
        Some(followed.current().policy.clone())
    }

    /// The fields of statuses that it would write.
    pub(crate) async fn fields(&self, key: &ObjectKey) -> Option<StatusFields> {
        let desired = self.controller.conditions.desired().await?;
        desired.get(key)?.fields.clone()
    }

    /// The sum of the metrics whose line begins so.
    pub(crate) fn metric(&self, beginning: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Ends it as SIGTERM does: writing ends, then the Lease is given back.
    pub(crate) async fn shut_down(mut self) {
        self.stop.cancel();
        let lease = self.tasks.pop().unwrap();
        let writer = self.tasks.pop().unwrap();
        writer.await.unwrap();
        self.stop_lease.cancel();
        lease.await.unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
