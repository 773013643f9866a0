//! The steps of every request, in the sidecar and in embedding servers.
//!
//! [`pipeline`] is the order of steps: [`crate::headers`] cleans the head; [`authorizer`] takes one
//! snapshot of the policy, makes the canonical target, decides, and applies filters and rate
//! limits; then the request is forwarded, and [`crate::request_snapshot`] keeps what is needed to
//! decide on it again while it is open; [`exchange`] counts it, and [`timer`] ends it at the bounds of
//! its policy. [`layer`] is a `tower::Layer` of
//! these steps for embedding servers.

pub mod authorizer;
pub mod exchange;
pub mod filters;
mod hosts;
pub mod layer;
pub mod open_request;
pub mod pipeline;
pub mod timer;

pub use layer::{PolicyLayer, PolicyService};
