//! `portcullis edges`: whom the pods of a workload, of a namespace or of a cluster talk to, by the
//! metrics of their sidecars.
//!
//! ```text
//! cluster ─origin─▶ pods ─read, metrics─▶ counts by workload ─▶ report ─text─▶ tables
//! ```

pub(crate) mod metrics;
pub(crate) mod origin;
mod progress;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod text;
