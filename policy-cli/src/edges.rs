//! `portcullis edges`: whom the pods of a workload talk to, by the metrics of their sidecars.

pub(crate) mod metrics;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod text;
