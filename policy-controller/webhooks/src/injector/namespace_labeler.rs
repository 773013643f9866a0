//! Tasks of the leader: maintains the label of each namespace that the API server selects by, and
//! reports pods without a sidecar.

use super::element::owned;
use super::metrics::InjectorMetrics;
use super::missing_sidecar::{MissingSidecar, injection_label};
use super::missing_sidecar_cache::MissingSidecarCache;
use super::namespace_label::NamespaceLabel;
use super::opt_in::INJECT_LABEL;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_crds::{Kind, Object};
use policy_engine::handles::ObjectsHandle;
use policy_engine::publish::SourceProgress;
use policy_kube::lease::Leadership;
use policy_kube::status::EventRecorder;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time for which changes are gathered, so that one reconciliation handles a burst.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Interval of reconciliations without changes.
const RESYNC: Duration = Duration::from_secs(30);

/// Inputs of the labeler.
pub struct NamespaceLabelerInputs {
    /// Client that writes labels.
    pub client: Client,
    /// The objects of the index.
    pub objects: ObjectsHandle,
    /// Notifies of every change of the objects.
    pub seen: watch::Receiver<Arc<SourceProgress>>,
    /// Leadership of this replica.
    pub leadership: Leadership,
    /// Records Events.
    pub events: EventRecorder,
    /// Metrics of the injector.
    pub metrics: InjectorMetrics,
    /// Namespace of the control plane, whose pods get no sidecars.
    pub control_plane: Arc<str>,
    /// True if `linkerd.io/inject` asks this injector, too.
    pub reads_linkerd: bool,
}

/// Maintains labels and reports pods without a sidecar.
pub struct NamespaceLabeler {
    inputs: NamespaceLabelerInputs,
    /// The last written label by namespace, so that a later change by an operator is not
    /// overwritten.
    written: HashMap<Arc<str>, Option<&'static str>>,
    /// Pods that have been reported.
    reported: BTreeSet<Arc<str>>,
    /// Pods without a sidecar.
    cache: MissingSidecarCache,
}

impl NamespaceLabeler {
    /// Creates a labeler, which writes nothing yet.
    pub fn new(inputs: NamespaceLabelerInputs) -> Self {
        Self {
            inputs,
            written: HashMap::new(),
            reported: BTreeSet::new(),
            cache: MissingSidecarCache::default(),
        }
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        _ = shutdown.run_until_cancelled(self.reconcile_loop()).await;
    }

    async fn reconcile_loop(&mut self) {
        let mut seen = self.inputs.seen.clone();
        let mut leading = self.inputs.leadership.changes();
        loop {
            if self.inputs.leadership.is_leader() {
                self.reconcile().await;
            } else {
                self.forget();
            }
            tokio::time::sleep(DEBOUNCE).await;
            tokio::select! {
                changed = seen.changed() => if changed.is_err() { return std::future::pending().await },
                changed = leading.changed() => if changed.is_err() { return std::future::pending().await },
                () = tokio::time::sleep(RESYNC) => {}
            }
        }
    }

    /// Clears the state, because another replica leads.
    fn forget(&mut self) {
        self.written.clear();
        self.reported.clear();
        self.cache = MissingSidecarCache::default();
        self.inputs.metrics.without(&BTreeMap::new());
    }

    /// Reconciles all namespaces and pods once.
    async fn reconcile(&mut self) {
        let Some(objects) = self.inputs.objects.all(&[Kind::Namespace, Kind::Pod]).await else {
            return;
        };
        let is_namespace = |object: &Arc<Object>| object.meta.key.kind == Kind::Namespace;
        let (namespaces, pods): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_namespace);
        for namespace in &namespaces {
            self.sync_label(namespace).await;
        }
        let there: BTreeSet<&str> = namespaces.iter().map(|one| &*one.meta.key.name).collect();
        self.written.retain(|name, _| there.contains(&**name));
        let NamespaceLabelerInputs { control_plane, reads_linkerd, .. } = &self.inputs;
        self.cache.update(&namespaces, &pods, control_plane, *reads_linkerd);
        self.report();
    }

    fn report(&mut self) {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mut missing = BTreeSet::new();
        for (pod, reason) in self.cache.found() {
            let count = counts.entry(pod.meta.key.namespace.to_string()).or_default();
            *count = count.saturating_add(1);
            let uid = pod.meta.uid.clone().unwrap_or_else(|| pod.meta.key.name.clone());
            if !self.reported.contains(&uid) {
                self.warn(pod, reason);
            }
            missing.insert(uid);
        }
        self.reported = missing;
        self.inputs.metrics.without(&counts);
    }

    fn warn(&self, pod: &Object, reason: MissingSidecar) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.meta.key.name.to_string()),
            namespace: Some(pod.meta.key.namespace.to_string()),
            uid: pod.meta.uid.as_ref().map(ToString::to_string),
            ..ObjectReference::default()
        };
        self.inputs.events.warn(regarding, "SidecarMissing", &reason.to_string());
    }

    /// Aligns the label of a namespace with its annotations. Without an injection annotation it is
    /// released: a label that another client wrote stays. So does one that was written while Linkerd's
    /// annotation was read, because without it the pods of the namespace would lose their sidecars. It is
    /// passed to another field manager, so that it also stays when that annotation is removed later, until
    /// our own annotation asks for it.
    async fn sync_label(&mut self, namespace: &Object) {
        let annotations = owned(&namespace.meta.annotations);
        let wanted = injection_label(&annotations, self.inputs.reads_linkerd);
        let name = &namespace.meta.key.name;
        let held = namespace.meta.labels.get(INJECT_LABEL).map(|value| &**value);
        let settled = match wanted {
            Some(_) => held == wanted && self.written.get(name) == Some(&wanted),
            // No label, or one that another client wrote after ours was released.
            None => held.is_none() || self.written.get(name) == Some(&None),
        };
        if settled {
            self.written.insert(name.clone(), wanted);
            return;
        }
        // Only of earlier versions: one that was written since goes with its annotation.
        let kept = injection_label(&annotations, true)
            .filter(|label| held == Some(*label) && wanted.is_none())
            .filter(|_| !self.written.contains_key(name));
        let label = NamespaceLabel::of(self.inputs.client.clone(), &namespace.meta);
        let done = match (wanted, kept) {
            (Some(value), _) if held == wanted => label.take_over(value).await,
            (_, Some(value)) => label.keep(value).await,
            (_, None) => label.set(wanted).await,
        };
        match done {
            Ok(()) => {
                self.written.insert(name.clone(), wanted);
                if held != wanted && kept.is_none() {
                    let label = wanted.unwrap_or("none");
                    tracing::info!(
                        namespace = %name,
                        label,
                        "updated label {INJECT_LABEL} to match the annotation"
                    );
                }
            }
            Err(error) => {
                self.inputs.metrics.label_failed();
                tracing::warn!(namespace = %name, %error, "cannot write label {INJECT_LABEL}");
            }
        }
    }
}
