//! Source that applies defaults to objects on their way to the controller, and records them.

use super::apply_defaults;
use policy_crds::{Object, ObjectKey};
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
                Change::Synced => {}
            }
        }
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Applies defaults to the objects of another source.
pub(crate) struct DefaultingSource<S> {
    inner: S,
    objects: ObjectStore,
}

impl<S: Source> DefaultingSource<S> {
    /// Applies defaults to the objects of `inner` and records them in `objects`.
    pub(crate) fn new(inner: S, objects: ObjectStore) -> Self {
        Self { inner, objects }
    }
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
        let Self { inner, objects } = self;
        let (own, mut batches) = mpsc::channel::<Batch>(1);
        let forward = async {
            while let Some(mut batch) = batches.recv().await {
                for change in &mut batch.changes {
                    if let Change::Apply(object) = change {
                        *object = Arc::new(apply_defaults(Object::clone(object)));
                    }
                }
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
