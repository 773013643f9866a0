//! The crypto provider of all handshakes.

use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// Returns the crypto provider: aws-lc-rs.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
