//! HTTP message syntax: the codec of HTTP/1, and the task that carries a client's HTTP/2 connection
//! to an application.
//!
//! Authorization, metrics and body types are type parameters of the caller: this crate knows no
//! policy, no metric and not Kubernetes.

pub mod backlog;
pub mod bounds;
pub mod future_pool;
pub mod http1;
pub mod http2;
mod interim;
pub mod shutdown;
pub mod signal;
pub mod stall;
