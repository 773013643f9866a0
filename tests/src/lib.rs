//! Tests of the whole: the architecture's rules, scenarios, the pipeline, hostile clients.
//!
//! The library holds what several of the test binaries need; the tests are in `tests/`.

pub mod sources;
