//! Connections to the control plane: addresses, TLS, and backoff. Used for policy and for
//! certificates.

mod address;
mod backoff;
mod connect;

pub use address::{AddressError, ControllerAddress};
pub use backoff::{Backoff, random};
pub use connect::{Bounds, TlsSource, chain, connect};

pub(crate) use connect::within;
