//! A listening port of the control plane: who may connect, how much room each client has, the
//! handshake in its turn, and the times after which a connection ends.
//!
//! ```text
//! accept ─▶ policy ─▶ room ─▶ first byte ─▶ turn, handshake ─▶ service ─▶ age, expiry, drain
//! ```
//! A service serves what arrives here and knows what its bytes mean; nothing here does.

mod accept_loop;
mod connection;
mod handshake;
mod refusal;
mod service;
mod settings;
mod stream;

pub use accept_loop::Listener;
pub use connection::{Accepted, ConnectionEnd};
pub use handshake::{CurrentTls, Transport};
pub use refusal::ConnectionRefusal;
pub use service::ConnectionService;
pub use settings::{HandshakeTurns, ListenerSettings};
pub use stream::ListenerStream;

#[cfg(test)]
mod tests;
