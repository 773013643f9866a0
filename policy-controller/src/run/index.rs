//! The thread that owns the index, so that compiling holds up no stream.

use super::RunError;
use crate::config::ControllerConfig;
use crate::controller::start;
use crate::publish::Policies;
use crate::source::directory::Diagnostic;
use crate::source::{Source, SourceError};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// The thread that owns the index.
pub(super) struct Index {
    pub(super) policies: Policies,
    pub(super) diagnostics: watch::Receiver<Arc<[Diagnostic]>>,
    ended: oneshot::Receiver<Result<(), SourceError>>,
    stop: CancellationToken,
}

impl Index {
    pub(super) async fn spawn<S: Source>(
        config: ControllerConfig,
        source: S,
    ) -> Result<Self, RunError> {
        let (handles, ready) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let body = move || {
            runtime.block_on(async move {
                let mut controller = start(config, source);
                let started = (controller.policies.clone(), controller.diagnostics.clone());
                if handles.send(started).is_err() {
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
        let (policies, diagnostics) = ready.await.map_err(|_| RunError::IndexEnded)?;
        Ok(Self { policies, diagnostics, ended, stop })
    }

    /// Waits until the source gives up.
    pub(super) async fn ended(&mut self) -> Result<(), RunError> {
        match (&mut self.ended).await {
            Ok(Ok(())) => std::future::pending().await,
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(RunError::IndexEnded),
        }
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}
