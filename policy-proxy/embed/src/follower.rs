//! A task that lives as long as what it keeps current.

use tokio::task::JoinHandle;

/// A task, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Follower(JoinHandle<()>);

impl Follower {
    /// Starts the task.
    pub(crate) fn start(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}
