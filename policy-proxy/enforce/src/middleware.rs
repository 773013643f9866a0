//! What is done to every request, whoever serves it.
//!
//! In order: [`gate`] takes one snapshot of the policy, makes the canonical target, decides, applies
//! effects and rate limits; [`crate::headers`] takes out what must not pass; then the request is forwarded,
//! and [`crate::open`] keeps what is needed to decide on it again while it is open. [`authorize`] is the
//! same as a `tower::Layer` for somebody else's server.

pub mod authorize;
pub mod effects;
pub mod gate;
mod hosts;

pub use authorize::{PolicyLayer, PolicyService};
