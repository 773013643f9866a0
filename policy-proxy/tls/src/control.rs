//! How this process reaches the control plane: addresses, connections, and the pauses between
//! attempts. Used for policy and for certificates alike.

mod address;
mod backoff;
mod connect;

pub use address::{AddressError, ControllerAddress};
pub use backoff::{Backoff, random};
pub use connect::{Bounds, TlsSource, chain, connect};

pub(crate) use connect::within;
