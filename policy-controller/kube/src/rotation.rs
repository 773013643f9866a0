//! Certificates that are made here, kept in a Secret that all replicas share, and replaced long before
//! they end. What is certified, and how it is announced, is its owner's.

pub mod secret;
mod step;
mod store;

pub use step::{NextCertificate, RotationState, Step, step};
pub use store::{ATTEMPTS, SecretStore, StoreError};
