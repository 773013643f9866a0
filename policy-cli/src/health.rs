//! Whether an installation works: the control plane, what the API server asks it, certificates, rights,
//! and the pods that are to have sidecars.
//!
//! ```text
//! cluster ─read─▶ facts ─findings─▶ ready, leader, replica, … ─▶ findings
//! ```
//!
//! Only `read` and what it calls ask the cluster. Everything else is a function of what was read.

mod accounts;
mod ca_bundle;
mod checks;
mod component_settings;
mod expiry;
mod failed_create;
mod leader;
mod probe_namespace;
mod read;
mod ready;
mod replica;
mod roots;
mod sidecars;
mod snapshot;
mod versions;
mod volumes;
mod webhook_configurations;
mod webhook_probe;

pub(crate) use checks::run_checks;
pub(crate) use read::read;
