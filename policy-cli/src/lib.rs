//! The command `portcullis`, and the parts of it that examples, tests and other programs use: the
//! echo application, the client, and expectations with their runners.
//!
//! **Invariants.** Nothing here decides by policy: decisions come from `policy-core`, compiled by
//! `policy-controller` and enforced by `policy-proxy`. Standard input is never read unless a command
//! was asked to. Results go to standard output, everything else to standard error.

mod authz;
pub mod check;
pub mod cli;
mod cluster;
mod command;
mod diagnostics;
pub mod echo;
pub mod expect;
mod health;
mod identity;
mod inject;
mod inventory;
mod local_mesh;
pub mod output;
mod preflight;
pub mod request;
mod signals;
mod status;
mod up;
mod verdict;
mod version;
