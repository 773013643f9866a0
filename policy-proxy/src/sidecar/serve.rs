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
    // The application calls others while it drains, so that its own connections are accepted until
    // the end.
    let (outbound, inbound): (Vec<_>, Vec<_>) =
        listeners.into_iter().partition(|bound| bound.target.is_outbound());
    let accept = |bound| spawn_local(accept::run(Rc::clone(&worker), bound));
    outbound.into_iter().for_each(|bound| drop(accept(bound)));
    let accepting: Vec<_> = inbound.into_iter().map(accept).collect();
    let _ = phase_changes.wait_for(|phase| *phase != Phase::Running).await;
    for task in accepting {
        task.abort();
    }
    worker.drain();
    tokio::select! {
        // Of all workers: one that ended would leave its outbound listener to nobody.
        () = worker.shared.open.none() => {}
        () = tokio::time::sleep(grace) => {}
        _ = phase_changes.wait_for(|phase| *phase == Phase::Stopped) => {}
    }
}
