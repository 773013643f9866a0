//! The validating admission webhook: what breaks a rule is refused before it is stored, and what is
//! legal but surely not meant is told to its author.
//!
//! ```text
//! HTTPS ─▶ review ─▶ scope ─▶ validate (policy_crds::parse) ─▶ what-if (the index) ─▶ answer
//! ```
//!
//! Anybody may connect: what a client can make scarce is divided by its network (`shares`, `turns`),
//! so that nobody can keep API servers from their answers.
//!
//! The verdict follows from the request alone: what the controller has not seen yet never refuses
//! anything, and only warnings depend on it. Everything that is refused here is refused by the
//! controller too, so that an object stored while the webhook was away grants nothing either.
//!
//! The API server asks where [`configuration()`] tells it to. What it asks beyond that is passed.

mod body;
mod clients;
mod listener;
mod response;
mod service;
mod settings;
mod shares;
#[cfg(test)]
mod tests;
mod webhook;

pub use super::certificate::{CertificateError, CertificateFiles, Provisioning};
pub use super::installation::{Installation, Target, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET};
pub use super::metrics::AdmissionMetrics;
pub use super::validation::configuration;
pub use settings::{AdmissionSettings, CertificateSource, PortGuard};
pub use webhook::{Admission, AdmissionError};
