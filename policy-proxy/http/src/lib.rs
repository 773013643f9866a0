//! HTTP as it is on the wire: the codec of HTTP/1, and the task that carries a client's HTTP/2
//! connection to an application.
//!
//! What decides on a request, what counts it and what bodies there are comes from the caller as type
//! parameters: nothing here knows a policy, a metric or Kubernetes.

pub mod bounds;
pub mod future_pool;
pub mod http1;
pub mod http2;
pub mod shutdown;
pub mod signal;
pub mod stall;
