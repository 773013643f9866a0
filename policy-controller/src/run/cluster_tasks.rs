//! Tasks besides the source that use the API server: admission, leader election, status, Events.

use super::error::RunError;
use super::index::Handles;
use super::kept;
use super::supervisor::Supervisor;
use crate::admin::Admin;
use crate::args::ClusterSettings;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_discovery::rollout::RolloutTracker;
use policy_engine::ReviewHandle;
use policy_kube::lease::{self, LeaderElector, Leadership, LeaseSettings};
use policy_kube::status::{EventRecorder, EventWriter, StatusInputs, StatusSettings, StatusWriter};
use policy_server::TlsHandle;
use policy_webhooks::admission::Admission;
use policy_webhooks::injector::{
    Injector, InjectorMetrics, NamespaceLabeler, NamespaceLabelerInputs,
};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The tasks of a cluster beside the index, not started yet.
pub(super) struct ClusterTasks {
    pub(super) client: Client,
    pub(super) leadership: Leadership,
    identity: Arc<str>,
    events: EventRecorder,
    event_writer: EventWriter,
    lease: LeaderElector,
    lease_settings: LeaseSettings,
    status: StatusSettings,
    /// Metrics of the injector; absent: it is not served.
    pub(super) injection: Option<InjectorMetrics>,
    /// True if `linkerd.io/inject` asks the injector, too.
    reads_linkerd: bool,
}

/// The running tasks.
pub(super) struct RunningClusterTasks {
    stop: CancellationToken,
    stop_lease: CancellationToken,
    status: JoinHandle<()>,
    lease: JoinHandle<()>,
    events: JoinHandle<()>,
    labeler: Option<JoinHandle<()>>,
}

impl ClusterTasks {
    /// Creates the tasks. Nothing is sent yet.
    pub(super) async fn new(settings: &ClusterSettings) -> Result<Self, RunError> {
        let client = settings.args.cluster.connect().await?;
        let identity = lease::identity();
        let (lease, leadership) =
            LeaderElector::new(client.clone(), settings.lease.clone(), identity.clone());
        let name = settings.status.controller_name.clone();
        let (events, event_writer) = EventRecorder::new(client.clone(), name, identity.clone());
        Ok(Self {
            client,
            leadership,
            identity,
            events,
            event_writer,
            lease,
            lease_settings: settings.lease.clone(),
            status: settings.status.clone(),
            injection: settings.injector.as_ref().map(|_| InjectorMetrics::default()),
            reads_linkerd: settings
                .injector
                .as_ref()
                .is_some_and(|injector| injector.reads_linkerd),
        })
    }

    /// Reports stale watches by an Event about this replica's pod, or about the Lease
    /// where no pod is known.
    pub(super) fn warn_stale(&self) -> impl Fn(&[String]) + Send + Sync + 'static {
        let events = self.events.clone();
        let settings = self.lease_settings.clone();
        move |watches| {
            let note = format!(
                "the watch of {} is stale: the last state stays in force and changes are not seen; \
                 check the API server and the RBAC permissions of this service account",
                watches.join(", ")
            );
            events.warn(regarding(&settings), "WatchStale", &note);
        }
    }

    /// Starts status, leadership and events.
    pub(super) fn start(
        self,
        handles: &Handles,
        counting: &RolloutTracker,
        admin: &Admin,
        supervisor: &Supervisor,
    ) -> RunningClusterTasks {
        let inputs = StatusInputs {
            conditions: handles.conditions.clone(),
            programmed: counting.table(),
            synced: handles.policies.synced(),
            leadership: self.leadership.clone(),
        };
        let labeler = self.injection.map(|metrics| {
            admin.register(|registry| metrics.register(registry));
            NamespaceLabeler::new(NamespaceLabelerInputs {
                client: self.client.clone(),
                objects: handles.objects.clone(),
                seen: handles.policies.seen(),
                leadership: self.leadership.clone(),
                events: self.events.clone(),
                metrics,
                control_plane: self.lease_settings.namespace.clone(),
                reads_linkerd: self.reads_linkerd,
            })
        });
        let writer = StatusWriter::new(self.client, self.status, inputs, self.identity)
            .with_event_metrics(self.events.metrics());
        admin.register(|registry| {
            self.lease.metrics().register(registry);
            writer.metrics().register(registry);
            self.events.metrics().register(registry);
        });
        let warn = warn_kept(self.events.clone(), self.lease_settings.clone());
        let kept = kept::follow(handles.inventory.clone(), admin.readiness().clone(), warn);
        supervisor.spawn("the monitor of kept objects", kept);
        let lease = self.lease.with_inventory(handles.inventory.clone());
        let counts = counting.clone().while_leading(self.leadership.changes());
        supervisor.spawn("the leader's rollout tracker", counts);
        let (stop, stop_lease) = (CancellationToken::new(), CancellationToken::new());
        RunningClusterTasks {
            status: supervisor.spawn("the status writer", writer.run(stop.clone())),
            events: supervisor.spawn("the event writer", self.event_writer.run(stop.clone())),
            labeler: labeler.map(|labeler| {
                supervisor.spawn("the namespace labeler", labeler.run(stop.clone()))
            }),
            lease: supervisor.spawn("leader election", lease.run(stop_lease.clone())),
            stop,
            stop_lease,
        }
    }
}

impl RunningClusterTasks {
    /// Ends status before leadership, so that nothing is written after the Lease was given back.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        // A panic of one of them was reported where it happened.
        _ = self.status.await;
        _ = self.events.await;
        if let Some(labeler) = self.labeler {
            _ = labeler.await;
        }
        self.stop_lease.cancel();
        _ = self.lease.await;
    }
}

/// Opens the admission webhook, if it is to be served, with the injector, if that is.
pub(super) async fn admission(
    settings: &ClusterSettings,
    client: Client,
    review: ReviewHandle,
    injection: Option<(&InjectorMetrics, Option<TlsHandle>)>,
    admin: &Admin,
) -> Result<Option<Admission>, RunError> {
    let Some(served) = settings.admission.clone() else { return Ok(None) };
    let mut admission = Admission::new(served, Some(review), Some(client.clone())).await?;
    if let (Some(settings), Some((metrics, own))) = (&settings.injector, injection) {
        if own.is_none() && settings.trust.file.is_none() {
            tracing::warn!(
                "sidecars trust the roots in the ConfigMap of their namespace without verification, \
                 because this controller has no certificate: configure one, or set --injector-roots"
            );
        }
        let injector = Injector::new(client, settings.clone(), own, metrics.clone());
        admission = admission.with_injector(injector);
    }
    if let Some(redirector) = &settings.redirector {
        admission = admission.with_redirector(redirector.clone());
    }
    admin.register(|registry| admission.metrics().register(registry));
    tracing::info!(admission = %admission.address(), "listening");
    Ok(Some(admission))
}

/// Reports by an Event that objects have outlived their definition.
fn warn_kept(events: EventRecorder, settings: LeaseSettings) -> impl Fn(&str) + Send + 'static {
    move |note| events.warn(regarding(&settings), "DefinitionGone", note)
}

/// Returns the object that Events about this replica regard.
fn regarding(lease: &LeaseSettings) -> ObjectReference {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (version, kind, namespace, name) = match (variable("POD_NAMESPACE"), variable("POD_NAME")) {
        (Some(namespace), Some(name)) => ("v1", "Pod", namespace, name),
        _ => {
            let (namespace, name) = (lease.namespace.to_string(), lease.name.to_string());
            ("coordination.k8s.io/v1", "Lease", namespace, name)
        }
    };
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace),
        name: Some(name),
        ..ObjectReference::default()
    }
}
