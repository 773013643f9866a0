//! `policy-controller issuer`: issues a certificate for every service account over Linkerd's identity
//! API, and publishes the roots of these certificates to every pod.
//!
//! ```text
//! a Secret, or files ──▶ ca_manager ──▶ roots ──▶ ConfigMaps of namespaces
//!                          │ after that
//!                          ▼
//! Certify ──▶ limit ──▶ token (TokenReview) ──▶ csr ──▶ signer ──▶ certificate, audit line
//! ```
//! **Invariants.** The token alone decides which identity a client gets, never the request; a request for
//! anything else is refused. A root is published before certificates that lead to it are issued, and
//! stays published while any of them may be valid. The state of a rotation is in the Secret, so that any
//! replica continues where another stopped. Nothing here waits for policy.

mod authority;
mod authority_error;
mod bundle;
mod ca_context;
mod ca_manager;
mod ca_secret;
mod certificate;
mod config;
mod csr;
mod endorse;
mod error;
mod files;
mod map_writer;
mod message;
mod metrics;
mod plan;
mod process;
mod propagation;
mod publish_result;
mod refusals;
mod root_limit;
mod roots;
mod serve;
mod service;
mod serving_cert;
mod signer;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests;
mod token;
mod watch;

pub use authority::{AuthorityError, Lifetime};
pub use bundle::{BUNDLE, SIGNED};
pub use ca_manager::{CaManager, CaSecretSettings, ROTATE};
pub use config::{AUDIENCE, AuthoritySettings, IssuerConfig, SECRET, SERVICE_ACCOUNT};
pub use csr::CsrError;
pub use files::AuthorityFiles;
pub use metrics::IssuerMetrics;
pub use plan::Rotation;
pub use policy_server::Rate;
pub use process::{Issuer, Parts};
pub use roots::{CONFIG_MAP, Roots, RootsScope};
pub use serve::Port;
pub use signer::SignError;
pub use token::{ServiceAccount, TokenError};
