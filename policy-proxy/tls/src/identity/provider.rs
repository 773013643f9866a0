//! The cryptography of all handshakes.

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// The cryptography in use everywhere here: aws-lc-rs.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
