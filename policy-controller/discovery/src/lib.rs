//! Serves policies over gRPC, and counts on how many proxies they are in force.
//!
//! ```text
//! policy-engine ──one policy per port──▶ serve ──▶ sidecars
//!       │                                  │ acknowledgements
//!       └──what should be in force───▶ rollout ◀── peers
//! ```
//!
//! **Invariants.** Nothing in `serve` names a Kubernetes type: clients see workloads and objects as
//! the engine does.

mod keys;
pub mod peers;
pub mod rollout;
pub mod serve;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use keys::{KeyError, KeyReviewer};
