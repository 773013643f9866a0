//! What is done to every request, whoever serves it.
//!
//! [`pipeline`] is the order of steps, for the sidecar and for embedders: [`crate::headers`] takes out
//! what must not pass; [`authorizer`] takes one snapshot of the policy, makes the canonical target, decides,
//! applies effects and rate limits; then the request is forwarded, and [`crate::request_snapshot`] keeps what is
//! needed to decide on it again while it is open; [`exchange`] is what is counted of it. [`layer`] is
//! a `tower::Layer` of these steps for somebody else's server.

pub mod authorizer;
pub mod exchange;
pub mod filters;
mod hosts;
pub mod layer;
pub mod pipeline;

pub use layer::{PolicyLayer, PolicyService};
