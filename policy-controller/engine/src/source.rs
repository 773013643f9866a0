//! Sources of objects. A source lists all objects, sends `Synced`, and then sends every change.

mod definition;
mod diagnostic;
pub mod directory;
mod health;

pub use definition::{Batch, Change, Source, SourceContext, SourceError};
pub use diagnostic::{Diagnostic, Excerpt, Severity};
pub use health::{Health, WatchHealth, WatchKey, WatchState};
