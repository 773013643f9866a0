//! HTTP/2 on the ports of the control plane, with bounds that follow from what a port documents.
//!
//! ```text
//! bytes ─▶ a portion at a time ─▶ h2 ─▶ joined bodies ─▶ service ─▶ responses
//! ```
//! The h2 library keeps an entry of 256 bytes for each frame that nobody has read, and ends a connection,
//! with all its streams, above a number of them that follows from its window. So that clients that stay
//! within the documented bounds never get there, and hostile ones cost what their bytes cost, a connection
//! is read in portions, and after each one the frames of all its streams are taken out and joined. What
//! a connection holds unread is then its window, whatever the frames. A client that does not take its
//! answers is not read either, because h2 keeps each answer until then.

mod connection;
mod head;
mod keep_alive;
mod portions;
mod request_body;
mod respond;
mod settings;

pub use connection::{Http2Connection, Http2Error};
pub use head::head_bytes;
pub use request_body::RequestBody;
pub use settings::Http2Settings;

#[cfg(test)]
mod tests;
