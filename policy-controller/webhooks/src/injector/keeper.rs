//! What the leader keeps up while it leads: the label of each namespace that the API server selects
//! by, and who is told of pods that lack a sidecar.

use super::ask::INJECT_LABEL;
use super::element::owned;
use super::lack::{Lack, label};
use super::lacking::Lacking;
use super::metrics::InjectorMetrics;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use policy_crds::{Kind, Object};
use policy_engine::handles::ObjectsHandle;
use policy_engine::publish::SourceProgress;
use policy_kube::lease::Leadership;
use policy_kube::status::Events;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How we are named as an owner of fields.
const MANAGER: &str = "portcullis-injector";

/// How long changes are gathered, so that a burst of them is looked at once.
const GATHER: Duration = Duration::from_millis(200);

/// How often everything is looked at again where nothing changes.
const AGAIN: Duration = Duration::from_secs(30);

/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the keeper works with.
pub struct KeeperInputs {
    /// Writes labels.
    pub client: Client,
    /// Knows the objects.
    pub objects: ObjectsHandle,
    /// Moves with every change of them.
    pub seen: watch::Receiver<Arc<SourceProgress>>,
    /// Says whether it is this replica's turn.
    pub leadership: Leadership,
    /// Tells people.
    pub events: Events,
    /// Counts.
    pub metrics: InjectorMetrics,
    /// Namespace of the control plane, which carries no sidecars.
    pub control_plane: Arc<str>,
}

/// Keeps labels, and tells of pods that lack a sidecar.
pub struct Keeper {
    inputs: KeeperInputs,
    /// By name of a namespace, the label that was last written: what a person wrote beside it is not
    /// fought for.
    written: HashMap<Arc<str>, Option<&'static str>>,
    /// Pods that were told of.
    told: BTreeSet<Arc<str>>,
    /// What was found of pods.
    lacking: Lacking,
}

impl Keeper {
    /// Nothing is written yet.
    pub fn new(inputs: KeeperInputs) -> Self {
        Self { inputs, written: HashMap::new(), told: BTreeSet::new(), lacking: Lacking::default() }
    }

    /// Goes on until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        _ = shutdown.run_until_cancelled(self.keep()).await;
    }

    async fn keep(&mut self) {
        let mut seen = self.inputs.seen.clone();
        let mut leading = self.inputs.leadership.changes();
        loop {
            if self.inputs.leadership.is_leader() {
                self.look().await;
            } else {
                self.forget();
            }
            tokio::time::sleep(GATHER).await;
            tokio::select! {
                changed = seen.changed() => if changed.is_err() { return std::future::pending().await },
                changed = leading.changed() => if changed.is_err() { return std::future::pending().await },
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    /// Another replica keeps them; this one says nothing of what it does not know.
    fn forget(&mut self) {
        self.written.clear();
        self.told.clear();
        self.lacking = Lacking::default();
        self.inputs.metrics.without(&BTreeMap::new());
    }

    /// Looks once at everything.
    async fn look(&mut self) {
        let Some(objects) = self.inputs.objects.all(&[Kind::Namespace, Kind::Pod]).await else {
            return;
        };
        let is_namespace = |object: &Arc<Object>| object.meta.key.kind == Kind::Namespace;
        let (namespaces, pods): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_namespace);
        for namespace in &namespaces {
            self.keep_label(namespace).await;
        }
        let there: BTreeSet<&str> = namespaces.iter().map(|one| &*one.meta.key.name).collect();
        self.written.retain(|name, _| there.contains(&**name));
        self.lacking.look(&namespaces, &pods, &self.inputs.control_plane);
        self.tell();
    }

    fn tell(&mut self) {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mut lacking = BTreeSet::new();
        for (pod, lack) in self.lacking.found() {
            let count = counts.entry(pod.meta.key.namespace.to_string()).or_default();
            *count = count.saturating_add(1);
            let uid = pod.meta.uid.clone().unwrap_or_else(|| pod.meta.key.name.clone());
            if !self.told.contains(&uid) {
                self.warn(pod, lack);
            }
            lacking.insert(uid);
        }
        self.told = lacking;
        self.inputs.metrics.without(&counts);
    }

    fn warn(&self, pod: &Object, lack: Lack) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.meta.key.name.to_string()),
            namespace: Some(pod.meta.key.namespace.to_string()),
            uid: pod.meta.uid.as_ref().map(ToString::to_string),
            ..ObjectReference::default()
        };
        self.inputs.events.warn(regarding, "SidecarMissing", &lack.to_string());
    }

    /// Brings the label of a namespace in line with its annotations. Where they ask for none, it is
    /// given back: a label that somebody else wrote stays.
    async fn keep_label(&mut self, namespace: &Object) {
        let wanted = label(&owned(&namespace.meta.annotations));
        let name = &namespace.meta.key.name;
        let held = namespace.meta.labels.get(INJECT_LABEL).map(|value| &**value);
        let settled = match wanted {
            Some(_) => held == wanted,
            // Nobody's, or not ours: it has been given back before.
            None => held.is_none() || self.written.get(name) == Some(&None),
        };
        if settled {
            self.written.insert(name.clone(), wanted);
            return;
        }
        match self.write(namespace, wanted).await {
            Ok(()) => {
                self.written.insert(name.clone(), wanted);
                let label = wanted.unwrap_or("none");
                tracing::info!(namespace = %name, label, "{INJECT_LABEL} follows the annotation");
            }
            Err(error) => {
                self.inputs.metrics.label_failed();
                tracing::warn!(namespace = %name, %error, "{INJECT_LABEL} cannot be written");
            }
        }
    }

    async fn write(&self, namespace: &Object, wanted: Option<&str>) -> Result<(), String> {
        let (name, uid) = (&*namespace.meta.key.name, namespace.meta.uid.as_deref());
        let mut labels = serde_json::Map::new();
        labels.extend(wanted.map(|value| (INJECT_LABEL.to_owned(), value.into())));
        let patch = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            // With its uid, what is gone is not made again.
            "metadata": {"name": name, "uid": uid, "labels": labels},
        });
        let api: Api<Namespace> = Api::all(self.inputs.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&patch);
        let write = api.patch_metadata(name, &params, &patch);
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(Ok(_)) => Ok(()),
            // It is gone: the next look does not see it.
            Ok(Err(kube::Error::Api(status))) if [404, 409].contains(&status.code) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}
