//! A client of the native API that does what it is told to.

use super::watching::Watch;
use policy_proto::messages::WatchResponse;
use policy_proto::messages::watch_response::Kind as Answer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Reads and acknowledges for as long as it lives, and connects again when its stream ends.
pub(crate) struct Proxy {
    paused: watch::Sender<bool>,
    controllers: watch::Sender<Vec<SocketAddr>>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// The proxy of a pod. It tries the controllers in turn.
    pub(crate) fn of(workload: &str, controllers: &[SocketAddr]) -> Self {
        let (paused, pausing) = watch::channel(false);
        let (controllers, known) = watch::channel(controllers.to_vec());
        let task = tokio::spawn(run(workload.to_owned(), known, pausing));
        Self { paused, controllers, _task: AbortOnDropHandle::new(task) }
    }

    /// As if its network were gone: it hears nothing and says nothing.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Goes to these from the next connection on.
    pub(crate) fn knows(&self, controllers: &[SocketAddr]) {
        self.controllers.send_replace(controllers.to_vec());
    }
}

async fn run(
    workload: String,
    controllers: watch::Receiver<Vec<SocketAddr>>,
    mut paused: watch::Receiver<bool>,
) {
    let mut applied = BTreeMap::new();
    for turn in 0.. {
        let controllers = controllers.borrow().clone();
        let controller = controllers[turn % controllers.len()];
        if let Some(mut watching) = Watch::open(&workload, controller, &applied).await {
            loop {
                if paused.wait_for(|paused| !*paused).await.is_err() {
                    return;
                }
                let message = tokio::select! {
                    message = watching.stream.message() => message,
                    changed = paused.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                };
                let Ok(Some(WatchResponse { kind: Some(kind) })) = message else { break };
                if let Answer::Port(update) = kind {
                    applied.insert(update.port, update.revision.clone().unwrap());
                    watching.acknowledge(&update).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
