//! Tasks that have to go on for as long as the process does: where one ends, what the process says of
//! itself is not true any more, and it must not go on.

use std::future::Future;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Starts tasks that must not end.
#[derive(Clone, Debug)]
pub(super) struct Vital {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Says when the task that holds it is gone, however it ended.
struct Alive {
    name: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Nobody listens any more once the process shuts down, when tasks do end.
        _ = self.ended.send(self.name);
    }
}

impl Vital {
    /// With the names of the tasks that have ended.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (ended, names) = mpsc::unbounded_channel();
        (Self { ended }, names)
    }

    /// Starts a task on the current runtime. `name` says in words what ended.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let alive = Alive { name, ended: self.ended.clone() };
        tokio::spawn(async move {
            let _alive = alive;
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
        let (vital, mut names) = Vital::new();
        let _goes_on = vital.spawn("one", pending());
        vital.spawn("two", async {});
        assert_eq!(names.recv().await, Some("two"));
        vital.spawn("three", async { panic!("it fails") });
        assert_eq!(names.recv().await, Some("three"));
        vital.spawn("four", pending()).abort();
        assert_eq!(names.recv().await, Some("four"));
        assert!(names.try_recv().is_err());
    }
}
