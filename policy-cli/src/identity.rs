//! An identity of the mesh on disk: a service account's token becomes a certificate of the issuer, with
//! its key and the roots, for clients without a sidecar and for trying things.
//!
//! ```text
//! token ─▶ policy_tls's client of the issuer ─▶ bridge ─TLS─▶ issuer
//!                       │
//!                       └─▶ files: tls.crt, tls.key, ca.crt
//! ```

pub(crate) mod account;
pub(crate) mod files;
pub(crate) mod issuer_proxy;
pub(crate) mod token;
pub(crate) mod writer;
