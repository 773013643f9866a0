//! The main loop of a worker's thread.

use super::accept;
use super::listen::BoundListener;
use super::worker::{Phase, SidecarState, Worker};
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::LocalRuntime;
use tokio::sync::watch;
use tokio::task::spawn_local;

/// Runs a worker until its phase is [`Phase::Stopped`], it has drained, or the grace period of
/// draining is over. Dropping the runtime's tasks closes all remaining connections.
pub(super) fn run(
    runtime: LocalRuntime,
    shared: Arc<SidecarState>,
    listeners: Vec<BoundListener>,
    phase_changes: watch::Receiver<Phase>,
) {
    runtime.block_on(serve(shared, listeners, phase_changes));
}

async fn serve(
    shared: Arc<SidecarState>,
    listeners: Vec<BoundListener>,
    mut phase_changes: watch::Receiver<Phase>,
) {
    let place = shared.store.workers().register();
    let grace = shared.config.timeouts.grace;
    let worker = Rc::new(Worker::new(shared, place.index()));
    let reviewed = Rc::clone(&worker);
    spawn_local(place.follow(async move |_| reviewed.review().await));
    let clock = Rc::clone(&worker);
    spawn_local(async move { clock.run_clock().await });
    let accepting: Vec<_> = listeners
        .into_iter()
        .map(|bound| spawn_local(accept::run(Rc::clone(&worker), bound)))
        .collect();
    let _ = phase_changes.wait_for(|phase| *phase != Phase::Running).await;
    for task in accepting {
        task.abort();
    }
    worker.drain();
    let empty = async {
        while worker.has_connections() {
            worker.emptied().await;
        }
    };
    tokio::select! {
        () = empty => {}
        () = tokio::time::sleep(grace) => {}
        _ = phase_changes.wait_for(|phase| *phase == Phase::Stopped) => {}
    }
}
