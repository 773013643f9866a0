//! Shared parts of the measurements: the machine and the versions, the kernel's figures of a process,
//! processes that end with the measurement, medians with their spread, tables.
//!
//! A measurement is a program of its own beside this library. It prints its tables, and with
//! `--json FILE` writes the same as a [`report::Document`], of which `bench/report` makes Markdown.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

pub mod attack;
pub mod certificates;
pub mod child;
pub mod grpc;
pub mod histogram;
pub mod limits;
pub mod load;
pub mod machine;
pub mod policy;
pub mod process;
pub mod proxies;
pub mod report;
pub mod stats;
pub mod tls;
pub mod wire;
