//! The command `portcullis`, and the parts of it that examples, tests and other programs use: the
//! echo server, the client, and expectations with their runners.
//!
//! **Invariants.** This crate makes no policy decisions of its own: they come from `policy-core`,
//! compiled by `policy-controller` and enforced by `policy-proxy`. Standard input is read only if a
//! command is given `-`. Results go to standard output, everything else to standard error.

mod admin_port;
mod authz;
pub mod check;
pub mod cli;
mod cluster;
mod command;
mod denied;
mod diagnostics;
pub mod echo;
mod edges;
pub mod expect;
mod grants;
mod health;
mod identity;
mod inject;
mod inputs;
mod inventory;
mod label_selector;
mod local_mesh;
pub mod output;
mod preflight;
mod probes;
pub mod request;
mod routes;
mod sidecar_view;
mod signals;
mod status;
mod tap;
mod unguarded;
mod unknown_fields;
mod unread_templates;
mod up;
mod usage;
mod verdict;
mod version;
mod why;
mod workload_argument;
