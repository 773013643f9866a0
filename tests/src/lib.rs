//! Tests of the whole: the architecture's rules, scenarios, the pipeline, hostile clients,
//! the cluster.
//!
//! The library holds what several of the test binaries need; the tests are in `tests/`.

pub mod chart;
pub mod cluster;
pub mod invalid_objects;
pub mod lanes;
pub mod servers;
pub mod sources;
