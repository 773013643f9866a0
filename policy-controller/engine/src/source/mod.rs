//! Where objects come from. A source lists what there is, says so, and then tells every change.

mod batch;
mod definition;
mod diagnostic;
pub mod directory;
mod error;
mod health;

pub use batch::{Batch, Change};
pub use definition::{Source, SourceContext};
pub use diagnostic::{Diagnostic, Excerpt, Severity};
pub use error::SourceError;
pub use health::{Health, WatchHealth, WatchKey, WatchState};
