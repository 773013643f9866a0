//! Identity of the mesh on disk: a service account's token is exchanged for a certificate, which is
//! written with its key and the roots, for clients without a sidecar and for experiments.
//!
//! ```text
//! token ─▶ policy_tls's client of the issuer ─▶ issuer_proxy ─TLS─▶ issuer
//!                       │
//!                       └─▶ files: tls.crt, tls.key, ca.crt
//! ```

pub(crate) mod account;
pub(crate) mod files;
pub(crate) mod issuer_proxy;
pub(crate) mod token;
pub(crate) mod writer;
