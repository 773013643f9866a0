//! What is done to every request, whoever serves it.
//!
//! In order: [`gate`] takes one snapshot of the policy, makes the canonical target, decides, applies
//! effects and rate limits; [`headers`] takes out what must not pass; then the request is forwarded,
//! and [`open`] keeps what is needed to decide on it again while it is open. [`authorize`] is the
//! same as a `tower::Layer` for somebody else's server.

pub mod authorize;
pub mod effects;
pub mod gate;
pub mod headers;
mod hosts;
pub mod open;

pub use authorize::{PolicyLayer, PolicyService};
