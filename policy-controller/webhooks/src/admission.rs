//! The validating admission webhook: invalid objects are denied before they are stored, and authors are
//! warned about valid ones that are probably not meant.
//!
//! ```text
//! HTTPS ─▶ review ─▶ scope ─▶ validate (policy_crds::parse) ─▶ what-if (the index) ─▶ response
//! ```
//!
//! Any client may connect: scarce resources are divided by client network
//! (`policy_server::SharedCapacity` and `FairScheduler`), so that no client can block the responses
//! to API servers.
//!
//! The verdict depends on the request alone, and only warnings depend on the objects that the
//! controller has read. The controller ignores every object that the webhook denies, so an object that
//! was stored while the webhook was unavailable grants nothing either.
//!
//! The API server sends the reviews that [`configuration()`] selects. Any others are admitted.

mod body;
mod clients;
mod listener;
mod response;
mod service;
mod settings;
#[cfg(test)]
mod tests;
mod webhook;

pub use super::certificate::{CertificateError, CertificateFiles, Provisioning};
pub use super::installation::{Installation, Target, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
pub use super::metrics::AdmissionMetrics;
pub use super::validation::{cluster_webhook, configuration, outbound_webhook};
pub use settings::{AdmissionSettings, CertificateSource, PortGuard};
pub use webhook::{Admission, AdmissionError};
