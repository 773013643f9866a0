//! The thread that owns the index, so that compiling holds up no stream.

use super::error::RunError;
use policy_engine::Destinations;
use policy_engine::IndexMetrics;
use policy_engine::Inventory;
use policy_engine::ReviewHandle;
use policy_engine::config::ControllerConfig;
use policy_engine::controller::{Controller, start};
use policy_engine::handles::DesiredHandle;
use policy_engine::handles::Policies;
use policy_engine::handles::{ConditionsHandle, ObjectsHandle};
use policy_engine::source::Diagnostic;
use policy_engine::source::{Source, SourceError};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// The thread that owns the index.
pub(super) struct Index {
    pub(super) handles: Handles,
    ended: oneshot::Receiver<Result<(), SourceError>>,
    stop: CancellationToken,
}

/// Handles on the index for the rest of the process.
pub(super) struct Handles {
    pub(super) policies: Policies,
    pub(super) destinations: Destinations,
    pub(super) diagnostics: watch::Receiver<Arc<[Diagnostic]>>,
    pub(super) conditions: ConditionsHandle,
    pub(super) review: ReviewHandle,
    pub(super) objects: ObjectsHandle,
    pub(super) demand: Option<DesiredHandle>,
    pub(super) metrics: IndexMetrics,
    pub(super) inventory: watch::Receiver<Option<Arc<Inventory>>>,
}

impl Index {
    /// Starts the thread. `source` runs on it, so that what it connects belongs to its runtime.
    pub(super) async fn spawn<S, F>(config: ControllerConfig, source: F) -> Result<Self, RunError>
    where
        S: Source,
        F: Future<Output = Result<S, RunError>> + Send + 'static,
    {
        let (handles, ready) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let body = move || {
            runtime.block_on(async move {
                let source = match source.await {
                    Ok(source) => source,
                    Err(error) => {
                        // Without a receiver the process is ending already.
                        _ = handles.send(Err(error));
                        return;
                    }
                };
                let mut controller = start(config, source);
                if handles.send(Ok(Handles::of(&mut controller))).is_err() {
                    return;
                }
                tokio::select! {
                    result = controller.source_ended() => { _ = ending.send(result); }
                    () = stopped.cancelled() => {}
                }
                // Policies stay until the server has drained.
                stopped.cancelled().await;
            });
        };
        std::thread::Builder::new().name("index".to_owned()).spawn(body)?;
        let handles = ready.await.map_err(|_| RunError::Ended("the index"))??;
        Ok(Self { handles, ended, stop })
    }

    /// Waits until the source fails; returns its error.
    pub(super) async fn ended(&mut self) -> RunError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error.into(),
            Ok(Ok(())) | Err(_) => RunError::Ended("the index"),
        }
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Handles {
    fn of(controller: &mut Controller) -> Self {
        Self {
            policies: controller.policies.clone(),
            destinations: controller.destinations.clone(),
            diagnostics: controller.diagnostics.clone(),
            conditions: controller.conditions.clone(),
            review: controller.review.clone(),
            objects: controller.objects.clone(),
            demand: controller.desired.take(),
            metrics: controller.metrics.clone(),
            inventory: controller.inventory.clone(),
        }
    }
}
