//! Source that completes objects on their way to the controller as a cluster would, and records them.

use super::apply_defaults;
use super::services::{LocalServices, Objects};
use policy_crds::{Kind, Object, ObjectKey};
use policy_engine::source::Diagnostic;
use policy_engine::source::{Batch, Change, Health, Source, SourceContext, SourceError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};

/// Objects that the controller has received. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ObjectStore {
    by_key: Arc<Mutex<BTreeMap<ObjectKey, Arc<Object>>>>,
    changed: watch::Sender<u64>,
}

impl ObjectStore {
    /// Creates an empty store.
    pub(crate) fn new() -> Self {
        Self { by_key: Arc::default(), changed: watch::Sender::new(0) }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        let by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        by_key.values().cloned().collect()
    }

    /// Counter that is incremented with every batch.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn record(&self, batch: &Batch) {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        for change in &batch.changes {
            match change {
                Change::Apply(object) => {
                    by_key.insert(object.meta.key.clone(), Arc::clone(object));
                }
                Change::Delete(key) => {
                    by_key.remove(key);
                }
                Change::Keep(_) | Change::Synced => {}
            }
        }
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Applies defaults to the objects of another source, and completes its Services.
pub(crate) struct DefaultingSource<S> {
    inner: S,
    objects: ObjectStore,
    services: LocalServices,
}

impl<S: Source> DefaultingSource<S> {
    /// Applies defaults to the objects of `inner`, completes them by `services`, and records them in
    /// `objects`.
    pub(crate) fn new(inner: S, objects: ObjectStore, services: LocalServices) -> Self {
        Self { inner, objects, services }
    }
}

/// The objects that are completed: as they were given, and as they were sent.
#[derive(Default)]
struct Completion {
    given: Objects,
    sent: Objects,
}

impl Completion {
    /// Takes the changes of objects that are completed out of a batch.
    fn take(&mut self, batch: &mut Batch) {
        batch.changes.retain(|change| match change {
            Change::Apply(object) if is_completed(&object.meta.key) => {
                self.given.insert(object.meta.key.clone(), Arc::clone(object));
                false
            }
            Change::Delete(key) if is_completed(key) => {
                self.given.remove(key);
                false
            }
            Change::Apply(_) | Change::Delete(_) | Change::Keep(_) | Change::Synced => true,
        });
    }

    /// What is to be sent, because it differs from what was.
    fn changes(&mut self, services: &LocalServices) -> Vec<Change> {
        let completed = services.complete(&self.given);
        let gone = self.sent.keys().filter(|key| !completed.contains_key(key));
        let gone = gone.cloned().map(Change::Delete);
        let new = completed.iter().filter(|(key, object)| self.sent.get(key) != Some(object));
        let new = new.map(|(_, object)| Change::Apply(Arc::clone(object)));
        let changes = gone.chain(new).collect();
        self.sent = completed;
        changes
    }
}

fn is_completed(key: &ObjectKey) -> bool {
    [Kind::Pod, Kind::Service, Kind::EndpointSlice].contains(&key.kind)
}

impl<S: Source> Source for DefaultingSource<S> {
    fn epoch(&self) -> Arc<str> {
        self.inner.epoch()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        self.inner.diagnostics()
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        self.inner.health()
    }

    async fn run(self, context: SourceContext) -> Result<(), SourceError> {
        let SourceContext { sink, refresh, shutdown } = context;
        let Self { inner, objects, services } = self;
        let (own, mut batches) = mpsc::channel::<Batch>(1);
        let forward = async {
            let (mut completion, mut announced) = (Completion::default(), services.changed());
            loop {
                let mut batch = tokio::select! {
                    batch = batches.recv() => match batch {
                        Some(batch) => batch,
                        None => return,
                    },
                    Ok(()) = announced.changed() => Batch::default(),
                };
                for change in &mut batch.changes {
                    if let Change::Apply(object) = change {
                        *object = Arc::new(apply_defaults(Object::clone(object)));
                    }
                }
                completion.take(&mut batch);
                batch.changes.splice(0..0, completion.changes(&services));
                objects.record(&batch);
                if sink.send(batch).await.is_err() {
                    return;
                }
                objects.notify();
            }
        };
        let (ended, ()) =
            tokio::join!(inner.run(SourceContext { sink: own, refresh, shutdown }), forward);
        ended
    }
}
