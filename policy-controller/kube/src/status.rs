//! What every object is told in its `status`: written by the leader alone, only where it differs.
//!
//! ```text
//! conditions ─┐                          ┌─▶ status.conditions   server-side apply
//! counts ─────┴─▶ desired ─▶ plan ─▶ job ┼─▶ status.parents      our entries, by version
//! the cluster ─── api_discovery ────▶           └─▶ an Event            where there is no status, and of
//!                                                                what got worse
//! ```
//!
//! A status is an output: nothing reads it back but to find out whether it is to be written. Each
//! object is in the queue once, whatever happens to it; a slow API server makes status late and
//! costs no memory. Types are Accepted, ResolvedRefs and Programmed; everything else that is known
//! about an object becomes the reason or the message of one of them.

mod api;
mod api_discovery;
mod debounce;
mod degradations;
mod desired;
mod events;
mod merge;
mod metrics;
mod plan;
mod queue;
mod settings;
mod writer;

pub use events::{EventRecorder, EventWriter};
pub use metrics::{EventMetrics, StatusMetrics};
pub use settings::{CONTROLLER_NAME, StatusSettings};
pub use writer::{StatusInputs, StatusWriter};
