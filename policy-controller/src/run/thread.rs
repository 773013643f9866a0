//! A thread with a runtime of its own, for a part of the process whose work must not delay the rest.
//!
//! Thousands of proxies that lose a replica come back at once, each with a handshake that costs
//! processor time. What has a deadline meanwhile, the webhooks, the probes and the Lease, is served by
//! the main thread.

use std::io;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A runtime whose thread has not begun. Tasks may be given to it already.
pub(super) struct Thread {
    name: &'static str,
    handle: Handle,
    runtime: DetachedRuntime,
}

/// A runtime that no thread drives yet. To drop one waits for its threads, which a task may not.
struct DetachedRuntime(Option<Runtime>);

impl Drop for DetachedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A thread that runs. Its runtime, and every task on it, ends when this is dropped.
pub(super) struct RunningThread {
    ended: oneshot::Receiver<()>,
    _stop: DropGuard,
}

impl Thread {
    pub(super) fn new(name: &'static str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        Ok(Self { name, handle, runtime: DetachedRuntime(Some(runtime)) })
    }

    /// Returns the handle that spawns tasks on it.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `part` on the thread.
    pub(super) fn run(
        self,
        part: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<RunningThread> {
        let Self { name, mut runtime, handle: _ } = self;
        let (tell, ended) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let body = move || {
            let Some(runtime) = runtime.0.take() else { return };
            runtime.block_on(async move {
                part.await;
                // Without a receiver the process is ending already.
                _ = tell.send(());
                // Its tasks go on until the rest of the process needs them no more.
                stopped.cancelled().await;
            });
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(RunningThread { ended, _stop: stop.drop_guard() })
    }
}

impl RunningThread {
    /// Waits until the part has ended, by a panic too.
    pub(super) async fn ended(&mut self) {
        _ = (&mut self.ended).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_testkit::soon;
    use std::thread::current;

    #[tokio::test]
    #[allow(clippy::panic, reason = "a part that fails is what is tested")]
    async fn a_part_runs_on_its_own_thread_and_its_end_is_told_however_it_comes() {
        let thread = Thread::new("part").unwrap();
        let (tell, told) = oneshot::channel();
        let name = async move { tell.send(current().name().map(str::to_owned)).unwrap() };
        let task = thread.handle().spawn(async { current().name().map(str::to_owned) });
        let mut running = thread.run(name).unwrap();
        assert_eq!(soon(told).await.unwrap().as_deref(), Some("part"));
        soon(running.ended()).await;
        assert_eq!(soon(task).await.unwrap().as_deref(), Some("part"));
        // One that never ran can be dropped by a task.
        drop(Thread::new("never").unwrap());
        let mut failed = Thread::new("fails").unwrap().run(async { panic!("it fails") }).unwrap();
        soon(failed.ended()).await;
    }
}
