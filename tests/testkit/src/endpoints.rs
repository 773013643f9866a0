//! The endpoints that kube-proxy chooses, as a table.
//!
//! Two tests read it. One asks the engine; the other has a real kube-proxy program the cases and reads
//! its rules, so that no row is what somebody believes of kube-proxy. A case is a Service without a
//! selector and its EndpointSlices, as they are written to an API server.

mod case;
mod cases;

pub use case::{Case, Choice, Expected, Front, NODE, ZONE};
pub use cases::{cases, last};
