//! What an object would be told, were it applied: asked of a copy of the index, away from the task
//! that owns it.

mod handle;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;

pub use handle::ReviewHandle;
pub use snapshot::Snapshot;
