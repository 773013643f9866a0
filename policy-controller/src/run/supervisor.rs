//! Supervision of tasks that have to run for as long as the process does: when one ends, the process is
//! no longer healthy and has to end.

use std::future::Future;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Starts tasks that must not end, and reports those that do.
#[derive(Clone, Debug)]
pub(super) struct Supervisor {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Reports the end of the task that holds it, however it ended.
struct TaskGuard {
    name: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        // The receiver is gone once the process shuts down, when tasks do end.
        _ = self.ended.send(self.name);
    }
}

impl Supervisor {
    /// Creates a supervisor and the receiver of the names of ended tasks.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (ended, names) = mpsc::unbounded_channel();
        (Self { ended }, names)
    }

    /// Starts a task on the current runtime. `name` describes it in errors.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let guard = TaskGuard { name, ended: self.ended.clone() };
        tokio::spawn(async move {
            let _alive = guard;
            task.await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    #[allow(clippy::panic, reason = "a task that fails is what is tested")]
    async fn a_task_that_returns_fails_or_is_aborted_is_named() {
        let (supervisor, mut names) = Supervisor::new();
        let _goes_on = supervisor.spawn("one", pending());
        supervisor.spawn("two", async {});
        assert_eq!(names.recv().await, Some("two"));
        supervisor.spawn("three", async { panic!("it fails") });
        assert_eq!(names.recv().await, Some("three"));
        supervisor.spawn("four", pending()).abort();
        assert_eq!(names.recv().await, Some("four"));
        assert!(names.try_recv().is_err());
    }
}
