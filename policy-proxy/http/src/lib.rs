//! HTTP as it is on the wire: the codec of HTTP/1.
//!
//! Nothing here knows a policy, a metric or Kubernetes.

pub mod http1;
