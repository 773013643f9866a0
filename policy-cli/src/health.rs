//! Health of an installation: the control plane, its webhooks, certificates, permissions, and the
//! pods that should have sidecars.
//!
//! ```text
//! cluster ─read─▶ snapshot ─run_checks─▶ ready, leader, replica, … ─▶ results
//! ```
//!
//! Only `read` and the functions that it calls access the cluster. Everything else is a pure
//! function of the snapshot.

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
