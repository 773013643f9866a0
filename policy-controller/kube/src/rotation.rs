//! Certificates that are issued here, stored in a Secret that all replicas share, and replaced long
//! before they expire. The owner of a certificate decides its contents and how it is announced.

pub mod secret;
mod step;
mod store;

pub use step::{NextCertificate, RotationState, Step, step};
pub use store::{ATTEMPTS, SecretStore, StoreError};
