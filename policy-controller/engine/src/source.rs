//! Where objects come from. A source lists what there is, says so, and then tells every change.

mod definition;
mod diagnostic;
pub mod directory;
mod health;

pub use definition::{Batch, Change, Source, SourceContext, SourceError};
pub use diagnostic::{Diagnostic, Excerpt, Severity};
pub use health::{Health, WatchHealth, WatchKey, WatchState};
